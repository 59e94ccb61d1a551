"""Which kernels are there, which can never be, and which groups wait for those that are being compiled.

It holds no lock; its owner does.
"""

from collections import OrderedDict
from collections.abc import Collection, Hashable

CODES_MOST = 4096
FAILED_MOST = 1024
FAILED_S = 600.0
"""How long code that could not be compiled is not tried again [s]: longer than anybody waits for an answer."""


class KernelStatus:
    """Keys of code that has been compiled, or is being compiled."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[Hashable, None] = OrderedDict()
        self._awaited: dict[Hashable, dict[Hashable, None]] = {}
        self._failed: OrderedDict[Hashable, float] = OrderedDict()  # until when that is remembered [s]

    def __contains__(self, code: Hashable) -> bool:
        """Tell whether code is there."""
        return code in self._compiled

    def add(self, code: Hashable) -> None:
        """Remember that code is there, or that nobody else will compile it."""
        self._compiled[code] = None
        self._compiled.move_to_end(code)
        if len(self._compiled) > CODES_MOST:
            self._compiled.popitem(last=False)

    def wait(self, code: Hashable, group: Hashable) -> bool:
        """Let a group wait for code; return whether it is the first, so that somebody has to compile it."""
        is_first = code not in self._awaited
        self._awaited.setdefault(code, {})[group] = None
        return is_first

    def waiting_groups(self, code: Hashable) -> Collection[Hashable]:
        """Return the groups that wait for code."""
        return self._awaited.get(code, {})

    def set_compiled(self, code: Hashable) -> Collection[Hashable]:
        """Remember that code is there, and return the groups that have waited for it."""
        self.add(code)
        return self._awaited.pop(code, {})

    def abandon(self, code: Hashable) -> None:
        """Forget code that nobody waits for; the next group that wants it is the first again."""
        self._awaited.pop(code, None)

    def set_failed(self, code: Hashable, now: float) -> Collection[Hashable]:
        """Remember for a while that code cannot be compiled, and return the groups that have waited for it."""
        self._failed.pop(code, None)
        self._failed[code] = now + FAILED_S
        if len(self._failed) > FAILED_MOST:
            self._failed.popitem(last=False)
        self._compiled.pop(code, None)
        return self._awaited.pop(code, {})

    def has_failed(self, code: Hashable, now: float) -> bool:
        """Tell whether code could not be compiled, lately."""
        return self._failed.get(code, now) > now
