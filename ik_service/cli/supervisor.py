"""The supervisor of a service of several processes: fronts that take requests, and a solver for each device.

    supervisor -> front-1 ... front-N: each with an application and a socket of its own, all sockets of one address
               -> solver, or solver-1 ... solver-M: those with a solver pool, whose queue all fronts share
    each of them <-> supervisor: a pipe, for metrics and how the start went

The supervisor takes no requests. It starts what ends, adds up metrics, and passes on the signal to end: fronts finish
their requests first, then the solvers end.
"""

import logging
import os
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType

from ik_service.cli.announcement import Announcement, reachable_url
from ik_service.cli.children import Child
from ik_service.cli.front_process import run_front
from ik_service.cli.process_link import FromProcess, OwnMetrics, Started, StartFailed
from ik_service.cli.service_server import end_children, start_page
from ik_service.cli.solver_process import run_solver
from ik_service.service.gate.merged_metrics import merged
from ik_service.settings import ServiceSettings

BACKLOG = 2048
"""Connections that wait for a front."""
TELL_S = 2.0
"""Longest wait for the metrics of a process; those that it told before stand for them then [s]."""
END_S = 10.0
"""Time that processes have beyond their own to end, before they are killed [s]."""
SOON_S = 1.0
"""Longest time between two looks at the clock [s]."""

_logger = logging.getLogger(__name__)


