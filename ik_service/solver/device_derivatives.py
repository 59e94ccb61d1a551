"""Derivatives of answers on the device, for targets met.

answers in float64 -> limits hold DOFs -> the step onto the targets, and d DOFs / d targets (the host's kernel) ->
answers move, until at rest -> columns for the caller

Problems not met, nearly singular, or not at rest have no derivatives. All joints have one coordinate each.
"""

import typing
from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kernels.kernel_loading import load_kernels_alone
from ik_service.mechanism.caller_order import CallerOrder
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import identity_transform
from ik_service.robots import DeviceModel, JointType
from ik_service.solver.arrays.partition import Partition
from ik_service.solver.arrays.parts import DERIVED_ON_DEVICE
from ik_service.solver.derivatives.host_rows import AT_LIMIT
from ik_service.solver.derivatives.linearisation import TWIST
from ik_service.solver.derivatives.target_motion import (
    LEAST_SHARE,
    LONGEST,
    SETTLED,
    STEPS,
    MotionArrays,
    TargetIsland,
    island_motion,
    motion_kernel,
    target_islands,
)
from ik_service.solver.given.targets import Target
from ik_service.solver.verdict.float64_kinematics import float64_kinematics
from ik_service.solver.workspace import Workspace

DEVICE_ROWS_MAX, DEVICE_DOFS_MAX = 24, 32
"""Most rows of targets and DOFs of a robot: each thread of a GPU has arrays of these sizes in local memory."""
OF_SCALARS = JointType.FIXED, JointType.REVOLUTE, JointType.CONTINUOUS, JointType.PRISMATIC
GOES_ON, RESTS, LEFT_OUT = (wp.constant(k) for k in range(3))
_AT_LIMIT, _LEAST_SHARE = wp.constant(wp.float64(AT_LIMIT)), wp.constant(wp.float64(LEAST_SHARE))
_LONGEST, _SETTLED = wp.constant(wp.float64(LONGEST)), wp.constant(wp.float64(SETTLED))
_ZERO, _ONE = wp.constant(wp.float64(0.0)), wp.constant(wp.float64(1.0))


@wp.struct
class ScalarDofs:
    """Active DOFs of a robot and their coordinates."""

    coordinate: wp.array[wp.int32]  # [active DOFs]
    lower: wp.array[wp.float64]  # [active DOFs]; -inf without hard limits
    upper: wp.array[wp.float64]
    moved: wp.array[wp.int32]  # [joint_dof_count]: coordinate of each DOF
    active: wp.array[wp.int32]  # [joint_dof_count]: active DOF of each DOF, -1 for none
    multiplier: wp.array[wp.float64]  # [joint_dof_count]: factor to the active DOF


@wp.kernel(module=DERIVED_ON_DEVICE, enable_backward=False)
@typing.no_type_check
def _begin(
    judged_q: wp.array2d[wp.float64],  # [problem_capacity, joint_coord_count]
    success: wp.array[wp.bool],  # [problem_capacity]
    given: wp.array3d[wp.float64],  # [problem_capacity, targets, 4]
    # out
    joint_q_out: wp.array2d[wp.float64],
    orientations_out: wp.array3d[wp.float64],  # of length 1
    state_out: wp.array[wp.int32],
):
    p = wp.tid()
    for c in range(joint_q_out.shape[1]):
        joint_q_out[p, c] = judged_q[p, c]
    for target in range(given.shape[1]):
        length2 = _ZERO
        for k in range(4):
            length2 += given[p, target, k] * given[p, target, k]
        for k in range(4):
            orientations_out[p, target, k] = given[p, target, k] / wp.sqrt(length2)
    state_out[p] = wp.where(success[p], GOES_ON, LEFT_OUT)


@wp.kernel(module=DERIVED_ON_DEVICE, enable_backward=False)
@typing.no_type_check
def _hold(
    joint_q: wp.array2d[wp.float64],
    dofs: ScalarDofs,
    # out
    free_out: wp.array2d[wp.float64],  # [problem_capacity, active DOFs]: 0 at a limit
    regular_out: wp.array[wp.float64],
):
    p = wp.tid()
    for a in range(dofs.coordinate.shape[0]):
        q = joint_q[p, dofs.coordinate[a]]
        is_held = q <= dofs.lower[a] + _AT_LIMIT or q >= dofs.upper[a] - _AT_LIMIT
        free_out[p, a] = wp.where(is_held, _ZERO, _ONE)
    regular_out[p] = _ONE


