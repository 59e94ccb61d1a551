"""Closing of loops in float64, after an engine with float32 answers, from these answers."""

from functools import partial

import warp as wp

from ik_service.kernels.host_device_array import HostDeviceArray, wait
from ik_service.kernels.kernel_loading import LAUNCH_BLOCK, load_kernels
from ik_service.solver.arrays.partition import host_partition
from ik_service.solver.arrays.parts import SOLVE_EXTRAS
from ik_service.solver.compiled.engine import record_widening
from ik_service.solver.compiled.island_kernels import IslandKernels
from ik_service.solver.compiled.island_launches import launches_on
from ik_service.solver.recording import PartLaunches
from ik_service.solver.rows.binding import RowKind
from ik_service.solver.rows.layout import RowLayout
from ik_service.solver.rows.weights import TargetWeights
from ik_service.solver.workspace import Workspace


class LoopClosing:
    """Closes the loops of answers in float64, by rows of loops alone.

    The step is the compiled engine's: the least step that lowers the rows; joints outside all loops stay.
    """

    def __init__(self, layout: RowLayout, *, hard_limits: bool) -> None:
        self._layout = layout.of_kind(RowKind.CONSTRAINT)
        self._device = layout.rows.model.device
        self._kernels = IslandKernels(self._layout, launches_on(self._device), hard_limits=hard_limits)
        self._weights = TargetWeights([], 1.0)
        self._joint_q: HostDeviceArray | None = None

    def close(self, work: Workspace, count: int) -> HostDeviceArray:
        """Return the best attempts of a solve in float64, with loops closed as far as possible from there."""
        problems, kernels = work.problems, self._kernels
        shape = problems.best.joint_q.shape
        if self._joint_q is None or self._joint_q.device.shape != shape:
            self._joint_q = HostDeviceArray(shape, wp.float64, self._device)
        weights = self._weights.with_objectives(b"", self._layout.rows.objectives, count)
        partition = host_partition(weights, self._layout.incidence, self._device)
        tasks = kernels.finish_tasks(problems, work.inputs, partition, count, self._joint_q.device, is_verdict=False)
        modules = dict(block for one, _ in tasks for block in one.blocks().items())
        load_kernels(modules | {SOLVE_EXTRAS: LAUNCH_BLOCK}, self._device)
        record = partial(kernels.launches.record, kernels.launches.size(count, 1), tasks)
        launches = [record_widening(problems, self._joint_q.device, 0, 1), record(0, 1)]
        PartLaunches.joined(launches).run(count)
        wait(self._device)
        return self._joint_q
