"""Locked joints are held where a request's start says, problem by problem."""

import numpy as np
import pytest
from fastapi.testclient import TestClient

from ik_service import load_robot
from ik_service.service import create_app
from ik_service.settings import ServiceSettings

HELD = [1, 4]
KNOWN_POSE = 1e-6  # roundings of float32 joints, over an arm of about a metre


@pytest.fixture(scope="module")
def robot():
    return load_robot("panda", locked={"panda_joint2": 0.3, "panda_joint5": -0.4})


@pytest.fixture(scope="module")
def client(robot):
    app = create_app(ServiceSettings(device="cpu", insecure=True), robots={"arm": robot}, compile_apart=False)
    with TestClient(app, raise_server_exceptions=False) as client:
        client.app.state.service.warm_up.result(300)
        yield client


@pytest.mark.evidence_cases("objectives1")
@pytest.mark.parametrize("objectives", [None, [{"type": "damping", "weight": 1e-3}]])
def test_a_request_holds_them_where_its_start_says(client, robot, objectives):
    problems = np.tile(robot.mid_joint_q, (3, 1)) + 0.1
    problems[:, HELD] = [[0.9, 0.1], [-0.5, 0.6], [0.0, -1.2]]
    poses = robot.forward_kinematics(problems, ["panda_hand"])
    target = {"link": "panda_hand", "positions": poses.positions[:, 0].tolist()}
    target["orientations_xyzw"] = poses.orientations_xyzw[:, 0].tolist()
    start = np.tile(robot.mid_joint_q, (3, 1))
    start[:, HELD] = problems[:, HELD]
    document = {"targets": [target], "initial_joint_q": start.tolist()}
    if objectives is not None:
        document["objectives"] = objectives
    answer = client.post("/v1/robots/arm/solve", json=document).json()
    assert answer["success"] == [True] * 3
    joint_q = np.array(answer["joint_q"])
    np.testing.assert_array_equal(joint_q[:, HELD].astype(np.float32), problems[:, HELD].astype(np.float32))
    reached = robot.forward_kinematics(joint_q, ["panda_hand"]).positions[:, 0]
    distance = np.linalg.norm(reached - poses.positions[:, 0], axis=1)
    np.testing.assert_allclose(np.ravel(answer["position_error_m"]), distance, atol=KNOWN_POSE)
    del document["initial_joint_q"]
    document.pop("objectives", None)
    answer = client.post("/v1/robots/arm/solve", json=document).json()
    np.testing.assert_allclose(np.array(answer["joint_q"])[:, HELD], [[0.3, -0.4]] * 3, atol=1e-7)
    assert not any(answer["success"])
