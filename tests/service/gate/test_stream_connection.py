"""Streams on raw sockets: callers that flood, do not read, send what is no text, or never answer the end."""

import contextlib
import io
import json
import socket
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from ik_service.service.gate import stream_connection
from ik_service.service.gate.logs import configured_logs
from ik_service.service.gate.stream_connection import CONTROL_BURST
from ik_service.settings import ServiceSettings
from tests.attacks.frames import (
    CONFIGURE,
    CONTINUED,
    PING,
    TEXT,
    closed_with,
    configuration,
    frame,
    handshake,
    rest,
)

PATIENCE_S = 20.0
MANY = 5000
KEYS = {"ann": "a-key-that-is-long-enough-0123456789", "bob": "another-key-that-is-long-enough-0123"}


@pytest.fixture
def raw(service_url):
    """A stream, its handshake done."""
    with socket.create_connection((urlsplit(service_url).hostname, urlsplit(service_url).port)) as connection:
        connection.settimeout(PATIENCE_S)
        assert handshake(connection).startswith(b"HTTP/1.1 101")
        yield connection


def sent(connection, data):
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(data)


def address(url):
    return url.replace("http", "ws", 1) + "/v1/robots/panda/stream"


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
    sent(raw, flood)
    found = rest(raw)
    assert len(found) <= (CONTROL_BURST + 1) * 127 + 200
    assert not found or closed_with(found) in (0, 1008)


def test_a_client_may_ping(service_url):
    with connect(address(service_url)) as stream:
        stream.send(json.dumps(CONFIGURE))
        stream.recv(PATIENCE_S)
        for pong in [stream.ping() for _ in range(int(CONTROL_BURST) // 2)]:
            assert pong.wait(PATIENCE_S)
        tick = {"seq": 1, "positions": [[0.4, 0.1, 0.5]], "orientations_xyzw": [[1, 0, 0, 0]]}
        stream.send(json.dumps(tick))
        assert json.loads(stream.recv(PATIENCE_S))["success"]


def taken_until(connection, word):
    """What comes, up to a word."""
    found = b""
    while word not in found:
        chunk = connection.recv(65536)
        assert chunk, found
        found += chunk
    return found


def test_messages_that_come_together_and_in_parts_all_arrive(raw):
    tick = {"positions": [[0.4, 0.1, 0.5]], "orientations_xyzw": [[1, 0, 0, 0]]}
    texts = [json.dumps({"seq": seq, **tick}).encode() for seq in range(300)]
    raw.sendall(configuration())
    taken_until(raw, b'"configured"')
    raw.sendall(b"".join(frame(TEXT, text[:9], is_last=False) + frame(CONTINUED, text[9:]) for text in texts))
    found = taken_until(raw, b'"seq":299')
    assert b'"type":"error"' not in found
    answers = [json.loads(b"{" + part.split(b"}")[0] + b"}") for part in found.split(b"{")[1:] if b"}" in part]
    assert sum(1 + answer["skipped"] for answer in answers) in (299, 300)  # the last may not have come whole


def test_text_that_is_not_utf_8_ends_the_stream_and_logs_no_fault(running_service):
    lines = io.StringIO()
    with configured_logs(ServiceSettings(log_format="json"), lines), running_service(robots=("panda",)) as (url, _):
        place = urlsplit(url)
        with socket.create_connection((place.hostname, place.port), timeout=PATIENCE_S) as connection:
            handshake(connection)
            connection.sendall(frame(TEXT, b"\xff\xfe"))
            assert closed_with(rest(connection)) == 1007
    assert "Traceback" not in lines.getvalue()
    assert '"level":"error"' not in lines.getvalue()


def test_who_never_answers_the_end_of_a_stream_is_cut_off(raw, monkeypatch):
    monkeypatch.setattr(stream_connection, "UNTAKEN_S", 0.2)
    raw.sendall(frame(TEXT, b"{}"))
    assert closed_with(rest(raw)) == 1008


def test_nothing_is_read_from_who_takes_nothing_and_it_is_cut_off(service_url, monkeypatch):
    monkeypatch.setattr(stream_connection, "UNTAKEN_S", 0.5)
    monkeypatch.setattr(stream_connection, "CONTROL_RATE", 1e9)
    monkeypatch.setattr(stream_connection, "CONTROL_BURST", 1e9)
    place = urlsplit(service_url)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(PATIENCE_S)
        connection.connect((place.hostname, place.port))
        handshake(connection)
        pings, is_open = frame(PING, b"p" * 125) * 1000, True
        while is_open:  # a send that does not get on ends with an error of its own
            try:
                connection.sendall(pings)
            except (BrokenPipeError, ConnectionResetError):
                is_open = False


def test_streams_are_shared_by_keys(running_service):
    with running_service(api_keys=KEYS, max_streams=4, robots=("panda",)) as (url, _):
        ann, bob = ({"X-API-Key": key} for key in KEYS.values())
        with connect(address(url), additional_headers=ann), connect(address(url), additional_headers=ann):
            with pytest.raises(InvalidStatus) as caught:
                connect(address(url), additional_headers=ann)
            assert caught.value.response.status_code == 429
            assert json.loads(caught.value.response.body)["code"] == "share_exhausted"
            with connect(address(url), additional_headers=bob) as stream:
                stream.send(json.dumps(CONFIGURE))
                assert json.loads(stream.recv(PATIENCE_S))["type"] == "configured"
        with connect(address(url), additional_headers=bob), connect(address(url), additional_headers=bob):
            pass
