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
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

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


_GUESS = (FIRST_GUESS_S,)


class BoundedDict(OrderedDict[K, V]):
    """Dictionary of at most `most` entries: a new entry beyond the limit removes the entry set least recently."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


@dataclass(slots=True)
class Pace:
    """Times of the batches of a key."""

    most: int  # largest number of problems in a batch
    kept: tuple[float, ...] = _GUESS  # solver time per problem in the last batches [s]
    at: float = 0.0  # time of the last record [s]
    # by batch size, a power of two: number of batches and least time of a batch [s]
    by_size: dict[int, tuple[int, float]] = field(default_factory=dict)
    is_timed: bool = False  # whether batches of all sizes take the same time, so that they are not doubled
    singles: int = 0  # 2 or 1: a possibly slow key has that many batches of one problem to go; 0: none


class BatchSizer:
    """Chooses batch sizes, up to `batch_problems`, by the solver time per problem in the last batches of a key."""

    def __init__(self, batch_problems: int) -> None:
        self._new = Pace(batch_problems)
        self.paces: BoundedDict[Hashable, Pace] = BoundedDict(KEYS_MOST)  # of keys with batches so far

    def start_small(self, key: Hashable) -> None:
        """Start a new key with single problems; the time of the first problem includes the build of the solver."""
        if key not in self.paces:
            self._pace(key).singles = 2

    def set_timed(self, key: Hashable) -> None:
        """Mark a key with a search deadline: all its batches take the same time, whatever their size."""
        self._pace(key).is_timed = True

    def bound(self, key: Hashable, problem_count: int) -> None:
        """Set the largest number of problems in a batch of a key."""
        self._pace(key).most = min(self._new.most, problem_count)

    def budget(self, key: Hashable, *, alone: bool = False) -> int:
        """Return the largest number of problems in the next batch of a key; `alone`: for a single request in the pool.

        The number is a power of two: then most batches have the same size and the solver replays recorded launches. The
        batch size is doubled while doubling pays or needs more samples.
        """
        pace = self.paces.get(key, self._new)
        if pace.singles:
            return 1
        quantum, held = LONG_QUANTUM_S if alone else QUANTUM_S, HOLD_S / max(pace.kept)
        size = 1 << (int(max(min(max(quantum / min(pace.kept), BATCH_LEAST), held), 1.0)).bit_length() - 1)
        if not pace.is_timed:
            most = min(pace.most, DOUBLED_S / (sum(pace.kept) / len(pace.kept)), held)
            seconds = {each: least for each, (count, least) in pace.by_size.items() if count > DOUBLING_TRIES}
            while BATCH_LEAST <= size <= most / 2 and size in seconds:
                if DOUBLING_PAYS * seconds[size] < seconds.get(2 * size, 0.0):
                    break
                size *= 2
        return min(size, pace.most)

    def least_seconds(self, key: Hashable) -> float:
        """Return the least time of a problem of a key [s]; 0 without enough recent batches."""
        pace = self.paces.get(key, self._new)
        is_known = len(pace.kept) == BATCHES_KEPT and time.monotonic() <= pace.at + TRUSTED_S
        return min(pace.kept) if is_known else 0.0

    def usual_seconds(self, key: Hashable) -> float:
        """Return the mean time per problem in the last batches of a key [s]; includes other load on the core."""
        kept = self.paces.get(key, self._new).kept
        return sum(kept) / len(kept)

    def record(self, key: Hashable, problem_count: int, seconds: float) -> None:
        """Record the time of a batch; ignore batches below the usual size, since their time per problem is too long."""
        pace = self._pace(key)
        if pace.singles == 2:
            pace.singles = 1
            return
        if problem_count < min(BATCH_LEAST, self.budget(key)):
            return
        before = () if pace.kept is _GUESS else pace.kept
        pace.kept = (*before, max(seconds / problem_count, 1e-9))[-BATCHES_KEPT:]
        pace.at, pace.singles = time.monotonic(), 0
        if problem_count & (problem_count - 1) == 0:
            by_size = dict(pace.by_size)  # a copy: another thread may be reading
            count, least = by_size.get(problem_count, (0, math.inf))
            by_size[problem_count] = count + 1, math.inf if count == 0 else min(seconds, REMEMBERED * least)
            if 2 * problem_count in by_size:
                count, least = by_size[2 * problem_count]
                by_size[2 * problem_count] = count, FORGOTTEN * least
            pace.by_size = by_size

    def _pace(self, key: Hashable) -> Pace:
        """Return the times of a key, to be changed."""
        pace = self.paces[key] = self.paces.get(key) or Pace(self._new.most)
        return pace
