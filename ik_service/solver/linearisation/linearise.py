"""From the rows of a solver and its answers to derivatives by the targets.

targets, answers -> those about targets alone that are met (`met_targets`), others:
-> rows that are met, rows that cost -> limits that hold -> Newton to the minimum -> derivatives

First derivatives of rows are exact; those of the gradient, and those by targets, are central differences of fourth
order, of all problems at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.robots.constraint_kinematics.rows.linear_algebra import applied, least_change
from ik_service.robots.host_kinematics.tangent import BodyMotion, body_motion
from ik_service.robots.transforms import Float64Array, quaternion_exp, quaternion_multiply
from ik_service.solver.inputs.target_arrays import TargetArrays
from ik_service.solver.inputs.targets import Target
from ik_service.solver.linearisation.answer_islands import AnswerIslands
from ik_service.solver.linearisation.host_rows import Data, RowValues
from ik_service.solver.linearisation.linearisation import TWIST, DofState, Linearisation
from ik_service.solver.linearisation.met_targets import linearise_met
from ik_service.solver.linearisation.minimum import Minimum
from ik_service.solver.linearisation.solver_rows import HostRows
from ik_service.solver.problems.rows.kinds import RowKind
from objectives.tasks.frame_objective import OFFSET
from objectives.tasks.pose import ORIENTATION, POSITION

STEPS = 1e-3 * np.array([1.0, -1.0, 2.0, -2.0])
SHARES = np.array([8.0, -8.0, -1.0, 1.0]) / 12e-3
"""Of differences [m or rad], and how much each counts."""
LINES_AT_ONCE, ANSWERS_AT_ONCE = 4096, 256
"""Configurations that are evaluated together, and answers."""
PRESSED = 1e-6
"""Share of the largest gradient from which on a limit holds a DOF that would leave it otherwise."""
NEWTON_STEPS = 10
NEWTON_LONGEST, NEWTON_SETTLED = 0.5, 1e-9
"""Steps of Newton's method from an answer to its minimum: the longest of an answer at one, and where it is reached."""


