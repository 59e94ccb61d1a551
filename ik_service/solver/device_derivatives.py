"""Derivatives of answers on the device, for targets met.

answers in float64 -> the kernels of the host, which move them onto their targets and derive them -> columns for the
caller

Problems not met, nearly singular, or not at rest have no derivatives. All joints have one coordinate each.
"""

import typing
from collections.abc import Sequence
from typing import Any, cast

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
from ik_service.solver.derivatives.linearisation import TWIST
from ik_service.solver.derivatives.target_motion import MotionArrays, TargetMotion, target_islands
from ik_service.solver.given.targets import Target
from ik_service.solver.workspace import Workspace

DEVICE_ROWS_MAX, DEVICE_DOFS_MAX = 24, 32
"""Most rows of targets and DOFs of a robot: each thread of a GPU has arrays of these sizes in local memory."""
OF_SCALARS = JointType.FIXED, JointType.REVOLUTE, JointType.CONTINUOUS, JointType.PRISMATIC


@wp.kernel(module=DERIVED_ON_DEVICE, enable_backward=False)
@typing.no_type_check
def _take(
    rests: wp.array[wp.bool],  # [problem_capacity]
    by_targets: wp.array3d[wp.float64],  # [problem_capacity, joint_dof_count, 6 targets]
    dof: wp.array[wp.int32],  # [the caller's coordinates]
    # out
    by_targets_out: wp.array4d[wp.float64],  # [problems, the caller's coordinates, targets, 6]
    exists_out: wp.array[wp.bool],  # [problems]
):
    p = wp.tid()
    exists_out[p] = rests[p]
    for c in range(by_targets_out.shape[1]):
        for target in range(by_targets_out.shape[2]):
            for k in range(TWIST):
                own = by_targets[p, dof[c], TWIST * target + k]
                by_targets_out[p, c, target, k] = wp.where(rests[p], own, wp.float64(0.0))


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
        self._device, dofs = device, robot.active_dof_count
        place = partition.row_island[0, : TWIST * count].reshape(-1, TWIST)
        islands = target_islands(partition.tree_island[0], place, int(partition.nisland[0]), robot.trees.active_treeid)
        self._motion = TargetMotion(model, targets, islands, by_tools=False)
        shapes: dict[str, tuple[int, ...]] = {"joint_q": (robot.joint_coord_count,), "rests": (), "dof_state": (dofs,)}
        shapes |= {"by_targets": (robot.joint_dof_count, TWIST * count), "by_offsets": (robot.joint_dof_count, 0)}
        dtypes = {"rests": wp.bool, "dof_state": wp.int32}
        own: dict[str, wp.array[Any]] = {
            name: wp.zeros((capacity, *shape), dtype=dtypes.get(name, wp.float64), device=device)
            for name, shape in shapes.items()
        }
        self._tools: wp.array[Any] = wp.zeros((1, count, 7), dtype=wp.float64, device=device)
        self._offsets: NDArray[np.float64] | None = None
        self.use_tools(targets)
        self._dof: wp.array[Any] = wp.array(order.dofs.astype(np.int32), device=device)
        limits = robot.active_limit_lower, robot.active_limit_upper
        kept = limits if hard_limits else (np.full(dofs, -np.inf), np.full(dofs, np.inf))
        for name, end in zip(("lower", "upper"), kept, strict=True):
            own[name] = wp.array(end[None], dtype=wp.float64, device=device)
        self._joint_q, self._arrays = own.pop("joint_q"), cast(Any, MotionArrays())
        for name, array in (own | {"tools": self._tools}).items():
            setattr(self._arrays, name, array)
        for module in (DERIVED_ON_DEVICE, *(kernel.module for kernel, _ in self._motion.islands)):
            load_kernels_alone(module, device)

    def use_tools(self, targets: Sequence[Target]) -> None:
        """Update the tool frames of the same targets."""
        offsets = np.array([identity_transform() if one.offset is None else one.offset for one in targets], np.float64)
        if self._offsets is None or not np.array_equal(offsets, self._offsets):
            self._tools.assign(offsets[None])
            self._offsets = offsets

    def launch(self, work: Workspace, count: int, by_targets: "wp.array[Any]", exists: "wp.array[Any]") -> None:
        """Launch the kernels of `by_targets` [problems, coordinates, targets, 6] and `exists` of a solve."""
        arrays, columns = self._arrays, work.verification.columns
        wp.copy(self._joint_q, columns["judged_q"].device)
        wp.copy(arrays.rests, columns["success"].device)
        arrays.positions, arrays.orientations_xyzw = work.inputs.positions.device, work.inputs.orientations_xyzw.device
        for kernel, island in self._motion.islands:
            given = self._motion.inputs(island, work.problems.settings, self._joint_q, arrays)
            wp.launch(kernel, count, given, device=self._device, record_tape=False)
        inputs = [arrays.rests, arrays.by_targets, self._dof, by_targets, exists]
        wp.launch(_take, count, inputs, device=self._device, record_tape=False)


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
