"""Status of kernels: compiled, failed, or awaited by groups of requests.

This module has no lock: the pool holds the lock around every call.
"""

from collections.abc import Collection, Hashable

from ik_service.service.pool.build import BuildEnd
from ik_service.service.queue.bounded_dict import BoundedDict

CODES_MOST = 4096
FAILED_MOST = 1024
FAILED_S = 600.0
"""Time in which code that cannot be compiled is not compiled again [s]; longer than any deadline."""
NOT_KEPT_S = 60.0
"""The same for kernels that the cache does not take [s]: an operator may make room."""


class KernelStatus:
    """Status of kernels, by the key of their code."""

    def __init__(self) -> None:
        self._compiled: BoundedDict[Hashable, None] = BoundedDict(CODES_MOST)
        self._awaited: dict[Hashable, dict[Hashable, None]] = {}
        self._failed: BoundedDict[Hashable, tuple[BuildEnd, float]] = BoundedDict(FAILED_MOST)  # outcome, end

    def __contains__(self, code: Hashable) -> bool:
        """Return whether code is compiled."""
        return code in self._compiled

    def add(self, code: Hashable) -> None:
        """Set code as compiled, or as left to the solver thread."""
        self._compiled[code] = None

    def wait(self, code: Hashable, group: Hashable) -> bool:
        """Add a group waiting for code; return whether the group is the first and must start the build."""
        is_first = code not in self._awaited
        self._awaited.setdefault(code, {})[group] = None
        return is_first

    def waiting_groups(self, code: Hashable) -> Collection[Hashable]:
        """Return the groups waiting for code."""
        return self._awaited.get(code, {})

    def set_compiled(self, code: Hashable) -> Collection[Hashable]:
        """Set code as compiled; return the groups that waited for this code."""
        self.add(code)
        return self._awaited.pop(code, {})

    def abandon(self, code: Hashable) -> None:
        """Remove code without waiting requests; the next group for this code starts a build again."""
        self._awaited.pop(code, None)

    def set_failed(self, code: Hashable, end: BuildEnd, now: float) -> Collection[Hashable]:
        """Set code as failed for a while; return the groups that waited for this code."""
        self._failed[code] = end, now + (NOT_KEPT_S if end is BuildEnd.NOT_KEPT else FAILED_S)
        self._compiled.pop(code, None)
        return self._awaited.pop(code, {})

    def failure(self, code: Hashable, now: float) -> BuildEnd | None:
        """Return the outcome of a recent failed build of code; None without such a build."""
        end, until = self._failed.get(code, (None, now))
        return end if until > now else None
