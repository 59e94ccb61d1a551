"""Deadline of waves of attempts on a GPU: at most one more wave is made once the deadline's mark is set.

    after the first wave and after every two   is the mark set? then the listed problems are the stopped ones
    at the end                                 all searches have ended except of stopped problems

The first wave of an island is always made.
"""

import typing
from collections.abc import Callable
from typing import Any

import warp as wp

from ik_service.solver.arrays.kernel_modules import SOLVE_EXTRAS
from ik_service.solver.compiled.island_task import IslandTask, setting_now
from ik_service.solver.compiled.waves import AttemptStorage
from ik_service.solver.lm.codes import STOP

LISTED, STOPPED = wp.constant(0), wp.constant(1)
"""Turns of a wave: which problems go on stands in the list of the first; here the count of the other says how many of
them are stopped."""


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def _stop_waves(task: IslandTask, storage: AttemptStorage):
    """Leave the next two waves no problems, if the mark is set; by one thread."""
    stopped = int(0)
    if setting_now(task.settings, STOP) != 0:
        stopped = storage.listed_count[LISTED]
        storage.listed_count[LISTED] = 0
    storage.listed_count[STOPPED] = stopped


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def _end_searches(task: IslandTask, storage: AttemptStorage, threads: int):
    """Mark all seeds of all searches as handed out."""
    place = wp.tid()
    while place < task.count[0]:
        p = task.problem[place]
        task.searches.next_seed[p, task.island] = task.searches.end_seed[p, task.island]
        place += threads


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def _reopen_stopped(task: IslandTask, storage: AttemptStorage, threads: int):
    """Mark the searches of stopped problems as having seeds left."""
    place = wp.tid()
    while place < storage.listed_count[STOPPED]:
        p = task.problem[storage.listed[LISTED, place]]
        task.searches.next_seed[p, task.island] = 0
        place += threads


class WaveDeadline:
    """Launches added to the waves of an island by a deadline; `threads` is the number of threads for the problems."""

    def __init__(self, task: Any, storage: Any, threads: int) -> None:
        def recorded(kernel: wp.Kernel, size: int, *more: int) -> Callable[[], None]:
            inputs, device = [task, storage, *more], task.settings.device
            launch: wp.Launch = wp.launch(kernel, size, inputs, device=device, record_cmd=True)
            return launch.launch

        self.stop = recorded(_stop_waves, 1)
        self._ends = recorded(_end_searches, threads, threads), recorded(_reopen_stopped, threads, threads)

    def end(self) -> None:
        """Mark the searches ended by the deadline."""
        for launch in self._ends:
            launch()
