"""Memory of requests: an answer is never larger than its shape says, and what one holds is given back at its end."""

import contextlib
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from ik_service import load_robot
from ik_service.service.codecs.codec import PIECE_BYTES, LazyRows
from ik_service.service.codecs.json_codec import JsonCodec
from ik_service.service.codecs.media_types import BY_NAME
from ik_service.service.documents.solve_answer import solve_bytes
from ik_service.service.documents.solve_request import read_solve
from ik_service.service.errors.exceptions import AnswerTooLargeError
from ik_service.service.gate.gate import AHEAD_S, BODY_RATE, UNCOUNTED_BYTES, Gate, RequestContext
from ik_service.service.queue.errors import QueueFullError, ShareExhaustedError
from ik_service.service.routes import forward
from tests.service.conftest import service_of
from tests.service.gate.gates import KEYS, api_keys, gate_around

JSON, MSGPACK, NPZ = "application/json", "application/msgpack", "application/x-npz"
FAR = [9.0, 9.0, 9.0]  # out of reach: the longest advice
LOOSE = 8.0
"""An estimate is at most so many times the answer: statuses and numbers may be that much shorter than the longest."""
COUNT = 200
ONE = {"targets": [{"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]]}]}


def target(link: str, count: int = COUNT) -> dict[str, Any]:
    return {"link": link, "positions": np.random.default_rng(0).uniform(-0.6, 0.6, (count, 3)).tolist()}


SEVERAL = {"solutions": 8, "seeds": 16}
ALL = ["active_limits", "advice", "islands", "manipulability", "solutions"]
POSTURE = {"type": "posture", "joint_q_reference": load_robot("humanoid").mid_joint_q.tolist()}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "positions": ("panda", {"targets": [target("panda_hand")]}),
    "everything": ("panda", {"targets": [target("panda_hand")], "include": ALL}),
    "solutions": ("panda", {"targets": [target("panda_hand")], "include": ["solutions"], "options": SEVERAL}),
    "out of reach": ("panda", {"targets": [{"link": "panda_hand", "positions": [FAR] * COUNT}], "include": ALL}),
    "two arms": ("dual_panda", {"targets": [target(f"{one}_panda_hand") for one in ("left", "right")], "include": ALL}),
    "derivatives": ("panda", {"targets": [target("panda_hand", 100)], "options": {"sensitivity": "target"}}),
    "objectives": ("humanoid", {"problem_count": COUNT, "objectives": [POSTURE], "include": ALL}),
}


@pytest.mark.evidence_cases(
    "objectives-application/json",
    "positions-application/json",
    "solutions-application/json",
    "two arms-application/json",
    "two arms-application/msgpack",
    "two arms-application/x-npz",
)
@pytest.mark.parametrize("media_type", [JSON, MSGPACK, NPZ])
@pytest.mark.parametrize("case", CASES)
def test_no_answer_is_larger_than_its_shape_says(client, case, media_type):
    name, document = CASES[case]
    if media_type == NPZ:
        document = {**document, "include": [word for word in document.get("include", []) if word != "islands"]}
    reply = client.post(f"/v1/robots/{name}/solve", json=document, headers={"Accept": media_type})
    assert reply.status_code == 200, reply.text
    robot, codec = load_robot(name), BY_NAME[media_type]
    most = solve_bytes(robot, read_solve(document, robot), codec)[0]
    assert len(reply.content) <= most <= LOOSE * len(reply.content)


@pytest.mark.parametrize("media_type", [JSON, MSGPACK])
def test_no_answer_of_forward_kinematics_is_larger_than_its_shape_says(client, media_type):
    robot = load_robot("humanoid")
    joint_q = robot.random_joint_q(np.random.default_rng(0), COUNT)
    body, accept = {"joint_q": joint_q.tolist()}, {"Accept": media_type}
    reply = client.post("/v1/robots/humanoid/forward", json=body, headers=accept)
    assert reply.status_code == 200, reply.text
    most = forward._answer_bytes(robot, forward._AskedPoses(joint_q, robot.link_names), media_type == MSGPACK)
    assert len(reply.content) <= most <= LOOSE * len(reply.content)


@pytest.mark.parametrize("media_type", [JSON, MSGPACK, NPZ])
def test_pieces_are_the_same_bytes(media_type):
    codec = BY_NAME[media_type]
    numbers = np.random.default_rng(0).normal(size=(50_000, 7)).astype(np.float32)
    document = {
        "robot": "é",
        "joint_q": numbers,
        "names": ("a", "b"),
        "status": ["converged"] * 40_000,
        "targets": [{"link": "x", "error": numbers[:, 0].copy()}, {"link": "y", "error": numbers[:, 1].copy()}],
        "advice": LazyRows(1000, lambda row: f"row {row}"),
        "none": [],
        "nothing": {},
    }
    if media_type == NPZ:
        del document["nothing"]
    whole, pieces = codec.encode(document), codec.encode_in_pieces(document)
    assert b"".join(pieces) == whole
    assert len(whole) > 20 * PIECE_BYTES or media_type != JSON
    assert len(pieces) > 1 or media_type == NPZ


def gate(*, is_shared: bool = True, answer: int = 2**20) -> Gate:
    """A gate with 1 MiB for all requests."""
    keys = api_keys(*KEYS) if is_shared else ""
    return gate_around(None, memory_bytes=2**20, max_answer_bytes=answer, api_keys=keys)


def request_of(shared: Gate, owner: str | None = None) -> RequestContext:
    context = RequestContext(shared, {"type": "http", "headers": []}, None, None)
    context.owner = owner
    return context


def test_keys_share_the_memory_and_who_is_alone_has_all_of_it():
    shared, alone = gate(), gate(is_shared=False)
    first, second, only = request_of(shared, "a"), request_of(shared, "b"), request_of(alone)
    first.reserve(400_000)
    with pytest.raises(ShareExhaustedError):
        first.reserve(200_000)
    second.reserve(250_000)
    only.reserve(2**20)
    with pytest.raises(QueueFullError):
        request_of(alone).reserve(UNCOUNTED_BYTES + 1)
    for each in (first, second, only):
        each.release(each.held)
    assert (shared.memory.used, alone.memory.used) == (0, 0)
    assert (shared.metrics.reasons, alone.metrics.reasons) == (["share"], ["bytes"])


def test_a_request_is_counted_whole_once_it_holds_much_and_gives_back_what_it_held_for_a_while():
    shared, part = gate(), UNCOUNTED_BYTES // 4
    one = request_of(shared, "a")
    for held in range(part, 2 * UNCOUNTED_BYTES, part):
        one.reserve(part)
        assert shared.memory.held.get("a", 0) == (held if held > UNCOUNTED_BYTES else 0)
    one.release(one.held - UNCOUNTED_BYTES)
    with contextlib.suppress(ZeroDivisionError), one.reserved(1000):
        assert shared.memory.used == UNCOUNTED_BYTES + 1000
        raise ZeroDivisionError
    assert (one.held, shared.memory.used) == (UNCOUNTED_BYTES, 0)


def test_bodies_of_a_key_rest_where_they_come_in_faster_than_any_may(monkeypatch):
    now, shared = 1000.0, gate()
    monkeypatch.setattr("ik_service.service.gate.gate.time", SimpleNamespace(monotonic=lambda: now))
    first, same, other = (request_of(shared, name) for name in "aab")
    ahead = int(AHEAD_S * BODY_RATE)
    assert first.rest_s(ahead - 1) == 0.0  # so much at once is read without a rest
    assert same.rest_s(ahead) == pytest.approx(2 * AHEAD_S)
    assert other.rest_s(1) == 0.0
    now += 1.5 * AHEAD_S
    assert first.rest_s(1) == 0.0
    now += 10.0
    assert first.rest_s(ahead - 1) == 0.0  # time in which nothing came in allows no more
    assert first.rest_s(ahead) == pytest.approx(2 * AHEAD_S)
    alone = request_of(gate(is_shared=False))
    assert alone.rest_s(10 * ahead) == 0.0  # where all have one key, only bodies that are discarded rest
    assert alone.rest_s(2 * ahead, is_discarded=True) == pytest.approx(2 * AHEAD_S)


def test_small_answers_are_not_counted_and_too_large_ones_are_refused():
    bounded = gate(is_shared=False, answer=100_000)
    one = request_of(bounded)
    one.reserve_answer(UNCOUNTED_BYTES)
    assert bounded.memory.used == 0
    with pytest.raises(AnswerTooLargeError, match="100001 bytes, and at most 100000"):
        one.reserve_answer(100_001)
    assert one.held == UNCOUNTED_BYTES
    one.reserve_answer(1)
    assert bounded.memory.used == UNCOUNTED_BYTES + 1


@pytest.fixture(scope="module")
def small():
    """A service where little fits: answers of 400 kB, requests of 2 MB together."""
    with service_of(robots="panda", max_answer_bytes=400_000, memory_bytes=2**21) as client:
        yield client


def code_of(client: TestClient, path: str, body: Any = None, **options: Any) -> str:
    """Code of the problem document, "ok" where a request is answered."""
    reply = client.post(f"/v1/robots/panda/{path}", json=body, **options)
    return "ok" if reply.status_code == 200 else reply.json()["code"]


def test_an_answer_that_would_be_too_large_is_refused_before_it_is_made(small):
    body = {"targets": [{"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]] * 2000}]}
    assert code_of(small, "solve", body) == "answer_too_large"
    assert code_of(small, "solve", body, headers={"Accept": MSGPACK}) == "ok"
    assert code_of(small, "forward", {"joint_q": [[0.0] * 7] * 500}) == "answer_too_large"


def test_what_takes_much_memory_is_refused_before_it_is_there(small, monkeypatch):
    body = {"targets": [{"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]] * 2000}]}
    body["options"] = {"solutions": 16, "seeds": 16, "max_iterations": 1}
    assert code_of(small, "solve", body, headers={"Accept": MSGPACK}) == "queue_full"  # the result
    joint_q = [[0.0] * 7] * 40_000
    assert code_of(small, "forward", {"joint_q": joint_q, "links": ["panda_hand"]}) == "queue_full"
    lists = b"[" + b",".join([b"[]"] * 150_000) + b"]"  # of these bytes there is room for two copies
    assert code_of(small, "forward", content=lists, headers={"Content-Type": JSON}) == "queue_full"
    empty = b"[" + b",".join([b"[]"] * 2_000_001) + b"]"
    assert code_of(small, "forward", content=empty, headers={"Content-Type": JSON}) in ("body_too_large", "queue_full")
    monkeypatch.setattr(forward, "POSE_BYTES", 2**21)
    assert code_of(small, "forward", {"joint_q": [[0.0] * 7], "links": ["panda_hand"]}) == "queue_full"  # the work


def test_a_long_body_counts_twice_while_its_document_is_measured(small, monkeypatch):
    memory, measure, used = small.app.middleware_stack.memory, JsonCodec.decoded_bytes, []

    def noted(codec, body, limit=0):
        used.append(memory.used)
        return measure(codec, body, limit)

    monkeypatch.setattr(JsonCodec, "decoded_bytes", noted)
    body = b'{"joint_q": []' + b" " * JsonCodec.blocking_bytes + b"}"
    small.post("/v1/robots/panda/forward", content=body, headers={"Content-Type": JSON})
    assert used
    assert used[0] >= 2 * len(body)


def test_all_is_given_back_after_answers_and_errors(small):
    memory = small.app.middleware_stack.memory
    target = {"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]] * 1000}
    for body in ({"targets": [target]}, {"targets": [target], "options": {"seeds": 0}}):
        small.post("/v1/robots/panda/solve", content=json.dumps(body) + " " * 100_000, headers={"Content-Type": JSON})
    assert memory.used == 0


@pytest.mark.parametrize(
    ("pointer", "of"),
    [
        ("", lambda many: {**ONE, **many}),
        ("/options", lambda many: {**ONE, "options": many}),
        ("/targets/1", lambda many: {"targets": [*ONE["targets"], many]}),
        ("/targets/0/offset", lambda many: {"targets": [{**ONE["targets"][0], "offset": many}]}),
    ],
)
def test_objects_with_many_names_are_refused_before_each_becomes_an_error(client, pointer, of):
    reply = client.post("/v1/robots/panda/solve", json=of({str(name): 1 for name in range(10_000)}))
    (fault,) = reply.json()["errors"]
    assert (reply.status_code, fault["pointer"], fault["code"]) == (422, pointer, "unknown_field")
    assert "10000 names" in fault["detail"] or pointer == ""
