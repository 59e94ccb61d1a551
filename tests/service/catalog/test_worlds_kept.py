"""Worlds put, replaced, deleted and named by requests over HTTP, and kept in a folder that processes share."""

import logging

import msgpack
import numpy as np
import pytest

from ik_service.robots import Box, World
from ik_service.robots.readers.world_file import read_world, world_document
from ik_service.service.catalog.entries import Precondition
from ik_service.service.catalog.world_catalog import WorldCatalog, world_text
from ik_service.service.codecs.json_codec import JsonCodec
from ik_service.service.schema.collision import MAX_KEPT_NODES, MAX_KEPT_OBJECTS
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
