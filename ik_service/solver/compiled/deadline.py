"""The deadline of a solve: no attempt begins after it, and problems that are not solved by then say so.

Kernels read a mark in the settings of the solve before each attempt, which a timer of the host sets. So a CPU is
needed, whose memory both share.
"""

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


@contextmanager
def stopped_at(problems: Problems, ends: float) -> Iterator[None]:
    """Let no attempt begin in this block after a time of the monotonic clock [s]."""
    timer = threading.Timer(max(0.0, ends - time.monotonic()), problems.stop)
    timer.daemon = True
    if time.monotonic() >= ends:
        problems.stop()
    else:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if timer.ident is not None:
            timer.join()
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
