"""Streams: a configuration, then ticks, each answered once; `tests/client/test_stream.py` judges the answers."""

import json
import threading
from contextlib import contextmanager
from typing import Any

import anyio
import msgpack
import pytest
from starlette.websockets import WebSocketDisconnect

from ik_service.service.routes import stream as stream_route
from tests.bounded import PATIENCE_S
from tests.service.conftest import service_of
from tests.service.messages import problem

URL = "/v1/robots/panda/stream"
CONFIGURE = {"type": "configure", "targets": [{"link": "panda_hand"}], "tick_timeout_s": 60.0}
POSE = {"positions": [[0.4, 0.1, 0.5]], "orientations_xyzw": [[1, 0, 0, 0]]}
TICK_TIMEOUT_S = 0.5  # in which a busy machine lets the solver's thread begin


def say(stream: Any, message: Any) -> Any:
    stream.send_json(message)
    return stream.receive_json()


@contextmanager
def streaming(client: Any, **more: Any) -> Any:
    """A stream that is configured."""
    with client.websocket_connect(URL) as stream:
        reply = say(stream, {**CONFIGURE, **more})
        assert reply["type"] == "configured", reply
        yield stream


def code_of_end(stream: Any) -> int:
    with pytest.raises(WebSocketDisconnect) as caught:
        stream.receive_json()
    return caught.value.code


@pytest.mark.parametrize(
    ("send", "asked"),
    [
        (lambda stream, message: stream.send_bytes(msgpack.packb(message)), {}),
        (lambda stream, message: stream.send_json(message), {"encoding": "msgpack"}),
    ],
)
def test_answers_are_in_the_encoding_of_the_configuration_unless_another_is_asked_for(client, send, asked):
    with client.websocket_connect(URL) as stream:
        send(stream, CONFIGURE | asked)
        reply = msgpack.unpackb(stream.receive_bytes())
        assert (reply["type"], set(reply["resolved"])) == ("configured", {"engine", "seeds", "device"})
        send(stream, {**POSE, "seq": 7})
        answer = msgpack.unpackb(stream.receive_bytes())
        assert (answer["seq"], answer["success"], len(answer["joint_q"])) == (7, True, 7)
        stream.send_bytes(b"\xc1")
        assert msgpack.unpackb(stream.receive_bytes())["code"] == "malformed_msgpack"


BAD_TICKS = [
    ({"seq": 3}, "missing_field", "/positions", 3),
    ({**POSE}, "missing_field", "/seq", None),
    ({**POSE, "seq": -1}, "out_of_range", "/seq", None),
    ({**POSE, "seq": 1.5}, "wrong_type", "/seq", None),
    ({**POSE, "seq": 3, "speed": 1}, "unknown_field", "/speed", 3),
    ({**POSE, "seq": True, "speed": 1}, "wrong_type", "/seq", None),
    ({**POSE, "seq": 2**53, "speed": 1}, "out_of_range", "/seq", None),
    ({**POSE, "seq": 3, "positions": [0.4, 0.1, 0.5]}, "wrong_shape", "/positions", 3),
    ({**POSE, "seq": 3, "positions": [[0.4, 0.1]]}, "wrong_shape", "/positions/0", 3),
    ({**POSE, "seq": 3, "positions": [None]}, "wrong_type", "/positions/0", 3),
    ({**POSE, "seq": 3, "positions": [[0.4, 0.1, 1e300]]}, "out_of_range", "/positions/0/2", 3),
    ({**POSE, "seq": 3, "positions": []}, "wrong_shape", "/positions", 3),
    ({**POSE, "seq": 3, "positions": 5}, "wrong_type", "/positions", 3),
    ({**POSE, "seq": 3, "orientations_xyzw": [[0, 0, 0, 0]]}, "not_unit_quaternion", "/orientations_xyzw/0", 3),
    ({**POSE, "seq": 3, "joint_q": [0, 0]}, "wrong_shape", "/joint_q", 3),
    ([], "wrong_type", "", None),
]


@pytest.mark.parametrize(("tick", "code", "pointer", "seq"), BAD_TICKS)
def test_a_bad_tick_is_answered_with_an_error_and_the_stream_goes_on(client, tick, code, pointer, seq):
    with streaming(client) as stream:
        reply = say(stream, tick)
        assert (reply["type"], reply["code"], reply["seq"]) == ("error", code, seq)
        assert (reply["problem"]["status"], reply["problem"]["errors"][0]["pointer"]) == (422, pointer)
        assert say(stream, {**POSE, "seq": 4})["success"]


def test_a_tick_that_is_no_json_is_answered_too(client):
    with streaming(client) as stream:
        for text in ("", "{", "[" * 5000, '{"seq": NaN}'):
            stream.send_text(text)
            assert stream.receive_json()["code"] == ("not_finite" if "NaN" in text else "malformed_json")
        assert say(stream, {**POSE, "seq": 4})["success"]


BAD_CONFIGURATIONS = [
    ({**CONFIGURE, "type": "start"}, "unknown_option", "/type"),
    ({**CONFIGURE, "targets": []}, "wrong_shape", "/targets"),
    ({**CONFIGURE, "targets": [{"link": "panda_hnd"}]}, "unknown_link", "/targets/0/link"),
    ({**CONFIGURE, "targets": [{"link": "panda_hand", "positions": []}]}, "unknown_field", "/targets/0/positions"),
    ({**CONFIGURE, "targets": [{"link": "panda_hand", "row_weights": [[1] * 6]}]}, "wrong_shape", "/targets/0"),
    ({**CONFIGURE, "options": {"seeds": 0}}, "out_of_range", "/options/seeds"),
    ({**CONFIGURE, "options": {"solutions": 2}}, "out_of_range", "/options/solutions"),
    ({**CONFIGURE, "initial_joint_q": [0]}, "wrong_shape", "/initial_joint_q"),
    ({**CONFIGURE, "encoding": "xml"}, "unknown_option", "/encoding"),
    ({**CONFIGURE, "tick_timeout_s": 0}, "out_of_range", "/tick_timeout_s"),
    ({**POSE, "seq": 0}, "missing_field", "/type"),
]


