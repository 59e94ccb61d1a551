"""The process that compiles: it is sent what to solve, solves it, and says so.

It is on its own in whatever takes too long: nothing of it is shared, so it can be ended at any time.
"""

import multiprocessing
import os
import signal
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import warp as wp

from ik_service.batching.request import SolveRequest
from ik_service.batching.solver_shelf import SolverShelf
from ik_service.batching.warp_start import start_warp
from ik_service.robots import RobotModel


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

    def begin(self, robot: RobotModel, sample: SolveRequest, mark: Path) -> None:
        """Have a request solved and then marked as compiled.

        Raises:
            OSError: The process has ended.
        """
        self._connection.send((robot, sample, mark))

    def has_ended_one(self, patience_s: float) -> bool:
        """Return whether what has begun has ended, for good or ill; wait for it a while.

        Raises:
            EOFError: The process has ended.
            OSError: The same.
        """
        if not self._connection.poll(patience_s):
            return False
        self._connection.recv()
        return True

    def kill(self) -> None:
        """End it, whatever it is at."""
        self._connection.close()
        self._process.kill()
        self._process.join()
        self._process.close()


def fill_caches(connection: Connection, device: str, log_level: int) -> None:
    """Solve what is sent, one after the other, as long as anybody sends; runs in the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal goes to all; the one that started it ends it
    end_with_parent()
    wp.config.log_level = log_level  # Warp writes to standard output, which in a container is the log
    start_warp(log_notes=False)  # as the one that started it has
    with suppress(EOFError):
        while True:
            robot, sample, mark = connection.recv()
            with suppress(Exception):  # the solver's thread meets the same, and tells the caller
                fill_cache(robot, sample, device, mark)
            connection.send(None)


def fill_cache(robot: RobotModel, sample: SolveRequest, device: str, mark: Path) -> None:
    """Solve some problems, so that the kernels for them are in the cache; runs in the process."""
    SolverShelf(device).solve(robot, sample)
    put_mark(mark)


def put_mark(mark: Path) -> None:
    """Put the file that says that kernels are there."""
    with suppress(OSError):  # a cache that is only read
        mark.parent.mkdir(exist_ok=True)
        mark.touch()


def end_with_parent() -> None:
    """End this process as soon as the one that started it is gone, however that ended; runs in the process."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # it has been started by one

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="ik-parent", daemon=True).start()
