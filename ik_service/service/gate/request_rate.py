"""Limit of requests per second for each API key: a token bucket with two numbers per key."""

import math
import time

from ik_service.service.queue.errors import RateExceededError


class RequestRate:
    """Token buckets: a request takes a token of its key, `per_s` tokens come back each second, up to `burst`."""

    def __init__(self, per_s: float, burst: int) -> None:
        self._per_s, self._burst = per_s, burst
        self._buckets: dict[str, tuple[float, float]] = {}  # by key: tokens, and time of their count [s]

    def take(self, owner: str) -> None:
        """Take a token of a key; RateExceededError, with the time until the next token, if there is none."""
        now = time.monotonic()
        tokens, at = self._buckets.get(owner, (self._burst, now))
        tokens = min(self._burst, tokens + self._per_s * (now - at))
        if tokens < 1.0:
            raise RateExceededError(
                f"Your API key may send {self._per_s:g} requests per second, {self._burst} at once. The request was "
                "not read; send fewer, with more problems in each.",
                "rate",
                math.ceil((1.0 - tokens) / self._per_s),
            )
        self._buckets[owner] = tokens - 1.0, now
