"""Memory that one process writes and another reads, in blocks that are used again and again.

The writer keeps the books and tells where a block begins; the reader tells when it no longer needs it. The memory is
not in any folder: it ends with the last of the processes that have it open, however these end.
"""

import mmap
import os
from bisect import insort

ALIGNMENT = 64
"""Blocks begin at multiples of it [bytes]."""


class SharedBlocks:
    """The writer's end.

    Args:
        size: Bytes of all blocks together; memory is used for those that have been written at some time.

    Attributes:
        memory: The memory.

    Raises:
        OSError: The system has no such memory.
    """

    def __init__(self, size: int) -> None:
        if not hasattr(os, "memfd_create"):
            raise OSError("This system has no memory outside of folders.")
        self._descriptor = os.memfd_create("ik-service", os.MFD_CLOEXEC)
        os.ftruncate(self._descriptor, size)
        self.memory = mmap.mmap(self._descriptor, size)
        self._free = [(0, size)]  # begin and end, in order
        self._used: dict[int, int] = {}  # ends of blocks by their begin

    @property
    def path(self) -> str:
        """Where other processes of the same user can open it while this object exists."""
        return f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def take(self, size: int) -> int | None:
        """Return where a new block of some bytes begins; None where there is no room."""
        size = -(-size // ALIGNMENT) * ALIGNMENT
        for number, (begin, end) in enumerate(self._free):
            if end - begin >= size:
                self._free[number : number + 1] = [(begin + size, end)] if begin + size < end else []
                self._used[begin] = begin + size
                return begin
        return None

    def give_back(self, begin: int) -> None:
        """Let a block be used again.

        Raises:
            KeyError: No block in use begins there.
        """
        insort(self._free, (begin, self._used.pop(begin)))
        joined: list[tuple[int, int]] = []
        for first, last in self._free:
            if joined and joined[-1][1] == first:
                joined[-1] = (joined[-1][0], last)
            else:
                joined.append((first, last))
        self._free = joined

    def close(self) -> None:
        """Take no more blocks; the memory goes once nobody reads it any more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def opened_blocks(path: str) -> mmap.mmap:
    """Return the memory of another process's blocks.

    Raises:
        OSError: It cannot be opened.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return mmap.mmap(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)
