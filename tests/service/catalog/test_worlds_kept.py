"""Worlds put, replaced, deleted and named by requests over HTTP, and kept in a folder that processes share."""

import logging

import msgpack
import numpy as np
import pytest

from ik_service import load_robot
from ik_service.packed_columns import packed
from ik_service.robots import Box, World
from ik_service.robots.readers.world_file import read_world, world_document
from ik_service.service.catalog.entries import Precondition
from ik_service.service.catalog.world_catalog import WorldCatalog, world_store, world_text
from ik_service.service.codecs.json_codec import JsonCodec
from ik_service.service.schema.collision import MAX_KEPT_NODES, MAX_KEPT_OBJECTS
from tests.service.catalog.conftest import READER_KEY, problem

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
URL = "/v1/worlds/cell"
TARGET = {"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]], "orientations_xyzw": [[1, 0, 0, 0]]}


@pytest.fixture
def kept(open_client):
    reply = open_client.put(URL, json=CELL)
    assert reply.status_code == 201, reply.text
    yield reply
    open_client.delete(URL)


def same(one, other):
    """Whether two worlds have the same objects, in the same order."""
    documents = [world_document(world)["objects"] for world in (one, other)]
    return list(documents[0]) == list(documents[1]) and all(
        np.array_equal(documents[0][name][key], documents[1][name][key])
        for name in documents[0]
        for key in documents[0][name]
    )


def test_a_world_is_put_named_replaced_and_deleted(open_client, folder, kept):
    assert (kept.headers["location"], kept.json()) == (URL, {"name": "cell", "objects": 6, "nodes": VALUES.size})
    assert open_client.get("/v1/worlds").json() == {"worlds": [kept.json()]}
    shown = open_client.get(URL)
    assert shown.headers["etag"] == kept.headers["etag"]
    assert same(read_world(shown.json()), read_world(CELL))
    sent = open_client.post(
        "/v1/robots/panda/solve", json={"targets": [TARGET], "world": CELL, "include": ["clearance"]}
    )
    named = {"targets": [TARGET], "world": {"name": "cell"}, "include": ["clearance"]}
    answer = open_client.post("/v1/robots/panda/solve", json=named).json()
    for column in ("joint_q", "clearance_m", "closest", "collision_names"):
        assert answer[column] == sent.json()[column]
    empty = {"objects": {"table": TABLE}}
    replaced = open_client.put(URL, json=empty, headers={"If-Match": kept.headers["etag"]})
    assert (replaced.status_code, replaced.json()["objects"]) == (200, 1)
    after = open_client.post("/v1/robots/panda/solve", json=named).json()
    assert after["collision_names"][-1] == "table"
    problem(open_client.put(URL, json=CELL, headers={"If-None-Match": "*"}), 412, "precondition_failed")
    problem(open_client.put(URL, json=CELL, headers={"If-Match": kept.headers["etag"]}), 412, "precondition_failed")
    assert open_client.delete(URL).status_code == 204
    problem(open_client.get(URL), 404, "unknown_world")
    problem(open_client.delete(URL), 404, "unknown_world")
    gone = open_client.post("/v1/robots/panda/solve", json=named)
    assert (gone.status_code, gone.json()["errors"][0]["code"]) == (422, "unknown_world")
    assert not list(folder.glob("*.world"))


def test_a_check_names_a_world_and_what_of_it_is_not_there(open_client, kept):
    robot, world = load_robot("panda"), read_world(CELL)
    joint_q = robot.random_joint_q(np.random.default_rng(0), 10)
    body = {"joint_q": joint_q.tolist(), "world": {"name": "cell", "disable": ["rock", "wall"]}}
    answer = open_client.post("/v1/robots/panda/check", json=body).json()
    enabled = np.array([name not in ("rock", "wall") for name in world.names])
    np.testing.assert_allclose(answer["clearance_m"], robot.collision(joint_q, world, enabled).clearance, atol=1e-12)


def test_messagepack_has_grids_as_bytes(open_client, kept):
    headers = {"Content-Type": "application/msgpack", "Accept": "application/msgpack"}
    objects = {"rock": {**ROCK, "values": packed(VALUES)}, "table": TABLE}
    put = open_client.put("/v1/worlds/other", content=msgpack.packb({"objects": objects}), headers=headers)
    assert (put.status_code, msgpack.unpackb(put.content)["nodes"]) == (201, VALUES.size)
    shown = msgpack.unpackb(open_client.get("/v1/worlds/other", headers={"Accept": "application/msgpack"}).content)
    values = shown["objects"]["rock"]["values"]
    assert (values["dtype"], values["shape"], bytes(values["data"])) == (
        "float32",
        list(VALUES.shape),
        VALUES.tobytes(),
    )
    assert open_client.delete("/v1/worlds/other").status_code == 204


def test_only_who_may_puts_worlds(open_client, kept):
    reader = {"X-API-Key": READER_KEY}
    problem(open_client.put(URL, json=CELL, headers=reader), 403, "key_not_allowed")
    problem(open_client.delete(URL, headers=reader), 403, "key_not_allowed")
    assert open_client.get(URL, headers=reader).status_code == 200


@pytest.mark.parametrize(
    ("name", "body", "status", "code"),
    [
        ("Cell", CELL, 422, "invalid_world_name"),
        ("cell", {"objects": {"a": {"shape": "cone"}}}, 422, "invalid_value"),
        ("cell", {"objects": {}, "disable": []}, 422, "unknown_field"),
        ("cell", {"objects": {str(k): TABLE for k in range(MAX_KEPT_OBJECTS + 1)}}, 422, "invalid_value"),
        ("cell", {"objects": {"a": {"shape": "grid", "file": "/etc/passwd"}}}, 422, "invalid_value"),
    ],
)
def test_what_is_no_world_is_refused(open_client, name, body, status, code):
    reply = open_client.put(f"/v1/worlds/{name}", json=body)
    assert reply.status_code == status, reply.text
    assert code in (reply.json()["code"], *(error["code"] for error in reply.json().get("errors") or ()))
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
        ({"name": "other"}, "/world/name", "unknown_world"),
        ({"name": 7}, "/world/name", "wrong_type"),
        ({"name": "cell", "disable": ["fence"]}, "/world/disable/0", "unknown_object"),
    ],
)
def test_what_names_no_world_is_refused(open_client, kept, world, pointer, code):
    reply = open_client.post("/v1/robots/panda/solve", json={"targets": [TARGET], "world": world})
    assert reply.status_code == 422, reply.text
    assert (reply.json()["errors"][0]["pointer"], reply.json()["errors"][0]["code"]) == (pointer, code)


def catalog_of(folder):
    return WorldCatalog(world_store(folder), uploaders=1)


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
