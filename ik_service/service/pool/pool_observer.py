"""Observers of a pool, for metrics."""

import logging
from collections.abc import Callable, Sequence
from typing import ParamSpec

from ik_service.robots import RobotModel
from ik_service.service.queue.errors import RefusalReason
from ik_service.service.queue.queued_request import BatchShare, QueuedRequest
from ik_service.solver.result import IKResult

Arguments = ParamSpec("Arguments")

_logger = logging.getLogger(__name__)


class PoolObserver:
    """Observer of a pool, called in the pool's threads; the methods of this base class are empty."""

    def solved(self, robot: RobotModel, shares: Sequence[BatchShare], result: IKResult, seconds: float) -> None:
        """A batch is solved."""

    def compiled(self, queued: QueuedRequest, seconds: float) -> None:
        """Kernels for a request are compiled, or were found in the cache."""

    def dropped(self, queued_requests: Sequence[QueuedRequest]) -> None:
        """Requests are dropped unsolved: cancelled, or past their deadline."""

    def refused(self, reason: RefusalReason) -> None:
        """`submit` refuses a request; called in the thread of its caller."""


def notify(method: Callable[Arguments, None], /, *arguments: Arguments.args, **options: Arguments.kwargs) -> None:
    """Call a method of an observer and log its errors, so that no error ends a thread or a request."""
    try:
        method(*arguments, **options)
    except Exception:  # any error of an observer would end the thread
        _logger.exception("An observer of the solver pool has failed.")
