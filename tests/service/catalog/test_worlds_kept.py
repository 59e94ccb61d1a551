"""Worlds and robots with collision shapes: put, replaced, deleted, named by requests, and kept in a shared folder."""

import logging

import msgpack
import numpy as np
import pytest

from ik_service.errors import RobotFileError
from ik_service.robots import Box, World, load_urdf
from ik_service.robots.readers.world_file import read_world, world_document
from ik_service.service.catalog.entries import Precondition
from ik_service.service.catalog.robot_catalog import PUT_SPHERES_MAX, RobotCatalog, read_uploaded, with_choices
from ik_service.service.catalog.world_catalog import WorldCatalog, world_text
from ik_service.service.codecs.json_codec import JsonCodec
from ik_service.service.schema.collision import MAX_KEPT_NODES, MAX_KEPT_OBJECTS
from tests.service.catalog.conftest import XML
from tests.service.catalog.conftest import kept as kept_at
from tests.service.messages import MSGPACK, answered, packed, post, problem, read, written

TABLE = {"shape": "box", "size": [2, 2, 0.1], "position": [0, 0, -0.1]}
VALUES = np.random.default_rng(0).uniform(0.1, 0.4, (3, 4, 5)).astype(np.float32)
ROCK = {"shape": "grid", "spacing": 0.2, "position": [0.3, -0.2, -0.2], "orientation_xyzw": [0, 0, 0.6, 0.8]}
CELL = {
    "objects": {
        "table": TABLE,
        "ball": {"shape": "sphere", "radius": 0.1, "position": [0.5, 0.2, 0.3]},
        "post": {"shape": "capsule", "radius": 0.04, "length": 1},
        "can": {"shape": "cylinder", "radius": 0.04, "length": 0.3, "position": [0.6, 0, 0.2]},
        "wall": {"shape": "half_space", "normal": [0.6, 0, 0.8], "offset": -0.5},
        "rock": {**ROCK, "values": VALUES.tolist()},
    }
}
URL, SOLVE = "/v1/worlds/cell", "/v1/robots/panda/solve"
TARGET = {"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]], "orientations_xyzw": [[1, 0, 0, 0]]}


@pytest.fixture
def kept(open_client):
    with kept_at(open_client, URL, CELL) as reply:
        yield reply


def same(one, other):
    """Whether two worlds have the same objects, in the same order."""
    documents = [world_document(world)["objects"] for world in (one, other)]
    return list(documents[0]) == list(documents[1]) and all(
        np.array_equal(documents[0][name][key], documents[1][name][key])
        for name in documents[0]
        for key in documents[0][name]
    )


def test_a_world_is_put_named_replaced_and_deleted(open_client, folder):
    named = {"targets": [TARGET], "world": {"name": "cell"}, "include": ["clearance"]}
    with kept_at(open_client, URL, CELL) as kept:
        assert (kept.headers["location"], kept.json()) == (URL, {"name": "cell", "objects": 6, "nodes": VALUES.size})
        assert open_client.get("/v1/worlds").json() == {"worlds": [kept.json()]}
        shown = open_client.get(URL)
        assert shown.headers["etag"] == kept.headers["etag"]
        assert same(read_world(shown.json()), read_world(CELL))
        answer, sent = (answered(open_client, SOLVE, {**named, "world": one}) for one in ({"name": "cell"}, CELL))
        for column in ("joint_q", "clearance_m", "closest", "collision_names"):
            assert answer[column] == sent[column]
        match = {"If-Match": kept.headers["etag"]}
        replaced = open_client.put(URL, json={"objects": {"table": TABLE}}, headers=match)
        assert (replaced.status_code, replaced.json()["objects"]) == (200, 1)
        assert answered(open_client, SOLVE, named)["collision_names"][-1] == "table"
        for wrong in ({"If-None-Match": "*"}, match):
            problem(open_client.put(URL, json=CELL, headers=wrong), 412, "precondition_failed")
    problem(open_client.get(URL), 404, "unknown_world")
    problem(open_client.delete(URL), 404, "unknown_world")
    problem(post(open_client, SOLVE, named), 422, "unknown_world", "/world/name")
    assert not list(folder.glob("*.world"))


@pytest.mark.usefixtures("kept")
def test_a_check_names_a_world_and_what_of_it_is_not_there(open_client, panda):
    world, joint_q = read_world(CELL), panda.random_joint_q(np.random.default_rng(0), 10)
    body = {"joint_q": joint_q, "world": {"name": "cell", "disable": ["rock", "wall"]}}
    answer = answered(open_client, "/v1/robots/panda/check", body)
    enabled = np.array([name not in ("rock", "wall") for name in world.names])
    np.testing.assert_allclose(answer["clearance_m"], panda.collision(joint_q, world, enabled).clearance, atol=1e-12)


def test_messagepack_has_grids_as_bytes(open_client):
    headers = {"Content-Type": MSGPACK, "Accept": MSGPACK}
    body = written({"objects": {"rock": {**ROCK, "values": packed(VALUES, "float32")}, "table": TABLE}}, MSGPACK)
    put = open_client.put(URL, content=body, headers=headers)
    assert (put.status_code, read(put.content, MSGPACK)["nodes"]) == (201, VALUES.size)
    shown = read(open_client.get(URL, headers=headers).content, MSGPACK)
    values = shown["objects"]["rock"]["values"]
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, VALUES)
    assert open_client.delete(URL).status_code == 204


