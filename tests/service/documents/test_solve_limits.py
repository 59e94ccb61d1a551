"""Joint limits of a request: within them in every encoding, joined with others without a change, refused by name."""

import msgpack
import numpy as np
import pytest

from ik_service import IKSolver, SolverOptions, load_robot
from ik_service.client import Client
from ik_service.service.documents import frames
from ik_service.service.documents.solve_request import read_solve
from ik_service.service.errors.exceptions import FaultyFieldsError
from ik_service.service.pool.solver_cache import SolverCache
from ik_service.service.schema.limits import MAX_LIMIT_COUNT

COUNT = 4
SOLVE = "/v1/robots/panda/solve"


@pytest.fixture(scope="module")
def panda():
    return load_robot("panda")


@pytest.fixture(scope="module")
def given(panda):
    joint_q = panda.random_free_joint_q(np.random.default_rng(0), COUNT)
    return panda.clamp_joint_q(joint_q + 0.05), panda.forward_kinematics(joint_q, ["panda_hand"])


def document(given, **fields):
    start, poses = given
    target = {"positions": poses.positions[:, 0].tolist(), "orientations_xyzw": poses.orientations_xyzw[:, 0].tolist()}
    return {"targets": [{"link": "panda_hand", **target}], "initial_joint_q": start.tolist(), **fields}


STAYS = np.zeros((COUNT, 7), dtype=bool)
STAYS[0, 2] = STAYS[2, 0] = STAYS[2, 1] = True
ASKED = [  # as a request has it, as Python has it
    ({"joint_limits": {"panda_joint1": [-1.0, 1.5]}}, {"joint_limits": {"panda_joint1": (-1.0, 1.5)}}),
    ({"max_change": 0.01}, {"max_change": 0.01}),
    ({"max_change": {"panda_joint2": 0.001}}, {"max_change": {"panda_joint2": 0.001}}),
    ({"frozen": ["panda_joint3"]}, {"frozen": ["panda_joint3"]}),
    ({"frozen": [["panda_joint3"], [], ["panda_joint1", "panda_joint2"], []]}, {"frozen": STAYS}),
]


@pytest.mark.parametrize(("fields", "arguments"), ASKED)
def test_answers_are_those_of_python(client, panda, given, fields, arguments):
    near, poses = given
    answer = client.post(SOLVE, json=document(given, **fields)).json()
    solver = IKSolver(panda, ["panda_hand"], device="cpu")
    own = (poses.positions[:, 0], poses.orientations_xyzw[:, 0])
    start = {"initial_joint_q": near}
    expected = solver.solve(*own, **start, **arguments)
    assert np.array(answer["joint_q"], np.float32).tobytes() == expected.joint_q.tobytes()
    assert expected.joint_q.tobytes() != solver.solve(*own, **start).joint_q.tobytes()


def test_a_pair_for_each_problem_in_both_encodings(client, given):
    joint_q, _ = given
    pairs = np.stack([joint_q[:, 0] - 0.2, joint_q[:, 0] + 0.1], axis=1).tolist()
    body = document(given, joint_limits={"panda_joint1": pairs})
    as_json = client.post(SOLVE, json=body).json()
    head = {"content-type": "application/msgpack", "accept": "application/json"}
    as_msgpack = client.post(SOLVE, content=msgpack.packb(body), headers=head).json()
    assert as_json["joint_q"] == as_msgpack["joint_q"]
    own = np.array(as_json["joint_q"])[:, 0]
    assert (own >= np.array(pairs)[:, 0]).all()
    assert (own <= np.array(pairs)[:, 1]).all()


def test_requests_with_other_limits_are_one_batch_with_the_bytes_of_each_alone(panda, given):
    fields = [{"max_change": 0.3}, {"joint_limits": {"panda_joint1": [-1.0, 1.0]}}, {"frozen": ["panda_joint7"]}]
    requests = [read_solve(document(given, **one), panda).request for one in fields]
    plain = read_solve(document(given), panda).request
    assert len({request.batch_key for request in requests}) == 1
    assert plain.batch_key != requests[0].batch_key
    cache = SolverCache("cpu")
    together = cache.solve_together(panda, requests).joint_q
    alone = [cache.solve(panda, request).joint_q for request in requests]
    assert together.tobytes() == np.concatenate(alone).tobytes()
    halves = [cache.solve(panda, requests[0].part(rows)).joint_q for rows in (slice(0, 1), slice(1, COUNT))]
    assert np.concatenate(halves).tobytes() == alone[0].tobytes()


