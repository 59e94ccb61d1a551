"""Bounds of a pool."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PoolLimits:
    """Bounds of a pool.

    Attributes:
        requests: Largest number of waiting requests.
        problems: Largest number of waiting problems; a single request may have more.
        keys: Largest number of waiting kinds of requests with kernels, and equally many kinds still being compiled.
        solvers: Number of solvers kept for later requests.
        batch_problems: Largest number of problems in a batch; 1 solves problems one by one.
        timeout_s: Default deadline, from the arrival of the request [s].
        is_shared: Whether several owners share these limits.
    """

    requests: int = 1024
    problems: int = 1_000_000
    keys: int = 64
    solvers: int = 16
    batch_problems: int = 16_384
    timeout_s: float = 60.0
    is_shared: bool = False
