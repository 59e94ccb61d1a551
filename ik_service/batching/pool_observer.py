"""Who is told what a pool does, and a messenger whose failing observer harms nobody."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from ik_service.batching.errors import RefusalReason
from ik_service.batching.queue.queued_request import BatchShare, QueuedRequest
from ik_service.robots import RobotModel
from ik_service.solver import IKResult

_log = logging.getLogger(__name__)


class PoolObserver(Protocol):
    """Is told what a pool does, from the pool's threads; for metrics."""

    def solved(self, robot: RobotModel, shares: Sequence[BatchShare], result: IKResult, seconds: float) -> None:
        """A batch has been solved."""

    def compiled(self, queued: QueuedRequest, seconds: float) -> None:
        """Kernels for a request have been compiled, or found in the cache."""

    def dropped(self, queued_requests: Sequence[QueuedRequest]) -> None:
        """Requests were dropped before they were solved: cancelled, or past their deadline."""

    def refused(self, reason: RefusalReason) -> None:
        """A request was refused by `submit`, in the thread that called it."""


class SafeObserver:
    """Tells an observer, and logs what that raises: it must end neither a thread nor a request.

    Args:
        observer: Is told; None is nobody.
    """

    def __init__(self, observer: PoolObserver | None) -> None:
        self._observer = observer

    def solved(self, robot: RobotModel, shares: Sequence[BatchShare], result: IKResult, seconds: float) -> None:
        """Tell `PoolObserver.solved`."""
        with self._guarded() as observer:
            if observer is not None:
                observer.solved(robot, shares, result, seconds)

    def compiled(self, queued: QueuedRequest, seconds: float) -> None:
        """Tell `PoolObserver.compiled`."""
        with self._guarded() as observer:
            if observer is not None:
                observer.compiled(queued, seconds)

    def dropped(self, queued_requests: Sequence[QueuedRequest]) -> None:
        """Tell `PoolObserver.dropped`, where there are any."""
        with self._guarded() as observer:
            if observer is not None and queued_requests:
                observer.dropped(queued_requests)

    def refused(self, reason: RefusalReason) -> None:
        """Tell `PoolObserver.refused`."""
        with self._guarded() as observer:
            if observer is not None:
                observer.refused(reason)

    @contextmanager
    def _guarded(self) -> Iterator[PoolObserver | None]:
        try:
            yield self._observer
        except Exception:  # noqa: BLE001  # any fault of an observer's would end the thread
            _log.exception("An observer of the solver pool has failed.")
