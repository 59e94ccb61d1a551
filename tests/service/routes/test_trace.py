"""The column `trace`: attempts at the one problem of a request, iteration by iteration."""

import pytest

from ik_service.service.codecs.media_types import BY_NAME
from ik_service.service.documents.solve_answer import solve_bytes
from ik_service.service.documents.solve_request import read_solve
from tests.service.messages import JSON, MSGPACK, NPZ, answered, post, problem

URL = "/v1/robots/panda/solve"
FAR = {"targets": [{"link": "panda_hand", "positions": [[0.3, 0.2, 0.4]], "orientations_xyzw": [[0, 0, 0.6, 0.8]]}]}
POSTURE = {"objectives": [{"type": "posture", "joint_q_reference": [0, 0, 0, -1, 0, 1, 0], "priority": 1}]}


@pytest.mark.parametrize("kind", [JSON, MSGPACK])
def test_a_trace_ends_at_the_answer(client, one_pose, kind):
    answer = answered(client, URL, one_pose | {"include": ["trace"]}, kind)
    ((trace,), (joint_q,)) = answer["trace"], answer["joint_q"]
    seed = trace["answer_seeds"][0]
    k = trace["seeds"].index(seed)
    assert seed == answer["seed_index"][0]
    assert trace["ends"][k] == ["converged"]
    assert trace["iterations"][k] == [answer["iterations"][0]]
    assert trace["joint_q"][-1][k] == pytest.approx(list(joint_q), abs=1e-7)
    assert trace["position_error"][-1][k][0] == pytest.approx(answer["position_error_m"][0], rel=1e-9)
    assert len(trace["cost"]) == len(trace["steps"]) > 3


@pytest.mark.parametrize("more", [{}, POSTURE, {"options": {"max_iterations": 100, "seeds": 64}}], ids=str)
def test_a_trace_is_no_larger_than_stated(client, panda, more):
    document = FAR | more | {"include": ["trace"]}
    for kind in (JSON, MSGPACK):
        reply = post(client, URL, document, kind)
        assert reply.status_code == 200, reply.text
        assert len(reply.content) <= solve_bytes(panda, read_solve(document, panda, {}), BY_NAME[kind])[0]


def test_a_trace_is_of_one_problem_and_bounded(client, one_pose):
    target = one_pose["targets"][0]
    two = {"targets": [target | {name: 2 * target[name] for name in ("positions", "orientations_xyzw")}]}
    asked = {"include": ["trace"]}
    problem(post(client, URL, two | asked), 422, "invalid_value", "/include")
    large = {"options": {"seeds": 1024, "max_iterations": 100}}
    problem(post(client, URL, one_pose | asked | large), 422, "out_of_range", "/include")
    problem(post(client, URL, one_pose | asked, accept=NPZ), 422, "unknown_option", "/include")
    assert "trace" not in answered(client, URL, one_pose)
