"""Arrays of a solver for so many problems, and the recorded launches over them.

staged engine:    intake | discovery, slots at work | outcome
compiled engine:  intake, kernels, outcome in one go and part by part, where all problems share one partition;
else in three steps, since the islands of each problem come first
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.robots import DeviceModel
from ik_service.solver.compiled_engine import CompiledEngine
from ik_service.solver.intake import Intake
from ik_service.solver.outcome import Outcome
from ik_service.solver.partition import Partition, common_partition, discovered_partition, other_weights, target_weights
from ik_service.solver.problems import Problems
from ik_service.solver.recording import PartLaunches, Recording
from ik_service.solver.rows import Rows
from ik_service.solver.targets import Target

PLANS_MAX = 16  # partitions that are kept with their launches
Run = Callable[[], None]


class Workspace:
    """Arrays and recorded launches of one solver.

    Args:
        model: The robot on the device.
        targets: Declared targets.
        touches: Which trees each target touches, bool [targets, trees].
        capacity: Problems there is room for.
        hard_limits: Whether starts are clamped into the limits.
        threads: Most threads to use.
    """

    def __init__(
        self,
        model: DeviceModel,
        targets: Sequence[Target],
        touches: NDArray[np.bool_],
        capacity: int,
        *,
        hard_limits: bool,
        threads: int,
    ) -> None:
        self._model, self._targets, self._threads = model, targets, threads
        self._target_weights = target_weights(targets)
        self.problems = Problems(model, targets, touches.shape[1], capacity)
        self.intake = Intake(model, targets, touches, capacity, hard_limits=hard_limits, parts=threads)
        self.outcome = Outcome(model, targets, touches.shape[1], capacity)
        self.forget()

    def forget(self) -> None:
        """Drop what has been recorded: arrays of the problems have been replaced."""
        self._plans: OrderedDict[tuple[object, ...], tuple[Partition, Recording]] = OrderedDict()
        self._reading = Recording(self._model.device, self._reads)
        self._judging: Recording | None = None

    # ------------------------------------------------------------------ steps, one by one
    def read(self, count: int) -> None:
        """Check what the caller gives and bring it into the problems' arrays."""
        self._reading.prepare(count)
        self._reading.run(count)

    def discovered(self, rows: Rows, count: int, *, join: bool) -> Partition:
        """Return the islands of every problem, found on the device."""
        self.problems.discover(rows, count, join=join)
        return discovered_partition(self.problems, count)

    def judge(self, partition: Partition, count: int) -> None:
        """Judge the winners of problems whose islands have been discovered."""
        if self._judging is None:
            self._judging = Recording(self._model.device, lambda part, parts: self._judges(partition, part, parts))
        self._judging.prepare(count)
        self._judging.run(count)

    # ------------------------------------------------------------------ the compiled engine
    def compiled(
        self, engine: CompiledEngine, rows: Rows, incidence: NDArray[np.bool_], count: int, *, join: bool
    ) -> tuple[Partition, Callable[[ThreadPoolExecutor | None], None]]:
        """Prepare a solve by the compiled engine, with the device to oneself.

        Args:
            engine: The engine.
            rows: Layout of the objectives.
            incidence: Whether the support of a row holds DOFs of a tree, bool [rows, trees].
            count: Problems of the solve.
            join: Whether all touched trees are one island.

        Returns:
            The partition of the problems, and what runs the solve.
        """
        given = self.intake.given.host[1:]
        others = other_weights(rows.objectives[len(self._targets) :])
        if self._target_weights is None or others is None:
            return self._solve_in_steps(engine, rows, count, join=join)
        key = (join, given.tobytes(), engine.data_key(), *(values.tobytes() for values in others))
        if key not in self._plans:
            weights = [w * np.repeat(given[2 * k : 2 * k + 2], 3) for k, w in enumerate(self._target_weights)]
            partition = common_partition([*weights, *others], incidence, self._model.device, join=join)
            tasks = engine.tasks(self.problems, self.intake, partition, count)

            def record(part: int, parts: int) -> PartLaunches:
                solve = _solves(tasks, part, parts)
                return PartLaunches.joined([self._reads(part, parts), solve, self._judges(partition, part, parts)])

            self._plans[key] = partition, Recording(self._model.device, record, self._threads)
            if len(self._plans) > PLANS_MAX:
                self._plans.popitem(last=False)
        self._plans.move_to_end(key)
        partition, recording = self._plans[key]
        recording.prepare(count)
        return partition, lambda executor: recording.run(count, executor)

    def _solve_in_steps(
        self, engine: CompiledEngine, rows: Rows, count: int, *, join: bool
    ) -> tuple[Partition, Callable[[ThreadPoolExecutor | None], None]]:
        self.read(count)
        partition = self.discovered(rows, count, join=join)
        tasks = engine.tasks(self.problems, self.intake, partition, count)
        solving = Recording(self._model.device, lambda part, parts: _solves(tasks, part, parts), self._threads)
        solving.prepare(count)

        def run(executor: ThreadPoolExecutor | None) -> None:
            solving.run(count, executor)
            self.judge(partition, count)

        return partition, run

    def _reads(self, part: int, parts: int) -> PartLaunches:
        return PartLaunches([(launch, True) for launch in self.intake.launches(self.problems, part, parts)])

    def _judges(self, partition: Partition, part: int, parts: int) -> PartLaunches:
        arrays = partition.device_nisland, partition.device_row_island
        launches = self.outcome.launches(self.problems, self.intake, arrays, part, parts)
        return PartLaunches([(launch, True) for launch in launches], [partition])


def _solves(tasks: Sequence[tuple[wp.Kernel, Any]], part: int, parts: int) -> PartLaunches:
    launches = []
    for kernel, task in tasks:
        device = task.settings.device
        launches.append((wp.launch(kernel, 1, [task, part, parts], device=device, record_cmd=True), False))
    return PartLaunches(launches, tasks)
