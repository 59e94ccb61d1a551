"""The gate between the queue and the solver's thread: a lane opens once the kernels for its requests are there.

A request in a shut lane opens it where its kernels are known. Else the first that wants them has them built, and others
wait with it: every lane that has waited opens at once. What is given up is asked for again, behind what else is to be
built, where anybody still waits for it, and is forgotten otherwise. What cannot be compiled is remembered for a while:
who waits for it, and who asks for it later, is told so, and nobody tries again.
"""

import logging
import threading
import time
from collections.abc import Iterator

from ik_service.batching.errors import compile_failed
from ik_service.batching.kernels.kernel_builder import Ended, KernelBuilder
from ik_service.batching.kernels.kernel_status import KnownCode
from ik_service.batching.pool_observer import Messenger
from ik_service.batching.queue.fair_cap import Owner
from ik_service.batching.queue.fair_queue import FairQueue, is_stale
from ik_service.batching.queue.queued_request import Work

_log = logging.getLogger(__name__)


class KernelGate:
    """Opens the lanes of a queue.

    Args:
        builder: Compiles in a process of its own; None: the solver's thread does it.
        queue: The queue.
        changed: Holds the lock of the queue; told when a lane opens.
        messenger: Told what has been compiled.

    Attributes:
        builder: The builder.
    """

    def __init__(
        self, builder: KernelBuilder | None, queue: FairQueue, changed: threading.Condition, messenger: Messenger
    ) -> None:
        self.builder = builder
        self._queue, self._changed, self._messenger = queue, changed, messenger
        self._code = KnownCode()

    def is_known(self, work: Work, compile_here: bool) -> bool:
        """Return whether nothing has to be compiled apart for a request. The lock is held.

        Raises:
            CompileFailedError: Its code cannot be compiled.
        """
        code = work.code_key
        if self._code.has_failed(code, time.monotonic()):
            raise compile_failed(work.robot.name)
        if self.builder is not None and not compile_here and code not in self._code:
            return False
        self._code.add(code)
        return True

    def open_or_await(self, work: Work, compile_here: bool) -> bool:
        """Open a shut lane if its kernels are there; return whether `compile` is to be called. The lock is held."""
        if not self.is_known(work, compile_here):
            return self._code.wait(work.code_key, work.key)
        self._queue.open(work.key)
        return False

    def compile(self, work: Work) -> None:
        """Have the code of a request compiled apart; where that cannot even begin, the solver's own thread does it."""
        assert self.builder is not None

        def end(ended: Ended) -> None:
            if ended is Ended.THERE:
                self._open_lanes(work)
            elif ended is Ended.FAILED:
                self.fail(work)
            elif (other := self._waits(work)) is not None:
                self.compile(other)

        try:
            self.builder.build(work.robot, work.request, end, lambda: self._owners(work), owner=work.owner)
        except Exception:  # noqa: BLE001  # without threads, memory or a cache that can be read; the lanes would wait
            _log.exception("No process could be asked to compile kernels; the solver compiles itself.")
            self._open_lanes(work)

    def fail(self, work: Work) -> None:
        """Tell all that wait for the code of a request, and whoever asks for it later, that it cannot be compiled."""
        with self._changed:
            lanes = {work.key, *self._code.failed(work.code_key, time.monotonic())}
            left = list(self._queue.waiting(lanes))
            for each in left:
                self._queue.discard(each)
        for each in left:
            each.fail(compile_failed(each.robot.name))

    def seconds_left(self, owner: Owner) -> float:
        """Return how long it takes, about, until all that is to be compiled for an owner is there [s]."""
        return 0.0 if self.builder is None else self.builder.seconds_left(owner)

    def close(self) -> None:
        """Compile nothing any more."""
        if self.builder is not None:
            self.builder.close()

    def _open_lanes(self, work: Work) -> None:
        with self._changed:
            for key in self._code.arrived(work.code_key):
                self._queue.open(key)
            self._changed.notify()
        self._messenger.compiled(work, time.monotonic() - work.queued_at)

    def _live(self, work: Work) -> Iterator[Work]:
        """Go through the requests that wait for the same code, and for whose answers somebody waits."""
        now = time.monotonic()
        waiting = self._queue.waiting(self._code.awaiting(work.code_key))
        return (each for each in waiting if not is_stale(each, now))

    def _owners(self, work: Work) -> set[Owner]:
        """Whose requests still wait for the same code."""
        with self._changed:
            return {each.owner for each in self._live(work)}

    def _waits(self, work: Work) -> Work | None:
        """A request that still waits for the same code; the code is forgotten where there is none."""
        with self._changed:
            found = next(self._live(work), None)
            if found is None:
                self._code.given_up(work.code_key)
            return found
