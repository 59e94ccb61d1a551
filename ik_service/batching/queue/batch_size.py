"""How many problems go into a batch, so that nobody waits long for the one before: what fits into a quantum of time.

A large batch costs less per problem. So a request that has had the solver to itself for a while gets long quanta; who
comes then waits once for the end of such a batch, and quanta are short from there on.

Batches below a certain size would waste the solver, and a batch once begun goes on to its end. So where problems are so
slow that those few would hold up everybody, batches are smaller still, down to one problem; kinds of requests that may
be slow begin with one, and those of which it is known what they can take at worst never hold more.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Self

QUANTUM_S, LONG_QUANTUM_S = 1e-3, 20e-3
BATCH_LEAST = 64
"""Fewer would not fill the lanes of the solver."""
HOLD_S = 0.25
"""Time that a batch of so few may take: of slower problems there are less."""
FIRST_GUESS_S = 4e-6
"""Time of a problem of which nothing is known yet."""
BATCHES_KEPT = 4
"""Batches of a key that are remembered: the fastest tells how fast it goes when no other process has the core."""
KEYS_MOST = 1024


@dataclass(frozen=True, slots=True)
class _Times:
    """Solver time per problem [s] in the last batches of a key, with what is asked about them for every request."""

    kept: tuple[float, ...]
    least: float
    most: float
    mean: float

    @classmethod
    def of(cls, kept: tuple[float, ...]) -> Self:
        return cls(kept, min(kept), max(kept), sum(kept) / len(kept))


_GUESS = _Times.of((FIRST_GUESS_S,))


class BatchSizer:
    """Solver time per problem [s] by key: the least of the last batches.

    Args:
        batch_problems: Problems in a batch at most.
    """

    def __init__(self, batch_problems: int) -> None:
        self._most = batch_problems
        self._seconds: OrderedDict[Hashable, _Times] = OrderedDict()
        self._untried: OrderedDict[Hashable, bool] = OrderedDict()  # that may be slow: whether none has been solved
        self._bounds: OrderedDict[Hashable, int] = OrderedDict()

    def start_small(self, key: Hashable) -> None:
        """Begin with single problems of a key that nothing is known of; the first of them has the solver made."""
        if key not in self._seconds and key not in self._untried:
            self._untried[key] = True
            if len(self._untried) > KEYS_MOST:
                self._untried.popitem(last=False)

    def bound(self, key: Hashable, problem_count: int) -> None:
        """Let no batch of a key hold more problems."""
        self._bounds[key] = problem_count
        self._bounds.move_to_end(key)
        if len(self._bounds) > KEYS_MOST:
            self._bounds.popitem(last=False)

    def budget(self, key: Hashable, *, alone: bool = False) -> int:
        """Return how many problems of a key a batch may hold.

        A power of two, so that one batch is as large as the next: the solver replays what it has recorded.

        Args:
            key: The key.
            alone: Whether nobody else seems to want the solver.
        """
        if key in self._untried:
            return 1
        quantum = LONG_QUANTUM_S if alone else QUANTUM_S
        times = self._seconds.get(key, _GUESS)
        if BATCH_LEAST * times.most > HOLD_S:
            fitting = int(max(HOLD_S / times.most, 1))
        else:
            fitting = int(max(quantum / times.least, BATCH_LEAST))
        return min(1 << (fitting.bit_length() - 1), self._most, self._bounds.get(key, self._most))

    def seconds(self, key: Hashable) -> float:
        """Return the time that a problem of a key takes in a large batch, about [s]."""
        return self._seconds.get(key, _GUESS).least

    def least_seconds(self, key: Hashable) -> float:
        """Return a time that a problem of a key takes at least, about [s]; 0 where nothing is known."""
        return self._seconds[key].least if key in self._seconds else 0.0

    def usual_seconds(self, key: Hashable) -> float:
        """Return the time that a problem of a key has taken lately, with whatever else has the core meanwhile [s]."""
        return self._seconds.get(key, _GUESS).mean

    def record(self, key: Hashable, problem_count: int, seconds: float) -> None:
        """Remember the time of a batch; those of fewer problems than it could hold say little and are left out."""
        if self._untried.get(key):
            self._untried[key] = False
            return
        if problem_count < min(BATCH_LEAST, self.budget(key)):
            return
        self._untried.pop(key, None)
        before = self._seconds.pop(key).kept if key in self._seconds else ()
        kept = (*before, max(seconds / problem_count, 1e-9))
        self._seconds[key] = _Times.of(kept[-BATCHES_KEPT:])
        if len(self._seconds) > KEYS_MOST:
            self._seconds.popitem(last=False)
