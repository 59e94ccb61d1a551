"""Lag of the event loop: how long bytes may have waited in the socket before they are read.

A request has no time of arrival. Its bytes cannot have waited for longer than the last round of the loop took and this
one has taken so far. A timer that should fire every few milliseconds shows both by its delay.

On a machine where other programs are busy, a loop with little to do is delayed, too. That delay does not grow with the
requests that are let in; so what counts for refusals is no more than the CPU time that the loop itself has used.
"""

import asyncio
import time

TICK_S = 0.02
NOISE_S = 0.003
"""Delays up to this are the resolution of the loop's timers."""


class LoopLag:
    """Lag of one event loop; 0 before `start` and after `stop`."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._last, self._due = 0.0, 0.0
        self._last_own, self._used = 0.0, 0.0  # CPU time: of the last round, and used until the last tick [s]

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start to measure a loop, or wait for its next tick."""
        self._due, self._used = time.monotonic() + TICK_S, time.thread_time()
        self._timer = loop.call_later(TICK_S, self._tick, loop)

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._last = None, 0.0

    @property
    def seconds(self) -> float:
        """Upper bound of the time that bytes read now have waited [s]."""
        if self._timer is None:
            return 0.0
        lag = max(self._last, time.monotonic() - self._due)
        return lag if lag > NOISE_S else 0.0

    @property
    def own_seconds(self) -> float:
        """The part of that time in which the loop itself was at work [s]; to be read in the loop's thread."""
        return min(self.seconds, max(self._last_own, time.thread_time() - self._used))

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._last, self._last_own = time.monotonic() - self._due, time.thread_time() - self._used
        self.start(loop)
