"""Objectives over HTTP: each type gives the bytes that IKSolver gives in process, in JSON and in MessagePack."""

from typing import Any

import msgpack
import numpy as np
import pytest
from fastapi.testclient import TestClient

from ik_service import IKSolver, Target, load_robot
from ik_service.service.schema.examples import EXAMPLE_ROBOTS, SOLVE_REQUESTS
from ik_service.service.schema.objective import Objective

CLASSES = {
    model.model_fields["type"].annotation.__args__[0]: model.objective_class for model in Objective.__args__[0].__args__
}
HAND, HANDS = "panda_hand", ("left_panda_hand", "right_panda_hand")
POINTS = np.array([[0.4, 0.1, 0.5], [0.5, -0.2, 0.4], [0.3, 0.3, 0.6]])
UP_XYZW = [0.0, 0.0, 0.0, 1.0]
DOWN_XYZW = [[1.0, 0.0, 0.0, 0.0]] * 3
TOOL = {"position": [0.0, 0.0, 0.1], "orientation_xyzw": UP_XYZW}
READY = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]
JOINTS = ["panda_joint1", "panda_joint3"]

# robot, fields on the wire; the arguments of the class in process, where they differ
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "position": ("panda", {"link": HAND, "target_positions": POINTS, "offset": TOOL}, {}),
    "rotation": ("panda", {"link": HAND, "target_orientations_xyzw": DOWN_XYZW, "reference_link": "panda_link1"}, {}),
    "relative_pose": (
        "dual_panda",
        {
            "link": HANDS[0],
            "reference_link": HANDS[1],
            "target_positions": 0.3 * POINTS,
            "target_orientations_xyzw": UP_XYZW,
        },
        {},
    ),
    "look_at": ("panda", {"link": HAND, "target_points": POINTS, "offset": TOOL}, {}),
    "axis_align": ("panda", {"link": HAND, "axis": [0, 0, 2], "target_axis": -POINTS}, {}),
    "plane": ("panda", {"link": HAND, "points": POINTS, "normals": [0, 0.5, 0.5], "row_weights": [2.0]}, {}),
    "line": ("panda", {"link": HAND, "points": POINTS, "directions": [[0, 0, 1]] * 3, "row_weights": [[1, 2]] * 3}, {}),
    "posture": ("panda", {"joint_q_reference": 0.9 * np.tile(READY, (3, 1)), "joints": JOINTS}, {}),
    "damping": ("panda", {"row_weights": [1, 1, 1, 1, 1, 1, 0]}, {"joint_q_reference": np.tile(READY, (3, 1))}),
    "joint_limit": (
        "panda",
        {
            "joint_limit_lower": [-0.1] * 7,
            "joint_limit_upper": np.linspace(-0.5, 0.5, 21).reshape(3, 7),
            "joints": JOINTS,
            "row_weights": [1, 2],
        },
        {},
    ),
    "joint_centering": ("panda", {"joints": JOINTS, "row_weights": [1, 0.5]}, {}),
    "manipulability": ("panda", {"link": HAND, "offset": TOOL, "motion": "position", "row_weights": [1, 1, 0.5]}, {}),
    "center_of_mass": ("humanoid", {"target_positions": 0.1 * POINTS, "row_weights": [1, 1, 0]}, {}),
}
WEIGHT = 0.25  # a power of two, which rounds nothing wherever it is multiplied in


def wire(value: Any) -> Any:
    """Numbers as JSON has them."""
    return value.tolist() if isinstance(value, np.ndarray) else value


def in_process(kind: str) -> Any:
    """The objective of a case, made as in Python."""
    _, fields, others = CASES[kind]
    arguments = {**fields, **others}
    if "offset" in arguments:
        arguments["offset"] = [*TOOL["position"], *TOOL["orientation_xyzw"]]
    return CLASSES[kind](**arguments, weight=WEIGHT)


def request_for(kind: str) -> dict[str, Any]:
    """The request of a case: three problems, one of them with the panda's target."""
    robot, fields, _ = CASES[kind]
    spec = {"type": kind, "weight": WEIGHT, **{name: wire(value) for name, value in fields.items()}}
    body: dict[str, Any] = {"objectives": [spec], "problem_count": 3}
    if robot == "panda":
        body |= {"targets": [{"link": HAND, "positions": POINTS.tolist(), "row_weights": [1, 1, 0, 0, 0, 0]}]}
        body["initial_joint_q"] = [READY] * 3
    return body


