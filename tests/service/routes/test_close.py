"""Closing loops and checks of configurations over HTTP: as in Python, in both encodings, refused where too long."""

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.robots import CollisionModel, CoordinateConstraint, VelocityConstraint
from ik_service.robots.readers.world_file import read_world
from ik_service.service.schema.close import CLOSE_REQUEST, EFFORT_OF_ONE, MAX_EFFORT
from ik_service.service.schema.collision import MAX_CHECK_EFFORT
from tests.service.conftest import serving
from tests.service.documents.test_worlds import OBJECTS
from tests.service.messages import JSON, MSGPACK, NPZ, answered, post, problem

CLOSED = 1e-10
URL = "/v1/robots/four_bar/close"


def ask(client, robot="four_bar", kind=JSON, **fields):
    return answered(client, f"/v1/robots/{robot}/close", {**CLOSE_REQUEST, **fields}, kind)


@pytest.fixture(scope="module")
def robot():
    return load_robot("four_bar")


@pytest.mark.parametrize("kind", [JSON, MSGPACK])
def test_configurations_are_closed_as_in_python(client, robot, kind):
    joint_q = robot.random_joint_q(np.random.default_rng(0), 20)
    shown = ask(client, kind=kind, joint_q=joint_q, solutions=2, random_seed=5)
    found = robot.constraints.close(joint_q, ["crank_joint"], solutions=2, seed=5)
    for name in ("joint_q", "closing_joint_q", "solutions"):
        assert np.array(shown[name]).tobytes() == getattr(found, name).tobytes(), name
    assert np.array(shown["success"]).tolist() == [True] * 20
    assert np.array(shown["status"]).tolist() == ["closed"] * 20
    assert np.array(shown["iterations"]).tolist() == found.iterations.tolist()
    assert shown["constraint_names"] == ["pin"]
    assert np.array(shown["constraint_error"]).max() <= CLOSED
    assert np.abs(robot.constraints.residual(shown["joint_q"])).max() <= CLOSED
    assert shown["closing_coordinate_names"] == list(robot.constraints.coordinate_names)
    assert np.array(shown["solution_count"]).tolist() == [2] * 20
    crank = shown["coordinate_names"].index("crank_joint")
    assert [line[crank] for line in shown["joint_q"]] == joint_q[:, crank].tolist()


def test_rows_of_modes_that_there_are_not_are_null(client):
    shown = ask(client, solutions=3)
    assert (shown["solution_count"], shown["solutions"][0][2]) == ([2], [None, None, None])
    assert "solutions" not in ask(client, solutions=1)


def test_what_cannot_be_closed_is_an_answer(client, robot):
    shown = ask(client, frozen=list(robot.joint_names), solutions=1)
    assert shown["success"] == [False]
    assert shown["status"][0] in ("open", "blocked_by_limits")
    assert shown["joint_q"] == CLOSE_REQUEST["joint_q"]
    assert shown["constraint_error"][0][0] > CLOSED


def test_disabled_constraints_are_left_open(client):
    start = [[0.4, 0.0, 0.7], [0.4, 0.0, 0.7]]
    shown = ask(client, joint_q=start, constraints={"disable": [["pin"], []]}, solutions=1)
    assert shown["joint_q"][0] == start[0]
    assert shown["constraint_error"][0][0] > CLOSED
    assert shown["constraint_error"][1][0] <= CLOSED
    assert shown["success"] == [True, True]


def test_constraints_are_disabled_by_name_whatever_else_there_is(client, robot):
    """Constraints on velocities are no part of a solve; `robot.constraints` has them between the others."""
    robot = robot.with_velocity_constraints([VelocityConstraint("roll", "rolling", "coupler", radius=0.1)])
    robot = robot.with_coordinate_constraints([CoordinateConstraint("cam", "coupler_joint", "crank_joint", (0.1, 0.5))])
    assert robot.constraints.names() == ("pin", "roll", "cam")
    with serving(client, "bar", robot):
        shown = ask(client, "bar", constraints={"disable": ["cam"]}, solutions=1)
    pin, roll, cam = shown["constraint_error"][0]
    assert shown["success"] == [True]
    assert pin <= CLOSED
    assert roll == 0.0
    assert cam > CLOSED


def test_a_robot_without_loops_is_closed_as_it_stands(client, panda):
    shown = ask(client, "panda", joint_q=panda.mid_joint_q[None], frozen=[], solutions=1)
    assert (shown["success"], shown["constraint_names"]) == ([True], [])
    assert shown["joint_q"] == [panda.mid_joint_q.tolist()]


LINE = CLOSE_REQUEST["joint_q"][0]


