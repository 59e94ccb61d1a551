"""Retries: after which replies and errors a request is sent again, and after which wait."""

import random
from dataclasses import dataclass

import httpx2

from ik_service.client.reply_errors import retry_after_s

BUSY = (429, 503)
"""Statuses after which it is worth trying again."""
FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 5.0
NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
"""Errors that happen before a request is sent."""


@dataclass(frozen=True)
class Retries:
    """How often to try again.

    Attributes:
        count: Further tries of one call.
        budget_s: All waits of one call together [s].
    """

    count: int
    budget_s: float

    def wait_s(self, tries: int, waited_s: float, reply_or_error: httpx2.Response | Exception) -> float | None:
        """Return how long to wait before the next try [s]; None where there is none.

        Waits double. Each is multiplied by a random factor, so that callers that were refused together do not all try
        again at the same time.

        Args:
            tries: Further tries so far.
            waited_s: Waits so far [s].
            reply_or_error: Result of the last try.
        """
        busy = isinstance(reply_or_error, httpx2.Response) and reply_or_error.status_code in BUSY
        if tries >= self.count or not (busy or isinstance(reply_or_error, NOT_SENT)):
            return None
        asked = retry_after_s(reply_or_error) if isinstance(reply_or_error, httpx2.Response) else None
        own = min(FIRST_WAIT_S * 2.0**tries, LONGEST_WAIT_S) if asked is None else asked
        wait = own * random.uniform(0.5, 1.5) if asked is None else own * random.uniform(1.0, 1.5)
        return wait if waited_s + wait <= self.budget_s else None
