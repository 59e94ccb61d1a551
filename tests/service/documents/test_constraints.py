"""Constraints of a robot over HTTP: disabled by name, for a request or for each of its problems, and reported."""

import io

import msgpack
import numpy as np
import pytest

from ik_service import IKSolver, load_robot
from ik_service.client import Client
from ik_service.robots import CoordinateConstraint, LoopConstraint
from ik_service.service.documents.robot import robot_body
from ik_service.service.documents.solve_request import read_solve
from tests.service.conftest import serving
from tests.solver.test_loops import HELD, LEFT, RIGHT

LOOPS = [
    LoopConstraint("object", "weld", RIGHT, LEFT, reference_offset=HELD),
    LoopConstraint("rail", "point_in_plane", LEFT, None, reference_offset=(0.0, 0.0, 0.4, 0.0, 0.0, 0.0, 1.0)),
    LoopConstraint("hinge", "universal", LEFT, "left_panda_link0"),
]
POSITIONS = [[0.45, 0.1, 0.4], [0.4, 0.2, 0.45], [0.5, 0.05, 0.4]]
DISABLED = [["hinge"], ["rail", "hinge", "object"], ["hinge"]]
ENABLED = np.array([[True, True, False], [False, False, False], [True, True, False]])


@pytest.fixture(scope="module")
def robot():
    return load_robot("dual_panda").with_loops(LOOPS)


@pytest.fixture(scope="module")
def served(client, robot):
    """The client of a service that serves the robot, as `held`."""
    with serving(client, "held", robot):
        yield client


def body(disable, **fields):
    target = {"link": LEFT, "positions": POSITIONS}
    return {"targets": [target], "constraints": {"disable": disable}, "include": ["constraints"], **fields}


@pytest.fixture(scope="module")
def expected(robot):
    return IKSolver(robot, [LEFT], device="cpu").solve(POSITIONS, constraint_enabled=ENABLED)


def test_a_robot_tells_the_limits_of_its_closing_joints():
    limits = ((-np.inf, 0.5), (-0.2, 0.3), (-1.0, 1.0))
    table = LoopConstraint("table", "planar", LEFT, None, limits=limits)
    (loop,) = robot_body("held", load_robot("dual_panda").with_loops([table])).loops
    assert loop.limits == [(None, 0.5), *limits[1:]]


@pytest.mark.evidence
def test_names_for_each_problem_give_the_bytes_that_they_give_in_process(served, expected):
    answer = served.post("/v1/robots/held/solve", json=body(DISABLED, include=["constraints", "islands"])).json()
    assert answer["success"] == [True] * 3
    assert answer["constraint_names"] == ["object", "rail", "hinge"]
    assert answer["closing_coordinate_names"] == ["hinge/angle_z", "hinge/angle_x"]
    np.testing.assert_array_equal(np.array(answer["joint_q"]), expected.joint_q)
    np.testing.assert_array_equal(np.array(answer["constraint_error"]), expected.constraint_error)
    np.testing.assert_array_equal(np.array(answer["closing_joint_q"]), expected.closing_joint_q)
    assert [len(islands) for islands in answer["islands"]] == [1, 1, 1]
    rows = [islands[0]["rows"] for islands in answer["islands"]]
    assert rows == [[f"target {LEFT}", "constraint object", "constraint rail"], [f"target {LEFT}"], rows[0]]


def test_a_description_lists_them(robot):
    gear = {"name": "gear", "joint": "left_panda_joint1", "reference_joint": "left_panda_joint2"}
    gear["coefficients"] = [0.1, -2.0]
    geared = robot.with_coordinate_constraints([CoordinateConstraint(**gear)])
    described = robot_body("held", geared).model_dump()
    assert [loop["name"] for loop in described["loops"]] == ["object", "rail", "hinge"]
    assert described["coordinate_constraints"] == [gear]