@pytest.mark.parametrize(("message", "code", "pointer"), BAD_CONFIGURATIONS)
def test_a_bad_configuration_ends_the_stream(client, message, code, pointer):
    with client.websocket_connect(URL) as stream:
        reply = say(stream, message)
        assert (reply["type"], reply["code"]) == ("error", code)
        assert reply["problem"]["errors"][0]["pointer"] == pointer
        assert code_of_end(stream) == 1008


def test_a_message_that_is_too_large_ends_the_stream(client):
    with streaming(client) as stream:
        stream.send_text(" " * (stream_route.MAX_STREAM_MESSAGE_BYTES + 1))
        assert code_of_end(stream) == 1009


@pytest.mark.parametrize(
    ("limit", "opened"), [("CONFIGURE_S", lambda one: one.websocket_connect(URL)), ("IDLE_S", streaming)]
)
def test_a_silent_stream_ends(client, monkeypatch, limit, opened):
    monkeypatch.setattr(stream_route, limit, 0.05)
    with opened(client) as stream:
        assert code_of_end(stream) == 1008


class Held:
    """A solver that waits before each solve until it is let go."""

    def __init__(self, client, solve):
        self.client, self.solve = client, solve
        self.started, self.go = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, *arguments):
        self.started.release()
        assert self.go.acquire(timeout=PATIENCE_S)
        return self.solve(*arguments)

    def has_begun(self):
        assert self.started.acquire(timeout=PATIENCE_S)

    @contextmanager
    def streaming(self, **more):
        self.go.release()
        with streaming(self.client, **more) as stream:
            self.has_begun()
            yield stream

    def tick(self, stream):
        """Send a tick, which is in the solver afterwards."""
        stream.send_json({**POSE, "seq": 0})
        self.has_begun()


@pytest.fixture
def held(client, monkeypatch):
    cache = client.app.state.service.pool._runner.solver_cache
    made = Held(client, cache.solve_together)
    monkeypatch.setattr(cache, "solve_together", made)
    yield made
    made.go.release(1000)


def test_the_newest_target_wins_when_the_client_is_faster_than_the_solver(client, held):
    with held.streaming() as stream:
        held.tick(stream)
        for seq in range(1, 6):
            stream.send_json({**POSE, "seq": seq})
        client.portal.call(anyio.sleep, 0.2)  # several turns
        held.go.release(2)
        first, second = stream.receive_json(), stream.receive_json()
    assert (first["seq"], second["seq"]) == (0, 5)
    assert first["skipped"] + second["skipped"] == 4


def test_a_client_that_goes_takes_its_request_along(client, held):
    with held.streaming() as stream:
        held.tick(stream)
    held.go.release()
    assert not client.app.state.service.streams
    assert client.app.state.service.pool.waiting_requests == 0


def test_a_tick_is_answered_while_the_solver_hangs(held):
    with held.streaming(tick_timeout_s=TICK_TIMEOUT_S) as stream:
        rescue = threading.Timer(PATIENCE_S, held.go.release, [1000])
        rescue.start()
        late = [say(stream, {**POSE, "seq": seq}) for seq in range(2)]
        assert rescue.is_alive()  # nobody had to let the solver go on
        rescue.cancel()
        assert [(reply["code"], reply["seq"]) for reply in late] == [("deadline_passed", 0), ("deadline_passed", 1)]
        held.go.release(1000)
        answers = (say(stream, {**POSE, "seq": seq}) for seq in range(2, 50))  # a busy machine may need more than one
        assert any(answer.get("success") for answer in answers)


def test_an_unexpected_error_stays_inside_and_the_stream_goes_on(client, monkeypatch):
    cache = client.app.state.service.pool._runner.solver_cache
    with streaming(client) as stream:
        with monkeypatch.context() as patch:
            patch.setattr(cache, "solve_together", lambda *_: 1 / 0)
            reply = say(stream, {**POSE, "seq": 1})
        assert (reply["code"], reply["seq"]) == ("internal_error", 1)
        assert "division" not in json.dumps(reply)
        assert say(stream, {**POSE, "seq": 2})["success"]


def test_streams_and_requests_are_told_of_a_solver_that_is_lost(panda, monkeypatch):
    with service_of({"panda": panda}) as own, streaming(own) as stream:
        monkeypatch.setattr(own.app.state.service.pool._runner, "_solve", lambda _: 1 / 0)
        assert say(stream, {**POSE, "seq": 1})["code"] == "solver_lost"
        assert code_of_end(stream) == 1013
        reply = own.post("/v1/robots/panda/solve", json={"targets": [{"link": "panda_hand", **POSE}]})
        problem(reply, 503, "solver_lost")


def test_a_pool_that_closes_ends_streams(panda):
    with service_of({"panda": panda}) as own, streaming(own) as stream:
        own.app.state.service.pool.close()
        assert say(stream, {**POSE, "seq": 1})["code"] == "shutting_down"
        assert code_of_end(stream) == 1001
