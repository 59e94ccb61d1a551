"""Which kernels are there, and which lanes wait for those that are being compiled. It holds no lock; its owner does."""

from collections import OrderedDict
from collections.abc import Collection, Hashable

CODES_MOST = 4096


class KnownCode:
    """Keys of code that has been compiled, or is being compiled."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[Hashable, None] = OrderedDict()
        self._awaited: dict[Hashable, dict[Hashable, None]] = {}

    def __contains__(self, code: Hashable) -> bool:
        """Tell whether code is there."""
        return code in self._compiled

    def add(self, code: Hashable) -> None:
        """Remember that code is there, or that nobody else will compile it."""
        self._compiled[code] = None
        self._compiled.move_to_end(code)
        if len(self._compiled) > CODES_MOST:
            self._compiled.popitem(last=False)

    def wait(self, code: Hashable, lane: Hashable) -> bool:
        """Let a lane wait for code; return whether it is the first, so that somebody has to compile it."""
        is_first = code not in self._awaited
        self._awaited.setdefault(code, {})[lane] = None
        return is_first

    def awaiting(self, code: Hashable) -> Collection[Hashable]:
        """Return the lanes that wait for code."""
        return self._awaited.get(code, {})

    def arrived(self, code: Hashable) -> Collection[Hashable]:
        """Remember that code is there, and return the lanes that have waited for it."""
        self.add(code)
        return self._awaited.pop(code, {})

    def given_up(self, code: Hashable) -> None:
        """Forget code that nobody waits for; the next lane that wants it is the first again."""
        self._awaited.pop(code, None)