def post(client: TestClient, robot: str, body: dict[str, Any]) -> dict[str, Any]:
    reply = client.post(f"/v1/robots/{robot}/solve", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_every_type_of_the_schema_is_tested():
    assert set(CASES) == set(CLASSES)


@pytest.mark.evidence
@pytest.mark.parametrize("kind", CASES)
def test_each_type_gives_what_the_solver_gives_in_process(client, kind):
    body, name = request_for(kind), CASES[kind][0]
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
    assert answer["position_error_m"] == errors
    assert answer["orientation_error_rad"] == [None] * 3


def test_limits_have_a_number_per_dof(client):
    spec = {"type": "joint_limit", "joint_limit_upper": [0.1] * 6}
    reply = client.post("/v1/robots/panda/solve", json={"objectives": [spec], "problem_count": 1})
    fault = reply.json()["errors"][0]
    assert (reply.status_code, fault["code"]) == (422, "wrong_shape")
    assert fault["pointer"] == "/objectives/0/joint_limit_upper"


def test_messagepack_brings_the_same(client):
    body = request_for("line")
    for place, name in ((body["targets"][0], "positions"), (body["objectives"][0], "points")):
        column = np.array(place[name])
        place[name] = {"dtype": "float64", "shape": list(column.shape), "data": column.astype("<f8").tobytes()}
    reply = client.post(
        "/v1/robots/panda/solve",
        content=msgpack.packb(body),
        headers={"Content-Type": "application/msgpack", "Accept": "application/json"},
    )
    assert reply.status_code == 200, reply.text
    assert reply.json()["joint_q"] == post(client, "panda", request_for("line"))["joint_q"]


@pytest.mark.evidence
def test_islands_name_the_rows_of_objectives(client):
    posture = {"type": "posture", "joint_q_reference": [0.1] * 14, "weight": 0.01}
    apart = {"type": "position", "link": HANDS[1], "target_positions": [0.5, -0.2, 0.4]}
    target = {"link": HANDS[0], "positions": [[0.4, 0.3, 0.5]]}
    answer = post(client, "dual_panda", {"targets": [target], "objectives": [posture, apart], "include": ["islands"]})
    rows = [island["rows"] for island in answer["islands"][0]]
    assert rows == [[f"target {HANDS[0]}", "posture"], ["posture", f"position {HANDS[1]}"]]


def test_without_targets_success_is_a_minimum_and_errors_are_null(client):
    far = {"type": "position", "link": HAND, "target_positions": [[9.0, 0, 0], [0.4, 0.1, 0.5]]}
    answer = post(client, "panda", {"objectives": [far], "include": ["advice", "solutions"], "options": {"seeds": 8}})
    assert answer["cost"][0] > 1.0
    assert answer["cost"][1] < 1e-6
    assert answer["success"][1]
    assert answer["position_error_m"] == answer["orientation_error_rad"] == [None, None]
    assert len(answer["advice"]) == len(answer["solutions"]) == 2
    assert "targets" not in answer


@pytest.mark.evidence
def test_an_objective_moves_the_answer_and_costs_targets_nothing_unless_it_has_their_priority(client):
    target = {"link": HAND, "positions": [[0.4, 0.1, 0.5]]}
    posture = {"type": "posture", "joint_q_reference": [0.5, -0.785, 0.5, -2.0, 0.5, 1.571, 0.785], "weight": 1e-3}
    without = post(client, "panda", {"targets": [target]})
    soft = post(client, "panda", {"targets": [target], "objectives": [posture]})
    assert without["success"] == soft["success"] == [True]
    reference = np.array(posture["joint_q_reference"])
    near, far = (np.linalg.norm(np.array(one["joint_q"][0]) - reference) for one in (soft, without))
    assert near < 0.8 * far
    heavy = {**posture, "weight": 10.0}
    yields, weighed = (
        post(client, "panda", {"targets": [target], "objectives": [{**heavy, "priority": priority}]})
        for priority in (1, 0)
    )
    assert yields["success"] == [True]
    assert post(client, "panda", {"targets": [target], "objectives": [heavy]})["joint_q"] == yields["joint_q"]
    assert weighed["success"] == [False]  # the posture outweighs the target, which alone is judged
    for wrong in (2, -1, True, 0.5, "0", None):
        body = {"targets": [target], "objectives": [{**posture, "priority": wrong}]}
        refused = client.post("/v1/robots/panda/solve", json=body)
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["pointer"] == "/objectives/0/priority"


def test_examples_have_objectives():
    assert sum("objectives" in body for body in SOLVE_REQUESTS.values()) >= 3
    assert set(EXAMPLE_ROBOTS) == set(SOLVE_REQUESTS)
