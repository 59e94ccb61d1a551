"""From the rows of a solver and its answers to derivatives by the targets.

targets, answers -> rows that are met, rows that cost -> limits that hold -> Newton to the minimum -> derivatives

First derivatives of rows are exact; those of the gradient, and those by targets, are central differences of fourth
order, of all problems at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

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
from ik_service.solver.problems.rows.binding import is_secondary
from ik_service.solver.problems.rows.blocks import Rows
from ik_service.solver.problems.rows.kinds import RowKind
from objectives.expression_objective import ExpressionObjective
from objectives.statement.rows import ROW_WEIGHTS
from objectives.tasks.frame_objective import OFFSET
from objectives.tasks.pose import ORIENTATION, POSITION

STEP = 1e-3
"""Of differences [m or rad]."""
AT_LIMIT = 1e-6
"""Distance from a limit at which a DOF counts as at it [m or rad]: float32 answers are no nearer."""
PRESSED = 1e-6
"""Share of the largest gradient from which on a limit holds a DOF that would leave it otherwise."""
NEWTON_STEPS = 6
NEWTON_LONGEST, NEWTON_SETTLED = 0.5, 1e-9
"""Steps of Newton's method from an answer to its minimum: the longest of an answer at one, and where it is reached."""


class HostRows:
    """The rows of a solver on the host.

    Args:
        robot: The robot.
        rows: Its rows on the device.

    Raises:
        EngineError: An objective does not state its rows.
    """

    def __init__(self, robot: RobotModel, rows: Rows) -> None:
        self.robot, self.columns = robot, active_columns(robot)
        self._objectives = list[ExpressionObjective]()
        self._blocks = list[HostBlock]()
        for objective, size in zip(rows.objectives, rows.sizes, strict=True):
            if not isinstance(objective, ExpressionObjective):
                raise EngineError(f"{type(objective).__name__} does not state its rows: answers have no derivatives.")
            self._objectives.append(objective)
            self._blocks.append(HostBlock(tuple(objective.element_tables(rows.model)), size, objective.weight))
        sizes = rows.sizes
        self.kind = np.repeat(np.array(rows.kinds, np.int32), sizes)
        self.yields = np.repeat([is_secondary(objective) for objective in self._objectives], sizes)

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
    data: list[Data]
    is_hard: NDArray[np.bool_]
    is_soft: NDArray[np.bool_]
    multipliers: Float64Array

    def gradient(self, values: RowValues) -> Float64Array:
        """Give the gradient of the cost, shape [n, active DOFs]."""
        return _applied(values.jacobian, np.where(self.is_soft, values.rows, 0.0))

    def slope(self, values: RowValues) -> Float64Array:
        """Give the gradient of the Lagrangian, shape [n, active DOFs]."""
        return _applied(values.jacobian, np.where(self.is_soft, values.rows, self.multipliers))

    def curvature(self) -> Float64Array:
        """Give the second derivatives of the Lagrangian, shape [n, active DOFs, active DOFs]; 0 without soft rows."""
        robot, count = self.rows.robot, self.rows.robot.active_dof_count
        found = np.zeros((len(self.joint_q), count, count))
        for dof in range(count if self.is_soft.any() else 0):

            def moved(by: float, dof: int = dof) -> Float64Array:
                joint_q = robot.integrate(self.joint_q, by * self.rows.columns[:, dof])
                return self.slope(self.rows.values(body_motion(robot, joint_q), self.data))

            found[:, :, dof] = _central(moved)
        return found

    def by_target(self, target: int, axis: int, motion: BodyMotion) -> tuple[Float64Array, Float64Array]:
        """Give how rows and the gradient of the Lagrangian change with a target, [n, rows] and [n, active DOFs]."""
        count = self.is_hard.shape[1]

        def changed(by: float) -> Float64Array:
            own = dict(self.data[target])
            if axis < 3:
                own[POSITION] = own[POSITION] + by * np.eye(3)[axis]
            else:
                own[ORIENTATION] = quaternion_multiply(quaternion_exp(by * np.eye(3)[axis - 3]), own[ORIENTATION])
            values = self.rows.values(motion, [*self.data[:target], own, *self.data[target + 1 :]])
            return np.concatenate([values.rows, self.slope(values)], axis=1)

        found = _central(changed)
        return found[:, :count], found[:, count:]


