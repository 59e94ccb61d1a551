"""Constraints of a robot and their kinematics without targets: `robot.constraints`."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from ik_service.constraints import closing
from ik_service.constraints.constraint_list import ConstraintList
from ik_service.constraints.descent import CLOSED, nearest_rates, restored
from ik_service.constraints.linear_algebra import BoolArray, applied, free_dofs
from ik_service.constraints.partition import partitioned
from ik_service.constraints.residual_rows import BoundedRows
from ik_service.constraints.results import (
    Closure,
    ClosureStatus,
    DofPartition,
    FeasibleAcceleration,
    FeasibleVelocity,
    SweptPath,
)
from ik_service.kinematics.host_poses import blocks_of
from ik_service.kinematics.host_tangent import integrate
from ik_service.mechanism.configuration import checked_joint_q, checked_tangent
from ik_service.mechanism.coupling import complete_joint_q
from ik_service.mechanism.transforms import Float64Array
from ik_service.mechanism.velocities import VelocityConstraint
from objectives.errors import InputError


class ConstraintSet(ConstraintList):
    """Constraints of a robot: immutable, in float64 on the host, over many configurations at once.

    Configurations and rates have the shape [joint_coord_count or joint_dof_count] (n = 1) or [n, ...]. Rows have two
    packings. *Error packing*: six rows per loop, the pose of the frame in the frame at the end of the closing joint,
    as position [m] and rotation vector [rad]; columns are the DOFs of the tree, then of the closing joints. In this
    packing, joint_q and rates may include the closing joints; otherwise closing joints take the coordinates and rates
    nearest to loop closure. *Residual packing*: the rows of ``IKObjectiveLoop``, over the DOFs of the tree. Disabled
    constraints keep their rows; `enabled` is a mask of constraints to meet, shape [constraints] or [n, constraints].

    All methods raise InputError for arrays of a wrong shape or with infinite numbers, and UnknownNameError for unknown
    names.
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
        dq = rows.rates(whole_q, dq) @ rows.spread.T
        return integrate(rows.whole, whole_q, dq)[:, rows.coordinates]

    def error_frames(self, joint_q: ArrayLike) -> Float64Array:
        """Give poses of the loops' frames and of the ends of closing joints in the world, [2, n, constraints, 7]."""
        return self._error_rows.frame_poses(self._error_rows.configurations(joint_q))

    def error(self, joint_q: ArrayLike) -> Float64Array:
        """Give the loop closure errors of frames, shape [n, error_count]."""
        return self._error_rows.error(self._error_rows.configurations(joint_q))

    def error_gradient(self, joint_q: ArrayLike) -> Float64Array:
        """Give the derivatives of `error` by the DOFs of tree and closing joints, shape [n, error_count, DOFs]."""
        return self._error_rows.gradient(self._error_rows.configurations(joint_q))

    def jacobian(self, joint_q: ArrayLike) -> Float64Array:
        """Give the map of velocities to `error_velocity`, DOFs of tree and closing joints, [n, error_count, DOFs]."""
        return self._error_rows.jacobian(self._error_rows.configurations(joint_q))

    def jacobian_dot(self, joint_q: ArrayLike, joint_qd: ArrayLike) -> Float64Array:
        """Give the time derivative of `jacobian` along a motion, same shape."""
        whole_q, qd = self._moving(joint_q, joint_qd)
        return self._error_rows.jacobian_dot(whole_q, qd)

    def error_velocity(self, joint_q: ArrayLike, joint_qd: ArrayLike) -> Float64Array:
        """Give linear and angular velocities of frames relative to the ends of closing joints, [n, error_count]."""
        whole_q, qd = self._moving(joint_q, joint_qd)
        return applied(self._error_rows.jacobian(whole_q), qd)

    def error_acceleration(self, joint_q: ArrayLike, joint_qd: ArrayLike, joint_qdd: ArrayLike) -> Float64Array:
        """Give the time derivative of `error_velocity`, shape [n, error_count]."""
        rows, (whole_q, qd) = self._error_rows, self._moving(joint_q, joint_qd)
        whole_q, qdd = _alike(whole_q, "joint_qdd", rows.rates(whole_q, joint_qdd, qd))
        qd = np.broadcast_to(qd, qdd.shape)
        return applied(rows.jacobian(whole_q), qdd) + applied(rows.jacobian_dot(whole_q, qd), qd)

    def _moving(self, joint_q: ArrayLike, joint_qd: ArrayLike) -> tuple[Float64Array, Float64Array]:
        whole_q = self._error_rows.configurations(joint_q)
        return _alike(whole_q, "joint_qd", self._error_rows.rates(whole_q, joint_qd))

    # ------------------------------------------------------------------ residual packing
    @cached_property
    def _bounded(self) -> BoundedRows:
        return BoundedRows(self.robot)

    def _values(self, joint_q: ArrayLike) -> tuple[Float64Array, Float64Array]:
        rows, jacobian = self._bounded.values(checked_joint_q(self.robot, joint_q))
        return rows[:, : self.residual_count], jacobian[:, : self.residual_count]

    def residual(self, joint_q: ArrayLike) -> Float64Array:
        """Give the rows fixed by the joints of loops, shape [n, residual_count]."""
        return self._bounded.rows(checked_joint_q(self.robot, joint_q))[:, : self.residual_count]

    def residual_jacobian(self, joint_q: ArrayLike) -> Float64Array:
        """Give the derivatives of `residual` by the DOFs of the tree, shape [n, residual_count, joint_dof_count]."""
        return self._values(joint_q)[1]

    @property
    def closing_row_count(self) -> int:
        """Number of rows in `close`: rows of the residual packing and rows of limits of closing joints."""
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
        """Close all enabled loops within the joint limits, near the given configurations.

        Steps start at the given configuration. If these steps do not close the loops, further starts are tried and the
        nearest result is kept. With `solutions` above 1, independent DOFs are then held, and other assembly modes of
        the mechanism are searched.

        Args:
            joint_q: Start configurations.
            frozen: Names of joints or DOFs to keep exactly, also outside their limits.
            enabled: Constraints to close; None for all.
            solutions: Number of assembly modes wanted.
            attempts: Largest number of starts.
            seed: Seed of the random starts.

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
            rng = np.random.default_rng([seed, 1])  # independent of the draws above
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
        """Find the nearest velocities that keep enabled loops closed.

        Args:
            joint_q: Configurations, normally closed.
            joint_qd: Velocities wanted; followers move with their leaders, locked joints not at all.
            frozen: Names of joints or DOFs with exactly the wanted velocities.
            enabled: Constraints to keep; None for all.
        """
        q, wanted, on = self._in_motion(joint_q, joint_qd, enabled)
        free = free_dofs(self.robot, frozen)

        def part(q: Float64Array, qd: Float64Array, on: BoolArray) -> tuple[Float64Array, ...]:
            jacobian = self.residual_jacobian(q)
            rates, rest = nearest_rates(self.robot, jacobian, np.zeros(jacobian.shape[:2]), qd, free, on)
            return rates, rest, self._moving(q, rates)[1][:, self.robot.joint_dof_count :]

        blocks = [part(q[own], wanted[own], on[own]) for own in blocks_of(len(q))] or [part(q, wanted, on)]
        rates, rest, closing_qd = map(np.concatenate, zip(*blocks, strict=True))
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
        """Find the nearest accelerations that keep the rates of enabled loops constant.

        Args:
            joint_q: Configurations, normally closed.
            joint_qd: Velocities, normally feasible.
            joint_qdd: Accelerations wanted; followers move with their leaders, locked joints not at all.
            frozen: Names of joints or DOFs with exactly the wanted accelerations.
            enabled: Constraints to keep; None for all.
        """
        q, qd, on = self._in_motion(joint_q, joint_qd, enabled)
        q, qdd = _alike(q, "joint_qdd", checked_tangent(self.robot, joint_qdd, "joint_qdd"))
        qd, on = np.broadcast_to(qd, (len(q), qd.shape[1])), np.broadcast_to(on, (len(q), on.shape[1]))
        rate = self._bounded.jacobian_dot(q, qd)[:, : self.residual_count]
        drift, free = applied(rate, qd), free_dofs(self.robot, frozen)
        rates, rest = nearest_rates(self.robot, self.residual_jacobian(q), drift, qdd, free, on)
        whole_q, whole_qd = self._moving(q, qd)
        closing_qdd = self._error_rows.rates(whole_q, rates, whole_qd)[:, self.robot.joint_dof_count :]
        return FeasibleAcceleration(rates, closing_qdd, rest, self._residual_map.largest(rest))

    def _in_motion(
        self, joint_q: ArrayLike, joint_qd: ArrayLike, enabled: ArrayLike | None
    ) -> tuple[Float64Array, Float64Array, BoolArray]:
        q, qd = checked_joint_q(self.robot, joint_q), checked_tangent(self.robot, joint_qd, "joint_qd")
        q, on = _alike(_alike(q, "joint_qd", qd)[0], "enabled", self._rows_on(enabled))
        return q, np.broadcast_to(qd, (len(q), qd.shape[1])), on

    def partition(
        self, joint_q: ArrayLike, independent: Sequence[str] | None = None, *, enabled: ArrayLike | None = None
    ) -> DofPartition:
        """Divide the active DOFs into independent DOFs, which drive the mechanism, and dependent DOFs.

        Args:
            joint_q: Configurations, normally closed; the first configuration decides.
            independent: Names of joints or DOFs that drive the mechanism; None to choose.
            enabled: Constraints that count; None for all.

        Raises:
            InputError: The number of named DOFs is not the mobility, or the named DOFs do not drive the mechanism; the
                message has the rank and the reason.
        """
        q, on = _alike(checked_joint_q(self.robot, joint_q), "enabled", self._rows_on(enabled))
        values, jacobian = self._values(q)
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
        """Move a coordinate step by step between two values, and close the loops at each step.

        Args:
            joint: Name of a joint of the tree, or of the part of a closing joint, such as ``pin`` or ``slot/z``.
            bounds: First and last value [m or rad].
            step: Step between values, above 0.
            component: Component of a joint with several DOFs.
            joint_q: Start configurations; None for the middle of the limits.
            frozen: Names of further joints or DOFs to hold.
            enabled: Constraints to close; None for all.
            close: Whether to close loops; False moves the coordinate alone.
        """
        is_tree = joint in self.robot.joint_names
        rows = self._bounded if is_tree else self._whole_rows
        robot, values = rows.robot, closing.steps_of(bounds, step)
        dof = closing.scalar_coordinate(robot, joint, component)
        given = self.robot.mid_joint_q if joint_q is None else joint_q
        start = complete_joint_q(self.robot, given) if is_tree else self._error_rows.configurations(given)
        mask = self.mask(enabled) & self._holds_positions
        own = self._bounded_on(enabled) if is_tree else self._error_map.of_rows(mask)
        start, on = _alike(start, "enabled", own)
        free = free_dofs(robot, [*frozen, robot.dof_names[dof]]) & close
        path, status = closing.swept(rows, start, int(robot.dof_coordinate[dof]), values, free, on)
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
        return BoundedRows(self._error_rows.whole)

    def _closing_part(self, joint_q: Float64Array) -> Float64Array:
        return self.with_closing_joints(joint_q)[:, self.robot.joint_coord_count :]

    @property
    def _holds_positions(self) -> BoolArray:
        return np.array([not isinstance(one, VelocityConstraint) for one in self], dtype=bool)

    def _bounded_on(self, enabled: ArrayLike | None) -> BoolArray:
        """Give a mask of enabled rows of positions, then of limits, shape [1 or n, rows]."""
        return self._bounded.enabled(self._rows_on(enabled, of_positions=True), self.mask(enabled))

    def _errors(self, joint_q: Float64Array, residual: Float64Array) -> Float64Array:
        return np.maximum(self._residual_map.largest(residual), self._bounded.errors(joint_q, len(self)))

    def _rows_on(self, enabled: ArrayLike | None, *, of_positions: bool = False) -> BoolArray:
        """Give a mask of enabled rows of the residual packing, shape [1 or n, residual_count]."""
        mask = self.mask(enabled)
        return np.asarray(self._residual_map.of_rows(mask & self._holds_positions if of_positions else mask))


def _alike(joint_q: np.ndarray, other: str, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Broadcast configurations and another array to the same number of lines; InputError if the numbers differ."""
    if len(joint_q) != len(b) and 1 not in (len(joint_q), len(b)):
        raise InputError(f"joint_q has {len(joint_q)} lines and {other} {len(b)}; they must be as many, or one.")
    n = len(b) if len(joint_q) == 1 else len(joint_q)
    return np.broadcast_to(joint_q, (n, *joint_q.shape[1:])), np.broadcast_to(b, (n, *b.shape[1:]))
