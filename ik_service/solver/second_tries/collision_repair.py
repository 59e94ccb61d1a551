"""Move answers in contact out of contact.

    answers in contact -> the nearest spheres, their distances and slopes -> steps along the targets that make room
    -> from the visited configurations, the one free of contact and nearest to its targets

Redundant joints give way first. If the targets themselves lead into contact, answers leave them, as far as tolerances
allow.
"""

import typing
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.collision.arrays import CollisionSpheres, CollisionWorlds
from ik_service.collision.clearance import ClearanceSize, approaches_function
from ik_service.collision.collision_data import VERDICT_ROUNDING, CollisionData
from ik_service.compiler import Lanes, cpu_target
from ik_service.kernels.device_lock import DEVICE_LOCK
from ik_service.kernels.host_device_array import wait
from ik_service.kernels.kernel_loading import KernelsFor, load_kernels_alone
from ik_service.kinematics.host_tangent import body_motion
from ik_service.mechanism.coupling import inwards
from ik_service.mechanism.transforms import Float64Array
from ik_service.robots import DeviceModel, RobotModel
from ik_service.solver.deadline import TIME_LEFT_MIN_S
from ik_service.solver.derivatives.host_rows import HostRows, LimitDistances
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.requested_limits import RequestedLimits
from ik_service.solver.given.worlds import CheckedWorlds
from ik_service.solver.lm.status import IKStatus
from ik_service.solver.result import IKResult
from ik_service.solver.rows.binding import is_constraint
from ik_service.solver.second_tries.target_solves import FoundAnswers, TimeLeft
from ik_service.solver.solve import SolverCore
from objectives.expression.expression_objective import ExpressionObjective
from objectives.tasks.pose import DEADBAND

FloatArray = NDArray[np.float64]
NEAR = 16
"""Largest number of reported spheres of a configuration: the nearest ones."""


@lru_cache
@typing.no_type_check
def near_kernel(size: ClearanceSize) -> wp.Kernel:
    """Return the kernel of the nearest spheres of configurations; see `approaches_function`."""
    approaches = approaches_function(size)
    Configuration: Any = wp.types.vector(size.coordinates, wp.float32)
    options = {} if size.lanes.width == 1 else {"cpu_compiler_flags": cpu_target().flags}

    @wp.kernel(module="unique", enable_backward=False, module_options=options)
    def near(
        joint_q: wp.array2d[float],  # [n, joint_coord_count]
        spheres: CollisionSpheres,
        worlds: CollisionWorlds,
        farthest: float,
        # out
        count_out: wp.array[wp.int32],  # [n]
        gaps_out: wp.array2d[float],  # [n, NEAR]
        slopes_out: wp.array3d[float],  # [n, NEAR, joint_coord_count]
    ):
        p = wp.tid()
        q = Configuration()
        for c in range(joint_q.shape[1]):
            q[c] = joint_q[p, c]
        count_out[p] = approaches(p, q, spheres, worlds, farthest, gaps_out, slopes_out)

    return near


class NearSpheres:
    """Nearest spheres in configurations of a robot with a collision model."""

    def __init__(self, model: DeviceModel, lanes: Lanes) -> None:
        self._model, self._data = model, CollisionData(model, lanes)
        self._kernel = near_kernel(self._data.size)
        load_kernels_alone(self._kernel.module, model.device)

    def use(self, worlds: CheckedWorlds) -> None:
        """Set the obstacles around each problem."""
        self._data.use(*worlds, 0.0)

    def of(self, joint_q: FloatArray, farthest: float) -> tuple[FloatArray, FloatArray]:
        """Return distances [m] below `farthest`, and their derivatives by every coordinate [m per rad or m]."""
        # Distances are [n, NEAR] in rising order, inf where there are fewer; slopes [n, NEAR, joint_coord_count], 0
        # for coordinates of ball and floating joints
        device, data, (count, coordinates) = self._model.device, self._data, joint_q.shape
        spheres = data.spheres(range(self._model.robot.trees.ntree))
        found = wp.zeros(count, dtype=wp.int32, device=device)
        gaps = wp.zeros((count, NEAR), dtype=wp.float32, device=device)
        slopes = wp.zeros((count, NEAR, coordinates), dtype=wp.float32, device=device)
        given: wp.array[Any] = wp.array(joint_q, dtype=wp.float32, device=device)
        wp.launch(self._kernel, count, [given, spheres, data.worlds, farthest, found, gaps, slopes], device=device)
        wait(device)
        is_there = np.arange(NEAR) < found.numpy()[:, np.newaxis]
        return (
            np.where(is_there, gaps.numpy(), np.inf).astype(np.float64),
            np.where(is_there[..., np.newaxis], slopes.numpy(), 0.0).astype(np.float64),
        )