@pytest.mark.parametrize(
    ("name", "body", "code"),
    [
        ("Cell", CELL, "invalid_world_name"),
        ("cell", {"objects": {"a": {"shape": "cone"}}}, "invalid_value"),
        ("cell", {"objects": {}, "disable": []}, "unknown_field"),
        ("cell", {"objects": {str(k): TABLE for k in range(MAX_KEPT_OBJECTS + 1)}}, "invalid_value"),
        ("cell", {"objects": {"a": {"shape": "grid", "file": "/etc/passwd"}}}, "invalid_value"),
    ],
)
def test_what_is_no_world_is_refused(open_client, name, body, code):
    problem(open_client.put(f"/v1/worlds/{name}", json=body), 422, code)
    problem(open_client.get("/v1/worlds/cell"), 404, "unknown_world")


def test_a_world_that_unpacks_to_too_much_is_refused(open_client, monkeypatch):
    monkeypatch.setattr(JsonCodec, "decoded_bytes", lambda codec, body, limit: 1 << 50)
    problem(open_client.put("/v1/worlds/cell", json={"objects": {}}), 503, "queue_full")


def test_too_many_nodes_are_refused(open_client):
    values = {"dtype": "float32", "shape": [2, 2, MAX_KEPT_NODES // 4 + 1]}
    values["data"] = bytes(4 * (MAX_KEPT_NODES + 4))
    content = msgpack.packb({"objects": {"a": {"shape": "grid", "spacing": 1e-3, "values": values}}})
    reply = open_client.put(URL, content=content, headers={"Content-Type": "application/msgpack"})
    assert reply.status_code == 422, reply.text
    assert f"Allowed in a world that is kept: {MAX_KEPT_NODES}" in reply.json()["errors"][0]["detail"]


@pytest.mark.parametrize(
    ("world", "pointer", "code"),
    [
        ({"name": "cell", "objects": {"table": TABLE}}, "/world/objects", "invalid_value"),
        ({"name": 7}, "/world/name", "wrong_type"),
        ({"name": "cell", "disable": ["fence"]}, "/world/disable/0", "unknown_object"),
    ],
)
@pytest.mark.usefixtures("kept")
def test_what_names_no_world_is_refused(open_client, world, pointer, code):
    problem(post(open_client, SOLVE, {"targets": [TARGET], "world": world}), 422, code, pointer)


def catalog_of(folder):
    return WorldCatalog(folder, uploaders=1)


def test_processes_share_the_folder_and_leave_out_what_is_damaged(tmp_path, caplog):
    one, other = catalog_of(tmp_path), catalog_of(tmp_path)
    world = World({"box": Box((1, 1, 1))})
    one.put("cell", world_text(world), Precondition())
    other.refresh()
    assert same(other.worlds["cell"], world)
    (tmp_path / "bad.world").write_bytes(b"no world")
    (tmp_path / "listed.world").write_bytes(msgpack.packb([1]))
    (tmp_path / "arm.urdf").write_text("<robot/>")
    with caplog.at_level(logging.ERROR):
        assert list(catalog_of(tmp_path).worlds) == ["cell"]
    assert sum("is left out, its file is not as it must be" in record.message for record in caplog.records) == 2
    assert not any("arm" in record.message for record in caplog.records)
    other.delete("cell", Precondition())
    one.refresh()
    assert not one.worlds


# ---------------------------------------------------------------------- robots with the shapes of their file
SHAPE = "<collision><origin xyz='{x} 0 0'/><geometry>{shape}</geometry></collision>"
BALL, BOX = '<sphere radius="0.04"/>', '<box size="0.2 0.05 0.05"/>'
ARM = """<robot name="arm">
  <link name="base">{base}</link><link name="upper">{upper}</link><link name="fore">{fore}</link>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
  <joint name="elbow" type="revolute"><parent link="upper"/><child link="fore"/><origin xyz="0.4 0 0"/>
    <axis xyz="0 0 1"/><limit lower="-3" upper="3" effort="1" velocity="1"/></joint></robot>"""


def arm(upper=BALL, count=1):
    shapes = "".join(SHAPE.format(x=0.2 + 1e-4 * k, shape=upper) for k in range(count))
    fore = "".join(SHAPE.format(x=x, shape=BALL) for x in (0.1, 0.2, 0.3, 0.4))
    return ARM.format(base=SHAPE.format(x=0, shape=BALL), upper=shapes, fore=fore).encode()


def test_links_keep_off_each_other_also_after_a_restart(open_client, folder):
    url = "/v1/robots/folded_arm"
    with kept_at(open_client, f"{url}?collision=shapes&constraints=ignore", arm()) as put:
        model = put.json()["collision"]
        assert model["pairs"] == [["base", "fore"]]
        assert model["spheres"]["base"] == [[0.0, 0.0, 0.0, 0.04]]
        assert model["spheres"]["fore"] == [[x, 0.0, 0.0, 0.04] for x in (0.1, 0.2, 0.3, 0.4)]
        expected = load_urdf(arm(), collision="shapes")
        assert put.json()["content_hash"] == expected.content_hash
        folded = answered(open_client, f"{url}/check", {"joint_q": [[0, 0], [0, 3]]})["clearance_m"]
        assert folded == expected.collision([[0.0, 0.0], [0.0, 3.0]]).clearance.tolist()
        assert folded[0] > 0.0 > folded[1]
        free = answered(open_client, f"{url}/solve", {"targets": [{"link": "fore", "positions": [[0.4, 0, 0]]}]})
        assert free["status"] == ["converged"]
        stored = open_client.get(f"{url}/urdf").content
        assert stored.startswith(arm())
        assert stored.endswith(b'<?ik_service constraints="ignore" collision="shapes"?>\n')
        restarted = RobotCatalog({}, folder)
        assert restarted.entry("folded_arm").model.content_hash == expected.content_hash
        for choice, text, found in (("shapes", stored, model), (None, arm(), None), ("ignore", stored, None)):
            again = open_client.put(url, params=choice and {"collision": choice}, content=text, headers=XML)
            assert again.json()["collision"] == found
        problem(open_client.put(f"{url}?collision=meshes", content=arm(), headers=XML), 422, "invalid_value")


NO_SPHERES = "link 'upper' has shapes that are no spheres"


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (arm('<mesh filename="upper.stl"/>'), NO_SPHERES),
        (arm(BOX), NO_SPHERES),
        (arm('<capsule radius="0.001" length="1e6"/>'), NO_SPHERES),
        (b'<robot name="one"><link name="base"/></robot>', "it has no collision shapes"),
    ],
)
def test_a_warning_says_why_there_is_no_model(text, warning):
    robot = read_uploaded(with_choices(text, collision="shapes"))
    assert robot.collision_model is None
    assert robot.warnings == (f"There is no collision model: {warning}.",)
    assert read_uploaded(text).warnings == ()


def test_spheres_are_bounded():
    many = read_uploaded(with_choices(arm(BALL, 256), collision="shapes"))  # the most shapes of a link
    assert many.collision_model.sphere_count == 256 + 5
    fore = "".join(SHAPE.format(x=1e-4 * k, shape=BALL) for k in range(256))
    text = ARM.format(base=SHAPE.format(x=0, shape=BALL), upper=fore, fore=fore).encode()
    with pytest.raises(RobotFileError, match=f"has 513 spheres for collision. Allowed: {PUT_SPHERES_MAX}"):
        read_uploaded(with_choices(text, collision="shapes"))


def test_what_is_not_chosen_stays_as_a_line_of_the_text_says():
    text = arm()
    shapes = with_choices(text, collision="shapes")
    both = with_choices(shapes, constraints="ignore")
    assert both == with_choices(text, constraints="ignore", collision="shapes")
    assert with_choices(both) == both
    assert with_choices(both, collision="ignore") == with_choices(text, constraints="ignore")
    assert with_choices(both, collision="ignore", constraints="read") == text
