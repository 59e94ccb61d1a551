"""Compilation in a builder process; meanwhile the solver thread serves requests with compiled kernels.

    first request for new kernels -> the builder process solves a small sample -> kernels in the cache, and a mark ->
    the solver thread loads the kernels

A build is compiled in steps. Each step has one pattern of active rows, with one or two kernels. After each step another
owner gets the next turn; among the builds of one owner, another build does. So a request with many kernels does not
delay other requests. A build without waiting requests is abandoned at its next turn. A step beyond the time limit is
ended with its process; finished kernels stay in the cache. If the process dies, a new process repeats the step, at most
`RESTARTS_MOST` times per build; then the build has failed. If kernels were removed but their mark was not, the solver
thread compiles the kernels again.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ik_service.errors import KernelCacheError
from ik_service.robots import RobotModel
from ik_service.service.pool.builder_process import BuilderProcess, BuildFailedError
from ik_service.service.pool.kernel_marks import mark_of
from ik_service.service.queue.fair_cap import Owner
from ik_service.service.queue.solve_request import SolveRequest

TURN_S = 60.0
"""Longest time of a step while other builds wait, or once no request waits for it [s]. Generated code takes seconds to
compile, the longest that the compiled engine takes about ten (`benchmarks/engines/first_use.md`)."""
RESTARTS_MOST = 2
"""Processes that are started for a build in place of those that died, such as for a lack of memory."""
LOOK_S = 0.1
"""Interval of the checks of a running step [s]."""
STEP_S = 3.0
"""Estimated time of a step before the first one [s]."""
OLD_SHARE = 0.8
"""Weight of the earlier steps in the mean time of a step."""

_logger = logging.getLogger(__name__)


class BuildEnd(Enum):
    """Outcome of a build."""

    COMPILED = "the kernels are compiled, or the solver refuses the request itself"
    ABANDONED = "no request waited for it, or a step took too long"
    FAILED = "the code cannot be compiled, or the process dies of it"
    NOT_KEPT = "the kernel cache cannot be written"


@dataclass(eq=False)
class Build:
    """Kernels to compile."""

    robot: RobotModel
    sample: SolveRequest  # smallest request for all these kernels: one problem per pattern of active rows
    mark: Path  # file that marks the kernels as compiled
    owner: Owner  # owner of the first request for the kernels
    on_end: Callable[[BuildEnd], None]  # called with the outcome
    owners: Callable[[], Collection[Owner]]  # returns the owners of requests still waiting for the kernels
    made: int = 0  # number of finished steps
    deaths: int = 0  # number of processes that died during this build

    @property
    def left(self) -> int:
        """Number of steps left: one per pattern and, for several patterns, one with all patterns together."""
        patterns = 1 if self.sample.motion is not None else self.sample.problem_count
        return (patterns + 1 if patterns > 1 else 1) - self.made

    def step(self) -> SolveRequest:
        """Return the request for the kernels of the next step."""
        return self.sample if self.left == 1 else self.sample.part(slice(self.made, self.made + 1))


class KernelBuilder:
    """Compiles kernels for requests, step by step, in a thread; the thread ends after the last build.

    `turn_s` is the longest time of a step while other builds wait [s]. With `yields`, the process compiles only on idle
    cores, and failures are logged at level DEBUG.
    """

    def __init__(self, device: str, *, turn_s: float = TURN_S, yields: bool = False) -> None:
        self._device, self._turn_s, self._yields = device, turn_s, yields
        self._say = _logger.debug if yields else _logger.warning
        self._lock = threading.Lock()
        self._waiting: deque[Build] = deque()
        self._in_progress: Build | None = None
        self._turns = 0
        self._last_turns: dict[Owner, int] = {}  # never removed: owners are API keys
        self._step_s = STEP_S
        self._thread: threading.Thread | None = None
        self._closed = False

    def build(
        self,
        robot: RobotModel,
        request: SolveRequest,
        on_end: Callable[[BuildEnd], None],
        owners: Callable[[], Collection[Owner]] = lambda: (None,),
        *,
        owner: Owner = None,
    ) -> None:
        """Compile the kernels of a request; any error means that the build could not be queued.

        A build fails, without another attempt, if the compiler rejects the code or if the process keeps dying: the same
        code would block the solver thread. `on_end` is called once with the outcome of a queued build. `owners` returns
        the owners of requests waiting for the kernels. Both are called from any thread.
        """
        mark = mark_of(robot, request, self._device)
        if mark.exists() or all(mark_of(robot, one, self._device).exists() for one in request.solves):
            on_end(BuildEnd.COMPILED)
            return
        build = Build(robot, request.sample(), mark, owner, on_end, owners)
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="ik-builder", daemon=True)
                thread.start()
                self._thread = thread
            self._waiting.append(build)

    def seconds_left(self, owner: Owner) -> float:
        """Return the estimated time until all kernels for an owner are compiled [s].

        Estimate: mean time of a step, times the number of steps of the owner plus at most as many of each other owner.
        """
        left: dict[Owner, int] = {}
        with self._lock:
            builds = (*self._waiting, *(() if self._in_progress is None else (self._in_progress,)))
            for build in builds:
                left[build.owner] = left.get(build.owner, 0) + build.left
            own = left.pop(owner, 1)
            return self._step_s * (own + sum(min(own, steps) for steps in left.values()))

    def close(self) -> None:
        """End the process and drop all waiting builds."""
        with self._lock:
            self._closed, thread = True, self._thread
        if thread is not None:
            thread.join()

    # ------------------------------------------------------------------ the thread
    def _run(self) -> None:
        process: BuilderProcess | None = None
        try:
            while (build := self._next()) is not None:
                process = self._carry_out(build, process)
        finally:
            if process is not None:
                process.kill()

    def _carry_out(self, build: Build, process: BuilderProcess | None) -> BuilderProcess | None:
        """Compile one step of a build; return the process for the next step, None if the process has ended."""
        ended: BuildEnd | None = None
        goes_on = True
        try:
            process = process or BuilderProcess(self._device, yields=self._yields)
            goes_on = self._run_step(process, build)
            if not goes_on:
                ended = BuildEnd.ABANDONED
            elif not build.left:
                ended = BuildEnd.COMPILED
        except BuildFailedError as error:
            self._say("Kernels for robot '%s' cannot be compiled. %s", build.robot.name, error)
            ended = BuildEnd.FAILED
        except KernelCacheError as error:
            self._say("Kernels for robot '%s' cannot be kept. %s", build.robot.name, error)
            ended = BuildEnd.NOT_KEPT
        except Exception as error:  # noqa: BLE001  # OSError, EOFError, pickling ...; the thread must take the next build
            build.deaths += 1
            self._say(
                "The process that compiles kernels for robot '%s' has died: %d of %d times.",
                *(build.robot.name, build.deaths, 1 + RESTARTS_MOST),
                exc_info=None if self._yields else error,
            )
            ended, goes_on = BuildEnd.FAILED if build.deaths > RESTARTS_MOST else None, False
        if process is not None and not goes_on:
            process.kill()
            process = None
        with self._lock:
            self._in_progress = None
            if ended is None:
                self._waiting.append(build)
        if ended is not None and not self._closed:
            build.on_end(ended)
        return process

    def _next(self) -> Build | None:
        """Return the next build by turn; abandon builds without waiting requests."""
        while True:
            with self._lock:
                waiting = list(self._waiting)
                if self._closed or not waiting:
                    self._thread = None
                    self._waiting.clear()
                    return None
            owners = {build: build.owners() for build in waiting}  # without the lock: `owners` locks the queue
            dropped = [build for build in waiting if not owners[build]]
            turns = [(self._last_turns.get(owner, 0), build, owner) for build in waiting for owner in owners[build]]
            with self._lock:
                for build in dropped:
                    self._waiting.remove(build)
                if turns:
                    _, self._in_progress, owner = min(turns, key=lambda turn: turn[0])  # the earliest build if equal
                    self._waiting.remove(self._in_progress)
                    self._turns += 1
                    self._last_turns[owner] = self._turns
            for build in dropped:
                build.on_end(BuildEnd.ABANDONED)
            if turns:
                return self._in_progress

    def _run_step(self, process: BuilderProcess, build: Build) -> bool:
        """Run the next step of a build; return False if it takes too long; errors as in `BuilderProcess`."""
        began = time.monotonic()
        process.begin(build.robot, build.step(), build.mark if build.left == 1 else None)
        while not process.is_finished(LOOK_S):
            if self._closed:
                return False
            with self._lock:
                others = list(self._waiting)
            is_late = time.monotonic() > began + self._turn_s
            if is_late and (any(other.owners() for other in others) or not build.owners()):
                self._say("Kernels for robot '%s' took longer than %g s to compile.", build.robot.name, self._turn_s)
                return False
        build.made += 1
        self._step_s = OLD_SHARE * self._step_s + (1.0 - OLD_SHARE) * (time.monotonic() - began)
        return True
