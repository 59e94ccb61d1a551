"""From the rows of a solver and its answers to derivatives by the targets.

targets, answers -> rows that are met, rows that cost -> limits that hold -> Newton to the minimum -> derivatives

First derivatives of rows are exact; those of the gradient, and those by targets, are central differences of fourth
order, of all problems at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.errors import EngineError
from ik_service.robots import RobotModel
from ik_service.robots.host_kinematics.tangent import BodyMotion, body_motion
from ik_service.robots.transforms import Float64Array, quaternion_exp, quaternion_multiply
from ik_service.solver.inputs.target_arrays import TargetArrays
from ik_service.solver.inputs.targets import Target
from ik_service.solver.linearisation.host_rows import Data, HostBlock, RowValues, active_columns, host_values
from ik_service.solver.linearisation.linearisation import TWIST, DofState, Linearisation
from ik_service.solver.linearisation.minimum import Minimum, multipliers
from ik_service.solver.problems.rows.blocks import Rows
from ik_service.solver.problems.rows.kinds import RowKind
from objectives.expression_objective import ExpressionObjective
from objectives.statement.rows import ROW_WEIGHTS
from objectives.tasks.frame_objective import OFFSET
from objectives.tasks.pose import ORIENTATION, POSITION

STEPS = 1e-3 * np.array([1.0, -1.0, 2.0, -2.0])
SHARES = np.array([8.0, -8.0, -1.0, 1.0]) / 12e-3
"""Of differences [m or rad], and how much each counts."""
LINES_AT_ONCE = 4096
"""Configurations that are evaluated together, where there are not as many answers."""
AT_LIMIT = 1e-6
"""Distance from a limit at which a DOF counts as at it [m or rad]: float32 answers are no nearer."""
PRESSED = 1e-6
"""Share of the largest gradient from which on a limit holds a DOF that would leave it otherwise."""
NEWTON_STEPS = 10
NEWTON_LONGEST, NEWTON_SETTLED = 0.5, 1e-9
"""Steps of Newton's method from an answer to its minimum: the longest of an answer at one, and where it is reached."""


class HostRows:
    """The rows of a solver on the host.

    Args:
        robot: The robot.
        rows: Its rows on the device.
        hard_limits: Whether answers keep the limits of joints.

    Raises:
        EngineError: An objective does not state its rows.
    """

    def __init__(self, robot: RobotModel, rows: Rows, *, hard_limits: bool) -> None:
        self.robot, self.columns, self.hard_limits = robot, active_columns(robot), hard_limits
        self._objectives = list[ExpressionObjective]()
        self._blocks = list[HostBlock]()
        for objective, size in zip(rows.objectives, rows.sizes, strict=True):
            if not isinstance(objective, ExpressionObjective):
                raise EngineError(f"{type(objective).__name__} does not state its rows: answers have no derivatives.")
            self._objectives.append(objective)
            self._blocks.append(HostBlock(tuple(objective.element_tables(rows.model)), size, objective.weight))
        sizes = rows.sizes
        self.kind = np.repeat(np.array(rows.kinds, np.int32), sizes)
        self.yields = np.repeat([k in rows.secondary for k in range(len(sizes))], sizes)
        self.dof_tree = self.robot.trees.active_treeid

    def data(self, targets: Sequence[Target], given: TargetArrays) -> list[Data]:
        """Give the numbers of all fields, those of targets as the caller has them, not rounded."""
        found = list[Data]()
        for k, objective in enumerate(self._objectives):
            own = {name: objective.data(name).numpy().astype(np.float64) for name in objective.data_rows()}
            if k < len(targets):
                own |= _of_target(targets[k], given.positions[k], given.orientations_xyzw[k], self.robot.length_unit)
            found.append({name: lines[: given.problem_count] for name, lines in own.items()})
        return found

    def weights(self, data: Sequence[Data], n: int) -> Float64Array:
        """Give the weights of all rows, shape [n, rows]."""
        return np.concatenate([np.broadcast_to(own[ROW_WEIGHTS], (n, own[ROW_WEIGHTS].shape[1])) for own in data], 1)

    def values(self, motion: BodyMotion, data: Sequence[Data]) -> RowValues:
        """Evaluate all rows."""
        return host_values(self.robot, self._blocks, motion, data)


def _of_target(
    target: Target, position: NDArray[np.floating] | None, orientation: NDArray[np.floating] | None, length_unit: float
) -> Data:
    """Give the numbers of a target's rows."""
    on = np.repeat([position is not None, orientation is not None], 3)
    found = {ROW_WEIGHTS: np.atleast_2d(target.weights_in_metres(length_unit)) * on}
    if position is not None:
        found[POSITION] = np.asarray(position, np.float64)
    if orientation is not None:
        unit = np.asarray(orientation, np.float64)
        found[ORIENTATION] = unit / np.linalg.norm(unit, axis=-1, keepdims=True)
    if target.offset is not None:
        found[OFFSET] = np.atleast_2d(np.asarray(target.offset, np.float64))
    return found


