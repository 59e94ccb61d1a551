"""A robot as a table of text: DOFs, their limits and their movers."""

from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import KinematicRobot

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