@pytest.mark.evidence
def test_names_for_all_problems_are_those_for_each(served):
    one = served.post("/v1/robots/held/solve", json=body(["hinge"])).json()
    each = served.post("/v1/robots/held/solve", json=body([["hinge"]] * 3)).json()
    assert {name: one[name] for name in ("joint_q", "constraint_error")} == {
        name: each[name] for name in ("joint_q", "constraint_error")
    }


@pytest.mark.evidence
def test_binary_answers_have_the_same_columns(served, expected):
    headers = {"Content-Type": "application/msgpack"}
    content = msgpack.packb(body(DISABLED))
    answer = msgpack.unpackb(served.post("/v1/robots/held/solve", content=content, headers=headers).content)
    column = answer["constraint_error"]
    assert (column["dtype"], column["shape"]) == ("float64", [3, 3])
    assert column["data"] == expected.constraint_error.tobytes()
    archive = io.BytesIO()
    np.savez(archive, positions=np.array(POSITIONS))
    query = f"?link={LEFT}&disable=hinge&disable=rail&include=constraints"
    headers = {"Content-Type": "application/x-npz"}
    reply = served.post(f"/v1/robots/held/solve{query}", content=archive.getvalue(), headers=headers)
    columns = np.load(io.BytesIO(reply.content))
    assert columns["constraint_names"].tolist() == ["object", "rail", "hinge"]
    assert (columns["constraint_error"][:, 0] <= 1e-6).all()
    assert (columns["constraint_error"][1:2, 1:] > 1e-3).all()


def test_requests_that_disable_the_same_are_solved_together(robot):
    keys = [
        read_solve(body(disable), robot).request.batch_key
        for disable in ([], [[]] * 3, ["hinge"], [["hinge"]] * 3, ["rail"], DISABLED)
    ]
    assert keys[0] == keys[1] != keys[2] == keys[3] != keys[4]
    assert keys[5] is None
    request = read_solve(body(DISABLED), robot).request
    assert len(request.sample().batch.enabled) == request.pattern_count == 2
    codes = {read_solve(body(disable), robot).request.code_key for disable in ([], ["rail"], ["hinge"], DISABLED)}
    assert len(codes) == 4


def test_a_robot_without_constraints_has_empty_columns(served):
    request = {"targets": [{"link": "panda_hand", "positions": POSITIONS}], "include": ["constraints"]}
    answer = served.post("/v1/robots/panda/solve", json=request).json()
    assert answer["constraint_error"] == answer["closing_joint_q"] == [[], [], []]
    assert answer["constraint_names"] == answer["closing_coordinate_names"] == []


@pytest.mark.parametrize(
    ("disable", "code", "pointer"),
    [
        (["tray"], "unknown_constraint", "/0"),
        ([["hinge"], ["tray"], []], "unknown_constraint", "/1/0"),
        ([["hinge"]], "wrong_shape", ""),
        ("hinge", "wrong_type", ""),
        ([1], "wrong_type", "/0"),
        ([["hinge"], "hinge", []], "wrong_type", "/1"),
        (["hinge", ["hinge"]], "wrong_type", "/1"),
        (None, "wrong_type", ""),
    ],
)
def test_what_disables_nothing_is_refused(served, disable, code, pointer):
    reply = served.post("/v1/robots/held/solve", json=body(disable))
    assert reply.status_code == 422
    faults = reply.json()["errors"]
    assert [(fault["code"], fault["pointer"]) for fault in faults] == [(code, f"/constraints/disable{pointer}")]


@pytest.mark.evidence
def test_the_client_disables_constraints(served, expected):
    with Client("http://testserver", transport=served._transport) as client:
        result = client.solve("held", POSITIONS, link=LEFT, constraints={"disable": DISABLED}, include=["constraints"])
    np.testing.assert_array_equal(result.constraint_error, expected.constraint_error)
    assert result.constraint_names == ("object", "rail", "hinge")
    assert result.closing_coordinate_names == ("hinge/angle_z", "hinge/angle_x")
