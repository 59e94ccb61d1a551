"""A channel between two processes of the service: pickled messages, whose large arrays go through shared memory.

    message -> pickle without its arrays -> the socket
               its arrays: a shared block where they are large, else the socket too

Both ends are of the same program and the same user: the socket is in a folder that nobody else may enter. The reader
uses arrays where they are; once nothing refers to those of a block any more, the next message to the writer says so.
Where there is no room for a block, the arrays go through the socket. What may be under way is bounded by whoever sends:
a front has no more requests under way than connections, and each request has one answer.
"""

import asyncio
import mmap
import pickle
import struct
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from ik_service.service.remote.shared_blocks import SharedBlocks, opened_blocks

SHARED_LEAST_BYTES = 64 * 1024
"""Arrays of a message that are smaller together go through the socket."""
BLOCKS_BYTES = 128 * 1024 * 1024
"""Most bytes in shared blocks, for each direction of a channel."""
ALIGNMENT = 64
"""Arrays begin at multiples of it, within a block or beside a message [bytes]."""
_HEAD = struct.Struct("<IIQ")  # bytes of the placement, of the pickled message, and of the arrays beside it


class Placement(NamedTuple):
    """Where the arrays of a message are.

    Attributes:
        sizes: Bytes of each.
        block: Where their block begins; None: they are beside the message.
        given_back: Blocks of the other direction that are no longer needed.
        blocks_path: With the first message: where the blocks of its sender are.
    """

    sizes: tuple[int, ...]
    block: int | None
    given_back: tuple[int, ...]
    blocks_path: str | None


class Channel(asyncio.Protocol):
    """One end of a channel, in an event loop.

    Args:
        received: Called with every message.
        lost: Called once the other end has gone.
    """

    def __init__(self, received: Callable[[Any], None], lost: Callable[[], None]) -> None:
        self._received, self._lost = received, lost
        self._transport: asyncio.Transport | None = None
        self._coming = bytearray()
        self._blocks, self._is_told = _own_blocks(), False
        self._theirs: mmap.mmap | None = None
        self._given_back: deque[int] = deque()  # filled wherever arrays end, in any thread

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the owner."""
        self._transport = None
        if self._blocks is not None:
            self._blocks.close()
        self._lost()

    def close(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    # ------------------------------------------------------------------ out
    def send(self, message: object) -> None:
        """Send a message; nothing happens once the connection is lost."""
        if self._transport is None:
            return
        buffers: list[pickle.PickleBuffer] = []
        content = pickle.dumps(message, 5, buffer_callback=buffers.append)
        arrays = [buffer.raw() for buffer in buffers]
        sizes = tuple(array.nbytes for array in arrays)
        total = sum(map(_padded, sizes))
        block = None if self._blocks is None or total < SHARED_LEAST_BYTES else self._blocks.take(total)
        path = None if self._is_told or self._blocks is None else self._blocks.path
        self._is_told = True
        given_back = tuple(self._given_back.popleft() for _ in range(len(self._given_back)))
        placement = pickle.dumps(tuple(Placement(sizes, block, given_back, path)), 5)
        beside = bytearray(total) if block is None else memoryview(b"")
        place, begin = (beside, 0) if self._blocks is None or block is None else (self._blocks.memory, block)
        for array, size in zip(arrays, sizes, strict=True):
            place[begin : begin + size] = array
            begin += _padded(size)
        head = _HEAD.pack(len(placement), len(content), len(beside))
        self._transport.write(b"".join((head, placement, content, beside)))

    # ------------------------------------------------------------------ in
    def data_received(self, data: bytes) -> None:
        """Take bytes; deliver the messages that are complete."""
        self._coming += data
        begin = 0
        while len(self._coming) - begin >= _HEAD.size:
            sizes = _HEAD.unpack_from(self._coming, begin)
            if len(self._coming) - begin < _HEAD.size + sum(sizes):
                break
            parts = []
            begin += _HEAD.size
            for size in sizes:
                parts.append(self._coming[begin : begin + size])
                begin += size
            self._received(self._message(*parts))
        if begin:
            del self._coming[:begin]

    def _message(self, placement: bytearray, content: bytearray, beside: bytearray) -> object:
        placed = Placement(*pickle.loads(placement))
        if placed.blocks_path is not None:
            self._theirs = opened_blocks(placed.blocks_path)
        for begin in placed.given_back:
            assert self._blocks is not None  # the block was one of these
            self._blocks.give_back(begin)
        if placed.block is None:
            memory = np.frombuffer(beside, np.uint8)
        else:
            assert self._theirs is not None  # told with the first message
            memory = np.frombuffer(self._theirs, np.uint8, sum(map(_padded, placed.sizes)), placed.block)
            weakref.finalize(memory, self._given_back.append, placed.block).atexit = False
        begin, arrays = 0, []
        for size in placed.sizes:
            arrays.append(memory[begin : begin + size])
            begin += _padded(size)
        return pickle.loads(content, buffers=arrays)


def _own_blocks() -> SharedBlocks | None:
    try:
        return SharedBlocks(BLOCKS_BYTES)
    except OSError:  # of a system without such memory: the socket takes all arrays
        return None


def _padded(size: int) -> int:
    """The bytes that an array takes up."""
    return -(-size // ALIGNMENT) * ALIGNMENT
