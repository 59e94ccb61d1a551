"""The deadline of a solve: no attempt begins after it, and problems that are not solved by then say so.

Kernels read a mark in the settings of the solve before each attempt, which a timer of the host sets. So a CPU is
needed, whose memory both share.
"""

import math
import threading
import time
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import warp as wp

from ik_service.solver.launches.recording import PartLaunches, per_problem
from ik_service.solver.lm.codes import DEADLINE, NO_TARGET, STOP
from ik_service.solver.lm.ranking import IN_CONTACT, UNRANKED
from ik_service.solver.problems.arrays import Problems
from ik_service.solver.problems.best_attempts import BestAttempts, Searches
from ik_service.solver.problems.kernel_modules import SOLVE_EXTRAS
from ik_service.solver.problems.parts import first_problem

NAN = wp.constant(float("nan"))


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
                    self._due.pop(key)[1].stop()
                self._wakes_at = min((ends for ends, _ in self._due.values()), default=math.inf)
                self._changed.wait(None if self._wakes_at == math.inf else self._wakes_at - now)


_CLOCK = _Clock()


@contextmanager
def stopped_at(problems: Problems, ends: float) -> Iterator[None]:
    """Let no attempt begin in this block after a time of the monotonic clock [s]."""
    key = object()
    if time.monotonic() >= ends:
        problems.stop()
    else:
        _CLOCK.add(key, ends, problems)
    try:
        yield
    finally:
        _CLOCK.remove(key)
        problems.stop(False)


def record_stopped(problems: Problems, part: int, parts: int) -> PartLaunches:
    """Record the launch that marks the problems whose search the deadline has ended."""
    inputs: list[Any] = [problems.settings, part, parts, problems.best, problems.searches]
    launch = wp.launch(_mark_stopped, 1, inputs, device=problems.settings.device, record_cmd=True)
    return PartLaunches([per_problem(launch)])


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def _mark_stopped(settings: wp.array[wp.int32], part: int, parts: int, best: BestAttempts, searches: Searches):
    p = first_problem(settings, part, parts) + wp.tid()
    if settings[STOP] == 0:
        return
    for island in range(best.status.shape[1]):
        rank = best.rank[p, island]
        is_minimum = best.met[p, island] == NO_TARGET and rank < UNRANKED
        if searches.next_seed[p, island] < searches.end_seed[p, island] and rank >= IN_CONTACT and not is_minimum:
            best.status[p, island] = DEADLINE
            if rank >= UNRANKED:  # what stands there is of another solve
                best.met[p, island] = NO_TARGET
                best.seed[p, island] = 0
                best.iterations[p, island] = 0
                best.cost[p, island] = NAN