@wp.kernel(module=DERIVED_ON_DEVICE, enable_backward=False)
@typing.no_type_check
def _go_on(
    dofs: ScalarDofs,
    touched: wp.array2d[wp.float64],
    regular: wp.array[wp.float64],
    # in and out
    step: wp.array2d[wp.float64],  # [problem_capacity, active DOFs]; becomes the step taken
    joint_q: wp.array2d[wp.float64],
    state: wp.array[wp.int32],
):
    p = wp.tid()
    if state[p] != GOES_ON:
        return
    longest = _ZERO
    for a in range(dofs.coordinate.shape[0]):
        q = joint_q[p, dofs.coordinate[a]]
        if touched[p, a] > _ZERO:
            if q <= dofs.lower[a] + _AT_LIMIT:
                step[p, a] += dofs.lower[a] - q
            elif q >= dofs.upper[a] - _AT_LIMIT:
                step[p, a] += dofs.upper[a] - q
        longest = wp.max(longest, wp.abs(step[p, a]))
        if not wp.isfinite(step[p, a]):
            longest = wp.float64(wp.inf)
        step[p, a] = wp.clamp(q + step[p, a], dofs.lower[a], dofs.upper[a]) - q
    if not (regular[p] > _LEAST_SHARE and longest <= _LONGEST):
        state[p] = LEFT_OUT
        return
    for dof in range(dofs.active.shape[0]):
        a = dofs.active[dof]
        if a >= 0:
            joint_q[p, dofs.moved[dof]] += dofs.multiplier[dof] * step[p, a]
    if longest <= _SETTLED:
        state[p] = RESTS


@wp.kernel(module=DERIVED_ON_DEVICE, enable_backward=False)
@typing.no_type_check
def _take(
    state: wp.array[wp.int32],
    by_targets: wp.array3d[wp.float64],  # [problem_capacity, joint_dof_count, 6 targets]
    dof: wp.array[wp.int32],  # [the caller's coordinates]
    # out
    by_targets_out: wp.array4d[wp.float64],  # [problems, the caller's coordinates, targets, 6]
    exists_out: wp.array[wp.bool],  # [problems]
):
    p = wp.tid()
    exists = state[p] == RESTS
    exists_out[p] = exists
    for c in range(by_targets_out.shape[1]):
        for target in range(by_targets_out.shape[2]):
            for k in range(TWIST):
                own = by_targets[p, dof[c], TWIST * target + k]
                by_targets_out[p, c, target, k] = wp.where(exists, own, _ZERO)


