"""The gate between the queue and the solver's thread: a group opens once the kernels for its requests are there.

A request opens its group where its kernels are known. Else the first request that needs them has them compiled, and
all groups that have waited for them open at once. A build that is abandoned is asked for again where a request still
waits for it, behind all other builds. Code that cannot be compiled is remembered for a while: requests that need it
fail, and nothing tries again.
"""

import logging
import threading
import time
from collections.abc import Iterator

from ik_service.batching.errors import compile_failed_error
from ik_service.batching.kernels.kernel_builder import BuildEnd, KernelBuilder
from ik_service.batching.kernels.kernel_status import KernelStatus
from ik_service.batching.pool_observer import SafeObserver
from ik_service.batching.queue.fair_cap import Owner
from ik_service.batching.queue.fair_queue import FairQueue, is_stale
from ik_service.batching.queue.queued_request import QueuedRequest

_log = logging.getLogger(__name__)


class KernelGate:
    """Opens the groups of a queue.

    Args:
        builder: Compiles in a process of its own; None: the solver's thread does it.
        queue: The queue.
        changed: Holds the lock of the queue; told when a group opens.
        observer: Told what has been compiled.

    Attributes:
        builder: The builder.
    """

    def __init__(
        self, builder: KernelBuilder | None, queue: FairQueue, changed: threading.Condition, observer: SafeObserver
    ) -> None:
        self.builder = builder
        self._queue, self._changed, self._observer = queue, changed, observer
        self._status = KernelStatus()

    def is_ready(self, queued: QueuedRequest, compile_here: bool) -> bool:
        """Return whether nothing has to be compiled apart for a request. The lock is held.

        Raises:
            CompileFailedError: Its code cannot be compiled.
        """
        code = queued.code_key
        if self._status.has_failed(code, time.monotonic()):
            raise compile_failed_error(queued.robot.name)
        if self.builder is not None and not compile_here and code not in self._status:
            return False
        self._status.add(code)
        return True

    def open_or_wait(self, queued: QueuedRequest, compile_here: bool) -> bool:
        """Open a shut group if its kernels are there; return whether `compile` is to be called. The lock is held."""
        if not self.is_ready(queued, compile_here):
            return self._status.wait(queued.code_key, queued.key)
        self._queue.open_group(queued.key)
        return False

    def compile(self, queued: QueuedRequest) -> None:
        """Have the code of a request compiled apart; where that cannot even begin, the solver's own thread does it."""
        assert self.builder is not None

        def end(ended: BuildEnd) -> None:
            if ended is BuildEnd.COMPILED:
                self._open_groups(queued)
            elif ended is BuildEnd.FAILED:
                self.fail(queued)
            elif (other := self._waits(queued)) is not None:
                self.compile(other)

        try:
            self.builder.build(queued.robot, queued.request, end, lambda: self._owners(queued), owner=queued.owner)
        except Exception:  # noqa: BLE001  # without threads, memory or a cache that can be read; the groups would wait
            _log.exception("No process could be asked to compile kernels; the solver compiles itself.")
            self._open_groups(queued)

    def fail(self, queued: QueuedRequest) -> None:
        """Tell all that wait for the code of a request, and whoever asks for it later, that it cannot be compiled."""
        with self._changed:
            groups = {queued.key, *self._status.set_failed(queued.code_key, time.monotonic())}
            left = list(self._queue.waiting(groups))
            for each in left:
                self._queue.discard(each)
        for each in left:
            each.fail(compile_failed_error(each.robot.name))

    def seconds_left(self, owner: Owner) -> float:
        """Return how long it takes, about, until all that is to be compiled for an owner is there [s]."""
        return 0.0 if self.builder is None else self.builder.seconds_left(owner)

    def close(self) -> None:
        """Compile nothing any more."""
        if self.builder is not None:
            self.builder.close()

    def _open_groups(self, queued: QueuedRequest) -> None:
        with self._changed:
            for key in self._status.set_compiled(queued.code_key):
                self._queue.open_group(key)
            self._changed.notify()
        self._observer.compiled(queued, time.monotonic() - queued.queued_at)

    def _live(self, queued: QueuedRequest) -> Iterator[QueuedRequest]:
        """Go through the requests that wait for the same code, and for whose answers somebody waits."""
        now = time.monotonic()
        waiting = self._queue.waiting(self._status.waiting_groups(queued.code_key))
        return (each for each in waiting if not is_stale(each, now))

    def _owners(self, queued: QueuedRequest) -> set[Owner]:
        """Whose requests still wait for the same code."""
        with self._changed:
            return {each.owner for each in self._live(queued)}

    def _waits(self, queued: QueuedRequest) -> QueuedRequest | None:
        """A request that still waits for the same code; the code is forgotten where there is none."""
        with self._changed:
            found = next(self._live(queued), None)
            if found is None:
                self._status.abandon(queued.code_key)
            return found
