"""The bounds of a pool."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PoolLimits:
    """Bounds of a pool.

    Attributes:
        requests: Requests that may wait.
        problems: Problems that may wait; one request alone may have more.
        keys: Kinds of requests that may wait at once: so many that can be solved, and so many that wait to be compiled.
        solvers: Solvers kept for later requests.
        batch_problems: Problems that are solved together at most; 1 solves one after the other.
        timeout_s: Deadline of requests that bring none, from when they come [s].
        is_shared: Whether there are several owners, of whom each has a share of what may wait.
    """

    requests: int = 1024
    problems: int = 1_000_000
    keys: int = 64
    solvers: int = 16
    batch_problems: int = 16_384
    timeout_s: float = 60.0
    is_shared: bool = False
