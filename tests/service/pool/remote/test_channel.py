"""A channel: arrays arrive as they were sent, large ones through shared memory that is used again."""

import asyncio
import gc

import numpy as np
import pytest

from ik_service.service.remote import channel as channel_module
from ik_service.service.remote.channel import SHARED_LEAST_BYTES, Channel
from tests.bounded import run


class Ends:
    """Two ends of a channel in one event loop."""

    def __init__(self, folder):
        self.path = str(folder / "socket")
        self.here, self.there = [], []
        self.lost = asyncio.Event()

    async def __aenter__(self):
        loop = asyncio.get_running_loop()
        accepted = []

        def make():
            accepted.append(Channel(self.there.append, self.lost.set))
            return accepted[0]

        self.server = await loop.create_unix_server(make, self.path)
        _, self.sender = await loop.create_unix_connection(lambda: Channel(self.here.append, lambda: None), self.path)
        while not accepted:
            await asyncio.sleep(0.001)
        self.receiver = accepted[0]
        return self

    async def __aexit__(self, *_):
        self.sender.close()
        await self.lost.wait()
        self.server.close()

    async def sent(self, message):
        """What arrives of a message."""
        self.sender.send(message)
        while not self.there:
            await asyncio.sleep(0.001)
        return self.there.pop()


def arrays(rows):
    generator = np.random.default_rng(0)
    return {
        "poses": generator.random((rows, 7)).astype(np.float32),
        "turned": generator.random((5, rows)).T,
        "flags": generator.random(rows) > 0.5,
        "none": np.zeros((0, 3)),
        "words": ["a", None, 3],
    }


@pytest.mark.parametrize("rows", [1, 20_000])
def test_arrays_arrive_as_they_were_sent(tmp_path, rows):
    async def ask():
        async with Ends(tmp_path) as ends:
            message = arrays(rows)
            received = await ends.sent(message)
            is_shared = bool(ends.sender._blocks._used)
            assert is_shared == (message["poses"].nbytes > SHARED_LEAST_BYTES)
            assert received["words"] == message["words"]
            for name in ("poses", "turned", "flags", "none"):
                one, other = received[name], message[name]
                assert (one.dtype, one.shape) == (other.dtype, other.shape)
                assert (one == other).all()
                assert one.flags.aligned
                assert one.flags.writeable

    run(ask())


def test_a_block_is_used_again_once_nobody_needs_its_arrays(tmp_path):
    async def ask():
        async with Ends(tmp_path) as ends:
            kept = await ends.sent(arrays(20_000))
            view = kept["poses"][7:9]
            expected = view.copy()
            del kept
            places = []
            for _ in range(3):
                places.append(sorted(ends.sender._blocks._used))
                dropped = await ends.sent(arrays(20_000))
                del dropped
                gc.collect()
                ends.receiver.send("thanks")
                while not ends.here:
                    await asyncio.sleep(0.001)
                ends.here.clear()
            assert (view == expected).all()  # a view of a part keeps the whole block
            assert places == [[0], [0], [0]]
            del view
            gc.collect()
            ends.receiver.send("thanks")
            while not ends.here:
                await asyncio.sleep(0.001)
            assert ends.sender._blocks._used == {}

    run(ask())


def test_without_room_in_shared_memory_arrays_go_through_the_socket(tmp_path, monkeypatch):
    monkeypatch.setattr(channel_module, "BLOCKS_BYTES", 2**20)

    async def ask():
        async with Ends(tmp_path) as ends:
            first = await ends.sent(np.arange(100_000))
            second = await ends.sent(np.arange(100_000))
            assert len(ends.sender._blocks._used) == 1
            assert (first == second).all()

    run(ask())


def test_a_system_without_such_memory_has_channels_too(tmp_path, monkeypatch):
    monkeypatch.delattr("os.memfd_create")

    async def ask():
        async with Ends(tmp_path) as ends:
            assert (await ends.sent(np.arange(100_000)) == np.arange(100_000)).all()
            assert ends.sender._blocks is None

    run(ask())


def test_messages_in_pieces_and_several_in_one_piece_arrive_in_order():
    received, sent = [], bytearray()
    sender, receiver = Channel(lambda _: None, lambda: None), Channel(received.append, lambda: None)

    class Wire:
        def write(self, data):
            sent.extend(data)

    sender.connection_made(Wire())
    for k in range(5):
        sender.send({"number": k, "values": np.arange(k)})
    pieces = [sent[:1], sent[1:30], sent[30:500], sent[500:]]
    for piece in pieces:
        receiver.data_received(bytes(piece))
    assert [message["number"] for message in received] == list(range(5))
    assert [len(message["values"]) for message in received] == list(range(5))