class AnswerIslands(NamedTuple):
    """AnswerIslands of problems.

    Attributes:
        number: How many each problem has, shape [n].
        tree: Island of each tree, -1 for none, shape [n, trees].
        row: Island of each row, -1 for none, shape [n, rows].
    """

    number: NDArray[np.integer]
    tree: NDArray[np.integer]
    row: NDArray[np.integer]

    def of(
        self, p: int, is_hard: NDArray[np.bool_], dof_tree: NDArray[np.integer]
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Give the hard rows and the active DOFs of each island of a problem.

        Args:
            p: The problem.
            is_hard: Which rows are hard, shape [rows].
            dof_tree: Tree of each active DOF.
        """
        for island in range(int(self.number[p])):
            yield np.flatnonzero(is_hard & (self.row[p] == island)), np.flatnonzero(self.tree[p, dof_tree] == island)


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
        return _applied(values.jacobian, np.where(self.is_soft, values.rows, 0.0))

    def slope(self, values: RowValues) -> Float64Array:
        """Give the gradient of the Lagrangian, shape [n, active DOFs]."""
        return _applied(values.jacobian, np.where(self.is_soft, values.rows, self.multipliers))

    def repeated(self, times: int) -> "_Answers":
        """Give the answers so many times, one after the other."""
        data = [
            {name: _tiled(lines, times) if len(lines) > 1 else lines for name, lines in own.items()}
            for own in self.data
        ]
        soft, pulls, joint_q = (_tiled(one, times) for one in (self.is_soft, self.multipliers, self.joint_q))
        return replace(self, joint_q=joint_q, data=data, is_soft=soft, multipliers=pulls)

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

    def by_target(self, target: int, axes: NDArray[np.intp], motion: BodyMotion) -> Float64Array:
        """Give how rows, and after them the gradient of the Lagrangian, change with a target.

        Args:
            target: The target.
            axes: Three of its position, then three of its rotation vector.
            motion: Poses in the answers.

        Returns:
            Shape [n, rows + active DOFs, axes].
        """
        times, n = len(axes) * len(STEPS), len(self.joint_q)
        many = self.repeated(times)
        own = dict(many.data[target])
        moves = np.repeat((np.eye(TWIST)[axes, None] * STEPS[:, None]).reshape(times, TWIST), n, axis=0)
        own[POSITION] = own[POSITION] + moves[:, :3]
        own[ORIENTATION] = quaternion_multiply(quaternion_exp(moves[:, 3:]), _lines(own[ORIENTATION], len(moves)))
        still = BodyMotion(*(_tiled(one, times) for one in motion))
        values = self.rows.values(still, [*many.data[:target], own, *many.data[target + 1 :]])
        changed = np.concatenate([values.rows, many.slope(values)], axis=1)
        return np.asarray(np.einsum("s,asnk->nka", SHARES, changed.reshape(len(axes), len(STEPS), n, -1)))


def linearise(
    rows: HostRows,
    targets: Sequence[Target],
    given: TargetArrays,
    joint_q: NDArray[np.floating],
    is_met: NDArray[np.bool_],
    islands: AnswerIslands,
) -> Linearisation:
    """Give the derivatives of answers by their targets.

    Args:
        rows: The rows of the solver.
        targets: Its targets.
        given: Their values.
        joint_q: The answers, shape [n, joint_coord_count].
        is_met: Whether an answer meets its targets and constraints, shape [n].
        islands: AnswerIslands of the problems.
    """
    robot, n = rows.robot, given.problem_count
    answers = _sorted(rows, rows.data(targets, given), joint_q.astype(np.float64), is_met)
    answers, held, settled = _at_minimum(answers, islands)
    is_differentiable = settled & (is_met | ~(rows.yields & (answers.is_soft | answers.is_hard)).any(axis=1))
    motion = body_motion(robot, answers.joint_q)
    values, curvature = rows.values(motion, answers.data), answers.curvature()
    given_axes = [_axes(given, k) for k in range(len(targets))]
    changes = np.concatenate([answers.by_target(k, axes, motion) for k, axes in enumerate(given_axes)], axis=-1)
    by_rows, by_slope = np.split(changes, [values.rows.shape[1]], axis=1)
    found = np.zeros((n, robot.active_dof_count, len(targets) * TWIST))
    rank, places = np.zeros(n, np.int32), np.concatenate([TWIST * k + axes for k, axes in enumerate(given_axes)])
    for p in np.flatnonzero(is_differentiable).tolist():
        free = held.state[p] == DofState.FREE
        for hard, dofs in islands.of(p, answers.is_hard[p], rows.dof_tree):
            minimum = Minimum(values.jacobian[p][np.ix_(hard, dofs)], curvature[p][np.ix_(dofs, dofs)], free[dofs])
            followed = minimum.shift(by_rows[p, hard], by_slope[p, dofs])
            found[p][np.ix_(dofs, places)] = followed.change
            rank[p] += followed.rank
    by_targets = (rows.columns @ found).reshape(n, robot.joint_dof_count, len(targets), TWIST)
    of_dofs = np.full((n, robot.joint_dof_count), DofState.FIXED, np.int8)
    of_dofs[:, robot.active_dof] = held.state
    one_sided = (of_dofs == DofState.AT_LOWER) | (of_dofs == DofState.AT_UPPER)
    one_sided[:, robot.active_dof] &= ~held.is_pressed
    return Linearisation(answers.joint_q, by_targets, is_differentiable, of_dofs, one_sided, rank)


def _axes(given: TargetArrays, target: int) -> NDArray[np.intp]:
    """Give the numbers of a target's position and rotation vector that it was given."""
    on = [given.positions[target] is not None, given.orientations_xyzw[target] is not None]
    return np.flatnonzero(np.repeat(on, 3))


def _sorted(rows: HostRows, data: Sequence[Data], joint_q: Float64Array, is_met: NDArray[np.bool_]) -> _Answers:
    """Sort rows into those that are met and those that cost: targets are met unless other rows weigh against them."""
    on = rows.weights(data, len(joint_q)) > 0.0
    against = (on & (rows.kind == RowKind.SOFT) & ~rows.yields).any(axis=1)
    targets_hold = (is_met & ~against)[:, None]
    is_hard = on & ((rows.kind == RowKind.CONSTRAINT) | ((rows.kind == RowKind.TARGET) & targets_hold))
    return _Answers(rows, joint_q, data, is_hard, on & ~is_hard, np.zeros(on.shape))


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
        joint_q = robot.integrate(answers.joint_q, step @ rows.columns.T)
        answers = replace(answers, joint_q=robot.clamp_joint_q(joint_q) if rows.hard_limits else joint_q)
        if not (alive & (last > NEWTON_SETTLED)).any():
            break
    return answers, held, alive & (last <= NEWTON_SETTLED)


def _with_limits(answers: _Answers, values: RowValues) -> tuple[_Answers, _Held]:
    """Find what holds each active DOF, and the multipliers of the hard rows."""
    robot, gradient = answers.rows.robot, answers.gradient(values)
    coordinate = robot.dof_coordinate[robot.active_dof]
    place = np.where(coordinate >= 0, answers.joint_q[:, np.maximum(coordinate, 0)], np.nan)
    lower, upper = robot.active_limit_lower, robot.active_limit_upper
    at_lower = (place <= lower + AT_LIMIT) & answers.rows.hard_limits
    at_upper = (place >= upper - AT_LIMIT) & answers.rows.hard_limits
    counted = (answers.is_hard | answers.is_soft)[..., None] & (values.jacobian != 0.0)
    touched = counted.any(axis=1)
    found = np.zeros(answers.is_hard.shape)
    for p in np.flatnonzero(answers.is_soft.any(axis=1)):  # without cost they are zero
        hard, free = answers.is_hard[p], touched[p] & ~(at_lower[p] | at_upper[p])
        found[p, hard] = multipliers(values.jacobian[p, hard], gradient[p], free)
    answers = replace(answers, multipliers=found)
    slope, least = answers.slope(values), PRESSED * np.abs(gradient).max(axis=1, initial=0.0)[:, None]
    leaves = np.where(at_lower, slope < -least, slope > least)
    held = (at_lower | at_upper) & ~leaves
    state = np.where(held, np.where(at_lower, DofState.AT_LOWER, DofState.AT_UPPER), DofState.FREE)
    state = np.where(touched, state, DofState.FIXED).astype(np.int8)
    way = np.where(held & touched, np.where(at_lower, lower, upper) - place, 0.0)
    return answers, _Held(state, held & (np.abs(slope) > least), way)


def _applied(jacobian: Float64Array, rows: Float64Array) -> Float64Array:
    found: Float64Array = np.einsum("nrd,nr->nd", jacobian, rows)
    return found


def _tiled(array: NDArray[Any], times: int) -> NDArray[Any]:
    return np.tile(array, (times, *[1] * (array.ndim - 1)))


def _lines(array: Float64Array, count: int) -> Float64Array:
    return np.broadcast_to(array, (count, array.shape[1]))