def linearise(
    rows: HostRows,
    targets: Sequence[Target],
    given: TargetArrays,
    joint_q: NDArray[np.floating],
    is_met: NDArray[np.bool_],
) -> Linearisation:
    """Give the derivatives of answers by their targets.

    Args:
        rows: The rows of the solver.
        targets: Its targets.
        given: Their values.
        joint_q: The answers, shape [n, joint_coord_count].
        is_met: Whether an answer meets its targets and constraints, shape [n].
    """
    robot, n = rows.robot, given.problem_count
    answers = _sorted(rows, rows.data(targets, given), joint_q.astype(np.float64), is_met)
    answers, state, pressed, settled = _at_minimum(answers)
    is_differentiable = settled & (is_met | ~(rows.yields & (answers.is_soft | answers.is_hard)).any(axis=1))
    motion = body_motion(robot, answers.joint_q)
    values, curvature = rows.values(motion, answers.data), answers.curvature()
    numbers = [(k, axis) for k in range(len(targets)) for axis in range(TWIST) if _is_given(given, k, axis)]
    changes = [answers.by_target(k, axis, motion) for k, axis in numbers]
    found = np.zeros((n, robot.active_dof_count, len(targets) * TWIST))
    rank, places = np.zeros(n, np.int32), [TWIST * k + axis for k, axis in numbers]
    for p in np.flatnonzero(is_differentiable):
        hard = answers.is_hard[p]
        minimum = Minimum(values.jacobian[p, hard], curvature[p], state[p] == DofState.FREE)
        by_rows = np.stack([own[p, hard] for own, _ in changes], axis=1)
        by_slope = np.stack([own[p] for _, own in changes], axis=1)
        followed = minimum.following(by_rows, by_slope)
        found[p][:, places], rank[p] = followed.change, followed.rank
    by_targets = (rows.columns @ found).reshape(n, robot.joint_dof_count, len(targets), TWIST)
    of_dofs = np.full((n, robot.joint_dof_count), DofState.FIXED, np.int8)
    of_dofs[:, robot.active_dof] = state
    one_sided = np.zeros((n, robot.joint_dof_count), dtype=bool)
    one_sided[:, robot.active_dof] = ~pressed & ((state == DofState.AT_LOWER) | (state == DofState.AT_UPPER))
    return Linearisation(answers.joint_q, by_targets, is_differentiable, of_dofs, one_sided, rank)


def _is_given(given: TargetArrays, target: int, axis: int) -> bool:
    return (given.positions if axis < 3 else given.orientations_xyzw)[target] is not None


def _sorted(rows: HostRows, data: list[Data], joint_q: Float64Array, is_met: NDArray[np.bool_]) -> _Answers:
    """Sort rows into those that are met and those that cost: targets are met unless other rows weigh against them."""
    on = rows.weights(data, len(joint_q)) > 0.0
    against = (on & (rows.kind == RowKind.SOFT) & ~rows.yields).any(axis=1)
    targets_hold = (is_met & ~against)[:, None]
    is_hard = on & ((rows.kind == RowKind.CONSTRAINT) | ((rows.kind == RowKind.TARGET) & targets_hold))
    return _Answers(rows, joint_q, data, is_hard, on & ~is_hard, np.zeros(on.shape))


def _at_minimum(
    answers: _Answers,
) -> tuple[_Answers, NDArray[np.int8], NDArray[np.bool_], NDArray[np.bool_]]:
    """Go from answers to their minima by Newton's method.

    Returns:
        The answers there, `DofState` of each active DOF, which of them a limit presses, and whether each has settled.
    """
    rows, robot = answers.rows, answers.rows.robot
    n = len(answers.joint_q)
    last, alive = np.full(n, np.inf), np.ones(n, dtype=bool)
    for _ in range(NEWTON_STEPS):
        values = rows.values(body_motion(robot, answers.joint_q), answers.data)
        answers, state, pressed = _with_limits(answers, values)
        slope, curvature = answers.slope(values), answers.curvature()
        step = np.zeros((n, robot.active_dof_count))
        for p in np.flatnonzero(alive & (last > NEWTON_SETTLED)):
            hard = answers.is_hard[p]
            minimum = Minimum(values.jacobian[p, hard], curvature[p], state[p] == DofState.FREE)
            followed = minimum.following(values.rows[p, hard, None], slope[p, :, None])
            step[p] = followed.change[:, 0]
            last[p] = np.abs(step[p]).max(initial=0.0) if followed.is_least else np.inf
        alive &= last <= NEWTON_LONGEST
        step[~alive] = 0.0
        answers = replace(answers, joint_q=robot.integrate(answers.joint_q, step @ rows.columns.T))
        if not (alive & (last > NEWTON_SETTLED)).any():
            break
    return answers, state, pressed, alive & (last <= NEWTON_SETTLED)


def _with_limits(answers: _Answers, values: RowValues) -> tuple[_Answers, NDArray[np.int8], NDArray[np.bool_]]:
    """Find what holds each active DOF, whether a limit presses it, and the multipliers of the hard rows."""
    robot, gradient = answers.rows.robot, answers.gradient(values)
    coordinate = robot.dof_coordinate[robot.active_dof]
    place = np.where(coordinate >= 0, answers.joint_q[:, np.maximum(coordinate, 0)], np.nan)
    at_lower = place <= robot.active_limit_lower + AT_LIMIT
    at_upper = place >= robot.active_limit_upper - AT_LIMIT
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
    return answers, state, held & (np.abs(slope) > least)


def _applied(jacobian: Float64Array, rows: Float64Array) -> Float64Array:
    found: Float64Array = np.einsum("nrd,nr->nd", jacobian, rows)
    return found


def _central(function: Callable[[float], Float64Array]) -> Float64Array:
    """Give the derivative of a function of one number at 0."""
    near, far = function(STEP) - function(-STEP), function(2.0 * STEP) - function(-2.0 * STEP)
    found: Float64Array = (8.0 * near - far) / (12.0 * STEP)
    return found
