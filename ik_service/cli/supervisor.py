"""The supervisor of a service with several workers: complete services on one port, each a process with its own solver.

    supervisor -> worker-1 ... worker-N: each with an application, a solver, and a socket; all sockets have one address

The supervisor takes no requests. It restarts ended workers and passes on the signal to end; workers finish their
requests.
"""

import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, cast

from prometheus_client.multiprocess import mark_process_dead

from ik_service.cli.announcement import Announcement
from ik_service.cli.health_command import reachable_url
from ik_service.cli.service_server import WorkerFailed, WorkerReady, end_children, run_worker, start_page
from ik_service.service.app import worker_role
from ik_service.settings import ServiceSettings
from objectives.errors import IKError, InputError

DELAY_LEAST_S, DELAY_MOST_S = 0.1, 10.0
"""Delays before a worker is started again: the first one, doubled each time, and the longest [s]."""
LONG_LIFE_S = 60.0  # after a life as long as this, the next delay is the first one again [s]
END_S = 10.0  # time that workers have beyond their own to end, before they are killed [s]
SOON_S = 1.0  # longest time between two looks at the clock [s]
OF_TERMINAL = (signal.SIGINT, signal.SIGHUP)
"""Signals that a terminal sends to all processes at once; the supervisor passes them on."""

_logger = logging.getLogger(__name__)


@contextmanager
def _handled(signals: Iterable[signal.Signals], handler: Any) -> Iterator[None]:
    """Handle signals in another way within a block."""
    before = {sig: signal.signal(sig, handler) for sig in signals}
    try:
        yield
    finally:
        for sig, own in before.items():
            signal.signal(sig, own)


class Worker:
    """State of one worker in the supervisor."""

    def __init__(self, number: int, settings: ServiceSettings, address: tuple[str, int], metrics_folder: str) -> None:
        self.role, self._number, self._metrics_folder = worker_role(number), number, metrics_folder
        self._arguments = settings, address, metrics_folder
        self.process: BaseProcess | None = None
        self.connection: Connection | None = None  # the pipe to its process
        self.ready: WorkerReady | None = None  # message of the ready process; None before
        self.start_at = 0.0  # start time of the next process [s]
        self._started_at, self._delay_s = 0.0, DELAY_LEAST_S

    def start(self) -> None:
        """Start the process."""
        context = multiprocessing.get_context("spawn")  # a fork would have the state of Warp, and of threads
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=run_worker, args=(self._number, theirs, *self._arguments), name=self.role)
        with _handled(OF_TERMINAL, signal.SIG_IGN):
            self.process.start()
        theirs.close()
        self._started_at = time.monotonic()
        _logger.info("Process %s has the id %d.", self.role, self.process.pid)

    def tell(self, sig: int) -> None:
        """Send a signal to the process, if there is one."""
        if self.process is not None and self.process.pid is not None and self.process.is_alive():
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, sig)

    def end(self) -> int | None:
        """Wait for the end of the process, and kill a slow one; return its exit code, None without a process."""
        process, connection = self.process, self.connection
        if process is None or connection is None:
            return None
        process.join(END_S)
        process.kill()
        process.join()
        self.process, self.connection, self.ready = None, None, None  # first: a signal may come at any time
        code = process.exitcode
        process.close()
        connection.close()
        mark_process_dead(self._number, self._metrics_folder)
        now = time.monotonic()
        if now > self._started_at + LONG_LIFE_S:
            self._delay_s = DELAY_LEAST_S
        self.start_at, self._delay_s = now + self._delay_s, min(2.0 * self._delay_s, DELAY_MOST_S)
        return code


