"""Streams over a real server and a real client: every answer, in order, and the end with the service."""

import base64
import io
import json
import logging
import socket
import threading

import msgpack
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from ik_service.service.gate.logs import configured_logs
from ik_service.settings import ServiceSettings

TICKS = 1000
WAIT_S = 60.0
CONFIGURE = {
    "type": "configure",
    "targets": [{"link": "panda_hand"}],
    "options": {"seeds": 4},
    "tick_timeout_s": WAIT_S,  # a machine may have other work
}
ORIENTATION = [1, 0, 0, 0]


def address(url):
    return url.replace("http", "ws", 1) + "/v1/robots/panda/stream"


def positions(count):
    angle = np.linspace(0.0, 2.0 * np.pi, count)
    return np.stack([0.45 + 0.05 * np.cos(angle), 0.1 * np.sin(angle), np.full(count, 0.5)], axis=1).tolist()


@pytest.mark.parametrize("codec", [json, msgpack])
def test_no_answer_is_lost_or_out_of_order(service_url, codec):
    write, read = (json.dumps, json.loads) if codec is json else (msgpack.packb, msgpack.unpackb)
    with connect(address(service_url)) as stream:
        stream.send(write(CONFIGURE))
        assert read(stream.recv(WAIT_S))["type"] == "configured"
        for seq, position in enumerate(positions(TICKS)):
            stream.send(write({"seq": seq, "positions": [position], "orientations_xyzw": [ORIENTATION]}))
            answer = read(stream.recv(WAIT_S))
            assert (answer["type"], answer["seq"], answer["skipped"]) == ("answer", seq, 0)
            assert answer["success"]


def test_a_client_that_does_not_wait_gets_the_newest_and_a_full_count(service_url):
    with connect(address(service_url)) as stream:
        stream.send(json.dumps(CONFIGURE))
        stream.recv(WAIT_S)
        for seq, position in enumerate(positions(TICKS)):
            stream.send(json.dumps({"seq": seq, "positions": [position], "orientations_xyzw": [ORIENTATION]}))
        answers = []
        while not answers or answers[-1]["seq"] < TICKS - 1:
            answers.append(json.loads(stream.recv(WAIT_S)))
    numbers = [answer["seq"] for answer in answers]
    assert numbers == sorted(set(numbers))
    assert len(answers) + sum(answer["skipped"] for answer in answers) == TICKS


def test_many_streams_share_the_solver(service_url):
    done = []

    def follow(offset):
        with connect(address(service_url)) as stream:
            stream.send(json.dumps(CONFIGURE))
            stream.recv(WAIT_S)
            for seq, (x, y, z) in enumerate(positions(50)):
                tick = {"seq": seq, "positions": [[x, y, z - offset]], "orientations_xyzw": [ORIENTATION]}
                stream.send(json.dumps(tick))
                answer = json.loads(stream.recv(WAIT_S))
                assert (answer["seq"], answer["success"]) == (seq, True)
            done.append(offset)

    threads = [threading.Thread(target=follow, args=(0.01 * k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert len(done) == len(threads)


def test_an_unknown_robot_is_a_problem_document(service_url):
    with pytest.raises(InvalidStatus) as caught:
        connect(address(service_url).replace("panda", "pandora"))
    assert caught.value.response.status_code == 404
    assert json.loads(caught.value.response.body)["code"] == "unknown_robot"


def test_a_refused_handshake_is_no_error_of_the_server(running_service):
    lines = io.StringIO()
    with configured_logs(ServiceSettings(log_format="json"), lines), running_service(robots=("panda",)) as (url, _):
        for _ in range(3):
            with pytest.raises(InvalidStatus):
                connect(address(url).replace("panda", "pandora"))
    assert "Ready: the first solve took" in lines.getvalue()
    assert '"level":"error"' not in lines.getvalue()


def test_a_stream_needs_the_key_that_requests_need(running_service):
    keys = {"ann": "a-key-that-is-long-enough-0123456789"}
    with running_service(api_keys=keys, robots=("panda",)) as (url, _):
        with pytest.raises(InvalidStatus) as caught:
            connect(address(url))
        assert caught.value.response.status_code == 401
        with connect(address(url), additional_headers={"X-API-Key": keys["ann"]}) as stream:
            stream.send(json.dumps(CONFIGURE))
            assert json.loads(stream.recv(WAIT_S))["type"] == "configured"


def test_keys_of_handshakes_are_neither_logged_nor_sent_back(running_service):
    key = "a-key-that-is-long-enough-0123456789"
    offered = "ik-service.key." + base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")
    lines, quiet = io.StringIO(), logging.Logger("client", logging.WARNING)  # not what the client itself would log
    ways = {"subprotocols": ["ik-service.v1", offered]}, {"additional_headers": {"X-API-Key": key}}
    settings = ServiceSettings(log_format="json", log_level="debug")
    with configured_logs(settings, lines), running_service(api_keys={"ann": key}, robots=("panda",)) as (url, _):
        for way in ways:
            with connect(address(url), logger=quiet, **way) as stream:
                stream.send(json.dumps(CONFIGURE))
                assert json.loads(stream.recv(WAIT_S))["type"] == "configured"
                assert stream.subprotocol == ("ik-service.v1" if "subprotocols" in way else None)
                assert offered not in str(stream.response.headers)
    assert '"level":"debug"' in lines.getvalue()
    assert key not in lines.getvalue()
    assert offered not in lines.getvalue()


def test_a_handshake_that_cannot_be_read_leaves_no_connection(service_url):
    host, port = service_url.removeprefix("http://").split(":")
    lines = [
        "GET /v1/robots/panda/stream HTTP/1.1",
        f"Host: {host}:{port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
    ]
    lines.append("X-Long: " + "a" * 9000)  # more than the library of web sockets takes
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        assert connection.recv(1) == b""


def test_streams_are_told_that_the_service_ends(running_service):
    with running_service(robots=("panda",)) as (url, server), connect(address(url)) as stream:
        stream.send(json.dumps(CONFIGURE))
        stream.recv(WAIT_S)
        server.should_exit = True
        with pytest.raises(ConnectionClosed) as caught:
            stream.recv(WAIT_S)
    assert caught.value.rcvd.code == 1001


def test_a_message_beyond_the_bound_ends_the_stream(service_url):
    with connect(address(service_url)) as stream:
        stream.send(json.dumps(CONFIGURE))
        stream.recv(WAIT_S)
        stream.send(" " * 100_000)
        with pytest.raises(ConnectionClosed) as caught:
            stream.recv(WAIT_S)
    assert caught.value.rcvd.code == 1009
