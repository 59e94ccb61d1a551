"""Streams of the clients against a real service: answers in order, errors that leave the stream good, refusals."""

import asyncio
import json
import threading
from contextlib import contextmanager

import msgpack
import numpy as np
import pytest
from websockets.sync.server import serve

from ik_service import load_robot
from ik_service.client import AsyncClient, Client, ClientError, ServiceError, StreamTarget, UnreachableError
from tests.client.conftest import refusal, stream_of

KEY = "a-key-that-is-long-enough-0123456789"
PLACE, DOWN = [0.4, 0.1, 0.5], [1.0, 0.0, 0.0, 0.0]
NOBODY = "http://127.0.0.1:9"  # the port is reserved
STEPS = 50
TOLERANCE_M = 1e-3  # the default of the service


@pytest.fixture(scope="module")
def panda():
    return load_robot("panda")


def circle(count):
    angle = np.linspace(0.0, 2.0 * np.pi, count)
    return np.stack([0.45 + 0.05 * np.cos(angle), 0.1 * np.sin(angle), np.full(count, 0.5)], axis=1)


@pytest.mark.evidence_cases("msgpack")
def test_steps_are_answered_in_order_and_meet_their_targets(client, panda):
    before = None
    with stream_of(client, options={"seeds": 4}) as stream:
        assert stream.configured.coordinate_names == panda.coordinate_names
        assert (stream.configured.seeds, stream.configured.device) == (4, "cpu")
        for k, position in enumerate(circle(STEPS)):
            answer = stream.step(position, DOWN)
            assert (answer.seq, answer.skipped, answer.success, answer.status) == (k, 0, True, "converged")
            reached = panda.forward_kinematics(answer.joint_q[None], links=["panda_hand"]).positions[0, 0]
            assert np.linalg.norm(reached - position) <= TOLERANCE_M
            assert answer.position_error_m <= TOLERANCE_M
            assert answer.orientation_error_rad is not None
            assert before is None or np.abs(answer.joint_q - before).max() < 0.2  # no jump to another branch
            before = answer.joint_q


def test_a_stream_starts_where_it_is_told(client, panda):
    start = panda.random_joint_q(np.random.default_rng(3), 1)[0]
    pose = panda.forward_kinematics(start[None], links=["panda_hand"])
    position, orientation = pose.positions[0, 0], pose.orientations_xyzw[0, 0]
    with stream_of(client, initial_joint_q=start, options={"seeds": 1}) as stream:
        first = stream.step(position, orientation)
        stream.step(position + np.array([0.0, 0.0, 0.01]), orientation)
        again = stream.step(position, orientation, joint_q=start)
    for answer in (first, again):
        assert np.abs(answer.joint_q - start).max() < 1e-2  # already there: it only polishes


@pytest.mark.evidence_cases("msgpack")
def test_several_targets_with_what_each_constrains(client):
    hands = [
        StreamTarget(link="left_panda_hand", constrain="position", offset_position=[0, 0, 0.1]),
        StreamTarget(link="right_panda_hand", row_weights=[1, 1, 1, 0, 0, 0]),
    ]
    places = [[0.4, 0.3, 0.5], [0.5, -0.2, 0.4]]
    with stream_of(client, "dual_panda", targets=hands) as stream:
        answer = stream.step(places, [None, DOWN])
        assert answer.success
        assert answer.joint_q.shape == (14,)
        with pytest.raises(ServiceError) as caught:
            stream.step(places, [DOWN, DOWN])
        assert caught.value.code == "unknown_field"
        assert caught.value.errors[0]["pointer"] == "/orientations_xyzw/0"
    with stream_of(client, targets=[StreamTarget(link="panda_hand", constrain="position")]) as stream:
        answer = stream.step(PLACE)
    assert (answer.success, answer.orientation_error_rad) == (True, None)


def test_a_stream_goes_on_after_a_step_that_is_refused(client):
    with stream_of(client) as stream:
        with pytest.raises(ServiceError) as caught:
            stream.step([0.4, float("nan"), 0.5], DOWN)
        assert refusal(caught) == (422, "not_finite")
        with pytest.raises(ServiceError) as caught:
            stream.step(PLACE)
        assert caught.value.errors[0]["pointer"] == "/orientations_xyzw"
        answer = stream.step(PLACE, DOWN)
        assert (answer.seq, answer.success) == (2, True)


@pytest.mark.parametrize(
    ("robot", "link", "status", "code"),
    [("pandora", "panda_hand", 404, "unknown_robot"), ("panda", "hand", 422, "unknown_link")],
)
def test_what_cannot_be_streamed_is_refused_with_its_code(client, robot, link, status, code):
    with pytest.raises(ServiceError) as caught, client.stream(robot, link=link):
        pass
    assert refusal(caught) == (status, code)
    assert caught.value.request_id


