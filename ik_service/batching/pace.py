"""How many problems go into a batch, so that nobody waits long for the one before: what fits into a quantum of time."""

from collections import OrderedDict
from collections.abc import Hashable

QUANTUM_S = 1e-3
BATCH_LEAST = 64
"""Fewer would not fill the lanes of the solver."""
FIRST_GUESS_S = 4e-6
"""Time of a problem of which nothing is known yet."""
WEIGHT = 0.3
"""Of the newest batch in the running mean."""
KEYS_MOST = 1024


class Pace:
    """Solver time per problem [s] by key, as a running mean over batches.

    Args:
        batch_problems: Problems in a batch at most.
    """

    def __init__(self, batch_problems: int) -> None:
        self._most = batch_problems
        self._seconds: OrderedDict[Hashable, float] = OrderedDict()

    def budget(self, key: Hashable) -> int:
        """Return how many problems of a key a batch may hold."""
        return int(min(max(QUANTUM_S / self.seconds(key), BATCH_LEAST), self._most))

    def seconds(self, key: Hashable) -> float:
        """Return the time that a problem of a key takes in a large batch, about [s]."""
        return self._seconds.get(key, FIRST_GUESS_S)

    def note(self, key: Hashable, problem_count: int, seconds: float) -> None:
        """Take the time of a batch into the mean; those of a few problems say little and are left out."""
        if problem_count < BATCH_LEAST:
            return
        before = self._seconds.pop(key, None)
        now = max(seconds / problem_count, 1e-9)
        self._seconds[key] = now if before is None else (1.0 - WEIGHT) * before + WEIGHT * now
        if len(self._seconds) > KEYS_MOST:
            self._seconds.popitem(last=False)
