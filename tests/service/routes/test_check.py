"""Checks of configurations over HTTP: as in Python, in both encodings, refused where they would take long."""

import numpy as np
import pytest

from ik_service.robots import CollisionModel
from ik_service.robots.readers.world_file import read_world
from ik_service.service.schema.collision import MAX_CHECK_EFFORT
from tests.service.conftest import serving
from tests.service.documents.test_worlds import OBJECTS
from tests.service.messages import JSON, MSGPACK, answered, post, problem

COUNT = 700  # more than a block
URL = "/v1/robots/cell/check"


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
    shown = answered(served_cell, URL, body, kind)
    assert np.array(shown["clearance_m"]).tobytes() == expected.clearance.tobytes()
    np.testing.assert_array_equal(shown["closest"], expected.closest)
    assert shown["collision_names"] == list(expected.names)
    alone = answered(served_cell, URL, {"joint_q": joint_q[:3]}, kind)
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
def test_what_is_wrong_is_named(served_cell, robot, fields, pointer, code):
    problem(post(served_cell, f"/v1/robots/{robot}/check", fields), 422, code, pointer)


def test_a_check_that_would_take_long_is_refused_with_what_is_allowed(served_cell, cell):
    objects = {str(k): {"shape": "sphere", "radius": 0.1} for k in range(256)}
    body = {"joint_q": [[0] * 7] * 50_000, "world": {"objects": objects}}
    (fault,) = problem(post(served_cell, URL, body), 422, "out_of_range")["errors"]
    allowed = int(fault["detail"].split()[-1].rstrip("."))
    spheres = cell.body_spheres
    counts = np.diff(spheres.link_start).tolist()
    pairs = sum(counts[a] * counts[b] for a, b in spheres.pairs)
    assert allowed == MAX_CHECK_EFFORT // (pairs + len(spheres.radii) * 257)
