"""Samples of the self-motion of an arm, for a number of problems."""

from collections import OrderedDict
from functools import partial
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kernels.host_device_array import HostDeviceArray
from ik_service.kernels.kernel_loading import LAUNCH_BLOCK, load_kernels
from ik_service.solver.arrays.partition import Partition
from ik_service.solver.arrays.problem_arrays import ARM_JOINTS, SolveSettings
from ik_service.solver.compiled.engine import CompiledEngine
from ik_service.solver.compiled.self_motion import MOTION_SAMPLES_MAX
from ik_service.solver.recording import Recording
from ik_service.solver.workspace import Workspace

PROBLEMS_MAX = 2048  # sampled at once
RECORDINGS_MAX = 4


class SelfMotionSamples:
    """Room for the samples of some problems, and the launches."""

    def __init__(self, engine: CompiledEngine, coordinates: int, device: wp.Device) -> None:
        self._engine, self._device = engine, device
        self._count = HostDeviceArray((PROBLEMS_MAX,), wp.int32, device)
        self._value = HostDeviceArray((PROBLEMS_MAX * MOTION_SAMPLES_MAX, 3), wp.float32, device)
        self._joint_q = HostDeviceArray((PROBLEMS_MAX * MOTION_SAMPLES_MAX, coordinates), wp.float32, device)
        self._recordings: OrderedDict[int, tuple[Partition, Recording]] = OrderedDict()  # by id of the partition

    def of(self, work: Workspace, settings: SolveSettings) -> tuple[NDArray[Any], ...]:
        """Return problems [n], numbers [n, 3] and lines [n] of samples, and the configurations by line.

        The problems have been read. Problems without an arm of seven joints have no samples.
        """
        engine, count = self._engine, settings.problem_count
        partition, _ = engine.attempts(work, settings)
        arm = engine.kernels.sole_arm
        if id(partition) not in self._recordings and arm is not None and arm.of_self_motion is not None:
            kernel = arm.of_self_motion
            tasks = engine.kernels.proof_tasks(work.problems, work.inputs, work.verification, partition, count)
            own = [(kernel, task) for one, task in tasks if one is arm]
            for _, task in own:
                task.sample_count, task.sample_value = self._count.device, self._value.device
                task.attempt_joint_q = self._joint_q.device
            load_self_motion(engine, self._device)
            record = partial(engine.kernels.launches.record_proofs, own, 0)
            self._recordings[id(partition)] = partition, Recording(self._device, record, engine.executor)
            if len(self._recordings) > RECORDINGS_MAX:
                self._recordings.popitem(last=False)
        self._count.host[:] = 0
        if id(partition) in self._recordings:
            self._recordings[id(partition)][1].prepare(count)()
        counts = self._count.host[:count]
        problem = np.arange(count).repeat(counts)
        lines = problem * MOTION_SAMPLES_MAX + np.arange(len(problem)) - (counts.cumsum() - counts)[problem]
        return problem, self._value.host[lines], lines, self._joint_q.host


def load_self_motion(engine: CompiledEngine, device: wp.Device) -> None:
    """Load the kernel for the one arm with seven joints in closed form."""
    arm = engine.kernels.sole_arm
    if arm is not None and arm.of_self_motion is not None:
        load_kernels({arm.of_self_motion.kernel.module: LAUNCH_BLOCK}, device)


def last_dof(engine: object) -> int | None:
    """Return the active DOF of the last joint of the one arm with seven joints in closed form; None for others."""
    arm = engine.kernels.sole_arm if isinstance(engine, CompiledEngine) else None
    return None if arm is None or len(arm.arm.dofs) <= ARM_JOINTS else arm.arm.dofs[-1]
