"""The deadline of a solve: no attempt begins after it, and problems that are not solved by then say so.

Kernels read a mark in the settings of the solve before each attempt, which a timer of the host sets, in the memory of a
GPU too: there the mark is read after the first wave of attempts, and after every two.
"""

import logging
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ik_service.solver.arrays.problem_arrays import Problems
from ik_service.solver.given.options import SolverOptions

_logger = logging.getLogger(__name__)


class _Clock:
    """A thread that stops solves at their deadlines, started when it is first needed.

    It sleeps until the earliest deadline, also where that solve has ended meanwhile: so it is seldom woken.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due = dict[object, tuple[float, Problems]]()
        self._wakes_at = math.inf
        self._thread: threading.Thread | None = None

    def add(self, key: object, ends: float, problems: Problems) -> None:
        """Stop problems at a time of the monotonic clock [s], unless they are removed before."""
        with self._changed:
            if self._thread is None or not self._thread.is_alive():
                self._wakes_at = math.inf
                self._thread = threading.Thread(target=self._run, name="ik-deadlines", daemon=True)
                self._thread.start()
            self._due[key] = (ends, problems)
            if ends < self._wakes_at:
                self._changed.notify()

    def remove(self, key: object) -> None:
        """Stop problems no more."""
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
    except Exception:  # of a GPU that is lost, say: other solves keep their deadlines
        _logger.exception("A search could not be ended at its deadline.")


_CLOCK = _Clock()
TIME_LEFT_MIN_S = 1e-9  # of a deadline that is over


def with_time_left(options: SolverOptions, began: float) -> SolverOptions:
    """Return options whose deadline, if any, is what is left of it since a time of the monotonic clock [s]."""
    if options.deadline_s is None:
        return options
    return replace(options, deadline_s=max(TIME_LEFT_MIN_S, began + options.deadline_s - time.monotonic()))


@contextmanager
def stopped_after(problems: Problems, seconds: float) -> Iterator[None]:
    """Let no attempt begin in this block once it has run for a time [s]."""
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
