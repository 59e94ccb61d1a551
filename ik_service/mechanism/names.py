"""Names of coordinates and DOFs, look-ups by name with helpful messages, and a robot as a table of text."""

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


ROWS_MOST = 18  # largest number of DOFs shown; the table fits a screen of 24 lines
HEAD = ("DOF", "type", "lower", "upper", "moved by")


def table(robot: KinematicRobot, title: str) -> str:
    """Write the title and a line per DOF; DOFs past `ROWS_MOST` are only counted."""
    rows = [HEAD, *(_row(robot, dof) for dof in range(min(robot.joint_dof_count, ROWS_MOST)))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [title]
    for name, kind, lower, upper, mover in rows:
        cells = (name.ljust(widths[0]), kind.ljust(widths[1]), lower.rjust(widths[2]), upper.rjust(widths[3]), mover)
        lines.append("  ".join(cells).rstrip())
    if robot.joint_dof_count > ROWS_MOST:
        lines.append(f"... and {robot.joint_dof_count - ROWS_MOST} more DOFs")
    return "\n".join(lines)


def _row(robot: KinematicRobot, dof: int) -> tuple[str, ...]:
    kind = JointType(robot.joint_type[robot.dof_joint[dof]]).name.lower()
    limits = (f"{limit:.4g}" for limit in (robot.joint_limit_lower[dof], robot.joint_limit_upper[dof]))
    return (robot.dof_names[dof], kind, *limits, mover(robot, dof))


def mover(robot: KinematicRobot, dof: int) -> str:
    """Name the mover of a DOF: the solver, nothing, or the leader with multiplier and offset."""
    leader = int(robot.dof_leader[dof])
    if leader == dof:
        return "the solver" if robot.dof_active[dof] >= 0 else "nothing: locked"
    offset = float(robot.dof_offset[dof])
    added = f" {'-' if offset < 0.0 else '+'} {abs(offset):.4g}" if offset else ""
    follows = f"{float(robot.dof_multiplier[dof]):.4g} x {robot.dof_names[leader]}{added}"
    return follows if robot.dof_active[dof] >= 0 else f"{follows}, which is locked"
