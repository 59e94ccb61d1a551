"""Names of coordinates and DOFs, and look-ups by name with helpful messages."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ik_service.mechanism.arrays import RobotArrays
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.loops import LoopConstraint
from objectives.errors import InputError, UnknownNameError, near_names

MAX_LISTED = 60  # largest number of names in a message


@dataclass(frozen=True)
class DofInfo:
    """Description of a DOF.

    Attributes:
        name: Name, as in ``dof_names``.
        joint: Name of the joint.
        component: Component of the joint (``vx``, ``angle``); empty for a scalar joint.
        lower: Lower limit [m or rad], -inf for none.
        upper: Upper limit [m or rad], +inf for none.
        active: Whether an active DOF moves this DOF; False for locked DOFs.
    """

    name: str
    joint: str
    component: str
    lower: float
    upper: float
    active: bool


def coordinate_names(robot: KinematicRobot) -> tuple[str, ...]:
    """Give the name of each coordinate, length joint_coord_count."""
    return _joined(zip(robot.joint_names, (JointType(t).coordinate_components for t in robot.joint_type), strict=True))


def dof_names(robot: KinematicRobot) -> tuple[str, ...]:
    """Give the name of each DOF, length joint_dof_count."""
    return _joined(zip(robot.joint_names, (JointType(t).dof_components for t in robot.joint_type), strict=True))


def closing_coordinate_names(loops: Sequence[LoopConstraint]) -> tuple[str, ...]:
    """Give the name of each coordinate of the joints that close loops."""
    return _joined((loop.name, loop.rows().closing_coordinate_names) for loop in loops)


def _joined(joints: Iterable[tuple[str, Sequence[str]]]) -> tuple[str, ...]:
    return tuple(f"{joint}/{part}" if part else joint for joint, components in joints for part in components)


def dof_at(robot: KinematicRobot, index: int) -> DofInfo:
    """Describe a DOF; InputError for an unknown index."""
    if not 0 <= index < robot.joint_dof_count:
        raise InputError(f"DOF {index} is not in robot '{robot.name}': it has DOFs 0 to {robot.joint_dof_count - 1}.")
    joint = int(robot.dof_joint[index])
    component = JointType(robot.joint_type[joint]).dof_components[index - robot.joint_qd_start[joint]]
    return DofInfo(
        name=robot.dof_names[index],
        joint=robot.joint_names[joint],
        component=component,
        lower=float(robot.joint_limit_lower[index]),
        upper=float(robot.joint_limit_upper[index]),
        active=bool(robot.dof_active[index] >= 0),
    )


def leaf_links(robot: RobotArrays) -> list[str]:
    """Give the moving links without child links, in the order of `link_names`."""
    inner = set(robot.link_parent.tolist())
    return [name for k, name in enumerate(robot.link_names) if robot.link_body[k] >= 0 and k not in inner]


def index_of(robot: KinematicRobot, what: str, names: Sequence[str], name: str) -> int:
    """Find a "Link" or "Joint" by name; UnknownNameError, with the closest names and all names, for an unknown name."""
    try:
        return names.index(name)
    except ValueError:
        opening = f"{what} '{name}' is not in robot '{robot.name}'."
        raise UnknownNameError(unknown_name(opening, what, names, name)) from None


def unknown_name(opening: str, what: str, names: Sequence[str], name: object) -> str:
    """Write a message about an unknown name: the opening, the closest names, and the list."""
    close = near_names(str(name), names, 3)
    hint = f" Did you mean {' or '.join(repr(candidate) for candidate in close)}?" if close else ""
    listed = ", ".join(names[:MAX_LISTED]) or "none"
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"{opening}{hint} {what}s: {listed}{more}."