class Supervisor:
    """Runs a service.

    Args:
        settings: The settings.
        listener: A socket at the address; it is closed, and shows that no other service is there.
    """

    def __init__(self, settings: ServiceSettings, listener: socket.socket) -> None:
        self._settings, self._family, self._address = settings, listener.family, listener.getsockname()[:2]
        self._announcement = Announcement(settings, *self._address)
        # For the processes, which share the cores: threads of OpenBLAS spin after each use.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        listener.close()
        self._fronts: list[Child] = []
        self._children: list[Child] = []
        self._was_ready = False
        self._failure: BaseException | None = None
        self._end_by: float | None = None  # once it is told to end
        # A round of questions for metrics: who wants them, whose are missing, and since when; who asks for the next.
        self._asking: list[Child] = []
        self._missing: set[Child] = set()
        self._asked_at = 0.0
        self._next_asking: list[Child] = []

    def run(self) -> BaseException | None:
        """Serve until a signal comes; return why the service could not start, None where it could."""
        with tempfile.TemporaryDirectory(prefix="ik-service-") as folder, self._signals():  # no other user may enter it
            devices, names = self._settings.devices, [f"front-{k + 1}" for k in range(self._settings.fronts)]
            roles = ["solver"] if len(devices) == 1 else [f"solver-{k + 1}" for k in range(len(devices))]
            paths = [str(Path(folder) / role) for role in roles]
            solvers = [self._solver(*one) for one in zip(roles, devices, paths, strict=True)]
            self._fronts = [Child(name, run_front, lambda: (self._settings, paths, self._listen())) for name in names]
            self._children = [*solvers, *self._fronts]
            if self._settings.page_port is not None:
                start_page(reachable_url(*self._address), self._settings.page_port)
            self._announcement.say_listening()
            try:
                while self._end_by is None or self._fronts_left():
                    self._turn()
            finally:
                for child in reversed(self._children):
                    child.end(END_S)
                end_children()
        return self._failure

    def _solver(self, role: str, device: str, path: str) -> Child:
        settings = self._settings.model_copy(update={"device": device})
        return Child(role, run_solver, lambda: (settings, path))

    def _listen(self) -> socket.socket:
        """Return the socket of a front: it ends with the front, so that connections go to others from then on."""
        return socket.create_server(self._address, family=self._family, backlog=BACKLOG, reuse_port=True)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        signals = (signal.SIGTERM, signal.SIGINT)
        before = [signal.signal(sig, self._told_to_end) for sig in signals]
        try:
            yield
        finally:
            for sig, handler in zip(signals, before, strict=True):
                signal.signal(sig, handler)

    def _told_to_end(self, sig: int, frame: FrameType | None) -> None:
        """Pass it on to the fronts; a second interrupt is passed on as such, and ends them without more ado."""
        again = self._end_by is not None and sig == signal.SIGINT
        self._end(signal.SIGINT if again else signal.SIGTERM)

    def _end(self, sig: int = signal.SIGTERM) -> None:
        own_s = self._settings.drain_delay_s + self._settings.drain_s
        self._end_by = self._end_by or time.monotonic() + own_s + END_S
        for front in self._fronts:
            front.tell(sig)

    def _fronts_left(self) -> bool:
        assert self._end_by is not None
        left = [front for front in self._fronts if front.process is not None]
        if left and time.monotonic() > self._end_by:
            _logger.warning("%d fronts do not end; they are killed.", len(left))
            return False
        return bool(left)

    # ------------------------------------------------------------------ a turn
    def _turn(self) -> None:
        """Start what is to be started; wait for what processes say and for their ends."""
        now = time.monotonic()
        if self._end_by is None:
            for child in self._children:
                if child.process is None and child.start_at <= now:
                    child.start()
            if self._end_by is not None:  # told meanwhile
                self._end()
        sources: dict[object, Child] = {source: child for child in self._children for source in child.sources}
        for source in wait([source for child in self._children for source in child.sources], self._patience_s()):
            child = sources[source]
            if source == child.connection:
                self._take(child, child.connection)
            elif child.process is not None:
                self._gone(child)
        if self._asking and time.monotonic() > self._asked_at + TELL_S:
            self._missing.clear()
        self._answer()

    def _patience_s(self) -> float:
        times = [child.start_at for child in self._children if child.process is None]
        times += [self._asked_at + TELL_S] if self._asking else []
        return max(0.0, min([SOON_S, *(at - time.monotonic() for at in times)])) if self._end_by is None else SOON_S

    def _take(self, child: Child, connection: Connection) -> None:
        try:
            message: FromProcess = connection.recv()
        except (EOFError, OSError):  # it ends
            return
        if isinstance(message, Started):
            child.is_ready = True
            if not self._was_ready and all(front.is_ready for front in self._fronts):
                self._was_ready = True
                devices = self._settings.devices
                where = message.device if len(devices) == 1 else ", ".join(devices)
                self._announcement.say_ready(where, message.example)
                self._announcement.say_where_to_look()
        elif isinstance(message, StartFailed):
            if not self._was_ready:
                self._failure = self._failure or message.failure.error
                self._end()
        elif isinstance(message, OwnMetrics):
            child.keep(message.snapshot)
            self._missing.discard(child)
        else:
            self._next_asking.append(child)

    def _gone(self, child: Child) -> None:
        code = child.gone()
        self._missing.discard(child)
        self._asking = [other for other in self._asking if other is not child]
        if self._end_by is not None:
            return
        if not self._was_ready:
            text = f"Process {child.role} has ended with exit code {code} before the service was ready."
            self._failure = self._failure or RuntimeError(text)
            self._end()
            return
        delay_s = child.start_at - time.monotonic()
        _logger.error("Process %s has ended with exit code %s; started again in %.1f s.", child.role, code, delay_s)

    # ------------------------------------------------------------------ metrics
    def _answer(self) -> None:
        """Answer those that asked for metrics once all processes have told theirs; begin the next round."""
        if self._asking and not self._missing:
            snapshot = merged(child.snapshot for child in self._children)
            for child in self._asking:
                child.send(snapshot)
            self._asking = []
        if self._next_asking and not self._asking:
            self._asking, self._next_asking = self._next_asking, []
            self._missing = {child for child in self._children if child.is_heard}
            self._asked_at = time.monotonic()
            for child in self._missing:
                child.send("metrics")
