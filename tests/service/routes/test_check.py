"""Checks of configurations over HTTP: as in Python, in both encodings, refused where they would take long."""

import msgpack
import numpy as np
import pytest

from ik_service.robots import CollisionModel
from ik_service.robots.readers.world_file import read_world
from ik_service.service.schema.collision import MAX_CHECK_EFFORT
from tests.service.conftest import serving
from tests.service.documents.test_worlds import OBJECTS

COUNT = 700  # more than a block


def ask(served_cell, robot="cell", status=200, **fields):
    reply = served_cell.post(f"/v1/robots/{robot}/check", json=fields)
    assert reply.status_code == status, reply.text
    return reply.json()


@pytest.fixture(scope="module")
def joint_q(cell):
    return cell.random_joint_q(np.random.default_rng(0), COUNT)


def test_clearances_are_those_of_python(served_cell, cell, joint_q):
    disable = [["post"] if k % 2 else [] for k in range(COUNT)]
    enabled = np.array([[name not in names for name in OBJECTS] for names in disable])
    world = read_world({"objects": OBJECTS})
    expected = cell.collision(joint_q, world, enabled)
    assert 0.01 < expected.is_free.mean() < 0.99
    shown = ask(served_cell, joint_q=joint_q.tolist(), world={"objects": OBJECTS, "disable": disable})
    assert np.array(shown["clearance_m"]).tobytes() == expected.clearance.tobytes()
    assert shown["closest"] == expected.closest.tolist()
    assert shown["collision_names"] == list(expected.names)
    alone = ask(served_cell, joint_q=joint_q[:3].tolist())
    assert alone["clearance_m"] == cell.collision(joint_q[:3]).clearance.tolist()


def test_msgpack_holds_packed_columns(served_cell, cell, joint_q):
    document = {"joint_q": joint_q.tolist(), "world": {"objects": OBJECTS}}
    reply = served_cell.post(
        "/v1/robots/cell/check",
        content=msgpack.packb(document),
        headers={"Content-Type": "application/msgpack", "Accept": "application/msgpack"},
    )
    column = msgpack.unpackb(reply.content)["clearance_m"]
    found = np.frombuffer(column["data"], column["dtype"])
    assert found.tobytes() == cell.collision(joint_q, read_world({"objects": OBJECTS})).clearance.tobytes()


def test_where_nothing_can_touch_is_null(served_cell, cell, joint_q):
    base = cell.with_collision_model(CollisionModel({"panda_link0": [[0, 0, 0, 0.1]]}, []))
    with serving(served_cell, "base", base):
        shown = ask(served_cell, "base", joint_q=joint_q[:2].tolist(), world={"objects": OBJECTS})
    assert shown["clearance_m"] == [None, None]
    assert shown["closest"] == [[-1, -1]] * 2


@pytest.mark.parametrize(
    ("robot", "fields", "pointer", "code"),
    [
        ("four_bar", {"joint_q": [[0] * 3]}, "", "no_collision_check"),
        ("cell", {"joint_q": [[0] * 6]}, "/joint_q/0", "wrong_shape"),
        ("cell", {"joint_q": [[0] * 7], "world": {"objects": {"a": 1}}}, "/world/objects", "invalid_value"),
        ("cell", {"joint_q": [[0] * 7], "world": {"disable": ["a"]}}, "/world/disable/0", "unknown_object"),
        ("cell", {}, "/joint_q", "missing_field"),
    ],
)
def test_what_is_wrong_is_named(served_cell, robot, fields, pointer, code):
    (fault,) = ask(served_cell, robot, 422, **fields)["errors"]
    assert (fault["pointer"], fault["code"]) == (pointer, code)


def test_a_check_that_would_take_long_is_refused_with_what_is_allowed(served_cell, cell):
    objects = {str(k): {"shape": "sphere", "radius": 0.1} for k in range(256)}
    (fault,) = ask(served_cell, status=422, joint_q=[[0] * 7] * 50_000, world={"objects": objects})["errors"]
    assert fault["code"] == "out_of_range"
    allowed = int(fault["detail"].split()[-1].rstrip("."))
    spheres = cell.body_spheres
    counts = np.diff(spheres.link_start).tolist()
    pairs = sum(counts[a] * counts[b] for a, b in spheres.pairs)
    assert allowed == MAX_CHECK_EFFORT // (pairs + len(spheres.radii) * 257)
