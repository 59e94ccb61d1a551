"""Compiling in a process of its own, so that the thread of the solver goes on with what is compiled already.

    first request that needs certain kernels -> the process solves the least that needs them -> kernels in the cache,
    and a mark that they are there -> the thread loads them

One step of one build is made at a time: what one pattern of weights needs, so a kernel or two. After each, others have
their turn: owners one after the other, and the builds of each owner one after the other, so that a request that needs
many kernels holds up nobody. A build that nobody waits for any more when its turn comes is dropped, and a step that
outstays its turn is ended with its process; what has been compiled stays in the cache. A mark that is wrong, because
somebody has removed kernels, does no harm: the thread compiles then.
"""

import hashlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from enum import Enum
from importlib.metadata import version
from pathlib import Path

import warp as wp

from ik_service.batching.kernels.builder_process import BuilderProcess, BuildFailedError, put_mark
from ik_service.batching.queue.fair_cap import Owner
from ik_service.batching.requests.solve_request import SolveRequest
from ik_service.compiler import cpu_target
from ik_service.robots import RobotModel
from ik_service.solver.launches.cache_bound import MARKS

TURN_S = 60.0
"""How long a step may take while others wait for theirs, or once nobody waits for it any more [s]. What generated code
needs takes seconds, the longest that the compiled engine holds some ten (`benchmarks/engines/first_use.md`)."""
LOOK_S = 0.1
"""How often a step under way is looked after."""
STEP_S = 3.0
"""How long a step takes, about, before any has been made [s]."""
OLD_SHARE = 0.8
"""Weight of what was known before in the usual time of a step."""

_log = logging.getLogger(__name__)


class BuildEnd(Enum):
    """How a build has ended."""

    COMPILED = "kernels are there, or the solver's thread has to make them"
    ABANDONED = "nobody wanted it, or a step of it took too long"
    FAILED = "it cannot be compiled"


@dataclass(eq=False)
class Build:
    """Kernels that are wanted.

    Attributes:
        robot: The robot.
        sample: The least that needs them all, one problem of each pattern of rows that are on.
        mark: The file that stands for them.
        owner: Who has asked first.
        on_end: Is told how it has ended.
        owners: Tells who still waits for them.
        made: Steps that are done.
    """

    robot: RobotModel
    sample: SolveRequest
    mark: Path
    owner: Owner
    on_end: Callable[[BuildEnd], None]
    owners: Callable[[], Collection[Owner]]
    made: int = 0

    @property
    def left(self) -> int:
        """Steps that are not done: one for each pattern, and where there are several, all together once more."""
        patterns = self.sample.problem_count
        return (patterns + 1 if patterns > 1 else 1) - self.made

    def step(self) -> SolveRequest:
        """Return what is to be solved next."""
        return self.sample if self.left == 1 else self.sample.part(slice(self.made, self.made + 1))


