"""A process of the service as its supervisor sees it: started, and started again after it has ended."""

import logging
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from ik_service.cli.process_link import ToProcess
from ik_service.service.gate.merged_metrics import Snapshot, counted, merged

DELAY_LEAST_S, DELAY_MOST_S = 0.1, 10.0
"""Delays before a process is started again: the first one, doubled each time, and the longest [s]."""
OF_TERMINAL = (signal.SIGINT, signal.SIGHUP)
"""Signals that a terminal sends to all processes at once."""
LONG_LIFE_S = 60.0
"""After a life as long as this, the next delay is the first one again [s]."""

_logger = logging.getLogger(__name__)


class Child:
    """One process.

    Args:
        role: What it is.
        run: What it runs, with its role and its end of the pipe before the arguments.
        arguments: Returns further arguments; sockets among them are its own.

    Attributes:
        process: The process; None while there is none.
        connection: The pipe to it, alike.
        is_heard: Whether it has said anything, and so answers.
        is_ready: Whether it has said that it is.
        start_at: When it is to be started [s].
    """

    def __init__(self, role: str, run: Callable[..., None], arguments: Callable[[], Sequence[Any]]) -> None:
        self.role, self._run, self._arguments = role, run, arguments
        self.process: BaseProcess | None = None
        self.connection: Connection | None = None
        self.is_heard, self.is_ready, self.start_at = False, False, 0.0
        self._started_at, self._delay_s = 0.0, DELAY_LEAST_S
        self._last: Snapshot = []
        self._ended: Snapshot = []  # what earlier processes in this place have counted

    @property
    def snapshot(self) -> Snapshot:
        """Its metrics when it last told them, and what earlier ones have counted."""
        return merged([self._last, self._ended])

    def keep(self, snapshot: Snapshot) -> None:
        """Keep what it tells."""
        self._last, self.is_heard = snapshot, True

    @property
    def sources(self) -> list[Connection | int]:
        """What to wait for: what it says, and its end."""
        if self.process is None or self.connection is None:
            return []
        return [self.connection, self.process.sentinel]

    def start(self) -> None:
        """Start the process."""
        context = multiprocessing.get_context("spawn")  # a fork would have the state of Warp, and of threads
        self.connection, theirs = context.Pipe()
        arguments = self._arguments()
        self.process = context.Process(target=self._run, args=(self.role, theirs, *arguments), name=self.role)
        before = {sig: signal.signal(sig, signal.SIG_IGN) for sig in OF_TERMINAL}  # the supervisor passes them on
        try:
            self.process.start()
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)
        theirs.close()
        for own in arguments:
            if isinstance(own, socket.socket):
                own.close()
        self._started_at = time.monotonic()
        _logger.info("Process %s has the id %d.", self.role, self.process.pid)

    def send(self, message: ToProcess) -> None:
        """Send it a message, if it is there."""
        if self.connection is not None:
            with suppress(OSError):
                self.connection.send(message)

    def tell(self, sig: int) -> None:
        """Send it a signal, if it is there."""
        if self.process is not None and self.process.pid is not None and self.process.is_alive():
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, sig)

    def end(self, patience_s: float) -> None:
        """End it, at once where it takes longer."""
        if self.process is not None:
            self.process.terminate()
            self.process.join(patience_s)
            self.process.kill()
            self.gone()

    def gone(self) -> int | None:
        """Note that it has ended; return its exit code."""
        assert self.process is not None
        assert self.connection is not None
        self.process.join()
        code = self.process.exitcode
        self.process.close()
        self.connection.close()
        self.process, self.connection = None, None
        self.is_heard = self.is_ready = False
        self._ended, self._last = counted(self.snapshot), []
        now = time.monotonic()
        if now > self._started_at + LONG_LIFE_S:
            self._delay_s = DELAY_LEAST_S
        self.start_at, self._delay_s = now + self._delay_s, min(2.0 * self._delay_s, DELAY_MOST_S)
        return code
