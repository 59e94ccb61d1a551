"""Launches recorded once and replayed: on one thread as a graph, on several threads part by part.

Warp needs more time to look up a kernel and to pack its arguments than a small solve takes. A recorded launch saves
most of this time, a graph of recorded launches nearly all. Recording a graph takes as long as a few solves of one
problem; graphs are therefore recorded only for recurring numbers of problems.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import warp as wp

from ik_service.kernels.device_lock import recording
from ik_service.kernels.host_device_array import wait

Step = Callable[[int], None]  # given the number of problems
Replay = Callable[[], None]
USES_MIN = 2  # solves of a number of problems after which its graph is made
SELDOM = (
    16  # times USES_MIN, for varying numbers of problems: in a solve a graph saves 1/70 of the time to make a graph
)
USES_FACTOR: ContextVar[int] = ContextVar("USES_FACTOR", default=1)
GRAPHS_MAX = 32
COUNTS_MAX = 1024  # numbers of problems with a counter of solves
PART_MIN = 256  # least number of problems per thread: fewer leave lanes idle at the end of a part


@contextmanager
def seldom_recorded() -> Iterator[None]:
    """Make graphs in this block only for numbers of problems with very many solves."""
    token = USES_FACTOR.set(SELDOM)
    try:
        yield
    finally:
        USES_FACTOR.reset(token)


class PartLaunches:
    """The launches and copies of one part of the problems, in order; `parts` states the rules for reads and writes.

    Args:
        steps: Functions of the number of problems.
        kept: Arrays held by the steps by address only.
    """

    def __init__(self, steps: Sequence[Step], kept: Sequence[Any] = ()) -> None:
        self._steps, self._kept = tuple(steps), tuple(kept)

    @classmethod
    def joined(cls, several: "Sequence[PartLaunches]") -> "PartLaunches":
        """Concatenate the steps of several parts."""
        steps = [step for one in several for step in one._steps]
        return cls(steps, [kept for one in several for kept in one._kept])

    def run(self, count: int) -> None:
        """Run all steps for this number of problems."""
        for step in self._steps:
            step(count)


def without_count(run: Callable[[], None]) -> Step:
    """Return a step independent of the number of problems."""
    return lambda count: run()


def per_problem(launch: wp.Launch, lanes: int = 1) -> Step:
    """Return a step with this number of threads (lanes) per problem."""
    last = -1

    def run(count: int) -> None:
        nonlocal last
        if count != last:
            launch.set_dim(count * lanes)
            last = count
        launch.launch()

    return run


class Recording:
    """Launches of a solve, for any number of threads."""

    def __init__(
        self,
        device: wp.Device,  # of the launches
        # makes the launches of a part, given the part and the number of parts
        record: Callable[[int, int], PartLaunches],
        executor: ThreadPoolExecutor | None = None,  # threads to use; None for the caller's own, as on a GPU
        threads: int = 1,  # number of these threads
        *,
        waits: bool = True,  # whether a replay waits for the device
    ) -> None:
        self._waits, self._must_wait = waits, waits and device.is_cuda
        self._device, self._record, self._executor, self._threads = device, record, executor, threads
        self._recorded: dict[int, list[PartLaunches]] = {}
        self._graphs: OrderedDict[int, Replay] = OrderedDict()  # each by its number of problems
        self._uses: Counter[int] = Counter()

    def prepare(self, count: int) -> Replay:
        """Record launches for this number of problems, with the device lock held; return their replay."""
        # While a caller records a graph the replay is plain launches, which become part of this graph, so nothing waits
        is_captured = not self._waits and self._device.is_capturing
        if not is_captured and (replay := self._graphs.get(count)) is not None:
            self._graphs.move_to_end(count)
            return replay
        parts = part_count(count, self._threads)
        if parts not in self._recorded:
            self._recorded[parts] = [self._record(part, parts) for part in range(parts)]
        launches = partial(self._run, self._recorded[parts], count)
        if is_captured or parts > 1:
            return launches
        if len(self._uses) >= COUNTS_MAX:
            self._uses.clear()
        self._uses[count] += 1
        if self._uses[count] <= USES_MIN * USES_FACTOR.get():
            return launches
        with recording() as may_record:
            if not may_record:
                return launches
            with wp.ScopedCapture(device=self._device) as capture:
                self._recorded[1][0].run(count)
        launch = self._launch_and_wait if self._must_wait else wp.capture_launch
        replay = self._graphs[count] = partial(launch, capture.graph)
        if len(self._graphs) > GRAPHS_MAX:
            self._graphs.popitem(last=False)
        return replay

    def _run(self, parts: Sequence[PartLaunches], count: int) -> None:
        if len(parts) > 1:
            assert self._executor is not None  # the solver makes one if there are threads
            list(self._executor.map(PartLaunches.run, parts, part_sizes(count, len(parts))))
        else:
            parts[0].run(count)
        if self._must_wait:
            wait(self._device)

    def _launch_and_wait(self, graph: wp.Graph) -> None:
        wp.capture_launch(graph)
        wait(self._device)


class KeptRecording:
    """A recording on one thread, made again after an object with its arrays has been replaced."""

    def __init__(self) -> None:
        self._of: Sequence[object] = ()
        self._recording: Recording | None = None

    def prepare(
        self,
        of: Sequence[object],
        device: wp.Device,
        record: Callable[[], PartLaunches],
        count: int,
        *,
        waits: bool = True,
    ) -> Replay:
        """Return the replay for a number of problems; `of`: these objects, `record` makes the launches."""
        is_same = len(of) == len(self._of) and all(one is other for one, other in zip(of, self._of, strict=True))
        if self._recording is None or not is_same:
            launches = record()
            self._of, self._recording = tuple(of), Recording(device, lambda part, parts: launches, waits=waits)
        return self._recording.prepare(count)


def part_count(problem_count: int, threads: int) -> int:
    """Return the number of parts: one if there are too few problems for several threads."""
    return threads if problem_count >= threads * PART_MIN else 1


def part_sizes(problem_count: int, parts: int) -> list[int]:
    """Return the number of problems of each part."""
    return [problem_count * (part + 1) // parts - problem_count * part // parts for part in range(parts)]