STEPS_MAX = 12
SPARE, BAND = 2e-5, 0.02
"""Clearance that steps aim at above the margin, and distance up to which spheres count [m], per length unit."""
PUSH = 300.0
"""Weight of a missing metre of clearance, relative to a metre of target error."""
DAMPED_SHARE = 1e-5
"""Share of the largest diagonal entry by which all DOFs are damped."""
LONGEST, SHORTEST = 0.2, 1e-6
"""Largest change of a DOF in a step, and change below which a problem counts as at rest [m or rad]."""
BLOCK = 256
"""Problems that are moved side by side: bounds the memory."""
CHOICES = 4
"""Updates of the active set in a step."""


class CollisionRepair:
    """Search for answers free of contact, for one solver."""

    statuses: tuple[IKStatus, ...] = (IKStatus.BLOCKED_BY_COLLISION,)

    def __init__(self, core: SolverCore, *, hard_limits: bool) -> None:
        self._core, self._hard_limits = core, hard_limits
        self._near: NearSpheres | None = None

    def load(self) -> None:
        """Load the kernels, on the first solve that may need them."""
        if self._near is None:
            with DEVICE_LOCK, KernelsFor():
                self._near = NearSpheres(self._core.model, self._core.lanes)

    def can_help(self, result: IKResult, batch: Batch) -> NDArray[np.bool_]:
        """Select all problems if there are targets and all objectives are expressions and not constraints."""
        core = self._core
        is_stated = all(isinstance(one, ExpressionObjective) and not is_constraint(one) for one in core.objectives)
        return np.full(len(result), bool(core.targets.all) and is_stated)

    def search(self, batch: Batch, time_left: TimeLeft, joint_q: NDArray[Any]) -> FoundAnswers:
        """Return the configurations free of contact and nearest to their targets; limits are kept."""
        count = batch.problem_count
        blocks = [np.arange(first, min(first + BLOCK, count)) for first in range(0, count, BLOCK)]
        found = [self._search(batch.part(one), time_left, joint_q[one]) for one in blocks]
        chosen, is_free = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return chosen, is_free

    def _search(self, batch: Batch, time_left: TimeLeft, joint_q: NDArray[Any]) -> FoundAnswers:
        core, worlds, near = self._core, batch.worlds, self._near
        assert worlds is not None  # else nothing is in contact
        assert near is not None  # `load` has made it
        rows, data = self._rows(batch, time_left())
        near.use(worlds)
        kept, unit = time_left().margin + VERDICT_ROUNDING, core.robot.length_unit
        coordinate, columns = core.robot.dof_coordinate, np.zeros((core.robot.joint_coord_count, rows.columns.shape[1]))
        columns[coordinate[coordinate >= 0]] = rows.columns[coordinate >= 0]  # 0 for quaternions
        largest = (rows.weights(data, batch.problem_count) * rows.factor).max(axis=1)
        scale = np.where(largest > 0.0, largest, 1.0)[:, np.newaxis]  # a common factor of all weights changes no step
        kept_limits = batch.limits
        if self._hard_limits and time_left().precision == "float32":
            kept_limits = _inward_limits(core.robot, batch.limits)
        q, moves = np.array(joint_q, np.float64), np.ones(batch.problem_count, dtype=bool)
        chosen, least = q.copy(), np.full(batch.problem_count, np.inf)
        for _ in range(STEPS_MAX):
            values = rows.values(body_motion(core.robot, q), data)
            # Bytes of products depend on the layout.
            r = np.ascontiguousarray(values.rows[:, ~rows.yields]) / scale
            jacobian = np.ascontiguousarray(values.jacobian[:, ~rows.yields]) / scale[..., np.newaxis]
            with DEVICE_LOCK, KernelsFor():
                gaps, slopes = near.of(q, kept + BAND * unit)
            cost = (r * r).sum(axis=1)
            is_nearer = (gaps[:, 0] >= kept) & (cost < least)
            chosen[is_nearer], least[is_nearer] = q[is_nearer], cost[is_nearer]
            limits = rows.beside_limits(q, kept_limits)
            step = _step(r, jacobian, kept + SPARE * unit - gaps, slopes @ columns, limits)
            moves &= np.abs(step).max(axis=1, initial=0.0) > SHORTEST
            if not moves.any() or time_left().deadline_s == TIME_LEFT_MIN_S:
                break
            q = np.where(moves[:, np.newaxis], rows.moved(q, step, kept_limits), q)
        return chosen, np.isfinite(least)

    def _rows(self, batch: Batch, options: SolverOptions) -> tuple[HostRows, list[dict[str, Float64Array]]]:
        core = self._core
        with core.data_of(batch):
            rows = HostRows(core.robot, core.layout.rows, hard_limits=self._hard_limits)
            data = rows.data(core.targets.all, batch, batch.enabled)
            for own, target in zip(data, core.targets.all, strict=False):
                if target.frame is not None:  # the device holds the values of the last solve
                    allowed = options.position_tolerance, options.orientation_tolerance
                    own[DEADBAND] = target.deadband(*allowed).astype(np.float64)
        return rows, data

    def judging(self, batch: Batch, chosen: NDArray[Any], options: SolverOptions) -> tuple[Batch, SolverOptions]:
        """Return the verifying solve, with the given start as reference for whole turns of joints."""
        return batch, replace(options, seeds=1, best_of=None)


