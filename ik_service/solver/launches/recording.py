"""Launches recorded once and replayed: on one thread as a graph, on several threads part by part.

Warp needs more time to look up a kernel and to pack its arguments than a small solve takes. A recorded launch saves
most of that time, a graph of recorded launches nearly all. Recording a graph takes as long as a few solves of one
problem, so it is done for numbers of problems that come repeatedly.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import warp as wp

from ik_service.solver.problems.host_device_array import wait
from ik_service.solver.problems.parts import part_count, part_sizes

Step = Callable[[int], None]  # given the number of problems
USES_MIN = 2  # solves of a number of problems after which its graph is made
GRAPHS_MAX = 32
COUNTS_MAX = 1024  # numbers of problems of which the solves are counted


class PartLaunches:
    """The launches and copies of one part of the problems, in order; see `parts` for what they may read and write.

    Args:
        steps: Each does its share for so many problems.
        kept: Arrays that the steps hold by address only.
    """

    def __init__(self, steps: Sequence[Step], kept: Sequence[Any] = ()) -> None:
        self._steps, self._kept = tuple(steps), tuple(kept)

    @classmethod
    def joined(cls, several: "Sequence[PartLaunches]") -> "PartLaunches":
        """Return the steps of several, one after the other."""
        steps = [step for one in several for step in one._steps]
        return cls(steps, [kept for one in several for kept in one._kept])

    def run(self, count: int) -> None:
        """Do everything for so many problems."""
        for step in self._steps:
            step(count)


def as_recorded(launch: wp.Launch) -> Step:
    """Return the step that launches with the dimension that was recorded."""
    return lambda count: launch.launch()


def per_problem(launch: wp.Launch) -> Step:
    """Return the step that launches with the number of problems as dimension."""
    last = -1

    def run(count: int) -> None:
        nonlocal last
        if count != last:
            launch.set_dim(count)
            last = count
        launch.launch()

    return run


class Recording:
    """Launches of a solve, for any number of threads.

    Args:
        device: Where they run.
        record: Makes the launches of a part, given the part and the number of parts.
        threads: Most threads to use; a GPU takes one.
    """

    def __init__(self, device: wp.Device, record: Callable[[int, int], PartLaunches], threads: int = 1) -> None:
        self._device, self._record, self._threads = device, record, threads
        self._recorded: dict[int, list[PartLaunches]] = {}
        self._graphs: OrderedDict[int, wp.Graph] = OrderedDict()  # by number of problems
        self._uses: Counter[int] = Counter()

    def prepare(self, count: int) -> bool:
        """Record what `run` will need, with the device to oneself; return whether it will use several threads."""
        parts = part_count(count, self._threads)
        if parts not in self._recorded:
            self._recorded[parts] = [self._record(part, parts) for part in range(parts)]
        if parts == 1 and count not in self._graphs and self._is_frequent(count):
            with wp.ScopedCapture(device=self._device) as capture:
                self._recorded[1][0].run(count)
            self._graphs[count] = capture.graph
            if len(self._graphs) > GRAPHS_MAX:
                self._graphs.popitem(last=False)
        return parts > 1

    def _is_frequent(self, count: int) -> bool:
        if len(self._uses) >= COUNTS_MAX:
            self._uses.clear()
        self._uses[count] += 1
        return self._uses[count] > USES_MIN

    def run(self, count: int, executor: ThreadPoolExecutor | None = None) -> None:
        """Do everything for so many problems, and wait for it; after `prepare` with the same number."""
        parts = part_count(count, self._threads)
        if parts > 1:
            assert executor is not None  # the solver makes one where it has threads
            list(executor.map(PartLaunches.run, self._recorded[parts], part_sizes(count, parts)))
        elif count in self._graphs:
            self._graphs.move_to_end(count)
            wp.capture_launch(self._graphs[count])
        else:
            self._recorded[1][0].run(count)
        wait(self._device)