class KernelBuilder:
    """Fills the kernel cache for requests, step by step, from a thread that lives as long as any are left.

    Args:
        device: "auto", "cpu", "cuda" or a CUDA device such as "cuda:1".
        turn_s: How long a step may hold up others [s].
    """

    def __init__(self, device: str, *, turn_s: float = TURN_S) -> None:
        self._device, self._turn_s = device, turn_s
        self._lock = threading.Lock()
        self._waiting: deque[Build] = deque()
        self._in_progress: Build | None = None
        self._turns = 0
        self._last_turns: dict[Owner, int] = {}  # by number; for good: there are as many owners as API keys
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
        """Compile what a request needs.

        What cannot be made in the process is left to the thread of the solver, whose error goes to the caller; but what
        cannot be compiled there is not tried again.

        Args:
            robot: The robot.
            request: The request.
            on_end: Called from some thread, once.
            owners: Called from some thread; tells who still waits for the kernels.
            owner: Who asks.

        Raises:
            Exception: Whatever keeps the build from being asked for; `done` is not called.
        """
        mark = mark_of(robot, request, self._device)
        if mark.exists():
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
        """Return how long it takes, about, until all that an owner wants now is there [s].

        That is the usual time of as many steps, and of as many of each other owner, as far as there are so many.
        """
        left: dict[Owner, int] = {}
        with self._lock:
            builds = (*self._waiting, *(() if self._in_progress is None else (self._in_progress,)))
            for build in builds:
                left[build.owner] = left.get(build.owner, 0) + build.left
            own = left.pop(owner, 1)
            return self._step_s * (own + sum(min(own, steps) for steps in left.values()))

    def close(self) -> None:
        """End the process with what it is compiling, and forget what waits."""
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
        """Make a step; return the process that is there for the next one, None where there is none."""
        ended: BuildEnd | None = None
        goes_on = True
        try:
            process = process or BuilderProcess(self._device)
            goes_on = self._follow(process, build)
            if not goes_on:
                ended = BuildEnd.ABANDONED
            elif not build.left:
                ended = BuildEnd.COMPILED
        except BuildFailedError as error:
            _log.warning("Kernels for robot '%s' cannot be compiled. %s", build.robot.name, error)
            ended = BuildEnd.FAILED
        except Exception as error:  # noqa: BLE001  # no descriptors, no memory, or ended from outside
            _log.warning("The process that compiles kernels has died; the solver compiles itself.", exc_info=error)
            ended, goes_on = BuildEnd.COMPILED, False
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
        """Return the build whose turn it is; drop those that nobody wants."""
        while True:
            with self._lock:
                waiting = list(self._waiting)
                if self._closed or not waiting:
                    self._thread = None
                    self._waiting.clear()
                    return None
            owners = {build: build.owners() for build in waiting}  # without the lock: it takes that of the queue
            dropped = [build for build in waiting if not owners[build]]
            turns = [(self._last_turns.get(owner, 0), build, owner) for build in waiting for owner in owners[build]]
            with self._lock:
                for build in dropped:
                    self._waiting.remove(build)
                if turns:
                    _, self._in_progress, owner = min(turns, key=lambda turn: turn[0])  # the first of equal ones
                    self._waiting.remove(self._in_progress)
                    self._turns += 1
                    self._last_turns[owner] = self._turns
            for build in dropped:
                build.on_end(BuildEnd.ABANDONED)
            if turns:
                return self._in_progress

    def _follow(self, process: BuilderProcess, build: Build) -> bool:
        """Have the next step made; return False where it is given up, and the process with it.

        Raises:
            BuildFailedError: It cannot be compiled.
            OSError: The process has ended.
            EOFError: The same.
        """
        began = time.monotonic()
        process.begin(build.robot, build.step(), build.mark if build.left == 1 else None)
        while not process.has_ended_one(LOOK_S):
            if self._closed:
                return False
            if time.monotonic() > began + self._turn_s and (self._holds_up_others() or not build.owners()):
                _log.warning("Kernels for robot '%s' took longer than %g s to compile.", build.robot.name, self._turn_s)
                return False
        build.made += 1
        self._step_s = OLD_SHARE * self._step_s + (1.0 - OLD_SHARE) * (time.monotonic() - began)
        return True

    def _holds_up_others(self) -> bool:
        with self._lock:
            waiting = list(self._waiting)
        return any(build.owners() for build in waiting)


def mark_of(robot: RobotModel, request: SolveRequest, device: str) -> Path:
    """Return the file that stands for the kernels of a request; one for all GPUs."""
    code = (version("ik-service"), wp.__version__, device.partition(":")[0], cpu_target().name)
    key = (*code, robot.content_hash, request.code_key)
    return Path(str(wp.config.kernel_cache_dir), MARKS, hashlib.sha256(repr(key).encode()).hexdigest())


def mark_compiled(robot: RobotModel, request: SolveRequest, device: str) -> None:
    """Mark that the kernels of a request are in the cache, for services that name their device or take the best.

    Args:
        robot: The robot.
        request: Such as a caller may send; its numbers do not matter.
        device: What they were compiled for.
    """
    requests = [request]
    if request.options.precision == "float64":  # which needs whatever a choice among seeds does
        requests.append(replace(request, options=replace(request.options, precision="float32", best_of="cost")))
    for one in requests:
        for name in (device, "auto"):
            put_mark(mark_of(robot, one, name))
