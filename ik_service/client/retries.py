"""When to try again, and after how long: the service was busy, or there was no connection and nothing was sent."""

import random
from dataclasses import dataclass

import httpx2

from ik_service.client.messages.reply_errors import retry_after_s

BUSY = (429, 503)
"""Statuses that say: not now, to this caller or to anybody."""
FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 5.0
NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
"""Errors that happen before a request is sent."""


@dataclass(frozen=True)
class Retries:
    """How often to try again.

    Attributes:
        most: Further tries of one call.
        budget_s: All waits of one call together [s].
    """

    most: int
    budget_s: float

    def wait_s(self, tries: int, waited_s: float, outcome: httpx2.Response | Exception) -> float | None:
        """Return how long to wait before the next try [s]; None where there is none.

        Waits double and are spread by a half either way, so that callers refused together do not come back together.

        Args:
            tries: Further tries so far.
            waited_s: Waits so far [s].
            outcome: What the last try brought.
        """
        busy = isinstance(outcome, httpx2.Response) and outcome.status_code in BUSY
        if tries >= self.most or not (busy or isinstance(outcome, NOT_SENT)):
            return None
        asked = retry_after_s(outcome) if isinstance(outcome, httpx2.Response) else None
        own = min(FIRST_WAIT_S * 2.0**tries, LONGEST_WAIT_S) if asked is None else asked
        wait = own * random.uniform(0.5, 1.5) if asked is None else own * random.uniform(1.0, 1.5)
        return wait if waited_s + wait <= self.budget_s else None
