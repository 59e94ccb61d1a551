"""Good requests, judged by forward kinematics on the host rather than by what the answer says of itself."""

from typing import Any

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.service.codecs.media_types import BY_NAME
from ik_service.service.documents.solve_answer import solve_bytes
from ik_service.service.documents.solve_request import read_solve
from tests.service.messages import JSON, MSGPACK, NPZ, answered, post, problem

URL, DUAL_URL = "/v1/robots/panda/solve", "/v1/robots/dual_panda/solve"
HANDS = ["left_panda_hand", "right_panda_hand"]
ARMS = [[f"{side}_panda_joint{k}" for k in range(1, 8)] for side in ("left", "right")]
POSITION_TOLERANCE = 1e-3  # [m], the default of the service
ORIENTATION_TOLERANCE = 1e-2  # [rad], the same
AGREEMENT = 1e-6  # both sides judge in float64; the shortest decimals of a float32 lose nothing


def solve(client: Any, body: dict[str, Any], url: str = URL) -> dict[str, Any]:
    return answered(client, url, body)


def reachable(robot: Any, links: list[str], count: int, **more: Any) -> dict[str, Any]:
    """A request for poses that links reach."""
    poses = robot.forward_kinematics(robot.random_free_joint_q(np.random.default_rng(0), count), links=links)
    each = zip(links, poses.positions.swapaxes(0, 1), poses.orientations_xyzw.swapaxes(0, 1), strict=True)
    return {"targets": [{"link": link, "positions": p, "orientations_xyzw": o} for link, p, o in each], **more}


def two_arms(count: int, **more: Any) -> dict[str, Any]:
    return reachable(load_robot("dual_panda"), HANDS, count, **more)


def angle_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return 2.0 * np.arccos(np.minimum(np.abs((a * b).sum(axis=-1)), 1.0))


def test_one_pose_is_reached_and_the_document_is_as_designed(client, panda, one_pose):
    answer = solve(client, one_pose)
    keys = "robot joint_names coordinate_names joint_q success status position_error_m orientation_error_rad"
    assert set(answer) == {*keys.split(), "iterations", "seed_index", "cost", "limit_margin", "resolved", "timing_ms"}
    assert (answer["robot"], tuple(answer["coordinate_names"])) == ("panda", panda.coordinate_names)
    assert (answer["success"], answer["status"]) == ([True], ["converged"])
    assert set(answer["resolved"]) == {"engine", "seeds", "device", "collision"}
    assert set(answer["timing_ms"]) == {"queue", "solve", "total"}
    pose = panda.forward_kinematics(answer["joint_q"], links=["panda_hand"])
    distance = np.linalg.norm(pose.positions[0, 0] - [0.4, 0.1, 0.5])
    assert distance <= POSITION_TOLERANCE
    assert distance == pytest.approx(answer["position_error_m"][0], abs=AGREEMENT)
    assert angle_between(pose.orientations_xyzw[0, 0], np.array([1.0, 0, 0, 0])) <= ORIENTATION_TOLERANCE


@pytest.mark.evidence_cases("delta-platform-extra3-off", "panda-panda_hand-extra1-off")
@pytest.mark.parametrize(
    ("robot", "link", "extra", "checked"),
    [
        ("panda", "panda_hand", {}, "self"),
        ("panda", "panda_hand", {"options": {"collision": "off"}}, "off"),
        ("panda", "panda_hand", {"world": {"objects": {"ball": {"shape": "sphere", "radius": 0.1}}}}, "world"),
        ("delta", "platform", {}, "off"),
    ],
)
def test_an_answer_says_what_was_checked_for_collision(client, robot, link, extra, checked):
    body = {"targets": [{"link": link, "positions": [[0.4, 0.1, 0.5]]}], **extra}
    assert solve(client, body, f"/v1/robots/{robot}/solve")["resolved"]["collision"] == checked


def test_manipulability_is_that_of_python_and_null_where_nothing_moves(client, panda, one_pose):
    answer = solve(client, {**one_pose, "include": ["manipulability", "active_limits"]})
    assert tuple(answer["dof_names"]) == panda.dof_names
    assert np.array(answer["active_limits"]).shape == (1, panda.joint_dof_count)
    joint_q = np.array(answer["joint_q"], np.float32)
    assert answer["manipulability"] == panda.manipulability(joint_q, "panda_hand").tolist()
    still = {"targets": [{"link": "panda_link0", "positions": [[0, 0, 0]]}], "include": ["manipulability"]}
    assert solve(client, still)["manipulability"] == [None]