def test_the_client_asks_for_them(service_url, panda, given):
    joint_q, poses = given
    targets = (poses.positions[:, 0], poses.orientations_xyzw[:, 0])
    pairs = np.stack([joint_q[:, 0] - 0.2, joint_q[:, 0] + 0.1], axis=1)
    for encoding in ("json", "msgpack"):
        with Client(service_url, encoding=encoding) as client:
            found = client.solve(
                "panda",
                *targets,
                link="panda_hand",
                initial_joint_q=joint_q,
                joint_limits={"panda_joint1": pairs},
                frozen=["panda_joint3"],
                max_change=2.0,
            )
            expected = IKSolver(panda, ["panda_hand"], device="cpu").solve(
                *targets,
                initial_joint_q=joint_q,
                joint_limits={"panda_joint1": pairs.T},
                frozen=["panda_joint3"],
                max_change=2.0,
            )
            np.testing.assert_array_equal(found.joint_q.astype(np.float32), expected.joint_q)


def test_the_nearest_minimum_over_http(client, panda, given):
    near, poses = given
    body = document(given, options={"approximate": "nearest"})
    far = 3.0 * poses.positions[:, 0]
    body["targets"][0]["positions"] = far.tolist()
    answer = client.post(SOLVE, json=body).json()
    solver = IKSolver(panda, ["panda_hand"], device="cpu", options=SolverOptions(approximate="nearest"))
    expected = solver.solve(far, poses.orientations_xyzw[:, 0], initial_joint_q=near)
    assert answer["seed_index"] == [0] * COUNT
    assert np.array(answer["joint_q"], np.float32).tobytes() == expected.joint_q.tobytes()


FAULTS = [
    ({"joint_limits": {"elbow": [0, 1]}}, "unknown_joint", "/joint_limits"),
    ({"joint_limits": {"panda_joint1": [1, 0]}}, "invalid_value", "/joint_limits"),
    ({"joint_limits": {"panda_joint1": [5, 6]}}, "invalid_value", "/joint_limits"),
    ({"joint_limits": {"panda_joint1": [0]}}, "wrong_shape", "/joint_limits/panda_joint1"),
    ({"joint_limits": {"panda_joint1": [[0, 1]] * 3}}, "invalid_value", "/joint_limits"),
    ({"joint_limits": {"panda_joint1": "0:1"}}, "wrong_type", "/joint_limits/panda_joint1"),
    ({"joint_limits": [[0, 1]] * 7}, "wrong_type", "/joint_limits"),
    ({"max_change": -1}, "out_of_range", "/max_change"),
    ({"max_change": {"panda_joint1": "far"}}, "wrong_type", "/max_change/panda_joint1"),
    ({"max_change": {"elbow": 1}}, "unknown_joint", "/max_change"),
    ({"max_change": [0.1] * 7}, "wrong_type", "/max_change"),
    ({"max_change": 0.1, "initial_joint_q": None}, "invalid_value", "/max_change"),
    ({"frozen": ["elbow"]}, "unknown_joint", "/frozen/0"),
    ({"frozen": "panda_joint1"}, "wrong_type", "/frozen"),
    ({"frozen": ["panda_joint1"], "initial_joint_q": None}, "invalid_value", "/frozen"),
    ({"options": {"approximate": "best"}}, "unknown_option", "/options/approximate"),
]


@pytest.mark.parametrize(("fields", "code", "pointer"), FAULTS)
def test_what_is_wrong_is_said(client, given, fields, code, pointer):
    answer = client.post(SOLVE, json=document(given, **fields))
    assert answer.status_code == 422
    assert [(one["code"], one["pointer"]) for one in answer.json()["errors"]] == [(code, pointer)]


def test_more_lines_than_there_is_memory_for_are_refused(panda, given, monkeypatch):
    monkeypatch.setattr(frames, "MAX_LIMIT_COUNT", 7 * COUNT - 1)
    body = document(given, max_change=0.5)
    with pytest.raises(FaultyFieldsError) as caught:
        read_solve(body, panda)
    assert caught.value.faults[0].pointer == "/problem_count"
    assert MAX_LIMIT_COUNT > 7 * 100_000  # the built-in arms may have limits in the largest requests
