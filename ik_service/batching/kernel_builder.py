"""Compiling in a process of its own, so that the thread of the solver goes on with what is compiled already.

    first request that needs certain kernels -> the process solves the least that needs them -> kernels in the cache,
    and a mark that they are there -> the thread loads them

One kind of request is built at a time. A build that nobody waits for any more when its turn comes is dropped, and one
that outstays its turn is ended with its process; what it has compiled stays in the cache. A mark that is wrong, because
somebody has removed kernels, does no harm: the thread compiles then.
"""

import hashlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import warp as wp

from ik_service.batching.builder_process import BuilderProcess, put_mark
from ik_service.batching.request import SolveRequest
from ik_service.compiler import cpu_target
from ik_service.robots import RobotModel

MARKS = "ik_service_marks"
"""Folder of the marks in the kernel cache."""
TURN_S = 60.0
"""How long a build may take while others wait for theirs, or once nobody waits for it any more [s]. What generated code
needs takes seconds, the longest that the compiled engine holds some ten (`benchmarks/first_use.md`)."""
LOOK_S = 0.1
"""How often a build under way is looked after."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Build:
    """Kernels that are wanted.

    Attributes:
        robot: The robot.
        request: A request that needs them.
        mark: The file that stands for them.
        done: Is told whether somebody may load them now, or that they have been given up.
        is_wanted: Tells whether anybody still waits for them.
    """

    robot: RobotModel
    request: SolveRequest
    mark: Path
    done: Callable[[bool], None]
    is_wanted: Callable[[], bool]


class KernelBuilder:
    """Fills the kernel cache for requests, one after the other, from a thread that lives as long as any are left.

    Args:
        device: "auto", "cpu", "cuda" or a CUDA device such as "cuda:1".
        turn_s: How long a build may hold up others [s].
    """

    def __init__(self, device: str, *, turn_s: float = TURN_S) -> None:
        self._device, self._turn_s = device, turn_s
        self._lock = threading.Lock()
        self._waiting: deque[Build] = deque()
        self._thread: threading.Thread | None = None
        self._closed = False

    def build(
        self,
        robot: RobotModel,
        request: SolveRequest,
        done: Callable[[bool], None],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Compile what a request needs.

        What cannot be made in the process is left to the thread of the solver, whose error goes to the caller.

        Args:
            robot: The robot.
            request: The request.
            done: Called from some thread, once: with True when its kernels are there, or cannot be made in a process,
                with False when they are given up because nobody wanted them or they took too long.
            is_wanted: Called from some thread; tells whether anybody still waits for them.

        Raises:
            Exception: Whatever keeps the build from being asked for; `done` is not called.
        """
        mark = mark_of(robot, request, self._device)
        if mark.exists():
            done(True)
            return
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="ik-builder", daemon=True)
                thread.start()
                self._thread = thread
            self._waiting.append(Build(robot, request, mark, done, is_wanted))

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
        """Build what is wanted; return the process that is there for the next build, None where there is none."""
        if not build.is_wanted():
            build.done(False)
            return process
        try:
            process = process or BuilderProcess(self._device)
            is_there = goes_on = self._follow(process, build)
        except Exception as error:  # noqa: BLE001  # no descriptors, no memory, or ended from outside
            _log.warning("The process that compiles kernels has died; the solver compiles itself.", exc_info=error)
            is_there, goes_on = True, False
        if process is not None and not goes_on:
            process.kill()
            process = None
        if not self._closed:
            build.done(is_there)
        return process

    def _next(self) -> Build | None:
        with self._lock:
            if self._waiting and not self._closed:
                return self._waiting.popleft()
            self._thread = None
            self._waiting.clear()
            return None

    def _follow(self, process: BuilderProcess, build: Build) -> bool:
        """Have something built; return False where it is given up, and the process with it.

        Raises:
            OSError: The process has ended.
            EOFError: The same.
        """
        end = time.monotonic() + self._turn_s
        process.begin(build.robot, build.request.sample(), build.mark)
        while not process.has_ended_one(LOOK_S):
            if self._closed:
                return False
            if time.monotonic() > end and (self._holds_up_others() or not build.is_wanted()):
                _log.warning("Kernels for robot '%s' took longer than %g s to compile.", build.robot.name, self._turn_s)
                return False
        return True

    def _holds_up_others(self) -> bool:
        with self._lock:
            waiting = list(self._waiting)
        return any(build.is_wanted() for build in waiting)


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
