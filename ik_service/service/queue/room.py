"""Checks before queueing: estimated wait, and room in the queue."""

import math
from collections.abc import Hashable

from ik_service.service.queue.batch_size import BatchSizer
from ik_service.service.queue.errors import QueueFullError
from ik_service.service.queue.fair_queue import FairQueue
from ik_service.service.queue.queued_request import RETRY_MOST_S, Expected

WAIT_SHARE = 0.5
"""Share of its deadline that an accepted request may wait, by estimate; the rest covers errors of the estimate."""


class RoomCheck:
    """Accepts and refuses requests before they are queued.

    Args:
        queue: The queue.
        batch_sizer: Source of the solver time per problem.
    """

    def __init__(self, queue: FairQueue, batch_sizer: BatchSizer) -> None:
        self._queue, self._batch_sizer = queue, batch_sizer

    def is_small(self, key: Hashable, problem_count: int) -> bool:
        """Return whether a request fits into a batch."""
        return problem_count <= self._batch_sizer.budget(key)

    def require(self, expected: Expected, timeout_s: float, lag_s: float = 0.0) -> None:
        """Check the estimated wait of a request, and the room in the queue.

        Args:
            expected: The expected request; a request without a key has an estimated wait of 0.
            timeout_s: Time until the deadline [s].
            lag_s: Waiting time of the request and its answer outside the queue [s].

        Raises:
            QueueFullError: The wait would be too long, or the queue or the owner's share is full.
        """
        owner, key, wait_s = expected.owner, expected.key, 0.0
        if key is not None and self._queue.requests:
            is_small = self.is_small(key, expected.problem_count)
            wait_s = self._queue.seconds_until(owner, key, self._batch_sizer.usual_seconds, is_small=is_small)
        try:
            if wait_s + lag_s > WAIT_SHARE * timeout_s:
                raise QueueFullError(
                    f"About {wait_s + lag_s:.3g} s would pass before the request is solved, and its deadline is in "
                    f"{timeout_s:.3g} s. Try again later.",
                    "wait" if wait_s >= lag_s else "lag",
                )
            self._queue.require_room(owner, expected.problem_count)
        except QueueFullError as error:
            error.retry_after_s = max(1, min(RETRY_MOST_S, math.ceil(0.5 * wait_s)))
            raise
