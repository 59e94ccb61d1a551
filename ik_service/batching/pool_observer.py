"""Observers of a pool, for metrics."""

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
    """Is notified of what a pool does, in the pool's threads."""

    def solved(self, robot: RobotModel, shares: Sequence[BatchShare], result: IKResult, seconds: float) -> None:
        """A batch is solved."""

    def compiled(self, queued: QueuedRequest, seconds: float) -> None:
        """Kernels for a request are compiled, or were found in the cache."""

    def dropped(self, queued_requests: Sequence[QueuedRequest]) -> None:
        """Requests are dropped unsolved: cancelled, or past their deadline."""

    def refused(self, reason: RefusalReason) -> None:
        """`submit` refuses a request; called in the thread of its caller."""


class SafeObserver:
    """Notifies an observer and logs its errors, so that they end neither a thread nor a request.

    Args:
        observer: The observer, if any.
    """

    def __init__(self, observer: PoolObserver | None) -> None:
        self._observer = observer

    def solved(self, robot: RobotModel, shares: Sequence[BatchShare], result: IKResult, seconds: float) -> None:
        """Notify of a solved batch."""
        with _logged_errors():
            if self._observer is not None:
                self._observer.solved(robot, shares, result, seconds)

    def compiled(self, queued: QueuedRequest, seconds: float) -> None:
        """Notify of compiled kernels."""
        with _logged_errors():
            if self._observer is not None:
                self._observer.compiled(queued, seconds)

    def dropped(self, queued_requests: Sequence[QueuedRequest]) -> None:
        """Notify of dropped requests, where there are any."""
        with _logged_errors():
            if self._observer is not None and queued_requests:
                self._observer.dropped(queued_requests)

    def refused(self, reason: RefusalReason) -> None:
        """Notify of a refused request."""
        with _logged_errors():
            if self._observer is not None:
                self._observer.refused(reason)


@contextmanager
def _logged_errors() -> Iterator[None]:
    try:
        yield
    except Exception:  # noqa: BLE001  # any error of an observer would end the thread
        _log.exception("An observer of the solver pool has failed.")
