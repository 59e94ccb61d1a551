"""URDF text into a robot description.

Links with their masses and centres of mass, joints, origins, axes, limits and mimic. Meshes, moments of inertia,
transmissions and simulator extensions are passed over and nothing that the file refers to is opened. Lengths are
metres, angles radians, masses kilograms.
"""

import math

import numpy as np

from ik_service.robots.files.description import JointDescription, LinkDescription, MimicDescription, RobotDescription
from ik_service.robots.files.xml_reader import XmlElement, read_xml, shortened
from ik_service.robots.joint_type import JointType
from ik_service.robots.number_bounds import MAX_NUMBER, UNBOUNDED, UNBOUNDED_RATE
from ik_service.robots.transforms import Float64Array, quaternion_from_rpy

MAX_COUNT = 2048
"""Most links and most joints that a robot may have."""
_TYPES = {joint_type.name.lower(): joint_type for joint_type in JointType} | {"spherical": JointType.BALL}


def read_urdf(data: bytes) -> RobotDescription:
    """Read a URDF document.

    Args:
        data: The document, UTF-8.

    Returns:
        Links and joints in document order.

    Raises:
        RobotFileError: The document is not a URDF, or holds a value that makes no robot.
    """
    root = read_xml(data)
    if root.tag != "robot":
        raise root.error(f"the outermost element must be <robot>, got <{shortened(root.tag)}>.")
    _refuse_xacro(root)
    links = tuple(_read_link(element) for element in _capped(root, "link"))
    joints = tuple(_read_joint(element) for element in _capped(root, "joint"))
    return RobotDescription(root.attributes.get("name", "").strip() or "robot", links, joints)


def _refuse_xacro(root: XmlElement) -> None:
    for element in root.children:
        if element.tag.startswith("xacro:"):
            raise element.error("this is a xacro file; expand it first: 'xacro robot.urdf.xacro > robot.urdf'.")


def _capped(root: XmlElement, tag: str) -> list[XmlElement]:
    found = list(root.all(tag))
    if len(found) > MAX_COUNT:
        raise found[MAX_COUNT].error(f"more than {MAX_COUNT} <{tag}> elements.")
    return found


def _read_link(element: XmlElement) -> LinkDescription:
    name, inertial = element.text("name"), element.one("inertial")
    if inertial is None:
        return LinkDescription(name, element.line)
    mass = _required(inertial, "mass")
    mass.text("value")
    value = mass.number("value", 0.0)
    if not 0.0 <= value <= MAX_NUMBER:
        raise mass.error(f"a mass must be between 0 and {MAX_NUMBER:g} kg, got {value:g}.")
    x, y, z = (float(number) for number in _read_origin(inertial.one("origin"))[:3])
    return LinkDescription(name, element.line, value, (x, y, z))


def _read_joint(element: XmlElement) -> JointDescription:
    name = element.text("name")
    type_name = element.text("type")
    joint_type = _TYPES.get(type_name)
    if joint_type is None:
        raise element.error(f"joint type '{shortened(type_name)}' is unknown; known are {', '.join(sorted(_TYPES))}.")
    mimic = _read_mimic(element, joint_type)
    lower, upper, velocity, effort = _read_limit(element, joint_type, mimic is not None)
    return JointDescription(
        name=name,
        joint_type=joint_type,
        parent=_required(element, "parent").text("link"),
        child=_required(element, "child").text("link"),
        X_parent=_read_origin(element.one("origin")),
        axis=_read_axis(element, joint_type),
        lower=lower,
        upper=upper,
        velocity=velocity,
        effort=effort,
        mimic=mimic,
        line=element.line,
    )


def _required(element: XmlElement, tag: str) -> XmlElement:
    child = element.one(tag)
    if child is None:
        raise element.error(f"<{tag}> is missing.")
    return child


def _read_origin(origin: XmlElement | None) -> Float64Array:
    if origin is None:
        return np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    xyz = origin.numbers("xyz", (0.0, 0.0, 0.0))
    rpy = origin.numbers("rpy", (0.0, 0.0, 0.0))
    if max(map(abs, (*xyz, *rpy))) > MAX_NUMBER:
        raise origin.error(f"numbers of an origin must not exceed {MAX_NUMBER:g}, got xyz {xyz} and rpy {rpy}.")
    return np.concatenate([xyz, quaternion_from_rpy(*rpy)])


def _read_axis(element: XmlElement, joint_type: JointType) -> tuple[float, float, float]:
    axis = element.one("axis")
    if axis is None or joint_type in (JointType.FIXED, JointType.FLOATING, JointType.BALL):
        return 1.0, 0.0, 0.0
    # Halves are exact, and have a length where that of the whole would overflow.
    x, y, z = (0.5 * number for number in axis.numbers("xyz", (1.0, 0.0, 0.0)))
    length = math.hypot(x, y, z)
    if length < 0.5e-6:
        raise axis.error("the axis must not be zero.")
    return x / length, y / length, z / length


def _read_limit(element: XmlElement, joint_type: JointType, follows: bool) -> tuple[float, float, float, float]:
    """Give lower, upper, velocity, effort.

    URDF fills a missing ``lower`` or ``upper`` with 0. Where both are missing that would be a joint that never moves,
    and files that leave both out mean the opposite: no limits.
    """
    limit = element.one("limit")
    bounded = joint_type in (JointType.REVOLUTE, JointType.PRISMATIC)
    if limit is None:
        if bounded and not follows:
            raise element.error(f"a {joint_type.name.lower()} joint needs <limit lower=... upper=...>.")
        return -math.inf, math.inf, math.inf, math.inf
    velocity, effort = (_read_bound(limit, attribute) for attribute in ("velocity", "effort"))
    if not bounded or not {"lower", "upper"} & set(limit.attributes):
        return -math.inf, math.inf, velocity, effort
    lower, upper = limit.number("lower", 0.0), limit.number("upper", 0.0)
    if lower > upper:
        raise limit.error(f"lower limit {lower:g} is above upper limit {upper:g}.")
    if lower >= UNBOUNDED or upper <= -UNBOUNDED:
        raise limit.error(f"limits must leave room within +-{UNBOUNDED:g}, got {lower:g} to {upper:g}.")
    return (-math.inf if lower <= -UNBOUNDED else lower), (math.inf if upper >= UNBOUNDED else upper), velocity, effort


def _read_bound(limit: XmlElement, attribute: str) -> float:
    value = limit.number(attribute, 0.0)
    if value < 0.0:
        raise limit.error(f"attribute '{attribute}' must not be negative, got {value:g}.")
    # exporters write 0 where there is none
    return value if 0.0 < value < UNBOUNDED_RATE else math.inf


def _read_mimic(element: XmlElement, joint_type: JointType) -> MimicDescription | None:
    mimic = element.one("mimic")
    if mimic is None or joint_type is JointType.FIXED:
        return None
    if not joint_type.is_scalar:
        raise mimic.error(f"a {joint_type.name.lower()} joint cannot follow another; it has several coordinates.")
    multiplier, offset = mimic.number("multiplier", 1.0), mimic.number("offset", 0.0)
    return MimicDescription(mimic.text("joint"), multiplier, offset, mimic.line)