def test_the_key_of_the_client_opens_streams_and_the_end_of_the_service_is_an_error_of_the_step(running_service):
    def follow(stream):
        while True:
            assert stream.step(PLACE, DOWN).success

    with running_service(api_keys={"ann": KEY}, robots=("panda",)) as (url, server):
        with Client(url) as client, pytest.raises(ServiceError) as caught, client.stream("panda", link="panda_hand"):
            pass
        assert refusal(caught) == (401, "missing_api_key")
        with Client(url, KEY) as client, stream_of(client) as stream:
            assert stream.step(PLACE, DOWN).success
            server.should_exit = True
            with pytest.raises(ClientError):
                follow(stream)


def test_a_stream_that_is_not_open_has_no_names(client):
    with pytest.raises(ClientError, match="Open the stream first"):
        _ = client.stream("panda", link="panda_hand").configured
    with pytest.raises(ClientError, match="Open the stream first"):
        client.stream("panda", link="panda_hand").step(PLACE, DOWN)


def test_a_task_has_streams_as_well(service_url):
    async def follow(client, offset):
        async with stream_of(client, options={"seeds": 4}) as stream:
            with pytest.raises(ServiceError):
                await stream.step()
            return [await stream.step(position - [0, 0, offset], DOWN) for position in circle(STEPS)]

    async def run():
        async with AsyncClient(service_url) as client:
            with pytest.raises(ServiceError, match="unknown_link"):
                await client.stream("panda", link="hand").__aenter__()
            with pytest.raises(ServiceError, match="unknown_robot"):
                await client.stream("pandora", link="panda_hand").__aenter__()
            return await asyncio.gather(*(follow(client, 0.01 * k) for k in range(4)))

    for answers in asyncio.run(run()):
        assert [answer.seq for answer in answers] == list(range(1, STEPS + 1))
        assert all(answer.success for answer in answers)


# ---------------------------------------------------------------------- services that are none
@contextmanager
def scripted(*frames, **options):
    """A server of web sockets that answers every message with the next of these frames; None is nothing."""

    def handle(connection):
        left = list(frames)
        for _ in connection:
            frame = left.pop(0)
            if frame is not None:
                connection.send(frame)

    with serve(handle, "127.0.0.1", 0, **options) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
    thread.join()


RESOLVED = {"engine": "compiled", "device": "cpu", "seeds": 1}
CONFIGURED = {"type": "configured", "joint_names": ["a"], "coordinate_names": ["a"], "resolved": RESOLVED}
ANSWER = {"type": "answer", "joint_q": [0.0], "success": True, "status": "converged", "skipped": 0}
ANSWER |= {"position_error_m": 0.0, "orientation_error_rad": None}
REFUSED = {"type": "error", "code": "busy", "problem": {"status": 503, "detail": "Later."}}


@pytest.mark.parametrize("late", [ANSWER, REFUSED])
def test_an_answer_that_comes_late_is_not_taken_for_the_next_one(late):
    with (
        scripted(msgpack.packb(CONFIGURED), None, msgpack.packb(late | {"seq": 0})) as url,
        Client(url, timeout_s=1.0) as client,
        client.stream("any", link="hand") as stream,
    ):
        with pytest.raises(UnreachableError):
            stream.step([0, 0, 0])
        with pytest.raises(UnreachableError):  # the late one comes, and none after it
            stream.step([0, 0, 0])


def open_and_step(client):
    with client.stream("any", link="hand") as stream:
        stream.step([0, 0, 0])


FOREIGN = [
    *("{", "[]", b"\xc1", "{}", "[" * 100_000),
    json.dumps({"type": "answer", "seq": 0}),
    json.dumps({"type": "error", "seq": None, "code": "x", "problem": "no document"}),
    json.dumps(CONFIGURED | {"resolved": 5, "seq": 0, "joint_q": "here"}),
]


@pytest.mark.parametrize("frame", FOREIGN, ids=map(str, range(len(FOREIGN))))
def test_messages_of_something_else_are_errors(frame):
    for frames in ([frame], [json.dumps(CONFIGURED), frame]):
        with scripted(*frames) as url, Client(url, timeout_s=10.0) as client:
            with pytest.raises(ClientError, match="stream") as caught:
                open_and_step(client)
            assert type(caught.value) is ClientError


@pytest.mark.parametrize(("status", "error"), [(502, ServiceError), (200, UnreachableError)])
def test_a_page_in_place_of_a_stream_is_an_error(status, error):
    def page(connection, _):
        response = connection.respond(status, "Sign in")
        response.headers["Content-Type"] = "text/plain"  # a second one
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Server"] = "über"
        return response

    with scripted(process_request=page) as url, Client(url) as client, pytest.raises(error):
        open_and_step(client)
