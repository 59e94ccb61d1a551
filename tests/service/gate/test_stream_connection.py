"""Streams over a real server: every answer, in order; callers that flood, do not read, or never answer the end."""

import base64
import contextlib
import io
import json
import logging
import socket
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from ik_service.service.gate import stream_connection
from ik_service.service.gate.logs import configured_logs
from ik_service.service.gate.stream_connection import CONTROL_BURST, UNTAKEN_S
from ik_service.settings import ServiceSettings
from tests.attacks.frames import CONTINUED, PING, TEXT, closed_with, configuration, frame, handshake, rest
from tests.bounded import until
from tests.service.gate.gates import KEYS, real_server

WAIT_S = 60.0
MANY = int(CONTROL_BURST) + 50
CONFIGURE = {
    "type": "configure",
    "targets": [{"link": "panda_hand"}],
    "options": {"seeds": 4},
    "tick_timeout_s": WAIT_S,  # a machine may have other work
}


def place(url):
    return urlsplit(url).hostname, urlsplit(url).port


def address(url):
    return url.replace("http", "ws", 1) + "/v1/robots/panda/stream"


def begin(stream):
    stream.send(json.dumps(CONFIGURE))
    assert json.loads(stream.recv(WAIT_S))["type"] == "configured"


def tick(seq, position=(0.4, 0.1, 0.5)):
    return {"seq": seq, "positions": [position], "orientations_xyzw": [[1, 0, 0, 0]]}


def refusal(url, **options):
    """Status and code of a refused handshake."""
    with pytest.raises(InvalidStatus) as caught:
        connect(url, **options)
    return caught.value.response.status_code, json.loads(caught.value.response.body)["code"]


@pytest.fixture
def raw(service_url):
    """A stream, its handshake done."""
    with socket.create_connection(place(service_url), timeout=WAIT_S) as connection:
        assert handshake(connection).startswith(b"HTTP/1.1 101")
        yield connection


@pytest.mark.parametrize(
    "flood",
    [
        frame(PING, b"p" * 125) * MANY,
        frame(PING) * MANY,
        frame(TEXT, is_last=False) + frame(CONTINUED, is_last=False) * MANY,
    ],
    ids=["long pings", "empty pings", "empty parts"],
)
def test_frames_that_are_no_messages_have_a_rate(raw, flood):
    raw.sendall(flood)
    found = rest(raw)
    assert len(found) <= MANY * 127 + 200
    assert closed_with(found) == 1008
    assert b"Too many frames" in found


