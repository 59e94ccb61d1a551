"""Advice on problems without success: the meaning of their status, and links without an active joint.

A target on a link without an active joint belongs to no island. It is verified like any other, but more seeds or
iterations do not help; the advice names the link. Computed on the host, on request only.
"""

from collections.abc import Sequence

from ik_service.result_schema import ResultColumns
from ik_service.robots import RobotModel
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import Target
from ik_service.solver.lm.status import IKStatus
from ik_service.solver.verdict.island_results import IslandResults


def advice(
    robot: RobotModel,
    targets: Sequence[Target],  # the solver's targets, in their order
    options: SolverOptions,  # options of the solve: with its tolerances
    result: ResultColumns,  # columns of the result
    islands: IslandResults,  # the islands of every problem
    *,
    problem: int,
    collision_names: Sequence[str] = (),  # names of the places in the column `closest`, with a collision check
) -> str:
    """Return advice to the caller on a problem, with a sentence for each failure."""
    status = IKStatus(int(result.status[problem]))
    if result.success[problem]:
        return status.advice if targets else status.advice_without_targets
    sentences = []
    for k, target in enumerate(targets):
        moved, turned = why_static(robot, target), why_static(robot, target, angular=True)
        if moved is not None and result.position_error[problem, k] > options.position_tolerance:
            sentences.append(moved)
        elif turned is not None and result.orientation_error[problem, k] > options.orientation_tolerance:
            sentences.append(turned)
    own = islands[problem]
    for island in own:
        if not island.success:
            name = f"{', '.join(island.rows)}: " if len(own) > 1 else ""
            has_target = any(f"target {target.link}" in island.rows for target in targets)
            said = island.status.advice if has_target else island.status.advice_without_targets
            sentences.append(f"{name}{said}")
    if status is IKStatus.BLOCKED_BY_COLLISION and collision_names:
        sentences.insert(0, _contact(result, problem, collision_names))
    return " ".join(dict.fromkeys(sentences)) or status.advice


def _contact(result: ResultColumns, problem: int, names: Sequence[str]) -> str:
    """Name the closest pair."""
    assert result.clearance is not None  # collision was checked
    assert result.closest is not None
    clearance = float(result.clearance[problem])
    first, second = (f"'{names[place]}'" for place in result.closest[problem])
    if clearance > 0.0:
        return f"{first} and {second} are {1e3 * clearance:.1f} mm apart."
    return f"{first} and {second} touch, {-1e3 * clearance:.1f} mm deep."


def why_static(robot: RobotModel, target: Target, *, angular: bool = False) -> str | None:
    """Return why no active joint moves a target's link, with the name of the link, or None."""
    # With `angular` only joints that turn the link relative to its reference link count
    joints = _joints_between(robot, target)
    active = [joint for joint in joints if robot.dof_active[robot.joint_qd_start[joint]] >= 0]
    turning = [joint for joint in active if robot.joint_dof_dim[joint, 1] > 0]
    if turning or (active and not angular):
        return None
    seen = "" if target.reference_link is None else f" relative to '{target.reference_link}'"
    if active:
        return f"No active joint turns link '{target.link}'{seen}: leave its orientation free, or give the one it has."
    locked = ", ".join(f"'{robot.joint_names[joint]}'" for joint in joints)
    fixed = "fixed to the world" if target.reference_link is None else "one is fixed to the other"
    cause, remedy = (f"locked: {locked}", "unlock a joint, ") if locked else (fixed, "")
    return (
        f"Link '{target.link}' is static{seen} ({cause}), so nothing brings it nearer to its target: "
        f"{remedy}give the pose that it has, or leave the target out."
    )


def _joints_between(robot: RobotModel, target: Target) -> list[int]:
    """Moving joints, locked ones too, on the way from the reference link (or the world) to the link."""
    paths = []
    for link in (target.link, target.reference_link):
        body = -1 if link is None else robot.link_frame(link)[0]
        path = set()
        while body >= 0:
            path.add(body)  # body and joint have the same number
            body = int(robot.joint_parent[body])
        paths.append(path)
    return sorted(paths[0] ^ paths[1])
