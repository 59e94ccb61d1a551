"""The gate between the queue and the solver's thread: a group of requests opens once its kernels are compiled.

A request opens its group where its kernels are known. Else the first request that needs them has them compiled, and
all groups that have waited for them open at once. A build that is abandoned is asked for again where a request still
waits for it, behind all other builds. Code that cannot be compiled, or not be kept, is remembered for a while:
requests that need it fail, and nothing tries again.
"""

import logging
import threading
import time
from collections.abc import Iterator

from ik_service.errors import KernelCacheError
from ik_service.service.pool.build import BuildEnd
from ik_service.service.pool.kernel_builder import KernelBuilder
from ik_service.service.pool.kernel_status import KernelStatus
from ik_service.service.pool.pool_observer import PoolObserver, notify
from ik_service.service.queue.errors import compile_failed_error
from ik_service.service.queue.fair_cap import Owner
from ik_service.service.queue.fair_queue import FairQueue
from ik_service.service.queue.queued_request import QueuedRequest
from objectives.errors import IKError

_logger = logging.getLogger(__name__)


class KernelGate:
    """Opens the groups of a queue.

    Args:
        builder: Compiles in a process of its own; None: the solver's thread compiles.
        queue: The queue.
        changed: Has the lock of the queue; notified when a group opens.
        observer: Notified of compiled kernels.

    Attributes:
        builder: The builder.
    """

    def __init__(
        self, builder: KernelBuilder | None, queue: FairQueue, changed: threading.Condition, observer: PoolObserver
    ) -> None:
        self.builder = builder
        self._queue, self._changed, self._observer = queue, changed, observer
        self._status = KernelStatus()

    def is_ready(self, queued: QueuedRequest, compile_here: bool) -> bool:
        """Return whether a request needs no build. The lock is held.

        Raises:
            CompileFailedError: Its code cannot be compiled.
            KernelCacheError: Its code cannot be kept.
        """
        code = queued.code_key
        if (failure := self._status.failure(code, time.monotonic())) is not None:
            raise _error(failure, queued)
        if self.builder is not None and not compile_here and code not in self._status:
            return False
        self._status.add(code)
        return True

    def open_or_wait(self, queued: QueuedRequest, compile_here: bool) -> bool:
        """Open the group of a request, or let it wait; return whether to call `compile`. The lock is held."""
        if not self.is_ready(queued, compile_here):
            return self._status.wait(queued.code_key, queued.key)
        self._queue.open_group(queued.key)
        return False

    def compile(self, queued: QueuedRequest) -> None:
        """Compile the kernels of a request in the other process; if that cannot start, in the solver's thread."""
        assert self.builder is not None

        def on_end(end: BuildEnd) -> None:
            if end is BuildEnd.COMPILED:
                self._open_groups(queued)
            elif end is not BuildEnd.ABANDONED:
                self.fail(queued, end)
            elif (other := self._waits(queued)) is not None:
                self.compile(other)

        try:
            self.builder.build(queued.robot, queued.request, on_end, lambda: self._owners(queued), owner=queued.owner)
        except Exception:  # no threads, memory or cache: whatever it is, the groups would wait for ever
            _logger.exception("No process could be asked to compile kernels; the solver compiles itself.")
            self._open_groups(queued)

    def fail(self, queued: QueuedRequest, end: BuildEnd = BuildEnd.FAILED) -> None:
        """Fail all requests that wait for the code of a request, and for a while those that need it later."""
        with self._changed:
            groups = {queued.key, *self._status.set_failed(queued.code_key, end, time.monotonic())}
            left = list(self._queue.waiting(groups))
            for each in left:
                self._queue.discard(each)
        for each in left:
            each.fail(_error(end, each))

    def seconds_left(self, owner: Owner) -> float:
        """Return the estimated time until all kernels that an owner waits for are compiled [s]."""
        return 0.0 if self.builder is None else self.builder.seconds_left(owner)

    def close(self) -> None:
        """End the builder."""
        if self.builder is not None:
            self.builder.close()

    def _open_groups(self, queued: QueuedRequest) -> None:
        with self._changed:
            for key in self._status.set_compiled(queued.code_key):
                self._queue.open_group(key)
            self._changed.notify()
        notify(self._observer.compiled, queued, time.monotonic() - queued.queued_at)

    def _live(self, queued: QueuedRequest) -> Iterator[QueuedRequest]:
        """Give the requests that wait for the same code, without those that are cancelled or past their deadline."""
        now = time.monotonic()
        waiting = self._queue.waiting(self._status.waiting_groups(queued.code_key))
        return (each for each in waiting if not each.is_stale(now))

    def _owners(self, queued: QueuedRequest) -> set[Owner]:
        """Owners of the requests that wait for the same code."""
        with self._changed:
            return {each.owner for each in self._live(queued)}

    def _waits(self, queued: QueuedRequest) -> QueuedRequest | None:
        """A request that waits for the same code; where there is none, nothing waits for the code any longer."""
        with self._changed:
            found = next(self._live(queued), None)
            if found is None:
                self._status.abandon(queued.code_key)
            return found


def _error(end: BuildEnd, queued: QueuedRequest) -> IKError:
    """Return the error of a request whose code could not be compiled, or not be kept."""
    if end is BuildEnd.NOT_KEPT:
        return KernelCacheError(
            f"The kernels for robot '{queued.robot.name}' cannot be kept; the service's log says why."
        )
    return compile_failed_error(queued.robot.name)
