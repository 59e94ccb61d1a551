"""Large answers go out in pieces, each once the caller has taken the one before: so memory stays reserved meanwhile."""

import asyncio

import orjson
import pytest

from ik_service.service.codecs.codec import PIECE_BYTES
from ik_service.service.documents.answer_size import BLOCKING_ANSWER_BYTES
from ik_service.service.gate.request_context import CONTEXT

POSE = [0.1, -0.785, 0.2, -2.356, 0.3, 1.571, 0.785]
MANY = 8000
LARGE = {
    "forward": {"joint_q": [POSE] * MANY, "links": ["panda_hand", "panda_link7"]},
    "solve": {
        "targets": [{"link": "panda_hand", "positions": [[9.0, 0.0, 0.0]] * MANY}],
        "options": {"seeds": 1, "max_iterations": 1},
    },
}


async def taken(app, path, body):
    """Sizes of the pieces of an answer, and bytes that are reserved while its caller takes each."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    messages, pieces = [{"type": "http.request", "body": orjson.dumps(body)}], []

    async def receive():
        return messages.pop() if messages else await asyncio.Event().wait()

    async def send(message):
        if message["type"] == "http.response.start":
            assert message["status"] == 200
        elif message["body"]:
            pieces.append((len(message["body"]), scope[CONTEXT].held))

    await app(scope, receive, send)
    assert scope[CONTEXT].held == 0
    return pieces


@pytest.mark.parametrize("route", LARGE)
def test_a_large_answer_is_taken_piece_by_piece_while_its_memory_is_reserved(client, route):
    pieces = client.portal.call(taken, client.app, f"/v1/robots/panda/{route}", LARGE[route])
    sizes = [size for size, _ in pieces]
    assert sum(sizes) > BLOCKING_ANSWER_BYTES
    assert max(sizes) <= PIECE_BYTES
    assert all(reserved >= sum(sizes) for _, reserved in pieces)
