"""Batch size: number of problems the solver finishes in a time quantum, so that no request waits long.

Large batches cost less per problem. So a request alone in the pool for a while gets long quanta; after the arrival of
another request, quanta are short again. On a GPU, small batches of any size take the same time. So the batch size is
doubled while a doubled batch takes little more time, but not if the search has a deadline of its own: then batches of
all sizes take the same time.

A batch cannot be interrupted, and a batch of fewer than `BATCH_LEAST` problems leaves SIMD lanes idle. Batches are
smaller, down to one problem, only if `BATCH_LEAST` problems would take longer than `HOLD_S`. Keys of possibly slow
requests start with one problem; a key with a known worst case has an upper bound of its batch size.
"""

import math
import time
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ik_service.service.queue.bounded_dict import BoundedDict

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

QUANTUM_S, LONG_QUANTUM_S = 1e-3, 20e-3
BATCH_LEAST = 64
"""Fewer problems would not fill the lanes of the solver."""
HOLD_S = 0.25
"""Longest time of a batch, by the slowest of the last batches; of slower problems it holds fewer."""
FIRST_GUESS_S = 4e-6
"""Time of a problem of a key without batches so far."""
DOUBLED_S = 8e-3
"""Longest time of a batch that is doubled, by the mean of the last batches."""
DOUBLING_PAYS = 1.5
"""Times as long that a batch of twice as many problems may take: half of the smaller one's time does not grow then."""
DOUBLING_TRIES = 8
"""Batches of a size by which its time is told. The first, which records the launches, does not count; of the others
the fastest does, since any of them may have waited for the core."""
REMEMBERED, FORGOTTEN = 1.1, 0.999
"""By how much the least time of a size of batches grows with each slower batch, and by how much that of the double size
falls with each batch that is not doubled, so that doubling is tried again."""
BATCHES_KEPT = 4
"""Batches of a key that are remembered; the fastest is the one that no other process has slowed down."""
TRUSTED_S = 1.0
"""How long their times tell what later problems take at least [s]: whoever is refused by them is tried again then."""
KEYS_MOST = 1024


@dataclass(frozen=True, slots=True)
class _Times:
    """Solver time per problem [s] in the last batches of a key: least, largest, mean, and time of the record."""

    kept: tuple[float, ...]
    least: float
    most: float
    mean: float
    at: float

    @classmethod
    def of(cls, kept: tuple[float, ...]) -> "Self":
        return cls(kept, min(kept), max(kept), sum(kept) / len(kept), time.monotonic())


_GUESS = _Times.of((FIRST_GUESS_S,))


class BatchSizer:
    """Chooses batch sizes by the solver time per problem in the last batches of a key.

    Args:
        batch_problems: Largest number of problems in a batch.
    """

    def __init__(self, batch_problems: int) -> None:
        self._most = batch_problems
        self._seconds: BoundedDict[Hashable, _Times] = BoundedDict(KEYS_MOST)
        # Possibly slow keys without a recorded batch; True: no problem solved yet.
        self._untried: BoundedDict[Hashable, bool] = BoundedDict(KEYS_MOST)
        self._bounds: BoundedDict[Hashable, int] = BoundedDict(KEYS_MOST)
        self._timed: BoundedDict[Hashable, bool] = BoundedDict(KEYS_MOST)  # keys without doubled batches
        # By batch size, a power of two: number of batches and least time of a batch [s].
        self._by_size: BoundedDict[Hashable, dict[int, tuple[int, float]]] = BoundedDict(KEYS_MOST)

    def start_small(self, key: Hashable) -> None:
        """Start a new key with single problems; the time of the first problem includes the build of the solver."""
        if key not in self._seconds and key not in self._untried:
            self._untried[key] = True

    def set_timed(self, key: Hashable) -> None:
        """Mark a key with a search deadline: all its batches take the same time, whatever their size."""
        self._timed[key] = True

    def bound(self, key: Hashable, problem_count: int) -> None:
        """Set the largest number of problems in a batch of a key."""
        self._bounds[key] = problem_count

    def budget(self, key: Hashable, *, alone: bool = False) -> int:
        """Return the largest number of problems in the next batch of a key.

        The number is a power of two: then most batches have the same size and the solver replays recorded launches.

        Args:
            key: The key.
            alone: Whether a single request has the solver to itself.
        """
        if key in self._untried:
            return 1
        quantum = LONG_QUANTUM_S if alone else QUANTUM_S
        times = self._seconds.get(key, _GUESS)
        fitting = int(max(min(max(quantum / times.least, BATCH_LEAST), HOLD_S / times.most), 1.0))
        size, most = 1 << (fitting.bit_length() - 1), min(self._most, self._bounds.get(key, self._most))
        doubled = min(most, DOUBLED_S / times.mean, HOLD_S / times.most)
        return min(size if key in self._timed else self._doubled(key, size, doubled), most)

    def _doubled(self, key: Hashable, size: int, most: float) -> int:
        """Return a batch size, doubled while doubling pays or needs more samples."""
        seconds = {size: least for size, (count, least) in self._by_size.get(key, {}).items() if count > DOUBLING_TRIES}
        while BATCH_LEAST <= size <= most / 2 and size in seconds:
            if DOUBLING_PAYS * seconds[size] < seconds.get(2 * size, 0.0):
                break
            size *= 2
        return size

    def least_seconds(self, key: Hashable) -> float:
        """Return the least time of a problem of a key [s]; 0 without enough recent batches."""
        times = self._seconds.get(key)
        if times is None or len(times.kept) < BATCHES_KEPT or time.monotonic() > times.at + TRUSTED_S:
            return 0.0
        return times.least

    def usual_seconds(self, key: Hashable) -> float:
        """Return the mean time per problem in the last batches of a key [s]; includes other load on the core."""
        return self._seconds.get(key, _GUESS).mean

    def record(self, key: Hashable, problem_count: int, seconds: float) -> None:
        """Record the time of a batch; ignore batches below the usual size, since their time per problem is too long."""
        if self._untried.get(key):
            self._untried[key] = False
            return
        if problem_count < min(BATCH_LEAST, self.budget(key)):
            return
        self._untried.pop(key, None)
        before = self._seconds[key].kept if key in self._seconds else ()
        kept = (*before, max(seconds / problem_count, 1e-9))
        self._seconds[key] = _Times.of(kept[-BATCHES_KEPT:])
        if problem_count & (problem_count - 1) == 0:
            by_size = self._by_size.get(key, {})
            count, least = by_size.get(problem_count, (0, math.inf))
            by_size[problem_count] = count + 1, math.inf if count == 0 else min(seconds, REMEMBERED * least)
            if 2 * problem_count in by_size:
                count, least = by_size[2 * problem_count]
                by_size[2 * problem_count] = count, FORGOTTEN * least
            self._by_size[key] = by_size