def _inward_limits(robot: RobotModel, asked: RequestedLimits | None) -> RequestedLimits:
    """Return the limits of a solve, or of the robot, rounded inwards to float32."""
    lower, upper = robot.active_limit_lower[np.newaxis], robot.active_limit_upper[np.newaxis]
    limits = RequestedLimits(lower, upper, np.zeros(lower.shape, dtype=bool)) if asked is None else asked
    least, most = (one.astype(np.float64) for one in inwards(limits.lower, limits.upper))
    return limits._replace(lower=least, upper=most)


def _step(
    r: Float64Array, jacobian: Float64Array, missing: Float64Array, slopes: Float64Array, limits: LimitDistances
) -> Float64Array:
    """Compute the damped step towards lower rows and larger distances, [n, DOFs]."""
    # `missing` [n, distances]: required growth of each distance [m], below 0 the allowed loss; `slopes`
    # [n, distances, DOFs]: gradients of the distances
    by_rows = np.swapaxes(jacobian, 1, 2)
    hessian, gradient = by_rows @ jacobian, by_rows @ r[..., np.newaxis]
    largest = hessian.diagonal(axis1=1, axis2=2).max(axis=1) + (slopes * slopes).sum(axis=1).max(axis=1)
    damping = np.maximum(DAMPED_SHARE * largest, np.finfo(np.float64).tiny)
    damped: Float64Array = hessian + damping[:, np.newaxis, np.newaxis] * np.eye(hessian.shape[1])
    touched = (jacobian != 0.0).any(axis=1)[..., np.newaxis]  # a DOF without a row stays at its start
    holds, moves, step = missing > 0.0, touched, gradient
    for _ in range(CHOICES):  # active set: distances that would shrink too far, DOFs at limits
        weighted = PUSH**2 * np.swapaxes(np.where(holds[..., np.newaxis], slopes, 0.0), 1, 2)
        wanted = weighted @ np.where(holds, missing, 0.0)[..., np.newaxis] - gradient
        system = np.where(moves & np.swapaxes(moves, 1, 2), damped + weighted @ slopes, np.eye(damped.shape[1]))
        step = np.asarray(np.linalg.solve(system, np.where(moves, wanted, 0.0)), np.float64)
        moves &= ~(
            (limits.at_lower[..., np.newaxis] & (step < 0.0)) | (limits.at_upper[..., np.newaxis] & (step > 0.0))
        )
        holds = missing > (slopes @ step)[..., 0]
    longest = np.abs(step).max(axis=1, initial=0.0, keepdims=True)
    return np.asarray(step * np.minimum(1.0, LONGEST / np.maximum(longest, LONGEST)))[..., 0]
