"""The constraints of a robot and their kinematics without targets: `robot.constraints`."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from ik_service.constraints import closing, sweep
from ik_service.constraints.constraint_list import ConstraintList
from ik_service.constraints.descent import CLOSED, nearest_rates, restored
from ik_service.constraints.linear_algebra import BoolArray, applied, free_dofs
from ik_service.constraints.partition import partitioned
from ik_service.constraints.residual_rows import BoundedRows, ResidualRows
from ik_service.constraints.results import (
    Closure,
    ClosureStatus,
    DofPartition,
    FeasibleAcceleration,
    FeasibleVelocity,
    SweptPath,
)
from ik_service.kinematics.host_tangent import BodyMotion, body_motion, integrate
from ik_service.mechanism.configuration import checked_joint_q, checked_tangent
from ik_service.mechanism.coupling import complete_joint_q
from ik_service.mechanism.transforms import Float64Array
from ik_service.mechanism.velocities import VelocityConstraint
from objectives.errors import InputError


class ConstraintSet(ConstraintList):
    """Constraints that close loops of a robot: immutable, in float64 on the host, over many configurations at once.

    Configurations are [joint_coord_count] (then n = 1) or [n, joint_coord_count], rates alike. Rows stand in two
    packings. *Error packing*: six rows per loop, the position [m] and rotation vector [rad] of its frame in the frame
    where its closing joint ends, over the DOFs of the tree and then of the closing joints; there, joint_q and rates may
    have columns for the closing joints too, which otherwise stand and move as comes nearest to closing. *Residual
    packing*: the rows of ``IKObjectiveLoop``, over the DOFs of the tree. Rows are there whether constraints are enabled
    or not; `enabled` says which are to be met, for all or each configuration, shape [constraints] or [n, constraints].

    All methods raise InputError for arrays of a wrong shape or that are not finite, and UnknownNameError for names that
    the robot does not have.
    """

    def __repr__(self) -> str:
        rows = f"{self.error_count} error rows, {self.residual_count} residual rows"
        return f"<ConstraintSet: {', '.join(self.names()) or 'none'}; {rows}>"

    # ------------------------------------------------------------------ error packing
    def with_closing_joints(self, joint_q: ArrayLike) -> Float64Array:
        """Add the coordinates of the closing joints, shape [n, joint_coord_count + closing coordinates]."""
        return self._error_rows.configurations(joint_q)[:, self._error_rows.coordinates]

    def integrate(self, joint_q: ArrayLike, dq: ArrayLike) -> Float64Array:
        """Move configurations with closing joints along tangents with closing joints; see ``RobotModel.integrate``."""
        rows = self._error_rows
        whole_q = rows.configurations(joint_q)
        dq = rows.velocities(whole_q, dq) @ rows.spread.T
        return integrate(rows.whole, whole_q, dq)[:, rows.coordinates]

    def error_frames(self, joint_q: ArrayLike) -> Float64Array:
        """Give the frames of loops and the ends of their closing joints in the world, shape [2, n, constraints, 7]."""
        return self._error_rows.frames.poses(self._motion(joint_q).T_world_body)

    def error(self, joint_q: ArrayLike) -> Float64Array:
        """Give how far frames are from where they close their loops, shape [n, error_count]."""
        return self._error_rows.error(self._motion(joint_q))

    def error_gradient(self, joint_q: ArrayLike) -> Float64Array:
        """Give the derivatives of `error` by all DOFs, shape [n, error_count, DOFs with those of closing joints]."""
        return self._error_rows.gradient(self._motion(joint_q))

    def jacobian(self, joint_q: ArrayLike) -> Float64Array:
        """Give the map of velocities to `error_velocity`, shape [n, error_count, DOFs with those of closing joints]."""
        return self._error_rows.jacobian(self._motion(joint_q))

    def jacobian_dot(self, joint_q: ArrayLike, joint_qd: ArrayLike) -> Float64Array:
        """Give the time derivative of `jacobian` along a motion, same shape."""
        whole_q, qd = self._moving(joint_q, joint_qd)
        return self._error_rows.jacobian_dot(body_motion(self._error_rows.whole, whole_q), qd)

    def error_velocity(self, joint_q: ArrayLike, joint_qd: ArrayLike) -> Float64Array:
        """Give the velocity and angular velocity of frames against the ends of closing joints, [n, error_count]."""
        whole_q, qd = self._moving(joint_q, joint_qd)
        return applied(self._error_rows.jacobian(body_motion(self._error_rows.whole, whole_q)), qd)

    def error_acceleration(self, joint_q: ArrayLike, joint_qd: ArrayLike, joint_qdd: ArrayLike) -> Float64Array:
        """Give the time derivative of `error_velocity`, shape [n, error_count]."""
        rows, (whole_q, qd) = self._error_rows, self._moving(joint_q, joint_qd)
        whole_q, qdd = _alike(whole_q, "joint_qdd", rows.accelerations(whole_q, qd, joint_qdd))
        motion = body_motion(rows.whole, whole_q)
        return applied(rows.jacobian(motion), qdd) + rows.drift(motion, np.broadcast_to(qd, qdd.shape))

    def _motion(self, joint_q: ArrayLike) -> BodyMotion:
        return body_motion(self._error_rows.whole, self._error_rows.configurations(joint_q))

    def _moving(self, joint_q: ArrayLike, joint_qd: ArrayLike) -> tuple[Float64Array, Float64Array]:
        whole_q = self._error_rows.configurations(joint_q)
        return _alike(whole_q, "joint_qd", self._error_rows.velocities(whole_q, joint_qd))

    # ------------------------------------------------------------------ residual packing
    @cached_property
    def _residual(self) -> ResidualRows:
        return ResidualRows.of(self.robot)

    @cached_property
    def _bounded(self) -> BoundedRows:
        return BoundedRows.of(self._residual)

    def residual(self, joint_q: ArrayLike) -> Float64Array:
        """Give the rows that joints of loops do not leave free, shape [n, residual_count]."""
        return self._residual.values_and_jacobian(checked_joint_q(self.robot, joint_q))[0]

    def residual_jacobian(self, joint_q: ArrayLike) -> Float64Array:
        """Give the derivatives of `residual` by the DOFs of the tree, shape [n, residual_count, joint_dof_count]."""
        return self._residual.values_and_jacobian(checked_joint_q(self.robot, joint_q))[1]

    @property
    def closing_row_count(self) -> int:
        """Number of rows that `close` works with: those of the residual packing, and of limits of closing joints."""
        return self.residual_count + len(self._bounded.constraint)

    # ------------------------------------------------------------------ solves
    def close(
        self,
        joint_q: ArrayLike,
        frozen: Sequence[str] = (),
        *,
        enabled: ArrayLike | None = None,
        solutions: int = 1,
        attempts: int = closing.ATTEMPTS,
        seed: int = 0,
    ) -> Closure:
        """Find configurations near to given ones that close all enabled loops within the joint limits.

        Steps go from the given configuration; where they do not close, from others, of which the one that ends nearest
        counts. With `solutions`, what drives the mechanism is then held, and other ways to assemble the rest are
        looked for.

        Args:
            joint_q: Where to start.
            frozen: Names of joints or DOFs that stay where they are, to the bit and also outside their limits.
            enabled: Constraints to be closed; None for all.
            solutions: Assembly modes wanted.
            attempts: Starts tried at most.
            seed: Of the random numbers for starts.

        Raises:
            InputError: `solutions` or `attempts` is below 1.
        """
        if min(solutions, attempts) < 1:
            raise InputError(f"solutions is {solutions} and attempts {attempts}. Allowed: 1 and above.")
        start = complete_joint_q(self.robot, joint_q)
        start, on = _alike(start, "enabled", self._bounded_on(enabled))
        free, rng = free_dofs(self.robot, frozen), np.random.default_rng(seed)
        found = closing.nearest_closed(self._bounded, start, free, on, attempts, rng)
        modes = number = None
        if solutions > 1:
            rng = np.random.default_rng([seed, 1])  # whatever has been drawn before
            modes, number = closing.assembly_modes(self._bounded, found, free, on, solutions, rng)
        given = np.broadcast_to(np.asarray(joint_q, np.float64), start.shape)
        closed_q = restored(self.robot, found.joint_q, given, free)
        residual = self.residual(closed_q)
        return Closure(
            joint_q=closed_q,
            closing_joint_q=self._closing_part(closed_q),
            status=closing.statuses(found),
            residual=residual,
            constraint_error=self._errors(closed_q, residual),
            iterations=found.iterations,
            solutions=modes,
            solution_count=number,
        )

    def velocity(
        self, joint_q: ArrayLike, joint_qd: ArrayLike, frozen: Sequence[str] = (), *, enabled: ArrayLike | None = None
    ) -> FeasibleVelocity:
        """Find the velocities nearest to given ones with which enabled loops stay as they are.

        Args:
            joint_q: Configurations, closed ones as a rule.
            joint_qd: Velocities wanted; followers and locked joints move as they do.
            frozen: Names of joints or DOFs that keep their velocities to the bit.
            enabled: Constraints that count; None for all.
        """
        q, qd = _alike(
            checked_joint_q(self.robot, joint_q), "joint_qd", checked_tangent(self.robot, joint_qd, "joint_qd")
        )
        q, on = _alike(q, "enabled", self._rows_on(enabled))
        jacobian = self.residual_jacobian(q)
        drift, free = np.zeros(jacobian.shape[:2]), free_dofs(self.robot, frozen)
        rates, rest = nearest_rates(self.robot, jacobian, drift, np.broadcast_to(qd, (len(q), qd.shape[1])), free, on)
        closing_qd = self._moving(q, rates)[1][:, self.robot.joint_dof_count :]
        return FeasibleVelocity(rates, closing_qd, rest, self._residual_map.largest(rest))

    def acceleration(
        self,
        joint_q: ArrayLike,
        joint_qd: ArrayLike,
        joint_qdd: ArrayLike,
        frozen: Sequence[str] = (),
        *,
        enabled: ArrayLike | None = None,
    ) -> FeasibleAcceleration:
        """Find the accelerations nearest to given ones with which the rates of enabled loops stay as they are.

        Args:
            joint_q: Configurations, closed ones as a rule.
            joint_qd: Velocities there, feasible ones as a rule.
            joint_qdd: Accelerations wanted; followers and locked joints move as they do.
            frozen: Names of joints or DOFs that keep their accelerations to the bit.
            enabled: Constraints that count; None for all.
        """
        q, qd = _alike(
            checked_joint_q(self.robot, joint_q), "joint_qd", checked_tangent(self.robot, joint_qd, "joint_qd")
        )
        q, qdd = _alike(q, "joint_qdd", checked_tangent(self.robot, joint_qdd, "joint_qdd"))
        q, on = _alike(q, "enabled", self._rows_on(enabled))
        qd, qdd = (np.broadcast_to(one, (len(q), one.shape[1])) for one in (qd, qdd))
        drift, free = self._residual.accelerations(q, qd), free_dofs(self.robot, frozen)
        rates, rest = nearest_rates(self.robot, self.residual_jacobian(q), drift, qdd, free, on)
        closing_qdd = self._error_rows.accelerations(*self._moving(q, qd), rates)[:, self.robot.joint_dof_count :]
        return FeasibleAcceleration(rates, closing_qdd, rest, self._residual_map.largest(rest))

    def partition(
        self, joint_q: ArrayLike, independent: Sequence[str] | None = None, *, enabled: ArrayLike | None = None
    ) -> DofPartition:
        """Divide the DOFs that may move into those that drive the mechanism and those that follow from them.

        Args:
            joint_q: Configurations, closed ones as a rule; the choice is made in the first.
            independent: Names of joints or DOFs to drive it by; None to choose.
            enabled: Constraints that count; None for all.

        Raises:
            InputError: The named ones are not as many as there are freedoms, or do not drive it; the message has the
                rank and the reason.
        """
        q, on = _alike(checked_joint_q(self.robot, joint_q), "enabled", self._rows_on(enabled))
        values, jacobian = self._residual.values_and_jacobian(q)
        return partitioned(self.robot, values, jacobian, on, self._residual_map, independent)

    def sweep(
        self,
        joint: str,
        bounds: tuple[float, float],
        step: float,
        *,
        component: str | None = None,
        joint_q: ArrayLike | None = None,
        frozen: Sequence[str] = (),
        enabled: ArrayLike | None = None,
        close: bool = True,
    ) -> SweptPath:
        """Move a coordinate from one value to another by steps and close the loops at each.

        Args:
            joint: Name of a joint of the tree, or of the part of a closing joint, such as ``pin`` or ``slot/z``.
            bounds: First and last value [m or rad].
            step: Step between values, above 0.
            component: Component of a joint that has several DOFs.
            joint_q: Where to start; None for the middle of the limits.
            frozen: Names of further joints or DOFs that stay where they are.
            enabled: Constraints to be closed; None for all.
            close: Whether to close loops; False to move that coordinate alone.
        """
        is_tree = joint in self.robot.joint_names
        rows = self._bounded if is_tree else self._whole_rows
        robot, values = rows.robot, sweep.steps_of(bounds, step)
        dof = sweep.scalar_coordinate(robot, joint, component)
        given = self.robot.mid_joint_q if joint_q is None else joint_q
        start = complete_joint_q(self.robot, given) if is_tree else self._error_rows.configurations(given)
        mask = self.mask(enabled) & self._holds_positions
        own = self._bounded_on(enabled) if is_tree else self._error_map.of_rows(mask)
        start, on = _alike(start, "enabled", own)
        free = free_dofs(robot, [*frozen, robot.dof_names[dof]]) & close
        path, status = sweep.swept(rows, start, int(robot.dof_coordinate[dof]), values, free, on)
        tree_q = path[..., : self.robot.joint_coord_count]
        flat = tree_q.reshape(-1, self.robot.joint_coord_count)
        closing_q = self._closing_part(flat)
        if not is_tree:
            closing_q = path[..., self._error_rows.coordinates[self.robot.joint_coord_count :]]
        errors = self._errors(flat, self.residual(flat)).reshape(*status.shape, -1)
        beyond = self._bounded.errors(flat, len(self)).reshape(errors.shape) > CLOSED
        is_beyond = (beyond & np.broadcast_to(mask[:, np.newaxis], beyond.shape)).any(axis=2)
        is_beyond |= (values < robot.joint_limit_lower[dof] - CLOSED) | (values > robot.joint_limit_upper[dof] + CLOSED)
        return SweptPath(
            values=values,
            joint_q=tree_q,
            closing_joint_q=closing_q.reshape(*status.shape, -1),
            status=np.where(is_beyond, ClosureStatus.BLOCKED_BY_LIMITS, status),
            constraint_error=errors,
        )

    @cached_property
    def _whole_rows(self) -> BoundedRows:
        """Rows over the tree and the closing joints: each loop is a weld."""
        return BoundedRows.of(ResidualRows.of(self._error_rows.whole))

    def _closing_part(self, joint_q: Float64Array) -> Float64Array:
        return self.with_closing_joints(joint_q)[:, self.robot.joint_coord_count :]

    @property
    def _holds_positions(self) -> BoolArray:
        """True for constraints that hold positions, shape [constraints]."""
        return np.array([not isinstance(one, VelocityConstraint) for one in self], dtype=bool)

    def _bounded_on(self, enabled: ArrayLike | None) -> BoolArray:
        """Give which rows of positions are enabled, those of limits behind them, shape [1 or n, rows]."""
        return self._bounded.enabled(self._rows_on(enabled, of_positions=True), self.mask(enabled))

    def _errors(self, joint_q: Float64Array, residual: Float64Array) -> Float64Array:
        """Give the error of each constraint, shape [n, constraints]."""
        return np.maximum(self._residual_map.largest(residual), self._bounded.errors(joint_q, len(self)))

    def _rows_on(self, enabled: ArrayLike | None, *, of_positions: bool = False) -> BoolArray:
        """Give which rows of the residual packing are enabled, shape [1 or n, residual_count]."""
        mask = self.mask(enabled)
        return np.asarray(self._residual_map.of_rows(mask & self._holds_positions if of_positions else mask))


def _alike(joint_q: np.ndarray, other: str, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give configurations and another array with as many lines, one line counting for all; InputError otherwise."""
    if len(joint_q) != len(b) and 1 not in (len(joint_q), len(b)):
        raise InputError(f"joint_q has {len(joint_q)} lines and {other} {len(b)}; they must be as many, or one.")
    n = len(b) if len(joint_q) == 1 else len(joint_q)
    return np.broadcast_to(joint_q, (n, *joint_q.shape[1:])), np.broadcast_to(b, (n, *b.shape[1:]))