@pytest.mark.evidence
def test_matrices_give_the_bytes_of_position_and_quaternion(client, one_pose):
    target = one_pose["targets"][0]
    half_turn = [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]]  # exact, as the quaternion 1, 0, 0, 0
    rows = [[*turned, along] for turned, along in zip(half_turn, target["positions"][0], strict=True)]
    matrices = {"link": target["link"], "matrices": [[*rows, [0.0, 0.0, 0.0, 1.0]]]}
    plain = target | {"orientations_xyzw": [[1.0, 0.0, 0.0, 0.0]]}
    answers = [solve(client, one_pose | {"targets": [given]})["joint_q"] for given in (plain, matrices)]
    assert answers[0] == answers[1]
    both = matrices | {"positions": target["positions"]}
    fault = client.post(URL, json=one_pose | {"targets": [both]}).json()["errors"][0]
    assert (fault["pointer"], fault["code"]) == ("/targets/0/matrices", "invalid_value")


def test_several_targets_report_per_target_and_the_worst(client):
    answer = solve(client, two_arms(3), DUAL_URL)
    assert answer["success"] == [True] * 3
    assert [entry["link"] for entry in answer["targets"]] == HANDS
    by_target = np.array([entry["position_error_m"] for entry in answer["targets"]])
    assert by_target.shape == (2, 3)
    assert by_target.max(axis=0).tolist() == answer["position_error_m"]


def test_the_start_of_one_problem_may_be_its_row_alone(client, one_pose):
    row = [0.3, -0.785, 0.1, -2.356, 0.2, 1.571, 0.785]
    answers = [solve(client, {**one_pose, "initial_joint_q": start}) for start in (row, [row], None)]
    assert answers[0]["joint_q"] == answers[1]["joint_q"] != answers[2]["joint_q"]
    posture = {"type": "posture", "joint_q_reference": row}
    alone = [solve(client, {"objectives": [posture], "initial_joint_q": start}) for start in (row, [row])]
    assert alone[0]["joint_q"] == alone[1]["joint_q"]
    assert np.abs(np.subtract(alone[0]["joint_q"], [row])).max() < POSITION_TOLERANCE


def test_two_arms_are_two_islands_when_asked_for(client):
    asked = two_arms(40, include=["islands"])
    asked["targets"][1]["positions"][0] = [9.0, 0.0, 0.0]
    answer = solve(client, asked, DUAL_URL)
    assert len(answer["islands"]) == 40
    assert [island["success"] for island in answer["islands"][0]] == [True, False]
    assert answer["islands"][0][1]["status"] == answer["status"][0] != "converged"
    told_apart = 0
    for row, islands in enumerate(answer["islands"]):
        assert [island["joints"] for island in islands] == ARMS
        assert [island["rows"] for island in islands] == [[f"target {hand}"] for hand in HANDS]
        assert all(island["success"] for island in islands) == answer["success"][row]
        assert max(island["iterations"] for island in islands) == answer["iterations"][row]
        assert sum(island["cost"] for island in islands) == pytest.approx(answer["cost"][row], rel=1e-5)
        seeds = {island["seed_index"] for island in islands}
        assert answer["seed_index"][row] == (seeds.pop() if len(seeds) == 1 else None)
        told_apart += answer["seed_index"][row] is None
    assert told_apart > 0
    assert "islands" not in solve(client, two_arms(1), DUAL_URL)


def test_advice_names_a_static_link_that_misses_its_target(client, one_pose):
    link0 = {"link": "panda_link0", "positions": [[0.1, 0, 0]]}
    answer = solve(client, {"targets": [*one_pose["targets"], link0], "include": ["advice", "islands"]})
    assert (answer["success"], answer["status"]) == ([False], ["stalled"])
    assert answer["islands"][0][0]["success"]
    assert "Link 'panda_link0' is static" in answer["advice"][0]


# ---------------------------------------------------------------------- the column `trace`
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
