"""Objectives over HTTP: each type gives the bytes that IKSolver gives in process, in JSON and in MessagePack."""

from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from ik_service import IKSolver, Target, load_robot
from ik_service.service.schema.objective import Objective
from tests.service.messages import JSON, MSGPACK, answered, packed

MODELS = Objective.__args__[0].__args__
CLASSES = {model.model_fields["type"].annotation.__args__[0]: model.objective_class for model in MODELS}
HAND, HANDS = "panda_hand", ("left_panda_hand", "right_panda_hand")
POINTS = np.array([[0.4, 0.1, 0.5], [0.5, -0.2, 0.4], [0.3, 0.3, 0.6]])
UP_XYZW = [0.0, 0.0, 0.0, 1.0]
DOWN_XYZW = [[1.0, 0.0, 0.0, 0.0]] * 3
TOOL = {"position": [0.0, 0.0, 0.1], "orientation_xyzw": UP_XYZW}
READY = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]
JOINTS = ["panda_joint1", "panda_joint3"]

ROBOTS = {"relative_pose": "dual_panda", "center_of_mass": "humanoid"}  # others are objectives of a panda
CASES: dict[str, dict[str, Any]] = {
    "position": {"link": HAND, "target_positions": POINTS, "offset": TOOL},
    "rotation": {"link": HAND, "target_orientations_xyzw": DOWN_XYZW, "reference_link": "panda_link1"},
    "relative_pose": {
        "link": HANDS[0],
        "reference_link": HANDS[1],
        "target_positions": 0.3 * POINTS,
        "target_orientations_xyzw": UP_XYZW,
    },
    "look_at": {"link": HAND, "target_points": POINTS, "offset": TOOL},
    "axis_align": {"link": HAND, "axis": [0, 0, 2], "target_axis": -POINTS},
    "plane": {"link": HAND, "points": POINTS, "normals": [0, 0.5, 0.5], "row_weights": [2.0]},
    "line": {"link": HAND, "points": POINTS, "directions": [[0, 0, 1]] * 3, "row_weights": [[1, 2]] * 3},
    "posture": {"joint_q_reference": 0.9 * np.tile(READY, (3, 1)), "joints": JOINTS, "priority": 0},
    "damping": {"row_weights": [1, 1, 1, 1, 1, 1, 0]},
    "joint_limit": {
        "joint_limit_lower": [-0.1] * 7,
        "joint_limit_upper": np.linspace(-0.5, 0.5, 21).reshape(3, 7),
        "joints": JOINTS,
        "row_weights": [1, 2],
    },
    "joint_centering": {"joints": JOINTS, "row_weights": [1, 0.5]},
    "manipulability": {"link": HAND, "offset": TOOL, "motion": "position", "row_weights": [1, 1, 0.5]},
    "center_of_mass": {"target_positions": 0.1 * POINTS, "row_weights": [1, 1, 0]},
}
WEIGHT = 0.25  # a power of two, which rounds nothing wherever it is multiplied in


def in_process(kind: str) -> Any:
    """The objective of a case, made as in Python."""
    arguments = dict(CASES[kind])
    if "offset" in arguments:
        arguments["offset"] = [*TOOL["position"], *TOOL["orientation_xyzw"]]
    if kind == "damping":  # over HTTP the start of the request
        arguments["joint_q_reference"] = np.tile(READY, (3, 1))
    priority = arguments.pop("priority", 1)
    made = CLASSES[kind](**arguments, weight=WEIGHT)
    made.priority = priority
    return made


def request_for(kind: str) -> dict[str, Any]:
    """The request of a case: three problems, one of them with the panda's target."""
    body: dict[str, Any] = {"objectives": [{"type": kind, "weight": WEIGHT, **CASES[kind]}], "problem_count": 3}
    if kind not in ROBOTS:
        body |= {"targets": [{"link": HAND, "positions": POINTS, "row_weights": [1, 1, 0, 0, 0, 0]}]}
        body["initial_joint_q"] = [READY] * 3
    return body


def post(client: TestClient, robot: str, body: dict[str, Any], kind: str = JSON) -> dict[str, Any]:
    return answered(client, f"/v1/robots/{robot}/solve", body, kind, JSON)


def test_every_type_of_the_schema_is_tested():
    assert set(CASES) == set(CLASSES)


@pytest.mark.evidence
@pytest.mark.parametrize("kind", CASES)
def test_each_type_gives_what_the_solver_gives_in_process(client, kind):
    body, name = request_for(kind), ROBOTS.get(kind, "panda")
    answer = post(client, name, body)
    targets = [Target(HAND, row_weights=[1, 1, 0, 0, 0, 0])] if "targets" in body else []
    solver = IKSolver(load_robot(name), targets, objectives=[in_process(kind)], device="cpu")
    columns = {"positions": POINTS, "initial_joint_q": [READY] * 3} if targets else {}
    expected = solver.solve(**columns, problem_count=3)
    assert np.array(answer["joint_q"], np.float32).tobytes() == expected.joint_q.tobytes()
    assert np.array(answer["cost"], np.float32).tobytes() == expected.cost.tobytes()
    assert answer["success"] == expected.success.tolist()
    assert answer["iterations"] == expected.iterations.tolist()
    assert len({tuple(q) for q in answer["joint_q"]}) > 1  # the problems differ
    errors = expected.position_error.max(axis=1).tolist() if targets else [None] * 3
    assert (answer["position_error_m"], answer["orientation_error_rad"]) == (errors, [None] * 3)


def test_messagepack_brings_the_same(client):
    body = request_for("line")
    body["targets"][0]["positions"] = body["objectives"][0]["points"] = packed(POINTS)
    found = post(client, "panda", body, MSGPACK)
    assert found["joint_q"] == post(client, "panda", request_for("line"))["joint_q"]


def test_without_targets_success_is_a_minimum_and_errors_are_null(client):
    far = {"type": "position", "link": HAND, "target_positions": [[9.0, 0, 0], [0.4, 0.1, 0.5]]}
    answer = post(client, "panda", {"objectives": [far], "include": ["advice", "solutions"], "options": {"seeds": 8}})
    assert answer["cost"][0] > 1.0
    assert answer["cost"][1] < 1e-6
    assert answer["success"][1]
    assert answer["position_error_m"] == answer["orientation_error_rad"] == [None, None]
    assert len(answer["advice"]) == len(answer["solutions"]) == 2
    assert "targets" not in answer
