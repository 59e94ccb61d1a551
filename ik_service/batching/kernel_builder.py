"""Compiling in a process of its own, so that the thread of the solver goes on with what is compiled already.

    first request that needs certain kernels -> the process solves some of its problems -> kernels in the cache, and a
    mark that they are there -> the thread loads them

The process lives as long as there is something to compile. A mark that is wrong, because somebody has removed kernels,
does no harm: the thread compiles then.
"""

import hashlib
import logging
import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import warp as wp

from ik_service.batching.request import SolveRequest
from ik_service.batching.solver_shelf import SolverShelf
from ik_service.batching.warp_start import start_warp
from ik_service.compiler import cpu_target
from ik_service.robots import RobotModel

MARKS = "ik_service_marks"
"""Folder of the marks in the kernel cache."""
SAMPLE_SIZE = 64
"""Problems of a request that are solved to compile for it: weights by problem may need several kernels."""

_log = logging.getLogger(__name__)


class KernelBuilder:
    """Fills the kernel cache for requests, one after the other.

    Args:
        device: "auto", "cpu", "cuda" or a CUDA device such as "cuda:1".
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._process: ProcessPoolExecutor | None = None
        self._pending = 0

    def build(self, robot: RobotModel, request: SolveRequest, done: Callable[[], None]) -> None:
        """Compile what a request needs; call `done` from some thread once it is there, or cannot be made there.

        What cannot be made in the process is left to the thread of the solver, whose error goes to the caller.

        Raises:
            Exception: Whatever keeps the process from being asked, such as too few descriptors; `done` is not called.
        """
        sample, mark = request.part(slice(0, SAMPLE_SIZE)), mark_of(robot, request, self._device)
        if mark.exists():
            done()
            return
        with self._lock:
            # Spawned: a fork would inherit the state of Warp and of threads that are not there.
            process = self._process or ProcessPoolExecutor(
                1, mp_context=multiprocessing.get_context("spawn"), initializer=end_with_parent
            )
            future = process.submit(fill_cache, robot, sample, self._device, mark, wp.config.log_level)
            self._process = process  # one that could not start would keep what it was asked
            self._pending += 1
        future.add_done_callback(lambda ended: self._end(ended, done))

    def close(self) -> None:
        """End the process, after what it is compiling."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.shutdown(wait=True, cancel_futures=True)

    def _end(self, ended: "Future[None]", done: Callable[[], None]) -> None:
        error = None if ended.cancelled() else ended.exception()
        if isinstance(error, BrokenProcessPool):
            _log.warning("The process that compiles kernels has died; the solver compiles itself.", exc_info=error)
        with self._lock:
            self._pending -= 1
            idle = self._process if self._pending == 0 or isinstance(error, BrokenProcessPool) else None
            if idle is not None:
                self._process = None
        if idle is not None:
            idle.shutdown(wait=False)
        done()


def mark_of(robot: RobotModel, request: SolveRequest, device: str) -> Path:
    """Return the file that stands for the kernels of a request; one for all GPUs."""
    code = (version("ik-service"), wp.__version__, device.partition(":")[0], cpu_target().name)
    key = (*code, robot.content_hash, request.code_key)
    return Path(str(wp.config.kernel_cache_dir), MARKS, hashlib.sha256(repr(key).encode()).hexdigest())


def end_with_parent() -> None:
    """End this process as soon as the one that started it is gone, however that ended; runs in the process."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # it has been started by one

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="ik-parent", daemon=True).start()


def fill_cache(robot: RobotModel, sample: SolveRequest, device: str, mark: Path, log_level: int) -> None:
    """Solve some problems, so that the kernels for them are in the cache; runs in the process."""
    wp.config.log_level = log_level  # Warp writes to standard output, which in a container is the log
    start_warp(log_notes=False)  # as the one that started it has
    SolverShelf(device).solve(robot, sample)
    _put(mark)


def mark_compiled(robot: RobotModel, request: SolveRequest, device: str) -> None:
    """Mark that the kernels of a request are in the cache, for services that name their device or take the best.

    Args:
        robot: The robot.
        request: Such as a caller may send; its numbers do not matter.
        device: What they were compiled for.
    """
    for name in (device, "auto"):
        _put(mark_of(robot, request, name))


def _put(mark: Path) -> None:
    with suppress(OSError):  # a cache that is only read
        mark.parent.mkdir(exist_ok=True)
        mark.touch()