class DeviceDerivatives:
    """Derivatives of the answers in a workspace, for problems with the same rows on."""

    def __init__(
        self,
        model: DeviceModel,
        targets: Sequence[Target],
        partition: Partition,
        order: CallerOrder,
        capacity: int,  # problems with room
        *,
        hard_limits: bool,  # whether answers keep the limits of joints
    ) -> None:
        robot, device, count = model.robot, model.device, len(targets)
        self._device, self._dofs = device, _scalar_dofs(robot, device, hard_limits)
        links = [target.link for target in targets]
        self._kinematics = float64_kinematics(model, [*links, *(target.reference_link for target in targets)])
        path = max(int(np.diff(self._kinematics.path_start.numpy()).max()), 1)
        place = partition.row_island[0, : TWIST * count].reshape(-1, TWIST)
        islands = target_islands(partition.tree_island[0], place, int(partition.nisland[0]), robot.trees.active_treeid)
        self._tools: wp.array[Any] = wp.zeros((1, count, 7), dtype=wp.float64, device=device)
        self._offsets: NDArray[np.float64] | None = None
        self.use_tools(targets)
        dofs, coordinates = robot.active_dof_count, robot.joint_coord_count
        shapes: dict[str, tuple[int, ...]] = {"joint_q": (coordinates,), "orientations_xyzw": (count, 4), "regular": ()}
        shapes |= {"free_dofs": (dofs,), "step": (dofs,), "touched": (dofs,)}
        shapes |= {"by_targets": (robot.joint_dof_count, TWIST * count), "by_offsets": (robot.joint_dof_count, 0)}
        self._arrays: dict[str, wp.array[Any]] = {
            name: wp.zeros((capacity, *shape), dtype=wp.float64, device=device) for name, shape in shapes.items()
        }
        self._state: wp.array[Any] = wp.zeros(capacity, dtype=wp.int32, device=device)
        self._dof: wp.array[Any] = wp.array(order.dofs.astype(np.int32), device=device)
        load_kernels_alone(DERIVED_ON_DEVICE, device)
        self._islands = [self._of_island(robot, targets, one, path) for one in islands]

    def use_tools(self, targets: Sequence[Target]) -> None:
        """Update the tool frames of the same targets."""
        offsets = np.array([identity_transform() if one.offset is None else one.offset for one in targets], np.float64)
        if self._offsets is None or not np.array_equal(offsets, self._offsets):
            self._tools.assign(offsets[None])
            self._offsets = offsets

    def _of_island(
        self, robot: KinematicRobot, targets: Sequence[Target], island: TargetIsland, path: int
    ) -> tuple[wp.Kernel, Any, Any]:
        has_reference = np.array([target.reference_link is not None for target in targets], np.int32)
        counts: wp.array[Any] = wp.array(island.rows[None].astype(np.float64), device=self._device)
        kernel = motion_kernel(int(island.rows.any(axis=1).sum()), len(island.dofs), path)
        load_kernels_alone(kernel.module, self._device)
        arrays: Any = MotionArrays()
        for name in ("orientations_xyzw", "free_dofs", "step", "touched", "regular", "by_targets", "by_offsets"):
            setattr(arrays, name, self._arrays[name])
        arrays.tools, arrays.row_counts = self._tools, counts
        no_tool = np.zeros_like(has_reference)
        return kernel, island_motion(robot, island, has_reference, no_tool, self._device), arrays

    def launch(self, work: Workspace, count: int, by_targets: "wp.array[Any]", exists: "wp.array[Any]") -> None:
        """Launch the kernels of `by_targets` [problems, coordinates, targets, 6] and `exists` of a solve."""
        own, columns, inputs = self._arrays, work.verification.columns, work.inputs
        dofs, regular = self._dofs, own["regular"]
        given = columns["judged_q"].device, columns["success"].device, inputs.orientations_xyzw.device
        self._run(_begin, count, *given, own["joint_q"], own["orientations_xyzw"], self._state)
        for _ in range(STEPS):
            self._run(_hold, count, own["joint_q"], dofs, own["free_dofs"], regular)
            for kernel, island, arrays in self._islands:
                arrays.positions = inputs.positions.device
                self._run(kernel, count, work.problems.settings, self._kinematics, own["joint_q"], island, arrays)
            self._run(_go_on, count, dofs, own["touched"], regular, own["step"], own["joint_q"], self._state)
        self._run(_take, count, self._state, own["by_targets"], self._dof, by_targets, exists)

    def _run(self, kernel: wp.Kernel, count: int, *inputs: Any) -> None:
        wp.launch(kernel, count, list(inputs), device=self._device, record_tape=False)


def why_not_derived(robot: KinematicRobot, targets: Sequence[Target], rows: int) -> str | None:
    """Return why answers have no derivatives on a device, or None."""
    # `rows` is the number of objectives besides targets, including constraints of the robot
    if rows:
        return "there are objectives or constraints besides the targets"
    if any(kind not in OF_SCALARS for kind in robot.joint_type):
        return "a joint has more than one DOF"
    if any(target.frame is not None for target in targets):
        return "a target has a frame of its own, free axes or tolerances"
    if any(target.offset is not None and np.ndim(target.offset) > 1 for target in targets):
        return "tool frames differ between problems"
    if TWIST * len(targets) > DEVICE_ROWS_MAX or robot.active_dof_count > DEVICE_DOFS_MAX:
        return f"there are more than {DEVICE_ROWS_MAX} rows or {DEVICE_DOFS_MAX} DOFs"
    return None


def _scalar_dofs(robot: KinematicRobot, device: wp.Device, hard_limits: bool) -> Any:
    found: Any = ScalarDofs()

    def numbers(values: Any, dtype: Any) -> "wp.array[Any]":
        return wp.array(np.asarray(values, dtype), device=device)

    limits = robot.active_limit_lower, robot.active_limit_upper
    lower, upper = limits if hard_limits else (np.full_like(limits[0], -np.inf), np.full_like(limits[1], np.inf))
    found.coordinate = numbers(robot.dof_coordinate[robot.active_dof], np.int32)
    found.lower, found.upper = numbers(lower, np.float64), numbers(upper, np.float64)
    found.moved, found.active = numbers(robot.dof_coordinate, np.int32), numbers(robot.dof_active, np.int32)
    found.multiplier = numbers(robot.dof_multiplier, np.float64)
    return found
