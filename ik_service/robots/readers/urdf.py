"""URDF text into a robot description.

Reads links with masses, centres of mass and shapes, joints, origins, axes, limits and mimic joints. No file that the
text refers to is opened. Lengths are metres, angles radians, masses kilograms.

A wrong element with one usual reading is read so, with a warning. `HARMLESS` lists names without effect on the robot;
a warning names every other unread element.

Loops have two notations outside of the format: elements ``<constraint>`` as proposed for urdfdom, with a frame and an
axis on a parent and on a child link, and pairs of links ``closing_NAME_1``, ``closing_NAME_2`` of onshape-to-robot,
which meet in a point. An unreadable loop is left out with a warning.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ik_service.collision.shapes import BoundedShape, Box, Capsule, Cylinder, LinkShapes, MeshReference, Sphere
from ik_service.errors import RobotFileError
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.loops import LoopConstraint
from ik_service.mechanism.transforms import (
    MAX_NUMBER,
    UNBOUNDED,
    UNBOUNDED_RATE,
    Float64Array,
    identity_transform,
    quaternion_between,
    quaternion_from_rpy,
    quaternion_multiply,
)
from ik_service.robots.readers.description import (
    MAX_CONSTRAINTS,
    JointDescription,
    LinkDescription,
    MimicDescription,
    ReadConstraints,
    RobotDescription,
)
from ik_service.robots.readers.xml_reader import XmlElement, read_xml, shortened
from objectives.errors import InputError

MAX_COUNT = 2048  # most links and most joints of a robot
_TYPES = {joint_type.name.lower(): joint_type for joint_type in JointType} | {"spherical": JointType.BALL}
_CLOSING_JOINTS = {"link": "weld", "fixed": "weld", "continuous": "revolute", "ball": "spherical"}
_AXES_ALONE = ("revolute", "cylindrical", "planar")  # joints invariant to a rotation of a frame about its axis
_CLOSING_LINK = re.compile(r"closing_(.+)_([12])")
_DEFINITIONS = tuple(f"xacro:{word}" for word in ("include", "macro", "arg", "property", "if", "unless"))
_HARMLESS_NAMES = """
    version name group concave dont_collapse <visual> <material> <geometry> <gazebo> <mujoco> <sensor> <verbose>
    <inertia> <dynamics> <gravity> <kinematic> <joint_properties> <controller_gains> <transmission> <calibration>
    <ros2_control> <contact> <surface> <sdf> <max_contacts> <contact_coefficients> <drake:proximity_properties>
    <drake:gear_ratio> <drake:rotor_inertia>"""
HARMLESS = frozenset(_HARMLESS_NAMES.split())  # names without effect on kinematics, limits or shapes
_X_AXIS, _Z_AXIS = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])


def read_urdf(data: bytes, *, reads_constraints: bool = True) -> RobotDescription:
    """Read a URDF document in UTF-8, with loops or without, in its order; RobotFileError if invalid."""
    root = read_xml(data)
    if root.tag != "robot":
        raise root.error(f"the outermost element must be <robot>, got <{shortened(root.tag)}>.")
    _refuse_xacro(root)
    joint_elements = _capped(root, "joint")
    links = tuple(map(_read_link, _capped(root, "link")))
    kinds = {(one.get("name") or "").strip(): one.get("type") or "" for one in joint_elements}
    joints = tuple(_read_joint(element, kinds) for element in joint_elements)
    if not reads_constraints:
        root.leave_out("constraint")
    constraints = _read_loops(root, links if reads_constraints else ())
    root.warn_of_unread(HARMLESS)
    constraints = ReadConstraints(warnings=tuple(root.warnings)).joined(constraints)
    return RobotDescription(root.attributes.get("name", "").strip() or "robot", links, joints, constraints)


def _refuse_xacro(root: XmlElement) -> None:
    has_links = any(root.all("link"))
    for element in root.children:
        # macro calls beside links are remains of an expanded file
        if element.tag in _DEFINITIONS or (element.tag.startswith("xacro:") and not has_links):
            raise element.error(
                "this is a xacro file; load it by its path, which ends in .xacro, or expand it first: "
                "'xacro robot.urdf.xacro > robot.urdf'."
            )


def _capped(root: XmlElement, tag: str) -> list[XmlElement]:
    found = list(root.all(tag))
    if len(found) > MAX_COUNT:
        raise found[MAX_COUNT].error(f"more than {MAX_COUNT} <{tag}> elements.")
    return found


def _read_link(element: XmlElement) -> LinkDescription:
    name, inertial, shapes = element.text("name"), element.one("inertial"), read_shapes(element.all("collision"))
    if inertial is not None:
        try:
            return LinkDescription(name, element.line, *_read_inertial(inertial), shapes)
        except RobotFileError as error:  # as urdfdom: the kinematics need no mass
            element.warnings.append(f"{error} The link has no mass here.")
            element.leave_out("inertial")
    return LinkDescription(name, element.line, shapes=shapes)


def _read_inertial(inertial: XmlElement) -> tuple[float, tuple[float, float, float]]:
    mass = _required(inertial, "mass")
    mass.text("value")
    value = mass.number("value", 0.0)
    if not 0.0 <= value <= MAX_NUMBER:
        raise mass.error(f"a mass must be between 0 and {MAX_NUMBER:g} kg, got {value:g}.")
    x, y, z = (float(number) for number in read_origin(inertial)[:3])
    return value, (x, y, z)


def _read_joint(element: XmlElement, kinds: Mapping[str, str]) -> JointDescription:
    name = element.text("name")
    type_name = element.text("type")
    joint_type = _TYPES.get(type_name)
    if joint_type is None:
        raise element.error(f"joint type '{shortened(type_name)}' is unknown; known are {', '.join(sorted(_TYPES))}.")
    if joint_type in (JointType.FIXED, JointType.FLOATING, JointType.BALL):
        element.leave_out("axis")
    if joint_type is JointType.FIXED:
        element.leave_out("limit")
    axis = element.one("axis")
    mimic = _read_mimic(element, joint_type, kinds)
    limits = _read_limit(element, joint_type, mimic is not None)
    return JointDescription(
        name,
        joint_type,
        _required(element, "parent").text("link"),
        _required(element, "child").text("link"),
        read_origin(element),
        (1.0, 0.0, 0.0) if axis is None else _read_direction(axis),
        *limits,
        mimic=mimic,
        line=element.line,
    )


def _required(element: XmlElement, tag: str) -> XmlElement:
    child = element.one(tag)
    if child is None:
        raise element.error(f"<{tag}> is missing.")
    return child


def _read_direction(axis: XmlElement) -> tuple[float, float, float]:
    # Halves are exact, and have a finite length where the full numbers would overflow.
    x, y, z = (0.5 * number for number in axis.numbers("xyz", (1.0, 0.0, 0.0)))
    length = math.hypot(x, y, z)
    if length < 0.5e-6:
        raise axis.error("the axis must not be zero.")
    return x / length, y / length, z / length


def _read_limit(element: XmlElement, joint_type: JointType, follows: bool) -> tuple[float, float, float, float, float]:
    """Give lower, upper, velocity, effort, acceleration.

    URDF defaults a missing ``lower`` or ``upper`` to 0. With both missing the joint would never move; files that omit
    both mean a joint without limits.
    """
    bounded = joint_type in (JointType.REVOLUTE, JointType.PRISMATIC)
    limit = element.one("limit")
    if limit is None:
        if bounded and not follows:
            element.warn(f"a {joint_type.name.lower()} joint needs <limit>, which is missing: it has no limits.")
        return -math.inf, math.inf, math.inf, math.inf, math.inf
    velocity, effort = (_read_rate(limit, attribute) for attribute in ("velocity", "effort"))
    # braking harder than the file allows is no way to keep to it, so the smallest rate holds in both directions
    rates = min(_read_rate(limit, word) for word in ("acceleration", "deceleration", "drake:acceleration"))
    if not bounded or not {"lower", "upper"} & set(limit.attributes):
        return -math.inf, math.inf, velocity, effort, rates
    lower, upper = (limit.number(attribute, 0.0, largest=math.inf) for attribute in ("lower", "upper"))
    if lower > upper:
        limit.warn(f"lower limit {lower:g} is above upper limit {upper:g}: the range between the two counts.")
        lower, upper = upper, lower
    if lower >= UNBOUNDED or upper <= -UNBOUNDED:
        raise limit.error(f"limits must leave room within +-{UNBOUNDED:g}, got {lower:g} to {upper:g}.")
    lower, upper = -math.inf if lower <= -UNBOUNDED else lower, math.inf if upper >= UNBOUNDED else upper
    return lower, upper, velocity, effort, rates


def _read_rate(limit: XmlElement, attribute: str) -> float:
    value = limit.number(attribute, 0.0, largest=math.inf)
    if value < 0.0:
        limit.warn(f"attribute '{attribute}' must not be negative, got {value:g}: there is no such limit.")
    # exporters write 0 for no limit
    return value if 0.0 < value < UNBOUNDED_RATE else math.inf


def _read_mimic(element: XmlElement, joint_type: JointType, kinds: Mapping[str, str]) -> MimicDescription | None:
    """Read the coupling of a mimic joint; a joint that cannot follow is independent, as in MoveIt."""
    mimic = element.one("mimic")
    if mimic is None:
        return None
    if joint_type is JointType.FIXED:
        mimic.warn("a fixed joint does not move, so it follows no other.")
        element.leave_out("mimic")
        return None
    multiplier, offset, leader = mimic.number("multiplier", 1.0), mimic.number("offset", 0.0), mimic.text("joint")
    kind = _TYPES.get(kinds.get(leader, "").strip())
    if leader not in kinds:
        reason = f"'{shortened(leader)}', which it follows, does not exist"
    elif kind is not None and not kind.is_scalar:
        reason = f"'{shortened(leader)}', which it follows, is {kind.name.lower()}"
    elif not joint_type.is_scalar:
        reason = f"a {joint_type.name.lower()} joint has several coordinates and cannot follow '{shortened(leader)}'"
    else:
        return MimicDescription(leader, multiplier, offset, mimic.line)
    mimic.warn(f"the joint moves by itself: {reason}.")
    return None


def _read_loops(root: XmlElement, links: Sequence[LinkDescription]) -> ReadConstraints:
    elements, loops, warnings, read = [*root.all("constraint")], [], [], set()
    for element in elements[:MAX_CONSTRAINTS]:
        try:
            loops.append(_read_constraint(element))
            read.add(element)
        except RobotFileError as error:
            warnings.append(f"A loop is left out: {error}")
        except InputError as error:
            warnings.append(f"A loop is left out: {element.error(str(error))}")
    root.leave_out("constraint", but=read)
    pairs: dict[str, dict[str, str]] = {}  # the links of each pair by their numbers, by the pair's name
    for link in links:
        if match := _CLOSING_LINK.fullmatch(link.name):
            pairs.setdefault(match[1], {})[match[2]] = link.name
    for name, ends in pairs.items():
        if len(ends) == 2:
            loops.append(LoopConstraint(f"closing_{name}", "spherical", ends["2"], ends["1"]))
            continue
        (single,) = ends.values()
        warnings.append(f"Link '{shortened(single)}' closes no loop: the other one of its pair is missing.")
    if len(elements) > MAX_CONSTRAINTS or len(loops) > MAX_CONSTRAINTS:
        warnings.append(f"Loops after the first {MAX_CONSTRAINTS} are left out; more are not read.")
    return ReadConstraints(tuple(loops[:MAX_CONSTRAINTS]), tuple(warnings))


def _read_constraint(element: XmlElement) -> LoopConstraint:
    """Read a loop: its type constrains the child's frame relative to the parent's frame."""
    kind = element.text("type").lower()
    joint = _CLOSING_JOINTS.get(kind, kind)
    child, parent = (read_origin(element, f"{end}_origin") for end in ("child", "parent"))
    if joint not in ("weld", "spherical"):
        axis = _closing_axis(element, "parent", _X_AXIS)
        parent = _turned(parent, _Z_AXIS, axis)
        if joint == "universal":  # the second axis, at right angles to the first
            child = _turned(child, _X_AXIS, _closing_axis(element, "child", _X_AXIS))
        else:
            child = _turned(child, _Z_AXIS, _closing_axis(element, "child", axis) if joint in _AXES_ALONE else axis)
    attributes = ((name, name in element.attributes) for name in ("pitch", "distance"))
    pitch, distance = (element.number(name, 0.0) if is_given else None for name, is_given in attributes)
    return LoopConstraint(
        element.text("name"),
        joint,
        _required(element, "child").text("link"),
        _required(element, "parent").text("link"),
        tuple(child.tolist()),
        tuple(parent.tolist()),
        pitch,
        distance,
    )


def _closing_axis(element: XmlElement, end: str, default: Float64Array) -> Float64Array:
    axis = element.one(f"{end}_axis")
    return default if axis is None else np.array(_read_direction(axis))


def _turned(frame: Float64Array, own: Float64Array, axis: Float64Array) -> Float64Array:
    """Rotate a frame so that its axis ``own`` points along an axis given in the frame."""
    return np.concatenate([frame[:3], quaternion_multiply(frame[3:], quaternion_between(own, axis))])


MAX_SHAPES = 256  # most shapes of a link; further shapes count as unread
_MISSING = -1.0


def read_visuals(data: bytes) -> dict[str, list[tuple[LinkShapes, str, tuple[float, ...]]]]:
    """Read visual shapes and meshes with material and color (rgba, empty where unknown), by link; open no mesh."""
    root = read_xml(data)
    links = {link.text("name"): list(link.all("visual")) for link in root.all("link")}
    used = [material for visuals in links.values() for visual in visuals for material in visual.all("material")]
    colors = {
        material.get("name") or "": color.numbers("rgba", (1.0,) * 4)
        for material in (*used, *root.all("material"))
        for color in material.all("color")
    }
    return {link: [_read_visual(visual, colors) for visual in visuals] for link, visuals in links.items()}


def _read_visual(
    visual: XmlElement, colors: Mapping[str, tuple[float, ...]]
) -> tuple[LinkShapes, str, tuple[float, ...]]:
    material = next((one.get("name") or "" for one in visual.all("material")), "")
    return read_shapes([visual]), material, colors.get(material, ())


def read_shapes(elements: Iterable[XmlElement]) -> LinkShapes:
    """Read the shapes of elements such as <collision> or <visual> of a link."""
    shapes: list[BoundedShape] = []
    unread: list[str] = []
    meshes: list[MeshReference] = []
    for number, collision in enumerate(elements):
        geometry = next(iter(collision.all("geometry")), None)
        element = geometry.children[0] if geometry is not None and geometry.children else None
        kind = "nothing" if element is None else shortened(element.tag)
        if element is None or number >= MAX_SHAPES:
            collision.leave_out("origin")
        try:
            shape = None if element is None or number >= MAX_SHAPES else _read_shape(element, _pose(collision))
        except (RobotFileError, InputError):
            shape = None
        if shape is not None and not _is_a_point(shape):
            shapes.append(shape)
            continue
        unread.append(kind if shape is None else f"{kind} of radius 0")
        if element is not None and element.tag == "mesh" and (mesh := _read_mesh(element, collision)) is not None:
            meshes.append(mesh)
    return LinkShapes(tuple(shapes), tuple(unread), tuple(meshes))


def _pose(collision: XmlElement) -> tuple[float, ...]:
    return tuple(read_origin(collision).tolist())


def read_origin(element: XmlElement, tag: str = "origin") -> Float64Array:
    """Read the frame of an element, rotation from ``rpy`` or ``quat_xyzw`` (URDF 1.1); RobotFileError if invalid."""
    origin = element.one(tag)
    if origin is None:
        return identity_transform()
    xyz, rpy = (origin.numbers(name, (0.0, 0.0, 0.0)) for name in ("xyz", "rpy"))
    if max(map(abs, (*xyz, *rpy))) > MAX_NUMBER:
        raise origin.error(f"numbers of an origin must not exceed {MAX_NUMBER:g}, got xyz {xyz} and rpy {rpy}.")
    if origin.get("quat_xyzw") is None:
        return np.concatenate([xyz, quaternion_from_rpy(*rpy)])
    if origin.get("rpy") is not None:
        raise origin.error("attributes 'rpy' and 'quat_xyzw' are two rotations; only one is allowed.")
    quaternion = np.array(origin.numbers("quat_xyzw", (0.0, 0.0, 0.0, 1.0)))
    largest = np.abs(quaternion).max()
    if largest == 0.0:
        raise origin.error("attribute 'quat_xyzw' must not be zero.")
    quaternion /= largest  # its length would overflow
    return np.concatenate([xyz, quaternion / np.linalg.norm(quaternion)])


def _read_mesh(element: XmlElement, collision: XmlElement) -> MeshReference | None:
    try:
        return MeshReference(element.text("filename"), element.numbers("scale", (1.0, 1.0, 1.0)), _pose(collision))
    except RobotFileError:
        return None


def _is_a_point(shape: BoundedShape) -> bool:
    """Return whether a shape is a sphere of radius 0, which a collision model cannot hold."""
    if isinstance(shape, Capsule):
        return shape.radius == shape.length == 0.0
    return isinstance(shape, Sphere) and shape.radius == 0.0


def _read_shape(element: XmlElement, pose: tuple[float, ...]) -> BoundedShape | None:
    """Read a shape; a missing length is read as a negative length, which every shape refuses."""
    if element.tag == "box":
        return Box(element.numbers("size", (_MISSING, _MISSING, _MISSING)), pose)
    radius, length = (element.number(name, _MISSING) for name in ("radius", "length"))
    if element.tag == "sphere":
        return Sphere(radius, pose[:3])
    if element.tag == "cylinder":
        return Cylinder(radius, length, pose)
    return Capsule(radius, length, pose) if element.tag == "capsule" else None
