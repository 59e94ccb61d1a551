"""The pipe between a process of the service and its supervisor, as the process sees it.

The supervisor asks for metrics; the process tells how its start went, and asks for the metrics of the whole service.
"""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Literal, NamedTuple

from ik_service.cli.announcement import Example
from ik_service.service.gate.merged_metrics import Snapshot
from ik_service.service.remote.messages import Failure

GATHER_S = 5.0
"""Longest wait for the metrics of the whole service [s]; then those of this process stand for them."""


class Started(NamedTuple):
    """A front is ready.

    Attributes:
        device: What solves.
        example: A request to try.
    """

    device: str
    example: Example


class StartFailed(NamedTuple):
    """A process cannot do its part."""

    failure: Failure

    @classmethod
    def of(cls, error: BaseException) -> "StartFailed":
        """Return the message about an error."""
        return cls(Failure.of(0, error))


class OwnMetrics(NamedTuple):
    """The metrics of a process."""

    snapshot: Snapshot


Question = Literal["metrics"]
"""From a process: those of all, please. From the supervisor: yours, please."""
FromProcess = Started | StartFailed | OwnMetrics | Question
ToProcess = Snapshot | Question


class ProcessLink:
    """The link of one process.

    Args:
        connection: The pipe.
        parent_ended: Called once the supervisor has ended.
    """

    def __init__(self, connection: Connection, parent_ended: Callable[[], None]) -> None:
        self._connection, self._parent_ended = connection, parent_ended
        self._own: Callable[[], Snapshot] = list
        self._sending, self._gathering = threading.Lock(), threading.Lock()
        self._gathered: Snapshot | None = None
        self._has_come = threading.Event()
        self.say(OwnMetrics([]))  # from now on it answers
        threading.Thread(target=self._listen, name="ik-supervisor", daemon=True).start()

    def watch(self, own: Callable[[], Snapshot]) -> None:
        """Tell the supervisor of these metrics whenever it asks."""
        self._own = own

    def say(self, message: FromProcess) -> None:
        """Send a message; nothing happens where the supervisor has ended."""
        with self._sending, suppress(OSError):
            self._connection.send(message)

    def gather(self) -> Snapshot:
        """Return the metrics of all processes; blocks until these have answered."""
        with self._gathering:
            self._has_come.clear()
            self.say("metrics")
            if self._has_come.wait(GATHER_S) and self._gathered is not None:
                return self._gathered
        return self._own()

    def _listen(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                message: ToProcess = self._connection.recv()
                if isinstance(message, str):
                    self.say(OwnMetrics(self._own()))
                else:
                    self._gathered = message
                    self._has_come.set()
        self._parent_ended()


def end_this_process() -> None:
    """Let this process end as its supervisor would have asked it to."""
    os.kill(os.getpid(), signal.SIGTERM)