def test_a_client_may_ping(service_url):
    with connect(address(service_url)) as stream:
        begin(stream)
        for pong in [stream.ping() for _ in range(int(CONTROL_BURST) // 2)]:
            assert pong.wait(WAIT_S)
        stream.send(json.dumps(tick(1)))
        assert json.loads(stream.recv(WAIT_S))["success"]


def taken_until(connection, word):
    """What comes, up to a word."""
    found = b""
    while word not in found:
        chunk = connection.recv(65536)
        assert chunk, found
        found += chunk
    return found


def test_messages_that_come_together_and_in_parts_all_arrive(raw):
    texts = [json.dumps(tick(seq)).encode() for seq in range(300)]
    raw.sendall(configuration())
    taken_until(raw, b'"configured"')
    raw.sendall(b"".join(frame(TEXT, text[:9], is_last=False) + frame(CONTINUED, text[9:]) for text in texts))
    found = taken_until(raw, b'"seq":299')
    assert b'"type":"error"' not in found
    answers = [json.loads(b"{" + part.split(b"}")[0] + b"}") for part in found.split(b"{")[1:] if b"}" in part]
    assert sum(1 + answer["skipped"] for answer in answers) in (299, 300)  # the last may not have come whole


def test_who_never_answers_the_end_of_a_stream_is_cut_off(service_url, monkeypatch):
    monkeypatch.setattr(stream_connection, "UNTAKEN_S", 0.2)
    with socket.create_connection(place(service_url), timeout=UNTAKEN_S * 0.8) as connection:
        handshake(connection)
        connection.sendall(frame(TEXT, b"{}"))
        assert closed_with(rest(connection)) == 1008


def keep_pinging(connection):
    while True:
        connection.sendall(frame(PING, b"p" * 125) * 1000)


async def silent(scope, receive, send):
    """Accepts a stream and says nothing."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass


def test_nothing_is_read_from_who_takes_nothing_and_it_is_cut_off(monkeypatch):
    for limit, value in (("UNTAKEN_S", 2.0), ("CONTROL_RATE", 1e9), ("CONTROL_BURST", 1e9)):
        monkeypatch.setattr(stream_connection, limit, value)
    with real_server(silent, ServiceSettings()) as (server, address), socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(0.5)
        connection.connect(address)
        handshake(connection)
        with pytest.raises(TimeoutError):  # nothing more is read
            keep_pinging(connection)
        until(lambda: not server.server_state.connections, WAIT_S)


def test_streams_are_shared_by_keys(running_service):
    with running_service(api_keys=KEYS, max_streams=4, robots=("panda",)) as (url, _):
        flood, calm = ({"X-API-Key": key} for key in KEYS.values())
        with connect(address(url), additional_headers=flood), connect(address(url), additional_headers=flood):
            assert refusal(address(url), additional_headers=flood) == (429, "share_exhausted")
            with connect(address(url), additional_headers=calm) as stream:
                begin(stream)
        with connect(address(url), additional_headers=calm), connect(address(url), additional_headers=calm):
            pass


def test_refused_handshakes_and_text_that_is_not_utf_8_are_no_errors_of_the_server(running_service):
    lines = io.StringIO()
    with configured_logs(ServiceSettings(log_format="json"), lines), running_service(robots=("panda",)) as (url, _):
        assert refusal(address(url).replace("panda", "pandora")) == (404, "unknown_robot")
        with contextlib.closing(socket.create_connection(place(url), timeout=WAIT_S)) as connection:
            handshake(connection)
            connection.sendall(frame(TEXT, b"\xff\xfe"))
            assert closed_with(rest(connection)) == 1007
    assert "Ready: the first solve took" in lines.getvalue()
    assert "Traceback" not in lines.getvalue()
    assert '"level":"error"' not in lines.getvalue()


def test_keys_of_handshakes_are_needed_and_neither_logged_nor_sent_back(running_service):
    key = KEYS["flood"]
    offered = "ik-service.key." + base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")
    lines, quiet = io.StringIO(), logging.Logger("client", logging.WARNING)  # not what the client itself would log
    ways = {"subprotocols": ["ik-service.v1", offered]}, {"additional_headers": {"X-API-Key": key}}
    settings = ServiceSettings(log_format="json", log_level="debug")
    with configured_logs(settings, lines), running_service(api_keys={"ann": key}, robots=("panda",)) as (url, _):
        assert refusal(address(url)) == (401, "missing_api_key")
        for way in ways:
            with connect(address(url), logger=quiet, **way) as stream:
                begin(stream)
                assert stream.subprotocol == ("ik-service.v1" if "subprotocols" in way else None)
                assert offered not in str(stream.response.headers)
    assert '"level":"debug"' in lines.getvalue()
    assert key not in lines.getvalue()
    assert offered not in lines.getvalue()


def test_a_handshake_that_cannot_be_read_leaves_no_connection(service_url):
    with socket.create_connection(place(service_url), timeout=WAIT_S) as connection:
        assert handshake(connection, "X-Long: " + "a" * 9000) == b""  # more than the library of web sockets takes


def test_a_message_beyond_the_bound_ends_the_stream_before_it_has_come(raw):
    raw.sendall(b"\x81\xff" + (100_000).to_bytes(8, "big") + bytes(4))
    assert closed_with(rest(raw)) == 1009


def test_streams_are_told_that_the_service_ends(running_service):
    with running_service(robots=("panda",)) as (url, server), connect(address(url)) as stream:
        begin(stream)
        server.should_exit = True
        with pytest.raises(ConnectionClosed) as caught:
            stream.recv(WAIT_S)
    assert caught.value.rcvd.code == 1001
