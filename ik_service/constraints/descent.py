"""Closing loops by damped Gauss-Newton steps within joint limits, and the nearest velocities that keep loops closed."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.constraints.linear_algebra import BoolArray, applied, by_active, least_change
from ik_service.constraints.residual_rows import BoundedRows
from ik_service.kinematics.host_tangent import integrate
from ik_service.mechanism.coupling import complete_joint_q
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import Float64Array

CLOSED = 1e-10  # largest row of a closed loop [m and rad]
ENOUGH = 1e-13  # largest row at which the descent ends [m and rad], near rounding
DESCENT_ITERATIONS = 100
MAX_HOLDS = 4
"""Largest number of recomputed steps per iteration; each holds the DOFs pushed against their limits (active set)."""
STALLED_SHARE = 1e-9  # smallest relative decrease of the sum of squares; a smaller decrease ends the descent
FACTOR_START, FACTOR_UP, FACTOR_DOWN, FACTOR_MIN, FACTOR_MAX = 1e-2, 6.0, 0.2, 1e-6, 1e6
"""Damping factor: damping = factor * sum of squared rows, so damping vanishes as loops close."""
DAMPING_FLOOR = 1e-14
"""Smallest damping relative to the rows' squares: keeps dependent rows solvable without losing digits."""


class Descent(NamedTuple):
    """Result of a descent."""

    joint_q: Float64Array  # final configurations, shape [n, joint_coord_count]
    rows: Float64Array  # rows at `joint_q`, shape [n, rows]
    held: BoolArray  # whether a limit held a free DOF at the end, or a closing joint is beyond its limit, shape [n]
    iterations: NDArray[np.int32]  # steps tried, shape [n]


class ClosingProblem:
    """Rows of the loops, and the mask of free active DOFs, shape [active_dof_count], of a closing problem."""

    def __init__(self, rows: BoundedRows, free: BoolArray) -> None:
        robot = rows.robot
        self._rows, self._robot, self._free = rows, robot, free
        self._is_scalar = free & (robot.dof_coordinate[robot.active_dof] >= 0)
        self._scalar = np.flatnonzero(self._is_scalar)
        self._coordinate = robot.dof_coordinate[robot.active_dof[self._scalar]]
        self._lower, self._upper = robot.active_limit_lower, robot.active_limit_upper

    def clamped(self, joint_q: Float64Array) -> Float64Array:
        """Copy configurations, clamp free coordinates into their limits, and set followers."""
        inside = joint_q.copy()
        limits = self._lower[self._scalar], self._upper[self._scalar]
        inside[:, self._coordinate] = np.clip(inside[:, self._coordinate], *limits)
        return complete_joint_q(self._robot, inside)

    def linearised(self, joint_q: Float64Array, on: BoolArray) -> tuple[Float64Array, Float64Array]:
        """Give enabled rows (others 0) and their derivatives by free active DOFs."""
        values, jacobian = self._rows.values(joint_q)
        return values * on, by_active(self._robot, jacobian) * self._free * on[..., np.newaxis]

    def beyond(self, rows: Float64Array) -> BoolArray:
        """Give a mask of configurations with a closing joint beyond its limits, from the enabled rows, shape [n]."""
        limits = rows[:, rows.shape[1] - len(self._rows.constraint) :]
        return np.asarray((np.abs(limits) > CLOSED).any(axis=1))

    def stepped(self, joint_q: Float64Array, change: Float64Array) -> Float64Array:
        """Move configurations by changes of active DOFs; frozen coordinates stay exactly equal."""
        robot = self._robot
        dq = np.pad(change, ((0, 0), (0, 1)))[:, robot.dof_active] * robot.dof_multiplier  # index -1: locked DOF, 0
        moved = self.clamped(integrate(robot, joint_q, dq))
        return restored(robot, moved, joint_q, self._free)

    def bounded_step(
        self, joint_q: Float64Array, rows: Float64Array, jacobian: Float64Array, damping: Float64Array
    ) -> tuple[Float64Array, BoolArray]:
        """Give the damped step within limits, and the mask of DOFs held by limits, shape [n, active] each."""
        place = np.zeros((len(joint_q), len(self._free)))
        place[:, self._scalar] = joint_q[:, self._coordinate]
        scalar, held = self._is_scalar, np.zeros(place.shape, dtype=bool)
        change = np.zeros(place.shape)
        for _ in range(MAX_HOLDS):
            change = damped_step(jacobian * ~held[:, np.newaxis], rows, damping)
            pushed = scalar & (((place <= self._lower) & (change < 0.0)) | ((place >= self._upper) & (change > 0.0)))
            if not pushed.any():
                break
            held |= pushed
        bounded = np.clip(place + change, self._lower, self._upper) - place
        return np.where(held, 0.0, np.where(scalar, bounded, change)), held


