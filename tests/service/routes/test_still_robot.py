"""Robots with joints at rest: all joints, with nothing to solve for, or locked joints."""

import numpy as np
import pytest

from ik_service import load_robot
from tests.service import messages
from tests.service.conftest import service_of
from tests.service.messages import JSON, MSGPACK, answered, packed, problem

STONE = (
    '<robot name="stone"><link name="rock"/><link name="moss"/>'
    '<joint name="grown" type="fixed"><parent link="rock"/><child link="moss"/><origin xyz="0 0 0.5"/></joint></robot>'
)
EMPTY_ROWS = np.zeros((2, 0))
TARGET = {"link": "moss", "positions": [[0, 0, 0.5], [0, 0, 0.7]]}


@pytest.fixture(scope="module")
def still(tmp_path_factory):
    path = tmp_path_factory.mktemp("robot") / "stone.urdf"
    path.write_text(STONE)
    with service_of({"stone": load_robot(path)}) as client:
        yield client


@pytest.fixture(params=[JSON, MSGPACK])
def post(request, still):
    """Posts a document in one of the codecs, given rows of no numbers as it has them; answers are JSON."""
    rows = packed(EMPTY_ROWS) if request.param == MSGPACK else [[], []]

    def send(path, document):
        body = {name: rows if value is EMPTY_ROWS else value for name, value in document.items()}
        return messages.post(still, f"/v1/robots/stone/{path}", body, request.param, JSON)

    return send


def test_its_links_are_told(post):
    reply = post("forward", {"joint_q": EMPTY_ROWS})
    assert reply.status_code == 200, reply.text
    poses = {pose["link"]: pose["positions"] for pose in reply.json()["poses"]}
    assert np.allclose(poses["moss"], [[0, 0, 0.5]] * 2)


@pytest.mark.parametrize("more", [{}, {"initial_joint_q": EMPTY_ROWS}])
def test_there_is_nothing_to_solve_for(post, more):
    reply = post("solve", {"targets": [TARGET], **more})
    assert "no active DOF" in problem(reply, 422, "invalid_value")["detail"]


def test_rows_of_another_width_are_refused(post):
    for rows, pointer in (([[0.1], [0.1]], "/joint_q/0"), ([[], [0.1]], "/joint_q/1")):
        reply = post("forward", {"joint_q": rows})
        assert (reply.status_code, reply.json()["errors"][0]["pointer"]) == (422, pointer)


def test_a_posture_of_no_numbers_is_no_fault_of_the_service(post):
    for reference in ([[]], []):
        objective = {"type": "posture", "joint_q_reference": reference}
        reply = post("solve", {"targets": [TARGET], "objectives": [objective]})
        assert reply.status_code == 422, reply.text


def test_the_service_is_ready_with_no_robot_that_moves(still):
    assert still.get("/health/ready").status_code == 200
    assert [robot["name"] for robot in still.get("/v1/robots").json()["robots"]] == ["stone"]


# ---------------------------------------------------------------------- locked joints
HELD = [1, 4]
KNOWN_POSE = 1e-6  # roundings of float32 joints, over an arm of about a metre


@pytest.fixture(scope="module")
def robot():
    return load_robot("panda", locked={"panda_joint2": 0.3, "panda_joint5": -0.4})


@pytest.fixture(scope="module")
def held(robot):
    with service_of({"arm": robot}) as client:
        yield client


@pytest.mark.evidence_cases("more1")
@pytest.mark.parametrize("more", [{}, {"objectives": [{"type": "damping", "weight": 1e-3}]}])
def test_a_request_holds_them_where_its_start_says(held, robot, more):
    problems = np.tile(robot.mid_joint_q, (3, 1)) + 0.1
    problems[:, HELD] = [[0.9, 0.1], [-0.5, 0.6], [0.0, -1.2]]
    start = np.tile(robot.mid_joint_q, (3, 1))
    start[:, HELD] = problems[:, HELD]
    poses = robot.forward_kinematics(problems, ["panda_hand"])
    columns = {"positions": poses.positions[:, 0], "orientations_xyzw": poses.orientations_xyzw[:, 0]}
    document = {"targets": [{"link": "panda_hand", **columns}]}
    answer = answered(held, "/v1/robots/arm/solve", {**document, "initial_joint_q": start, **more})
    assert answer["success"] == [True] * 3
    joint_q = np.array(answer["joint_q"])
    np.testing.assert_array_equal(joint_q[:, HELD].astype(np.float32), problems[:, HELD].astype(np.float32))
    reached = robot.forward_kinematics(joint_q, ["panda_hand"]).positions[:, 0]
    distance = np.linalg.norm(reached - poses.positions[:, 0], axis=1)
    np.testing.assert_allclose(np.ravel(answer["position_error_m"]), distance, atol=KNOWN_POSE)
    answer = answered(held, "/v1/robots/arm/solve", document)
    np.testing.assert_allclose(np.array(answer["joint_q"])[:, HELD], [[0.3, -0.4]] * 3, atol=1e-7)
    assert not any(answer["success"])
