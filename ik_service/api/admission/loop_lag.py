"""How long the event loop lets wait what has come, measured all the time.

Bytes that have arrived lie unread until the loop comes round to them, and nobody else can tell since when: a request
has no time of arrival. But they cannot have lain there for longer than the loop took for its last round and has taken
for this one so far, and a clock that ought to tick every few milliseconds shows both.
"""

import asyncio
import time

TICK_S = 0.02
NOISE_S = 0.003
"""Timers of the loop count in milliseconds; a delay of a few of them says nothing."""


class LoopLag:
    """Lag of one event loop; 0 before `start` and after `stop`."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._last, self._due = 0.0, 0.0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to measure a loop."""
        self._wait(loop)

    def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._last = None, 0.0

    @property
    def seconds(self) -> float:
        """How long what is read now may have lain unread, at most and about [s]."""
        if self._timer is None:
            return 0.0
        lag = max(self._last, time.monotonic() - self._due)
        return lag if lag > NOISE_S else 0.0

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = time.monotonic() + TICK_S
        self._timer = loop.call_later(TICK_S, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._last = time.monotonic() - self._due
        self._wait(loop)
