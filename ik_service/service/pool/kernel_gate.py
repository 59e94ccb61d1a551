"""Gate between the queue and the solver thread: a group of requests opens once its kernels are compiled.

A request with compiled kernels opens its group at once. Otherwise the first request starts the build, and all groups
waiting for the same kernels open together at its end. An abandoned build is requested again, behind all other builds,
if a request still waits. Failures to compile or to keep code are remembered for a while; meanwhile, requests for the
same code fail without another build.
"""

import logging
import threading
import time
from collections.abc import Hashable, Iterator

from ik_service.errors import KernelCacheError
from ik_service.service.pool.kernel_builder import BuildEnd, KernelBuilder
from ik_service.service.queue.batch_size import BoundedDict
from ik_service.service.queue.errors import CompileFailedError
from ik_service.service.queue.fair_cap import Owner
from ik_service.service.queue.fair_queue import FairQueue
from ik_service.service.queue.solve_request import PoolObserver, QueuedRequest, notify
from objectives.errors import IKError

CODES_MOST = 4096
FAILED_MOST = 1024
FAILED_S = 600.0
"""Time in which code that cannot be compiled is not compiled again [s]; longer than any deadline."""
NOT_KEPT_S = 60.0
"""The same for kernels that the cache does not take [s]: an operator may make room."""

_logger = logging.getLogger(__name__)


class KernelGate:
    """Opens the groups of a queue and notifies `changed`, the condition with the lock of the queue.

    Without a builder, which compiles in a separate process, the solver thread compiles.
    """

    def __init__(
        self, builder: KernelBuilder | None, queue: FairQueue, changed: threading.Condition, observer: PoolObserver
    ) -> None:
        self.builder = builder
        self._queue, self._changed, self._observer = queue, changed, observer
        # By the key of the code, under the lock of the queue: compiled, awaited by groups, failed until a time.
        self._compiled: BoundedDict[Hashable, None] = BoundedDict(CODES_MOST)
        self.awaited: dict[Hashable, dict[Hashable, None]] = {}
        self._failed: BoundedDict[Hashable, tuple[BuildEnd, float]] = BoundedDict(FAILED_MOST)

    def is_ready(self, queued: QueuedRequest, compile_here: bool) -> bool:
        """Return whether a request needs no build. The caller holds the lock.

        CompileFailedError if the code of the request cannot be compiled, KernelCacheError if the code cannot be kept.
        """
        code = queued.code_key
        if code in self._failed and self._failed[code][1] > time.monotonic():
            raise _error(self._failed[code][0], queued)
        if self.builder is not None and not compile_here and code not in self._compiled:
            return False
        self._compiled[code] = None  # or left to the solver thread
        return True

    def open_or_wait(self, queued: QueuedRequest, compile_here: bool) -> bool:
        """Open the group of a request, or let it wait; return whether to call `compile`. The caller holds the lock."""
        if self.is_ready(queued, compile_here):
            self._queue.open_group(queued.key)
            return False
        must_compile = queued.code_key not in self.awaited
        self.awaited.setdefault(queued.code_key, {})[queued.key] = None
        return must_compile

    def compile(self, queued: QueuedRequest) -> None:
        """Compile the kernels of a request in the builder process; if it cannot start, in the solver thread."""
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
        except Exception:  # no threads, memory or cache: without this the groups would wait for ever
            _logger.exception("No process could be asked to compile kernels; the solver compiles itself.")
            self._open_groups(queued)

    def fail(self, queued: QueuedRequest, end: BuildEnd = BuildEnd.FAILED) -> None:
        """Fail all requests waiting for the code of a request and, for a while, later requests for the same code."""
        code, until = queued.code_key, time.monotonic() + (NOT_KEPT_S if end is BuildEnd.NOT_KEPT else FAILED_S)
        with self._changed:
            self._failed[code] = end, until
            self._compiled.pop(code, None)
            groups = {queued.key, *self.awaited.pop(code, ())}
            left = list(self._queue.waiting(groups))
            for each in left:
                self._queue.discard(each)
        for each in left:
            each.fail(_error(end, each))

    def seconds_left(self, owner: Owner) -> float:
        """Return the estimated time until all kernels for an owner are compiled [s]."""
        return 0.0 if self.builder is None else self.builder.seconds_left(owner)

    def close(self) -> None:
        """End the builder."""
        if self.builder is not None:
            self.builder.close()

    def _open_groups(self, queued: QueuedRequest) -> None:
        with self._changed:
            self._compiled[queued.code_key] = None
            for key in self.awaited.pop(queued.code_key, ()):
                self._queue.open_group(key)
            self._changed.notify()
        notify(self._observer.compiled, queued, time.monotonic() - queued.queued_at)

    def _live(self, queued: QueuedRequest) -> Iterator[QueuedRequest]:
        """Yield the requests waiting for the same code, except cancelled and expired requests."""
        now = time.monotonic()
        waiting = self._queue.waiting(self.awaited.get(queued.code_key, ()))
        return (each for each in waiting if not each.is_stale(now))

    def _owners(self, queued: QueuedRequest) -> set[Owner]:
        with self._changed:
            return {each.owner for each in self._live(queued)}

    def _waits(self, queued: QueuedRequest) -> QueuedRequest | None:
        """Return a request waiting for the same code; None, and mark the code as abandoned, if no request waits."""
        with self._changed:
            found = next(self._live(queued), None)
            if found is None:
                self.awaited.pop(queued.code_key, None)  # the next group for this code starts a build again
            return found


def _error(end: BuildEnd, queued: QueuedRequest) -> IKError:
    """Return the error of a request after a failed build of its code."""
    if end is BuildEnd.NOT_KEPT:
        return KernelCacheError(
            f"The kernels for robot '{queued.robot.name}' cannot be kept; the service's log says why."
        )
    return CompileFailedError(queued.robot.name)
