"""Counts of what a run of random cases has tried, and what it has found."""

import sys
import time
from collections import Counter


class Tally(Counter[str]):
    """Counts by their names, and faults: what was wrong, with the place to find it again."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self._started = time.monotonic()

    def tell(self) -> None:
        counts = ", ".join(f"{self[name]} {name}" for name in self)
        sys.stdout.write("\n".join(["", *self.faults[:50], f"{counts}, {time.monotonic() - self._started:.0f} s", ""]))
