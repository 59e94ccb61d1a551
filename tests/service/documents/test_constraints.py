"""Constraints of a robot over HTTP: disabled by name, for a request or for each of its problems, and reported."""

import numpy as np
import pytest

from ik_service import IKSolver, load_robot
from ik_service.robots import CoordinateConstraint, LoopConstraint
from ik_service.service.documents.robot import robot_body
from ik_service.service.documents.solve_request import read_solve
from tests.service.conftest import in_process, serving
from tests.service.messages import NPZ, answered, archive, post, problem
from tests.solver.test_loops import HELD, LEFT, RIGHT

LOOPS = [
    LoopConstraint("object", "weld", RIGHT, LEFT, reference_offset=HELD),
    LoopConstraint("rail", "point_in_plane", LEFT, None, reference_offset=(0.0, 0.0, 0.4, 0.0, 0.0, 0.0, 1.0)),
    LoopConstraint("hinge", "universal", LEFT, "left_panda_link0"),
]
URL = "/v1/robots/held/solve"
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


@pytest.mark.evidence
@pytest.mark.parametrize("encoding", ["json", "msgpack"])
def test_names_for_each_problem_give_the_bytes_that_they_give_in_process(served, expected, encoding):
    asked = {"constraints": {"disable": DISABLED}, "include": ["constraints", "islands"]}
    with in_process(served, encoding) as client:
        found = client.solve("held", POSITIONS, link=LEFT, **asked)
    assert found.success.all()
    assert found.constraint_names == ("object", "rail", "hinge")
    assert found.closing_coordinate_names == ("hinge/angle_z", "hinge/angle_x")
    for name in ("joint_q", "constraint_error", "closing_joint_q"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    rows = [[island["rows"] for island in islands] for islands in found.islands]
    held = [f"target {LEFT}", "constraint object", "constraint rail"]
    assert rows == [[held], [[f"target {LEFT}"]], [held]]


def test_a_description_lists_them_with_the_limits_of_their_closing_joints(robot):
    gear = {"name": "gear", "joint": "left_panda_joint1", "reference_joint": "left_panda_joint2"}
    gear["coefficients"] = [0.1, -2.0]
    described = robot_body("held", robot.with_coordinate_constraints([CoordinateConstraint(**gear)])).model_dump()
    assert [loop["name"] for loop in described["loops"]] == ["object", "rail", "hinge"]
    assert described["coordinate_constraints"] == [gear]
    limits = ((-np.inf, 0.5), (-0.2, 0.3), (-1.0, 1.0))
    table = LoopConstraint("table", "planar", LEFT, None, limits=limits)
    (loop,) = robot_body("held", load_robot("dual_panda").with_loops([table])).loops
    assert loop.limits == [(None, 0.5), *limits[1:]]


@pytest.mark.evidence
def test_archives_have_the_columns(served):
    query = f"?link={LEFT}&disable=hinge&disable=rail&include=constraints"
    columns = answered(served, URL + query, archive(positions=np.array(POSITIONS)), NPZ)
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
    answer = answered(served, "/v1/robots/panda/solve", request)
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
    document = problem(post(served, URL, body(disable)), 422, code, f"/constraints/disable{pointer}")
    assert len(document["errors"]) == 1
