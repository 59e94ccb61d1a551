"""The process that compiles: it is sent what to solve, solves it, and says so.

It is on its own in whatever takes too long: nothing of it is shared, so it can be ended at any time. What it leaves
half done in the kernel cache then, or where code cannot be compiled, is removed. Compilers write their complaints to
standard error, thousands of lines of them; they are caught there and come back as a few.
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
from multiprocessing.connection import Connection
from pathlib import Path

import warp as wp

from ik_service.batching.requests.solve_request import SolveRequest
from ik_service.batching.solver_cache import SolverCache
from ik_service.errors import KernelBuildError
from ik_service.robots import RobotModel
from ik_service.solver.launches.cache_bound import keep_bound
from ik_service.warp_start import start_warp
from objectives.errors import IKError

OUTPUT_CHARACTERS_MAX = 300
"""Characters of what a compiler says that are kept."""
OUTPUT_BYTES_MAX = 2**20
"""Bytes of what a compiler says that are looked at."""
CLOCK_S = 2.0
"""How far the clock of a file system may be behind."""


class BuilderProcess:
    """A process that compiles, as seen by the one that has started it.

    Args:
        device: "auto", "cpu", "cuda" or a CUDA device such as "cuda:1".

    Raises:
        OSError: It cannot be started.
    """

    def __init__(self, device: str) -> None:
        # Spawned: a fork would inherit the state of Warp and of threads that are not there.
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        arguments = (theirs, device, wp.config.log_level)
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
        """Have a request solved and then, where there is a mark, marked as compiled.

        Raises:
            OSError: The process has ended.
        """
        self._connection.send((robot, sample, mark))

    def has_ended_one(self, patience_s: float) -> bool:
        """Return whether what has begun has ended, for good or ill; wait for it a while.

        Raises:
            BuildFailedError: It cannot be compiled; the process goes on.
            EOFError: The process has ended.
            OSError: The same.
        """
        if not self._connection.poll(patience_s):
            return False
        fault = self._connection.recv()
        if fault is not None:
            raise BuildFailedError(fault)
        return True

    def kill(self) -> None:
        """End it, whatever it is at, and remove what it has left half done."""
        self._connection.close()
        self._process.kill()
        self._process.join()
        if self._process.pid is not None:
            remove_unfinished_kernels(self._process.pid, self._started_at)
        self._process.close()


class BuildFailedError(Exception):
    """Code that cannot be compiled, however often it is tried; says what the compiler said, cut short."""


def is_build_failure(error: Exception) -> bool:
    """Return whether an error says that a compiler has refused code: one of ours, or Warp's."""
    return isinstance(error, KernelBuildError) or "kernel build failed" in str(error)


def fill_caches(connection: Connection, device: str, log_level: int) -> None:
    """Solve what is sent, one after the other, as long as anybody sends; runs in the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal goes to all; the one that started it ends it
    end_with_parent()
    wp.config.log_level = log_level  # Warp writes to standard output, which in a container is the log
    start_warp(log_notes=False)  # as the one that started it has
    started_at = time.time()
    with suppress(EOFError):
        while True:
            robot, sample, mark = connection.recv()
            fault = fill_cache(robot, sample, device, mark)
            if fault is not None:
                remove_unfinished_kernels(os.getpid(), started_at)
            connection.send(fault)


def fill_cache(robot: RobotModel, sample: SolveRequest, device: str, mark: Path | None) -> str | None:
    """Solve some problems, so that the kernels for them are in the cache; runs in the process.

    Returns:
        What is wrong, where code cannot be compiled. None otherwise, also where the solver refuses the request or the
        cache cannot be written: the solver's thread meets the same, and tells the caller.
    """
    with captured_output() as compiler_output:
        try:
            SolverCache(device).solve(robot, sample)
        except KernelBuildError as error:
            fault: Exception | None = error
        except (IKError, OSError, MemoryError):
            return None
        except Exception as error:  # noqa: BLE001  # compilers raise many kinds
            fault = error
        else:
            fault = None
    if fault is None:
        keep_bound()
        if mark is not None:
            put_mark(mark)
        return None
    lines = [str(fault), *compiler_output]
    told = " ".join(" ".join(lines).split())[:OUTPUT_CHARACTERS_MAX]
    return f"{type(fault).__name__}: {told} ({len(compiler_output)} lines from the compiler)"


@contextmanager
def captured_output() -> Iterator[list[str]]:
    """Catch what is written to standard output and error, by native code too; the list is filled at the end."""
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
        with suppress(OSError):  # there is none
            kept[descriptor] = os.dup(descriptor)
            os.dup2(to, descriptor)
    try:
        yield
    finally:
        for descriptor, copy in kept.items():
            os.dup2(copy, descriptor)
            os.close(copy)


def remove_unfinished_kernels(pid: int, since: float) -> None:
    """Remove what a process has begun in the kernel cache and will not finish: Warp puts its id into the names.

    Args:
        pid: Id of the process; one on another machine may have the same.
        since: When it was started, on the clock of the file system [s].
    """
    for folder in Path(str(wp.config.kernel_cache_dir)).glob(f"*_p{pid}_t*"):
        with suppress(OSError):
            if folder.stat().st_mtime >= since - CLOCK_S:
                shutil.rmtree(folder)


def put_mark(mark: Path) -> None:
    """Put the file that says that kernels are there."""
    with suppress(OSError):  # a cache that is only read
        mark.parent.mkdir(mode=0o755, exist_ok=True)  # whatever the umask says: what others may write is not believed
        mark.touch(mode=0o644)


def end_with_parent() -> None:
    """End this process as soon as the one that started it is gone, however that ended; runs in the process."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # it has been started by one

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="ik-parent", daemon=True).start()
