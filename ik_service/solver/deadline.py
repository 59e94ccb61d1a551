"""The deadline of a solve: no later attempt begins, and problems unsolved by then have the status DEADLINE.

Before each attempt, kernels read a mark in the settings of the solve. A host timer sets this mark, in the memory of a
GPU too; a GPU reads the mark after the first wave of attempts, and after every two.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

from ik_service.solver.arrays.problem_arrays import Problems
from ik_service.solver.given.options import SolverOptions

_logger = logging.getLogger(__name__)


class _Clock:
    """A thread to stop solves at their deadlines, started on first use.

    The thread sleeps until the earliest deadline, even if this solve has ended meanwhile: so it seldom wakes.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due = dict[object, tuple[float, Problems]]()
        self._wakes_at = math.inf
        self._thread: threading.Thread | None = None

    def add(self, key: object, ends: float, problems: Problems) -> None:
        """Stop problems at a time of the monotonic clock [s], unless removed before."""
        with self._changed:
            if self._thread is None or not self._thread.is_alive():
                self._wakes_at = math.inf
                self._thread = threading.Thread(target=self._run, name="ik-deadlines", daemon=True)
                self._thread.start()
            self._due[key] = (ends, problems)
            if ends < self._wakes_at:
                self._changed.notify()

    def remove(self, key: object) -> None:
        """Remove problems from the clock."""
        with self._changed:
            self._due.pop(key, None)

    def _run(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                for key in [key for key, (ends, _) in self._due.items() if ends <= now]:
                    _stop(self._due.pop(key)[1])
                self._wakes_at = min((ends for ends, _ in self._due.values()), default=math.inf)
                self._changed.wait(None if self._wakes_at == math.inf else self._wakes_at - now)


def _stop(problems: Problems) -> None:
    try:
        problems.stop()
    except Exception:  # of a lost GPU, for example: other solves keep their deadlines
        _logger.exception("A search could not be ended at its deadline.")


_CLOCK = _Clock()
TIME_LEFT_MIN_S = 1e-9  # of a deadline that is over


def with_time_left(options: SolverOptions, began: float) -> SolverOptions:
    """Return options with the time left of a deadline, if any, since a time of the monotonic clock [s]."""
    if options.deadline_s is None:
        return options
    return replace(options, deadline_s=max(TIME_LEFT_MIN_S, began + options.deadline_s - time.monotonic()))


TIME_CHECK: ContextVar[Callable[[], None]] = ContextVar("time_check", default=lambda: None)
"""Called before every solve: an error ends a call of thousands of solves."""


@contextmanager
def stopped_after(problems: Problems, seconds: float) -> Iterator[None]:
    """Let no attempt of this block begin after a time from now [s]."""
    key, ends = object(), time.monotonic() + seconds
    if time.monotonic() >= ends:
        problems.stop()
    else:
        _CLOCK.add(key, ends, problems)
    try:
        yield
    finally:
        _CLOCK.remove(key)
        problems.stop(False)
