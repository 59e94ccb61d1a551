"""Words for people: advice on problems without success, and a report on the islands of a solver.

A target on a link without an active joint belongs to no island. It is verified like any other, but more seeds or
iterations do not help; the advice names the link. Islands are found as in a solve, before it or after it, on request
only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.linear_solve.islands import find_islands
from ik_service.mechanism.trees import joints_to, reach
from ik_service.result_schema import ResultColumns
from ik_service.robots import RobotModel
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import Target
from ik_service.solver.lm.status import IKStatus
from ik_service.solver.rows.binding import RowKind
from ik_service.solver.rows.blocks import Rows
from ik_service.solver.rows.layout import row_labels
from ik_service.solver.rows.weights import weights_on_device
from ik_service.solver.verdict.island_results import IslandResults, joints_of
from ik_service.solver.verdict.unreachable import why_unreachable
from objectives import IKObjective, InputError
from objectives.expression.expression_objective import ExpressionObjective
from objectives.model import BodyFrame

FAR_AWAY = 30.0  # sizes of the robot; a target farther away is likely in other units
ALWAYS_IN_CONTACT = (
    "Proven to be blocked: parts that are rigid to the target's link touch an object in every configuration. Move the "
    "target or the object."
)


def advice(
    robot: RobotModel,
    targets: Sequence[Target],  # the solver's targets, in their order
    options: SolverOptions,  # options of the solve: with its tolerances
    result: ResultColumns,  # columns of the result
    islands: IslandResults,  # the islands of every problem
    *,
    problem: int,
    collision_names: Sequence[str] = (),  # names of the places in the column `closest`, with a collision check
    batch: Batch | None = None,  # the problems, to tell why a pose is out of reach
) -> str:
    """Return advice to the caller on a problem, with a sentence for each failure."""
    status = IKStatus(int(result.status[problem]))
    if result.success[problem]:
        return status.advice if targets else status.advice_without_targets
    sentences = list[str]()
    for k, target in enumerate(targets):
        moved, turned = why_static(robot, target), why_static(robot, target, angular=True)
        is_away = result.position_error[problem, k] > options.position_tolerance
        is_turned = result.orientation_error[problem, k] > options.orientation_tolerance
        if moved is not None and is_away:
            sentences.append(moved)
        elif turned is not None and is_turned:
            sentences.append(turned)
        elif is_away and result.position_error[problem, k] > FAR_AWAY * robot.length_unit:
            far = float(result.position_error[problem, k])
            sentences.append(
                f"The target of '{target.link}' is {far:.0f} m away, and the robot reaches about {reach(robot):.2g} m: "
                "are the positions in millimetres?"
            )
        elif status is IKStatus.UNREACHABLE and batch is not None and (is_away or is_turned):
            reason = why_unreachable(robot, target, batch, k, problem)
            sentences += [] if reason is None else [reason]
    own = islands[problem]
    for island in own:
        if not island.success:
            name = f"{', '.join(island.rows)}: " if len(own) > 1 else ""
            has_target = any(f"target {target.link}" in island.rows for target in targets)
            said = island.status.advice if has_target else island.status.advice_without_targets
            sentences.append(f"{name}{said}")
    if status is IKStatus.BLOCKED_BY_COLLISION and collision_names:
        is_proven, clearance = bool(result.proof[problem] > 0), result.clearance
        sentences = [ALWAYS_IN_CONTACT] if is_proven else sentences
        if not is_proven or (clearance is not None and clearance[problem] <= 0.0):
            sentences.insert(0, _contact(result, problem, collision_names))
    return " ".join(dict.fromkeys(sentences)) or status.advice


def _contact(result: ResultColumns, problem: int, names: Sequence[str]) -> str:
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
    bodies = [-1 if link is None else robot.link_frame(link)[0] for link in (target.link, target.reference_link)]
    own, others = (set(joints_to(robot, body)) for body in bodies)
    return sorted(own ^ others)


@dataclass(frozen=True)
class IslandMembers:
    """One island."""

    joints: tuple[str, ...]  # joints of the island, followers included
    rows: tuple[str, ...]  # rows coupling them: "target LINK" or the class of an objective
    static_links: tuple[str, ...]  # links of these rows without an active joint: they couple nothing


@dataclass(frozen=True)
class UnmovedRows:
    """Rows without an active joint: they are in no island, but they are judged."""

    rows: str  # "target LINK" or the class of an objective
    links: tuple[str, ...]  # links of these rows
    reason: str  # reason why nothing moves them, and advice


@dataclass(frozen=True)
class IslandReport:
    """The islands of a problem."""

    robot: str  # name of the robot
    islands: tuple[IslandMembers, ...]  # the islands, in order of their first tree
    unmoved: tuple[UnmovedRows, ...]  # rows that no island can change
    untouched_joints: tuple[str, ...]  # active joints without a row: they keep their start
    locked_joints: tuple[str, ...]  # joints that never move

    def __str__(self) -> str:
        lines = [f"{self.robot}: {len(self.islands)} island{'' if len(self.islands) == 1 else 's'}"]
        for number, island in enumerate(self.islands):
            lines += [f"  island {number}", f"    rows: {', '.join(island.rows)}"]
            lines.append(f"    joints: {', '.join(island.joints)}")
            if island.static_links:
                lines.append(f"    refers to static links: {', '.join(island.static_links)}")
        lines += [f"  in no island: {rows.rows}. {rows.reason}" for rows in self.unmoved]
        if self.untouched_joints:
            lines.append(f"  touched by no row, kept at their start: {', '.join(self.untouched_joints)}")
        if self.locked_joints:
            lines.append(f"  locked: {', '.join(self.locked_joints)}")
        return "\n".join(lines)


def report_islands(
    robot: RobotModel,
    targets: Sequence[Target],
    rows: Rows,
    incidence: NDArray[np.bool_],  # whether the support of a row holds DOFs of a tree, bool [rows, trees]
    *,
    problem: int,  # index of the problem, where weights differ between problems
    join: bool,  # whether all touched trees are one island
) -> IslandReport:
    """Return the islands of a problem, with every row of possible weight above 0; InputError: no such problem."""
    target_of = dict(zip(rows.of_kind(RowKind.TARGET), targets, strict=True))
    row_on = np.concatenate([_rows_on(one, target_of.get(k), problem) for k, one in enumerate(rows.objectives)])
    touched = incidence[row_on].any(axis=0)
    _, tree_island, row_island = find_islands(incidence, row_on, join=join)
    labels = row_labels(rows, [target.link for target in targets])
    links = [_links(robot, rows, k, target_of.get(k)) for k in range(len(rows.objectives))]
    members = []
    for island in range(int(tree_island.max(initial=-1)) + 1):
        own = [k for k, block in enumerate(_blocks(rows)) if (row_island[block] == island).any()]
        static = dict.fromkeys(link for k in own for link in links[k] if _is_static(robot, link))
        names = tuple(dict.fromkeys(labels[rows.start[k]] for k in own))
        members.append(IslandMembers(joints_of(robot, tree_island == island), names, tuple(static)))
    unmoved = []
    for k, block in enumerate(_blocks(rows)):
        if row_on[block].any():
            moved = incidence[block][row_on[block]].any(axis=1)
            reason = _why_unmoved(robot, target_of.get(k), links[k], moved)
            if reason is not None:
                unmoved.append(UnmovedRows(labels[rows.start[k]], links[k], reason))
    first = robot.dof_active[robot.joint_qd_start[:-1]]
    locked = tuple(name for name, active in zip(robot.joint_names, first, strict=True) if active < 0)
    return IslandReport(robot.name, tuple(members), tuple(unmoved), joints_of(robot, ~touched), locked)


def _blocks(rows: Rows) -> list[slice]:
    return [slice(a, b) for a, b in zip(rows.start, [*rows.start[1:], rows.count], strict=True)]


def _rows_on(objective: IKObjective, target: Target | None, problem: int) -> NDArray[np.bool_]:
    """Return the rows of an objective with weight, as in `RowWeights`; target values may still free some of them."""
    if target is not None:
        weights: Any = None if target.row_weights is None and target.tolerance is None else target.weights()
    else:
        on_device = weights_on_device(objective)
        weights = None if on_device is None else on_device.numpy()
    if weights is None:
        return np.ones(objective.residual_dim(), dtype=bool)
    lines = np.atleast_2d(np.asarray(weights))
    if problem < 0 or (len(lines) > 1 and problem >= len(lines)):
        allowed = f"0 to {len(lines) - 1}" if len(lines) > 1 else "0 and above"
        raise InputError(f"problem is {problem}. Allowed: {allowed}.")
    return np.asarray(~(lines[problem if len(lines) > 1 else 0] <= 0.0))


def _links(robot: RobotModel, rows: Rows, k: int, target: Target | None) -> tuple[str, ...]:
    """Return the links of an objective, as far as known."""
    objective: IKObjective = rows.objectives[k]
    if target is not None:
        return tuple(link for link in (target.link, target.reference_link) if link is not None)
    if not isinstance(objective, ExpressionObjective):
        return ()
    groups = objective.stated_elements(rows.model)
    frames = dict.fromkeys(frame for _, elements in groups for element in elements for frame in element.frames)
    named = [frame for frame in frames if not isinstance(frame, BodyFrame)]
    return tuple(frame if isinstance(frame, str) else _link_of(robot, frame) for frame in named)


def _link_of(robot: RobotModel, body: int) -> str:
    return next((name for name, of in zip(robot.link_names, robot.link_body, strict=True) if of == body), "world")


def _is_static(robot: RobotModel, link: str) -> bool:
    body = robot.link_frame(link)[0]
    return body < 0 or bool(robot.trees.body_treeid[body] < 0)


def _why_unmoved(
    robot: RobotModel, target: Target | None, links: Sequence[str], moved: NDArray[np.bool_]
) -> str | None:
    """Return the reason why rows of an objective are in no island, or None."""
    if target is not None:
        return None if moved.all() else why_static(robot, target, angular=bool(moved.any()))
    if moved.any():
        return None
    static = [f"'{link}'" for link in links if _is_static(robot, link)]
    return f"No active joint moves link {', '.join(static)}." if static else "No active joint changes it."
