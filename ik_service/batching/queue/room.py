"""Whether a request would be answered in time, and finds room in the queue."""

import math
from collections.abc import Hashable

from ik_service.batching.errors import QueueFullError
from ik_service.batching.queue.batch_size import BatchSizer
from ik_service.batching.queue.fair_cap import Owner
from ik_service.batching.queue.fair_queue import FairQueue
from ik_service.batching.queue.queued_request import RETRY_MOST_S

WAIT_SHARE = 0.5
"""Share of its deadline that an accepted request may wait, by estimate; the rest covers errors of the estimate."""


class RoomCheck:
    """Accepts and refuses requests before they are queued.

    Args:
        queue: The queue.
        batch_sizer: Knows the solver time of problems.
    """

    def __init__(self, queue: FairQueue, batch_sizer: BatchSizer) -> None:
        self._queue, self._batch_sizer = queue, batch_sizer

    def is_small(self, key: Hashable, problem_count: int) -> bool:
        """Return whether a request fits into a batch."""
        return problem_count <= self._batch_sizer.budget(key)

    def wait_s(self, owner: Owner, key: Hashable, *, is_small: bool) -> float:
        """Return the estimated time until a request would be solved [s]."""
        return self._queue.seconds_until(owner, key, self._batch_sizer.usual_seconds, is_small=is_small)

    def require(self, owner: Owner, problem_count: int, wait_s: float, timeout_s: float, lag_s: float = 0.0) -> None:
        """Check that a request would be answered in time, and finds room.

        Args:
            owner: Its owner.
            problem_count: Number of its problems.
            wait_s: Estimated time until it would be solved [s].
            timeout_s: Time until its deadline [s].
            lag_s: Time that it and its answer wait outside of the queue [s].

        Raises:
            QueueFullError: Too much is waiting.
        """
        try:
            if wait_s + lag_s > WAIT_SHARE * timeout_s:
                raise QueueFullError(
                    f"About {wait_s + lag_s:.3g} s would pass before the request is solved, and its deadline is in "
                    f"{timeout_s:.3g} s. Try again later.",
                    "wait" if wait_s >= lag_s else "lag",
                )
            self._queue.require_room(owner, problem_count)
        except QueueFullError as error:
            error.retry_after_s = max(1, min(RETRY_MOST_S, math.ceil(0.5 * wait_s)))
            raise
