"""Lag of the event loop: how long bytes may have waited in the socket before they are read.

A request has no time of arrival. Its bytes cannot have waited for longer than the last round of the loop took and this
one has taken so far. A timer that should fire every few milliseconds shows both by its delay.
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

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start to measure a loop, or wait for its next tick."""
        self._due = time.monotonic() + TICK_S
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

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._last = time.monotonic() - self._due
        self.start(loop)