@dataclass(frozen=True, eq=False)
class _Answers:
    """Answers, and which of their rows are what.

    Attributes:
        rows: The rows.
        joint_q: The answers, shape [n, joint_coord_count].
        data: Numbers of the fields.
        is_hard: Rows that are met, shape [n, rows].
        is_soft: Rows whose cost is least, shape [n, rows].
        multipliers: Of the hard rows, 0 for the others, shape [n, rows].
    """

    rows: HostRows
    joint_q: Float64Array
    data: Sequence[Data]
    is_hard: NDArray[np.bool_]
    is_soft: NDArray[np.bool_]
    multipliers: Float64Array

    def gradient(self, values: RowValues) -> Float64Array:
        """Give the gradient of the cost, shape [n, active DOFs]."""
        return applied(values.jacobian.swapaxes(1, 2), np.where(self.is_soft, values.rows, 0.0))

    def slope(self, values: RowValues) -> Float64Array:
        """Give the gradient of the Lagrangian, shape [n, active DOFs]."""
        return applied(values.jacobian.swapaxes(1, 2), np.where(self.is_soft, values.rows, self.multipliers))

    def repeated(self, times: int) -> "_Answers":
        """Give the answers so many times, one after the other."""
        data = [
            {name: _tiled(lines, times) if len(lines) > 1 else lines for name, lines in own.items()}
            for own in self.data
        ]
        lines = (_tiled(one, times) for one in (self.is_hard, self.is_soft, self.multipliers))
        return _Answers(self.rows, _tiled(self.joint_q, times), data, *lines)

    def curvature(self) -> Float64Array:
        """Give the second derivatives of the Lagrangian, shape [n, active DOFs, active DOFs]; 0 without soft rows."""
        robot, count, n = self.rows.robot, self.rows.robot.active_dof_count, len(self.joint_q)
        found = np.zeros((n, count, count))
        each = max(LINES_AT_ONCE // (len(STEPS) * n), 1)
        for first in range(0, count if self.is_soft.any() else 0, each):
            columns = self.rows.columns[:, first : first + each]
            tangents = (columns.T[:, None] * STEPS[:, None]).reshape(-1, len(columns))
            many = self.repeated(len(tangents))
            motion = body_motion(robot, robot.integrate(many.joint_q, np.repeat(tangents, n, axis=0)))
            slopes = many.slope(self.rows.values(motion, many.data)).reshape(-1, len(STEPS), n, count)
            found[:, :, first : first + each] = np.einsum("s,dsnc->ncd", SHARES, slopes)
        return found

    def by_pose(self, target: int, axes: NDArray[np.intp], motion: BodyMotion, *, of_tool: bool) -> Float64Array:
        """Give how rows, and after them the gradient of the Lagrangian, change with a pose.

        Args:
            target: The target.
            axes: Three of its position, then three of its rotation vector.
            motion: Poses in the answers.
            of_tool: Whether it is that of the tool frame.

        Returns:
            Shape [n, rows + active DOFs, axes].
        """
        times, n = len(axes) * len(STEPS), len(self.joint_q)
        if times == 0:
            return np.zeros((n, self.is_hard.shape[1] + self.rows.robot.active_dof_count, 0))
        many = self.repeated(times)
        moves = np.repeat((np.eye(TWIST)[axes, None] * STEPS[:, None]).reshape(times, TWIST), n, axis=0)
        own = _with_pose_moved(many.data[target], moves, of_tool=of_tool)
        still = BodyMotion(*(_tiled(one, times) for one in motion))
        values = self.rows.values(still, [*many.data[:target], own, *many.data[target + 1 :]])
        changed = np.concatenate([values.rows, many.slope(values)], axis=1)
        return np.asarray(np.einsum("s,asnk->nka", SHARES, changed.reshape(len(axes), len(STEPS), n, -1)))


def _with_pose_moved(data: Data, moves: Float64Array, *, of_tool: bool) -> Data:
    """Give the numbers of a target with its pose, or that of its tool, moved and turned."""
    pose = data[OFFSET] if of_tool else np.hstack([data[POSITION], data[ORIENTATION]])
    turned = quaternion_multiply(quaternion_exp(moves[:, 3:]), np.broadcast_to(pose[:, 3:], (len(moves), 4)))
    position = pose[:, :3] + moves[:, :3]
    if of_tool:
        return {**data, OFFSET: np.hstack([position, turned])}
    return {**data, POSITION: position, ORIENTATION: turned}


def linearise(
    rows: HostRows,
    targets: Sequence[Target],
    given: TargetArrays,
    joint_q: NDArray[np.floating],
    islands: AnswerIslands,
    enabled: NDArray[np.bool_] | None,
) -> Linearisation:
    """Give the derivatives of answers by their targets.

    Args:
        rows: The rows of the solver.
        targets: Its targets.
        given: Their values.
        joint_q: The answers, shape [n, joint_coord_count].
        islands: Islands of the problems.
        enabled: Which constraints of the robot are met, shape [1 or n, constraints]; None for all.
    """
    data = rows.data(targets, given, enabled)
    axes = [_axes(given, k) for k in range(len(targets))]
    tools = [own if OFFSET in data[k] else own[:0] for k, own in enumerate(axes)]
    axes += tools if any(OFFSET in own for own in data[: len(targets)]) else []
    answers = np.asarray(joint_q, np.float64)
    is_done, found = linearise_met(rows, targets, data, answers, islands)
    left = np.flatnonzero(~is_done)
    for first in range(0, len(left), ANSWERS_AT_ONCE):
        part = left[first : first + ANSWERS_AT_ONCE]
        own = [{name: lines[part] if len(lines) > 1 else lines for name, lines in one.items()} for one in data]
        found.put(part, _of_part(rows, len(targets), axes, own, answers[part], islands.part(part)))
    return found


def _of_part(
    rows: HostRows,
    targets: int,
    axes: Sequence[NDArray[np.intp]],
    data: Sequence[Data],
    joint_q: Float64Array,
    islands: AnswerIslands,
) -> Linearisation:
    """Give the derivatives of some answers: by the poses of all targets, then by those of their tool frames, if any."""
    robot, n, poses = rows.robot, len(joint_q), len(axes)
    answers, is_mixed = _sorted(rows, data, joint_q, islands)
    answers, held, settled = _at_minimum(answers, islands)
    is_differentiable = settled & ~is_mixed
    motion = body_motion(robot, answers.joint_q)
    values, curvature = rows.values(motion, answers.data), answers.curvature()
    nothing = np.zeros((n, values.rows.shape[1] + robot.active_dof_count, 0))
    by_poses = (answers.by_pose(k % targets, own, motion, of_tool=k >= targets) for k, own in enumerate(axes))
    changes = np.concatenate([nothing, *by_poses], axis=-1)
    by_rows, by_slope = np.split(changes, [values.rows.shape[1]], axis=1)
    found, rank = np.zeros((n, robot.active_dof_count, poses * TWIST)), np.zeros(n, np.int32)
    places = np.concatenate([np.zeros(0, np.intp), *(TWIST * k + own for k, own in enumerate(axes))])
    for p in np.flatnonzero(is_differentiable).tolist():
        free = held.state[p] == DofState.FREE
        for hard, dofs in islands.of(p, answers.is_hard[p], rows.dof_tree):
            minimum = Minimum(values.jacobian[p][np.ix_(hard, dofs)], curvature[p][np.ix_(dofs, dofs)], free[dofs])
            shift = minimum.shift(by_rows[p, hard], by_slope[p, dofs])
            found[p][np.ix_(dofs, places)] = shift.change
            rank[p] += shift.rank
    by_pose = (rows.columns @ found).reshape(n, robot.joint_dof_count, poses, TWIST)
    of_dofs = by_pose[:, :, :targets], by_pose[:, :, targets:], is_differentiable, held.state, held.is_pressed
    return Linearisation.of(robot, rows.order, answers.joint_q, *of_dofs, rank)


def _axes(given: TargetArrays, target: int) -> NDArray[np.intp]:
    """Give the numbers of a target's position and rotation vector that it was given."""
    on = [given.positions[target] is not None, given.orientations_xyzw[target] is not None]
    return np.flatnonzero(np.repeat(on, 3))


def _sorted(
    rows: HostRows, data: Sequence[Data], joint_q: Float64Array, islands: AnswerIslands
) -> tuple[_Answers, NDArray[np.bool_]]:
    """Sort rows into those that are met and those that cost, island by island.

    Targets are met unless rows of priority 0 weigh against them there. Where they are not, and others yield to them,
    there are two costs of which one comes first.

    Returns:
        The answers, and where that is so, shape [n].
    """
    values = rows.values(body_motion(rows.robot, joint_q), data)
    on = (rows.weights(data, len(joint_q)) > 0.0) & (islands.row >= 0)
    acts = (values.rows != 0.0) | values.jacobian.any(axis=2)  # limits do not while they are kept
    against, is_target = on & acts & (rows.kind == RowKind.SOFT) & ~rows.yields, on & (rows.kind == RowKind.TARGET)
    is_hard, is_mixed = on & (rows.kind == RowKind.CONSTRAINT), np.zeros(len(joint_q), dtype=bool)
    for island in range(int(islands.number.max(initial=0))):
        own = islands.row == island
        holds = islands.success[:, island] & ~(against & own).any(axis=1)
        is_hard |= is_target & own & holds[:, None]
        has_target, yields = (is_target & own).any(axis=1), (on & rows.yields & own).any(axis=1)
        is_mixed |= has_target & ~holds & yields
    return _Answers(rows, joint_q, data, is_hard, on & ~is_hard, np.zeros(on.shape)), is_mixed


class _Held(NamedTuple):
    """What holds the active DOFs of answers, shape [n, active DOFs] each.

    Attributes:
        state: `DofState`.
        is_pressed: Whether a DOF would leave through the limit that holds it.
        way: How far it is from that limit [m or rad], 0 for others.
    """

    state: NDArray[np.int8]
    is_pressed: NDArray[np.bool_]
    way: Float64Array


def _at_minimum(answers: _Answers, islands: AnswerIslands) -> tuple[_Answers, _Held, NDArray[np.bool_]]:
    """Go from answers to their minima by Newton's method.

    Returns:
        The answers there, what holds their DOFs, and whether each has settled.
    """
    rows, robot = answers.rows, answers.rows.robot
    n = len(answers.joint_q)
    last, alive = np.full(n, np.inf), np.ones(n, dtype=bool)
    for _ in range(NEWTON_STEPS):
        values = rows.values(body_motion(robot, answers.joint_q), answers.data)
        answers, held = _with_limits(answers, values)
        slope, curvature, step = answers.slope(values), answers.curvature(), held.way.copy()
        for p in np.flatnonzero(alive & (last > NEWTON_SETTLED)).tolist():
            last[p], free = np.abs(held.way[p]).max(initial=0.0), held.state[p] == DofState.FREE
            for hard, dofs in islands.of(p, answers.is_hard[p], rows.dof_tree):
                minimum = Minimum(values.jacobian[p][np.ix_(hard, dofs)], curvature[p][np.ix_(dofs, dofs)], free[dofs])
                shift = minimum.shift(values.rows[p, hard, None], slope[p, dofs, None])
                step[p, dofs] += shift.change[:, 0]
                last[p] = max(last[p], np.abs(shift.change).max(initial=0.0) if shift.is_least else np.inf)
        alive &= last <= NEWTON_LONGEST
        step[~alive] = 0.0
        answers = replace(answers, joint_q=rows.moved(answers.joint_q, step))
        if not (alive & (last > NEWTON_SETTLED)).any():
            break
    # Once more for all: those that settled first have gone on in a batch, and alone they have not.
    answers, held = _with_limits(answers, rows.values(body_motion(robot, answers.joint_q), answers.data))
    return answers, held, alive & (last <= NEWTON_SETTLED)


def _with_limits(answers: _Answers, values: RowValues) -> tuple[_Answers, _Held]:
    """Find what holds each active DOF, and the multipliers of the hard rows."""
    gradient = answers.gradient(values)
    at_lower, at_upper, way = answers.rows.beside_limits(answers.joint_q)
    counted = (answers.is_hard | answers.is_soft)[..., None] & (values.jacobian != 0.0)
    touched = counted.any(axis=1)
    found = np.zeros(answers.is_hard.shape)
    for p in np.flatnonzero(answers.is_soft.any(axis=1)).tolist():  # without cost they are zero
        hard, free = answers.is_hard[p], touched[p] & ~(at_lower[p] | at_upper[p])
        found[p, hard] = least_change(values.jacobian[p, hard][:, free].T[None], gradient[p, free][None])[0]
    answers = replace(answers, multipliers=found)
    slope, least = answers.slope(values), PRESSED * np.abs(gradient).max(axis=1, initial=0.0)[:, None]
    leaves = np.where(at_lower, slope < -least, slope > least)
    held = (at_lower | at_upper) & (~leaves | (at_lower & at_upper))
    state = np.where(held, np.where(at_lower, DofState.AT_LOWER, DofState.AT_UPPER), DofState.FREE)
    state = np.where(touched, state, DofState.FIXED).astype(np.int8)
    return answers, _Held(state, held & (np.abs(slope) > least), np.where(held & touched, way, 0.0))


def _tiled(array: NDArray[Any], times: int) -> NDArray[Any]:
    return np.tile(array, (times, *[1] * (array.ndim - 1)))
