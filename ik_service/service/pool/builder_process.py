"""Builder process: receives requests, solves them so that their kernels are compiled, and reports each outcome.

The process shares no state with the service and can be killed at any time. Unfinished kernels are removed from the
cache after a kill and after a failed build. Compilers write thousands of lines to standard error; the process captures
these lines and puts the first characters into the error.
"""

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import warp as wp

from ik_service.errors import KernelBuildError, KernelCacheError
from ik_service.kernels import kernel_cache
from ik_service.robots import RobotModel
from ik_service.service.pool.kernel_marks import put_mark
from ik_service.service.pool.solver_cache import SolverCache
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.warp_start import start_warp
from objectives.errors import IKError

OUTPUT_CHARACTERS_MAX = 300
"""Characters of the compiler's output in an error."""
OUTPUT_BYTES_MAX = 2**20
"""Bytes of the compiler's output that are read."""
CLOCK_S = 2.0
"""Largest lag of the clock of a file system [s]."""


class BuilderProcess:
    """Parent's handle of a builder process, on idle cores only if `yields`; OSError if the process cannot be started.

    `device` is "auto", "cpu", "cuda" or a CUDA device such as "cuda:1".
    """

    def __init__(self, device: str, *, yields: bool = False) -> None:
        # Spawned: a fork would copy the state of Warp and of threads, but not the threads.
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        arguments = (theirs, device, wp.config.log_level, yields)
        try:
            self._process = context.Process(target=fill_caches, args=arguments, name="ik-builder", daemon=True)
            self._process.start()
        except BaseException:
            self._connection.close()
            raise
        finally:
            theirs.close()
        self._started_at = time.time()

    def begin(self, robot: RobotModel, sample: SolveRequest, mark: Path | None) -> None:
        """Send a request, and the mark to set after the compilation; OSError if the process has ended."""
        self._connection.send((robot, sample, mark))

    def is_finished(self, patience_s: float) -> bool:
        """Wait for the current request, at most `patience_s` [s]; return whether the request is finished.

        BuildFailedError if the code cannot be compiled, KernelCacheError if the kernels cannot be kept: the process
        goes on. EOFError or OSError if the process has ended.
        """
        if not self._connection.poll(patience_s):
            return False
        fault = self._connection.recv()
        if fault is not None:
            raise fault
        return True

    def kill(self) -> None:
        """Kill the process and remove its unfinished kernels."""
        self._connection.close()
        self._process.kill()
        self._process.join()
        if self._process.pid is not None:
            remove_unfinished_kernels(self._process.pid, self._started_at)
        self._process.close()


class BuildFailedError(Exception):
    """The compiler rejects the code; the message has the start of the compiler's output."""


def is_build_failure(error: Exception) -> bool:
    """Return whether an error of this package or of Warp reports a failed compilation."""
    return isinstance(error, KernelBuildError) or "kernel build failed" in str(error)


def fill_caches(connection: Connection, device: str, log_level: int, yields: bool) -> None:
    """Solve requests from the parent, one after the other; runs in the builder process."""
    for sig in (signal.SIGINT, signal.SIGHUP):
        signal.signal(sig, signal.SIG_IGN)  # a terminal signals all processes; the parent ends this process
    if yields:
        os.nice(19)
        with suppress(AttributeError, OSError):  # Linux only, and not in every container
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            Path("/proc/self/oom_score_adj").write_text("1000")  # the first process to be killed when memory is short
    end_with_parent()
    wp.config.log_level = log_level  # Warp writes to standard output: the log of a container
    start_warp(log_notes=False)  # the parent has logged the notes
    started_at = time.time()
    with suppress(EOFError):
        while True:
            robot, sample, mark = connection.recv()
            fault = fill_cache(robot, sample, device, mark)
            if fault is not None:
                remove_unfinished_kernels(os.getpid(), started_at)
            connection.send(fault)


