"""The bounds of a pool."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PoolLimits:
    """Bounds of a pool.

    Attributes:
        requests: Waiting requests at most.
        problems: Waiting problems at most; a single request may have more.
        keys: Kinds of waiting requests at most: so many with kernels, and so many whose kernels are being compiled.
        solvers: Solvers kept for later requests.
        batch_problems: Problems of a batch at most; 1 solves one after the other.
        timeout_s: Deadline of requests without one, from their arrival [s].
        is_shared: Whether there are several owners that share these limits.
    """

    requests: int = 1024
    problems: int = 1_000_000
    keys: int = 64
    solvers: int = 16
    batch_problems: int = 16_384
    timeout_s: float = 60.0
    is_shared: bool = False
