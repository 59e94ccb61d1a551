"""The server on a real socket: slow, large and broken requests end, with a problem document where there can be one."""

import asyncio
import json
import socket
import threading
import time

import pytest
import uvicorn

from ik_service.api.connection import server_config
from ik_service.settings import ServiceSettings

SETTINGS = ServiceSettings(
    max_header_bytes=2048,
    max_body_bytes=100_000,
    max_connections=8,
    header_timeout_s=0.3,
    body_timeout_s=0.5,
    answer_timeout_s=0.5,
    keep_alive_s=1.0,
)
PATIENCE_S = 20.0  # for a server that is to act within half a second, on a busy machine


async def application(scope, receive, send):
    """Answers at once on /early, with ten megabytes on /large, after the whole body elsewhere."""
    if scope["type"] != "http":
        return
    size = 10_000_000 if scope["path"] == "/large" else 2
    more = scope["path"] != "/early"
    while more:
        more = (await receive()).get("more_body", False)
    length = [(b"content-length", str(size).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": length})
    await send({"type": "http.response.body", "body": b"x" * size})


@pytest.fixture(scope="module")
def server():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = uvicorn.Server(server_config(application, SETTINGS))
        thread = threading.Thread(target=lambda: asyncio.run(running.serve(sockets=[listener])))
        thread.start()
        deadline = time.monotonic() + PATIENCE_S
        while not running.started and time.monotonic() < deadline:
            time.sleep(0.01)
        assert running.started
        yield running, listener.getsockname()
        running.should_exit = True
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


@pytest.fixture
def connect(server):
    opened = []

    def open_one():
        opened.append(socket.create_connection(server[1], timeout=PATIENCE_S))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()
    deadline = time.monotonic() + PATIENCE_S
    while server[0].server_state.connections and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not server[0].server_state.connections


def rest(connection):
    """Everything that comes until the server closes."""
    data = b""
    try:
        while chunk := connection.recv(65536):
            data += chunk
    except ConnectionResetError:
        pass
    return data


def answer(connection):
    """The short answer to one request."""
    data = b""
    while not data.endswith(b"\r\n\r\nxx"):
        chunk = connection.recv(65536)
        assert chunk, data
        data += chunk
    return data


def problem(data):
    head, _, body = data.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head
    return int(head.split()[1]), json.loads(body)["code"]


def test_a_connection_that_says_nothing_is_closed(connect):
    assert rest(connect()) == b""


def test_headers_in_drops_are_408(connect):
    connection = connect()
    connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n")
    assert problem(rest(connection)) == (408, "request_timeout")


def test_headers_in_drops_on_a_kept_connection_are_408_too(connect):
    connection = connect()
    connection.sendall(b"GET /early HTTP/1.1\r\nHost: a\r\n\r\n")
    assert answer(connection).startswith(b"HTTP/1.1 200")
    connection.sendall(b"GET / HT")
    assert problem(rest(connection)) == (408, "request_timeout")


@pytest.mark.parametrize("pieces", [1, 20])
@pytest.mark.parametrize("field", ["GET /%b HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nX-Long: %b\r\n\r\n"])
def test_too_large_headers_are_431(connect, pieces, field):
    data = field.encode() % (b"a" * 5000)
    connection = connect()
    step = len(data) // pieces
    try:
        for start in range(0, len(data), step):
            connection.sendall(data[start : start + step])
            time.sleep(0.002)
    except (BrokenPipeError, ConnectionResetError):
        return  # cut off before all was sent
    found = rest(connection)
    assert not found or problem(found) == (431, "headers_too_large")


def test_what_is_not_http_is_400(connect):
    connection = connect()
    connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 this is TLS\r\n\r\n")
    assert problem(rest(connection)) == (400, "bad_request")


def test_a_body_that_goes_on_after_the_answer_is_cut_off(connect):
    connection = connect()
    connection.sendall(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 90000\r\n\r\nxx")
    assert answer(connection).startswith(b"HTTP/1.1 200")
    deadline = time.monotonic() + PATIENCE_S
    is_open = True
    while is_open and time.monotonic() < deadline:
        try:
            connection.sendall(b"x")
        except (BrokenPipeError, ConnectionResetError):
            is_open = False
        time.sleep(0.05)
    assert not is_open


def test_a_body_that_ends_after_the_answer_leaves_the_connection_good(connect):
    connection = connect()
    connection.sendall(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nxx")
    assert answer(connection).startswith(b"HTTP/1.1 200")
    connection.sendall(b"xxGET /early HTTP/1.1\r\nHost: a\r\n\r\n")
    assert answer(connection).startswith(b"HTTP/1.1 200")
    assert rest(connection) == b""  # and an idle one is closed


def test_a_caller_who_does_not_take_the_answer_is_cut_off(server, connect):
    connection = connect()
    connection.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
    deadline = time.monotonic() + PATIENCE_S
    while not server[0].server_state.connections:
        time.sleep(0.01)
    while server[0].server_state.connections and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not server[0].server_state.connections
    assert len(rest(connection)) < 10_000_000


def test_too_many_connections_are_503(connect):
    held = [connect() for _ in range(SETTINGS.max_connections)]
    for connection in held:  # so that each is known to be open
        connection.sendall(b"GET /early HTTP/1.1\r\nHost: a\r\n\r\n")
        assert answer(connection).startswith(b"HTTP/1.1 200")
    refused = rest(connect())
    assert problem(refused) == (503, "unavailable")
    assert b"retry-after: " in refused