def fill_cache(
    robot: RobotModel, sample: SolveRequest, device: str, mark: Path | None
) -> BuildFailedError | KernelCacheError | None:
    """Solve a request to put its kernels into the cache; runs in the builder process. Return the error, if any.

    None also if the solver refuses the request: the solver thread then gets the same refusal and passes the error to
    the caller.
    """
    with captured_output() as compiler_output:
        try:
            for one in sample.solves:
                need_kernels(robot, one, device)
        except KernelBuildError as error:
            fault: Exception | None = error
        except (KernelCacheError, OSError) as error:
            return KernelCacheError(str(error))
        except IKError:
            return None
        except Exception as error:  # noqa: BLE001  # Warp and its compilers raise any error, bare Exception too
            fault = error
        else:
            fault = None
    if fault is None:
        kernel_cache.keep_bound()
        if mark is not None:
            put_mark(mark)
        return None
    lines = [str(fault), *compiler_output]
    text = " ".join(" ".join(lines).split())[:OUTPUT_CHARACTERS_MAX]
    return BuildFailedError(f"{type(fault).__name__}: {text} ({len(compiler_output)} lines from the compiler)")


def need_kernels(robot: RobotModel, sample: SolveRequest, device: str) -> None:
    """Solve a sample and its possible follow-up solves, so that all their kernels are compiled; errors as in a solve.

    Follow-up solves: several solutions per island, to recombine colliding islands; targets alone, if lower-priority
    objectives keep the solver from the targets; starts with open loops, for robots with closed loops and requests
    without start and limits.
    """
    cache = SolverCache(device)
    if sample.motion is not None:
        cache.solve_together(robot, [sample])
        return
    if sample.choice is not None:
        cache.load_choice(robot, sample, sample.choice.criterion)
        return
    cache.solve(robot, sample)
    if robot.loops:
        free = replace(sample.options, approximate=None, sampler="roberts")
        cache.solve(robot, replace(sample, batch=sample.batch._replace(start=None, limits=None), options=free))
    yields = sample.objectives and all(one.priority == 1 for one in sample.objectives)
    if sample.targets and yields:
        with suppress(IKError):
            cache.solve(robot, replace(sample, objectives=()))
    if robot.collision_model is not None and robot.trees.ntree > 1:
        with suppress(IKError):  # some kinds of requests do not support several solutions
            cache.solve(robot, replace(sample, options=replace(sample.options, solutions=2, repair=False)))


@contextmanager
def captured_output() -> Iterator[list[str]]:
    """Capture standard output and standard error, also of native code; the list is filled at the end."""
    compiler_output: list[str] = []
    with tempfile.TemporaryFile() as file, _redirected(file.fileno(), (1, 2)):
        try:
            yield compiler_output
        finally:
            for stream in (sys.stdout, sys.stderr):
                with suppress(AttributeError, OSError, ValueError):
                    stream.flush()
            file.seek(0)
            compiler_output += filter(str.strip, file.read(OUTPUT_BYTES_MAX).decode(errors="replace").splitlines())


@contextmanager
def _redirected(to: int, descriptors: tuple[int, ...]) -> Iterator[None]:
    kept = {}
    for descriptor in descriptors:
        with suppress(OSError):  # the descriptor is closed
            kept[descriptor] = os.dup(descriptor)
            os.dup2(to, descriptor)
    try:
        yield
    finally:
        for descriptor, copy in kept.items():
            os.dup2(copy, descriptor)
            os.close(copy)


def remove_unfinished_kernels(pid: int, since: float) -> None:
    """Remove the unfinished kernels of a process from the cache; Warp puts the process id into their names.

    Args:
        pid: Id of the process; a process on another machine may have the same id.
        since: Start of the process on the clock of the file system [s]; older kernels stay.
    """
    for folder in kernel_cache.folder().glob(f"*_p{pid}_t*"):
        with suppress(OSError):
            if folder.stat().st_mtime >= since - CLOCK_S:
                shutil.rmtree(folder)


def end_with_parent() -> None:
    """End this process when its parent ends for any reason; runs in the builder process."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # a parent has started this process

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="ik-parent", daemon=True).start()
