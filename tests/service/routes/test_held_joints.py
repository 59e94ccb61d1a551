"""Locked joints are held where a request's start says, problem by problem."""

import numpy as np
import pytest

from ik_service import load_robot
from tests.service.conftest import service_of
from tests.service.messages import answered

HELD = [1, 4]
KNOWN_POSE = 1e-6  # roundings of float32 joints, over an arm of about a metre


@pytest.fixture(scope="module")
def robot():
    return load_robot("panda", locked={"panda_joint2": 0.3, "panda_joint5": -0.4})


@pytest.fixture(scope="module")
def client(robot):
    with service_of({"arm": robot}) as client:
        yield client


@pytest.mark.evidence_cases("more1")
@pytest.mark.parametrize("more", [{}, {"objectives": [{"type": "damping", "weight": 1e-3}]}])
def test_a_request_holds_them_where_its_start_says(client, robot, more):
    problems = np.tile(robot.mid_joint_q, (3, 1)) + 0.1
    problems[:, HELD] = [[0.9, 0.1], [-0.5, 0.6], [0.0, -1.2]]
    start = np.tile(robot.mid_joint_q, (3, 1))
    start[:, HELD] = problems[:, HELD]
    poses = robot.forward_kinematics(problems, ["panda_hand"])
    columns = {"positions": poses.positions[:, 0], "orientations_xyzw": poses.orientations_xyzw[:, 0]}
    document = {"targets": [{"link": "panda_hand", **columns}]}
    answer = answered(client, "/v1/robots/arm/solve", {**document, "initial_joint_q": start, **more})
    assert answer["success"] == [True] * 3
    joint_q = np.array(answer["joint_q"])
    np.testing.assert_array_equal(joint_q[:, HELD].astype(np.float32), problems[:, HELD].astype(np.float32))
    reached = robot.forward_kinematics(joint_q, ["panda_hand"]).positions[:, 0]
    distance = np.linalg.norm(reached - poses.positions[:, 0], axis=1)
    np.testing.assert_allclose(np.ravel(answer["position_error_m"]), distance, atol=KNOWN_POSE)
    answer = answered(client, "/v1/robots/arm/solve", document)
    np.testing.assert_allclose(np.array(answer["joint_q"])[:, HELD], [[0.3, -0.4]] * 3, atol=1e-7)
    assert not any(answer["success"])