class Supervisor:
    """Runs a service of several workers; closes the listener, a proof that no other service is at its address."""

    def __init__(self, settings: ServiceSettings, listener: socket.socket) -> None:
        self._settings, self._address = settings, listener.getsockname()[:2]
        self._announcement = Announcement(settings, *self._address)
        # For the workers on shared cores: threads of OpenBLAS spin after each use.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        listener.close()
        self._holder = _bound(listener.family, self._address)
        self._workers: list[Worker] = []
        self._was_ready = False
        self._failure: IKError | None = None
        self._end_by: float | None = None  # set by the signal to end

    def run(self) -> IKError | None:
        """Serve until a signal comes; return the error of a failed start, otherwise None."""
        settings = self._settings
        ending = _handled((signal.SIGTERM, signal.SIGINT), self._told_to_end)
        with self._holder, tempfile.TemporaryDirectory(prefix="ik-service-") as folder, ending:
            numbers = range(1, settings.worker_count + 1)
            self._workers = [Worker(number, settings, self._address, folder) for number in numbers]
            if settings.page_port is not None:
                start_page(reachable_url(*self._address), settings.page_port)
            self._announcement.say_listening()
            try:
                while self._end_by is None or self._is_left(self._end_by):
                    self._turn()
            finally:
                for worker in self._workers:
                    worker.tell(signal.SIGTERM if self._end_by is None else signal.SIGKILL)
                for worker in self._workers:
                    worker.end()
                end_children()
        return self._failure

    def _told_to_end(self, sig: int, frame: FrameType | None) -> None:
        """Pass the signal on to the workers; a second interrupt ends the workers at once."""
        again = self._end_by is not None and sig == signal.SIGINT
        self._end(signal.SIGINT if again else signal.SIGTERM)

    def _end(self, sig: int = signal.SIGTERM) -> None:
        own_s = self._settings.drain_delay_s + self._settings.drain_s
        self._end_by = self._end_by or time.monotonic() + own_s + END_S
        for worker in self._workers:
            worker.tell(sig)

    def _is_left(self, end_by: float) -> bool:
        left = [worker.role for worker in self._workers if worker.process is not None]
        if left and time.monotonic() > end_by:
            _logger.warning("%s: no end, so they are killed.", ", ".join(left))
            return False
        return bool(left)

    def _turn(self) -> None:
        """Start due workers; wait for messages and ends of workers."""
        now = time.monotonic()
        for worker in self._workers:
            if self._end_by is None and worker.process is None and worker.start_at <= now:
                worker.start()
                if self._end_by is not None:  # told meanwhile
                    self._end()
        sources: dict[object, Worker] = {}
        for worker in self._workers:
            if worker.process is not None and worker.connection is not None:
                sources |= {worker.connection: worker, worker.process.sentinel: worker}
        starts = [worker.start_at - now for worker in self._workers if worker.process is None and self._end_by is None]
        happened = wait(cast(list[Connection | int], list(sources)), max(0.0, min([SOON_S, *starts])))
        for source in sorted(happened, key=lambda one: isinstance(one, int)):  # messages of a worker before its end
            worker = sources[source]
            if isinstance(source, Connection):
                with suppress(EOFError, OSError):  # the worker is about to end
                    self._heard(worker, source.recv())
            elif worker.process is not None:
                self._gone(worker)

    def _heard(self, worker: Worker, message: WorkerReady | WorkerFailed) -> None:
        if isinstance(message, WorkerReady):
            worker.ready = message
            said = [other.ready for other in self._workers if other.ready is not None]
            if not self._was_ready and len(said) == len(self._workers):
                self._was_ready = True
                devices = dict.fromkeys(one.device for one in said)
                self._announcement.say_ready(", ".join(devices), message.example)
                self._announcement.say_where_to_look()
        elif not self._was_ready and self._failure is None:
            self._failure = InputError(message.reason) if message.is_input else IKError(message.reason)
            self._end()

    def _gone(self, worker: Worker) -> None:
        code = worker.end()
        if self._end_by is not None:
            return
        if self._was_ready:
            delay_s = worker.start_at - time.monotonic()
            text = "Process %s has ended with exit code %s; started again in %.1f s."
            _logger.error(text, worker.role, code, delay_s)
        else:
            text = f"Process {worker.role} has ended with exit code {code} before the service was ready."
            self._failure = self._failure or IKError(text)
            self._end()


def _bound(family: int, address: tuple[str, int]) -> socket.socket:
    """Return a socket that reserves the address for the workers, also when no worker runs."""
    holder = socket.socket(family, socket.SOCK_STREAM)
    if family == socket.AF_INET6:
        holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind(address)
    return holder