def restored(robot: KinematicRobot, joint_q: Float64Array, start: Float64Array, free: BoolArray) -> Float64Array:
    """Restore quaternions of joints without free DOFs, in place: integration has rounded these quaternions."""
    moved = np.append(free, False)[robot.dof_active]
    for joint, first in robot.quaternion_starts.items():
        if not moved[robot.joint_qd_start[joint + 1] - 3 : robot.joint_qd_start[joint + 1]].any():
            joint_q[:, first : first + 4] = start[:, first : first + 4]
    return joint_q


def damped_step(jacobian: Float64Array, rows: Float64Array, damping: Float64Array) -> Float64Array:
    """Give -J' (J J' + damping)^-1 rows, shape [n, active]."""
    normal = jacobian @ np.swapaxes(jacobian, 1, 2)
    floor = DAMPING_FLOOR * np.trace(normal, axis1=1, axis2=2) + np.finfo(float).tiny
    normal += (damping + floor)[:, np.newaxis, np.newaxis] * np.eye(normal.shape[1])
    forces = np.linalg.solve(normal, rows[..., np.newaxis])
    return np.asarray(-(np.swapaxes(jacobian, 1, 2) @ forces)[..., 0])


def close_from(problem: ClosingProblem, start: Float64Array, on: BoolArray) -> Descent:
    """Descend from configurations until the enabled rows, `on` [n, rows], are met or stop to decrease."""
    joint_q = problem.clamped(start)
    rows, jacobian = problem.linearised(joint_q, on)
    n = len(joint_q)
    factor, held = np.full(n, FACTOR_START), np.zeros(n, dtype=bool)
    iterations = np.zeros(n, dtype=np.int32)
    running = np.abs(rows).max(axis=1, initial=0.0) > ENOUGH
    while running.any() and iterations.max() < DESCENT_ITERATIONS:
        k = np.flatnonzero(running)
        squares = (rows[k] ** 2).sum(axis=1)
        change, stopped = problem.bounded_step(joint_q[k], rows[k], jacobian[k], factor[k] * squares)
        trial = problem.stepped(joint_q[k], change)
        trial_rows, trial_jacobian = problem.linearised(trial, on[k])
        trial_squares = (trial_rows**2).sum(axis=1)
        better = trial_squares < squares
        kept = k[better]
        joint_q[kept], rows[kept], jacobian[kept] = trial[better], trial_rows[better], trial_jacobian[better]
        held[k] = stopped.any(axis=1)
        factor[k] = np.maximum(factor[k] * np.where(better, FACTOR_DOWN, FACTOR_UP), FACTOR_MIN)
        iterations[k] += 1
        near = np.abs(rows[k]).max(axis=1) <= ENOUGH
        exact = (np.abs(rows[k]).max(axis=1) <= CLOSED) & ~better  # only rounding is left
        stalled = (factor[k] > FACTOR_MAX) | (better & (trial_squares > (1.0 - STALLED_SHARE) * squares))
        running[k] = ~(near | exact | stalled)
    return Descent(joint_q, rows, held | problem.beyond(rows), iterations)


def nearest_rates(
    robot: KinematicRobot,  # the robot; followers move with their leaders, locked joints not at all
    jacobian: Float64Array,  # derivatives of the rows by all DOFs, shape [n, rows, joint_dof_count]
    drift: Float64Array,  # rates of the rows at zero rates of DOFs, shape [n, rows]
    wanted: Float64Array,  # wanted rates, shape [n, joint_dof_count]
    free: BoolArray,  # mask of active DOFs whose rates may differ from `wanted`, shape [active_dof_count]
    on: BoolArray,  # mask of enabled rows, shape [n, rows]
) -> tuple[Float64Array, Float64Array]:
    """Find the nearest rates of all DOFs that hold the enabled rows; give rates and remaining rates of all rows."""
    columns = by_active(robot, jacobian)
    rates = wanted[:, robot.active_dof].copy()
    rest = applied(columns, rates) + drift
    rates[:, free] += least_change(columns * free * on[..., np.newaxis], rest * on)[:, free]
    moved = np.pad(rates, ((0, 0), (0, 1)))[:, robot.dof_active] * robot.dof_multiplier
    return moved, applied(columns, rates) + drift