@pytest.mark.parametrize(
    ("fields", "pointer", "code"),
    [
        ({"joint_q": [[0.0, 0.0]]}, "/joint_q/0", "wrong_shape"),
        ({"joint_q": [[0.0, 0.0, 1e300]]}, "/joint_q/0/2", "out_of_range"),
        ({"frozen": ["crank_joint", "nix"]}, "/frozen/1", "unknown_joint"),
        ({"constraints": {"disable": ["nix"]}}, "/constraints/disable/0", "unknown_constraint"),
        ({"solutions": 17}, "/solutions", "out_of_range"),
        ({"attempts": 1000}, "/attempts", "unknown_field"),
    ],
)
def test_wrong_fields_are_named(client, fields, pointer, code):
    problem(post(client, URL, {**CLOSE_REQUEST, **fields}), 422, code, pointer)


def test_work_of_a_request_is_bounded(client, robot):
    most = MAX_EFFORT // (2 * (4 * robot.joint_dof_count + EFFORT_OF_ONE))
    problem(post(client, URL, {**CLOSE_REQUEST, "joint_q": [LINE] * (most + 1)}), 422, "out_of_range", "/joint_q")
    assert ask(client, joint_q=[LINE] * most)["success"] == [True] * most


@pytest.mark.parametrize(("kinds", "status"), [((NPZ, JSON), 415), ((JSON, NPZ), 406)])
def test_archives_of_arrays_are_refused(client, kinds, status):
    reply = post(client, URL, b"{}", *kinds)
    assert reply.status_code == status
    assert "Closing of loops" in reply.json()["detail"]


# ---------------------------------------------------------------------- checks of configurations
COUNT = 700  # more than a block
CHECK = "/v1/robots/cell/check"


@pytest.fixture(scope="module")
def joint_q(cell):
    return cell.random_joint_q(np.random.default_rng(0), COUNT)


@pytest.mark.parametrize("kind", [JSON, MSGPACK])
def test_clearances_are_those_of_python(served_cell, cell, joint_q, kind):
    disable = [["post"] if k % 2 else [] for k in range(COUNT)]
    enabled = np.array([[name not in names for name in OBJECTS] for names in disable])
    expected = cell.collision(joint_q, read_world({"objects": OBJECTS}), enabled)
    assert 0.01 < expected.is_free.mean() < 0.99
    body = {"joint_q": joint_q, "world": {"objects": OBJECTS, "disable": disable}}
    shown = answered(served_cell, CHECK, body, kind)
    assert np.array(shown["clearance_m"]).tobytes() == expected.clearance.tobytes()
    np.testing.assert_array_equal(shown["closest"], expected.closest)
    assert shown["collision_names"] == list(expected.names)
    alone = answered(served_cell, CHECK, {"joint_q": joint_q[:3]}, kind)
    np.testing.assert_array_equal(alone["clearance_m"], cell.collision(joint_q[:3]).clearance)


def test_where_nothing_can_touch_is_null(served_cell, cell, joint_q):
    base = cell.with_collision_model(CollisionModel({"panda_link0": [[0, 0, 0, 0.1]]}, []))
    with serving(served_cell, "base", base):
        body = {"joint_q": joint_q[:2], "world": {"objects": OBJECTS}}
        shown = answered(served_cell, "/v1/robots/base/check", body)
    assert (shown["clearance_m"], shown["closest"]) == ([None, None], [[-1, -1]] * 2)


@pytest.mark.parametrize(
    ("robot", "fields", "pointer", "code"),
    [
        ("four_bar", {"joint_q": [[0] * 3]}, "", "no_collision_check"),
        ("cell", {"joint_q": [[0] * 6]}, "/joint_q/0", "wrong_shape"),
        ("cell", {}, "/joint_q", "missing_field"),
    ],
)
def test_what_cannot_be_checked_is_named(served_cell, robot, fields, pointer, code):
    problem(post(served_cell, f"/v1/robots/{robot}/check", fields), 422, code, pointer)


def test_a_check_that_would_take_long_is_refused_with_what_is_allowed(served_cell, cell):
    objects = {str(k): {"shape": "sphere", "radius": 0.1} for k in range(256)}
    body = {"joint_q": [[0] * 7] * 50_000, "world": {"objects": objects}}
    (fault,) = problem(post(served_cell, CHECK, body), 422, "out_of_range")["errors"]
    allowed = int(fault["detail"].split()[-1].rstrip("."))
    spheres = cell.body_spheres
    counts = np.diff(spheres.link_start).tolist()
    pairs = sum(counts[a] * counts[b] for a, b in spheres.pairs)
    assert allowed == MAX_CHECK_EFFORT // (pairs + len(spheres.radii) * 257)
