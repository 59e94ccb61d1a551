"""Worlds over HTTP: objects in a request, per problem or not, and clearances in its answer."""

import dataclasses
import io
import pickle
import threading
import tracemalloc

import numpy as np
import pytest
from starlette.datastructures import Headers

from ik_service import IKSolver, load_robot
from ik_service.client import Client
from ik_service.robots import AttachedObject, Sphere, World
from ik_service.robots.readers.world_file import read_world
from ik_service.service.codecs.json_codec import JsonCodec
from ik_service.service.codecs.media_types import answer_codec
from ik_service.service.documents import solve_request
from ik_service.service.documents.answer_size import array_bytes, solve_bytes
from ik_service.service.documents.solve_request import read_solve
from ik_service.service.documents.surroundings import read_surroundings
from ik_service.service.errors.exceptions import FaultyFieldsError
from ik_service.service.pool.solver_cache import SolverCache
from ik_service.service.routes import check
from ik_service.service.schema.collision import MAX_GRID_NODES, REQUEST_OBJECTS_MAX
from ik_service.service.schema.limits import MAX_SWITCH_COUNT
from tests.solver.test_collision import HAND, free_targets

COUNT = 6
OBJECTS = {
    "table": {"shape": "box", "size": [2, 2, 0.1], "position": [0, 0, -0.1]},
    "post": {"shape": "capsule", "radius": 0.04, "length": 1, "position": [0.5, 0.3, 0.4]},
    "wall": {"shape": "half_space", "normal": [1, 0, 0], "offset": -0.5},
}
POSTURE = {"type": "posture", "joint_q_reference": [0.0] * 7}
SHELF = {"shelf": {"shape": "box", "size": [0.5, 0.6, 0.04], "position": [0.55, 0, 0.5]}}
FURTHER = {"options": {"margin_m": 0.01}, "include": ["advice", "clearance"]}


@pytest.fixture(scope="module")
def target(cell):
    positions, orientations = free_targets(cell, COUNT)
    return {"link": HAND, "positions": positions.tolist(), "orientations_xyzw": orientations.tolist()}


def expected_of(robot, target, objects, enabled=None, **options):
    world = read_world({"objects": objects})
    solver = IKSolver(robot, [HAND], device="cpu")
    poses = np.array(target["positions"]), np.array(target["orientations_xyzw"])
    return world, solver.solve(*poses, world=world, object_enabled=enabled, options={"margin": 0.01, **options})


def solve(served_cell, target, world, **fields):
    body = {"targets": [target], "world": world, **FURTHER, **fields}
    return served_cell.post("/v1/robots/cell/solve", json=body)


def test_a_request_has_the_bytes_that_a_solve_in_process_has(served_cell, cell, target):
    world, expected = expected_of(cell, target, OBJECTS)
    answer = solve(served_cell, target, {"objects": OBJECTS}).json()
    assert answer["collision_names"] == [*cell.body_spheres.links, *OBJECTS]
    for name in ("joint_q", "success", "closest"):
        column = getattr(expected, name)
        np.testing.assert_array_equal(np.array(answer[name], column.dtype), column)
    np.testing.assert_array_equal(answer["clearance_m"], expected.clearance)
    check = cell.collision(expected.joint_q, world)
    np.testing.assert_allclose(check.clearance, answer["clearance_m"], atol=1e-9)
    named = [tuple(answer["collision_names"][place] for place in pair) for pair in answer["closest"]]
    assert named == check.closest_pairs


def test_objects_can_be_absent_for_all_problems_or_for_some(served_cell, cell, target):
    lists = [["post"], [], ["wall", "table"]] * 2
    enabled = np.array([[name not in names for name in OBJECTS] for names in lists])
    _, expected = expected_of(cell, target, OBJECTS, enabled)
    each = solve(served_cell, target, {"objects": OBJECTS, "disable": lists}).json()
    np.testing.assert_array_equal(each["clearance_m"], expected.clearance)
    without = {name: fields for name, fields in OBJECTS.items() if name != "post"}
    all_ = solve(served_cell, target, {"objects": OBJECTS, "disable": ["post"]}).json()
    np.testing.assert_array_equal(
        all_["clearance_m"], solve(served_cell, target, {"objects": without}).json()["clearance_m"]
    )


def test_requests_in_different_worlds_are_one_batch(cell, target):
    documents = [
        {"targets": [target], "world": {"objects": OBJECTS, "disable": ["post"]}},
        {"targets": [target], "world": {"objects": SHELF}},
        {"targets": [target], "world": {"objects": OBJECTS, "disable": [["wall"]] * COUNT}},
    ]
    requests = [read_solve(document, cell).request for document in documents]
    assert len({request.batch_key for request in requests}) == 1
    cache = SolverCache("cpu")
    together = cache.solve_together(cell, requests)
    for k, request in enumerate(requests):
        alone, rows = cache.solve(cell, request), slice(k * COUNT, (k + 1) * COUNT)
        for name in ("joint_q", "success", "status", "clearance", "closest"):
            assert getattr(together, name)[rows].tobytes() == getattr(alone, name).tobytes()
    alone = [{**document, "options": {"collision": "self"}} for document in documents]
    requests = [read_solve(document, cell).request for document in alone]
    together = cache.solve_together(cell, requests)
    own = cache.solve(cell, requests[0])
    for k in range(len(requests)):
        assert together.joint_q[k * COUNT : (k + 1) * COUNT].tobytes() == own.joint_q.tobytes()
    without = read_solve({"targets": [target]}, cell).request
    assert without.batch_key != requests[0].batch_key
    assert cache.solve(cell, without).clearance.shape == (COUNT,)


def test_an_answer_in_contact_names_the_two(served_cell, cell, target):
    around = {"box": {"shape": "box", "size": [3, 3, 3]}}
    answer = solve(served_cell, target, {"objects": around}, options={"seeds": 4}).json()
    assert set(answer["status"]) == {"blocked_by_collision"}
    assert not any(answer["success"])
    for pair, advice in zip(answer["closest"], answer["advice"], strict=True):
        first, second = (answer["collision_names"][place] for place in pair)
        assert second == "box"
        assert f"'{first}' and 'box'" in advice


def test_nothing_that_can_touch_is_null(served_cell, target):
    answer = solve(served_cell, target, {"objects": {}}, options={"collision": "self"}).json()
    assert min(answer["clearance_m"]) > 0.0
    one_link = {**target, "link": "panda_link0", "positions": [[0, 0, 0]], "orientations_xyzw": [[0, 0, 0, 1]]}
    assert solve(served_cell, one_link, {"objects": OBJECTS}).status_code == 200


@pytest.mark.parametrize("name", ["box", "\U0001f4e6" * 900, '"\\' * 500], ids=["box", "parcels", "escapes"])
@pytest.mark.parametrize("accept", ["application/json", "application/msgpack", "application/x-npz"])
def test_an_answer_has_no_more_bytes_than_were_reserved(served_cell, cell, target, name, accept):
    document = {"targets": [target], "world": {"objects": {name: {"shape": "box", "size": [3, 3, 3]}}}, **FURTHER}
    document["options"] = {"seeds": 1}
    reply = served_cell.post("/v1/robots/cell/solve", json=document, headers={"Accept": accept})
    assert reply.status_code == 200, reply.text
    codec = answer_codec(Headers({"accept": accept}), JsonCodec())
    assert len(reply.content) <= solve_bytes(cell, read_solve(document, cell), codec)[0]


def solved_by_client(served_cell, target, encoding, objects):
    """What the client gives for a world of objects, with clearances."""
    poses = target["positions"], target["orientations_xyzw"]
    with Client("http://testserver", transport=served_cell._transport, encoding=encoding) as client:
        return client.solve("cell", *poses, link=HAND, world={"objects": objects}, include=["clearance"])


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
def test_the_client_gives_a_world_of_arrays(served_cell, cell, target, encoding):
    objects = {"table": {**OBJECTS["table"], "size": np.array([2, 2, 0.1]), "position": (0, 0, np.float32(-0.125))}}
    found = solved_by_client(served_cell, target, encoding, objects)
    world = read_world({"objects": {"table": {**OBJECTS["table"], "position": [0, 0, -0.125]}}})
    np.testing.assert_allclose(cell.collision(found.joint_q, world).clearance, found.clearance_m, atol=1e-9)
    assert found.collision_names[-1] == "table"
    assert found.closest.shape == (COUNT, 2)


GRID = {"shape": "grid", "spacing": 0.3, "position": [0.2, -0.5, -0.2]}


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
def test_the_client_gives_a_grid_as_an_array(served_cell, cell, target, encoding):
    values = np.random.default_rng(0).uniform(0.0, 0.3, (3, 4, 5)).astype(np.float32)
    objects = {"rock": {**GRID, "values": values}}
    found = solved_by_client(served_cell, target, encoding, objects)
    world = read_world({"objects": objects})
    np.testing.assert_allclose(cell.collision(found.joint_q, world).clearance, found.clearance_m, atol=1e-9)
    assert (cell.collision(found.joint_q).clearance > found.clearance_m).any()


def test_nodes_of_grids_are_bounded(served_cell, target):
    values = np.ones((2, 3, MAX_GRID_NODES // 6 + 1)).tolist()
    reply = solve(served_cell, target, {"objects": {"a": {**GRID, "spacing": 1e-3, "values": values}}})
    assert reply.status_code == 422
    assert f"Allowed in one request: {MAX_GRID_NODES}" in reply.json()["errors"][0]["detail"]


ROD = {"link": HAND, "spheres": [[0, 0, 0.1, 0.03], [0, 0, 0.15, 0.03]]}
ATTACHED = {"rod": ROD, "camera": {"link": "panda_link4", "spheres": [[0, 0, 0.1, 0.04]], "touches": ["post"]}}


def held_of(attached):
    return {name: AttachedObject(**fields) for name, fields in attached.items()}


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
def test_what_links_carry_is_that_of_a_solve_in_process(served_cell, cell, target, encoding):
    world, poses = read_world({"objects": OBJECTS}), (np.array(target["positions"]), target["orientations_xyzw"])
    options = {"margin": 0.01}
    expected = IKSolver(cell, [HAND], device="cpu").solve(
        *poses, world=world, attached=held_of(ATTACHED), options=options
    )
    arrays = {"rod": {**ROD, "spheres": np.array(ROD["spheres"])}, "camera": ATTACHED["camera"]}
    with Client("http://testserver", transport=served_cell._transport, encoding=encoding) as client:
        found = client.solve(
            "cell",
            *poses,
            link=HAND,
            world={"objects": OBJECTS, "attached": arrays},
            options={"margin_m": 0.01},
            include=["clearance", "advice"],
        )
    assert found.collision_names == (*cell.body_spheres.links, "rod", "camera", *OBJECTS)
    np.testing.assert_array_equal(found.clearance_m, expected.clearance)
    np.testing.assert_array_equal(found.closest, expected.closest)
    np.testing.assert_array_equal(np.asarray(found.joint_q, np.float32), expected.joint_q)
    without = cell.collision(expected.joint_q, world).clearance
    assert (expected.clearance < without).any()


def test_a_check_counts_what_links_carry(served_cell, cell):
    joint_q = cell.random_joint_q(np.random.default_rng(0), 20)
    world = {"objects": OBJECTS, "attached": ATTACHED, "disable": ["wall"]}
    answer = served_cell.post("/v1/robots/cell/check", json={"joint_q": joint_q.tolist(), "world": world}).json()
    enabled = np.array([name != "wall" for name in OBJECTS])
    check = cell.collision(joint_q, read_world({"objects": OBJECTS}), enabled, held_of(ATTACHED))
    np.testing.assert_allclose(answer["clearance_m"], check.clearance, atol=1e-12)
    assert answer["collision_names"] == [*check.names]


def test_requests_that_carry_the_same_are_one_batch(cell, target):
    documents = [
        {"targets": [target], "world": {"objects": OBJECTS, "attached": ATTACHED}},
        {"targets": [target], "world": {"objects": SHELF | {"post": OBJECTS["post"]}, "attached": ATTACHED}},
    ]
    requests = [read_solve(document, cell).request for document in documents]
    assert len({request.batch_key for request in requests}) == 1
    cache = SolverCache("cpu")
    together = cache.solve_together(cell, requests)
    for k, request in enumerate(requests):
        alone, rows = cache.solve(cell, request), slice(k * COUNT, (k + 1) * COUNT)
        assert together.joint_q[rows].tobytes() == alone.joint_q.tobytes()
    other = {"rod": {**ROD, "touches": ["post"]}, "camera": ATTACHED["camera"]}
    document = {"targets": [target], "world": {"objects": OBJECTS, "attached": other}}
    assert read_solve(document, cell).request.batch_key != requests[0].batch_key


@pytest.mark.parametrize(
    ("attached", "pointer", "code"),
    [
        ([], "/world/attached", "wrong_type"),
        ({"rod": []}, "/world/attached/rod", "wrong_type"),
        ({"rod": {"link": HAND}}, "/world/attached/rod", "wrong_type"),
        ({"rod": {**ROD, "mass": 1}}, "/world/attached/rod", "wrong_type"),
        ({"a/b": {**ROD, "link": 1}}, "/world/attached/a~1b/link", "wrong_type"),
        ({"rod": {**ROD, "link": "hand"}}, "/world/attached/rod/link", "unknown_link"),
        ({"rod": {**ROD, "spheres": [[0, 0, 0]]}}, "/world/attached/rod/spheres/0", "wrong_shape"),
        ({"rod": {**ROD, "spheres": [[0, 0, 0, -1]]}}, "/world/attached/rod/spheres", "invalid_value"),
        ({"rod": {**ROD, "spheres": [[0, 0, 0, 1]] * 65}}, "/world/attached/rod/spheres", "invalid_value"),
        ({"rod": {**ROD, "touches": "post"}}, "/world/attached/rod/touches", "wrong_type"),
        ({"post": ROD}, "/world/attached", "invalid_value"),
        ({str(k): ROD for k in range(5)}, "/world/attached", "invalid_value"),
    ],
)
@pytest.mark.parametrize("route", ["solve", "check"])
def test_what_is_no_attached_object_is_named(served_cell, cell, target, attached, pointer, code, route):
    world = {"objects": OBJECTS, "attached": attached}
    body = {"targets": [target]} if route == "solve" else {"joint_q": [[0.0] * cell.joint_coord_count]}
    reply = served_cell.post(f"/v1/robots/cell/{route}", json={**body, "world": world})
    assert reply.status_code == 422, reply.text
    assert (reply.json()["errors"][0]["pointer"], reply.json()["errors"][0]["code"]) == (pointer, code)


@pytest.mark.parametrize(
    "world", [None, {"objects": OBJECTS}, {"objects": OBJECTS, "attached": ATTACHED}], ids=["none", "world", "carried"]
)
def test_a_request_goes_to_the_process_that_compiles(cell, target, world):
    request = read_solve({"targets": [target], "world": world}, cell).request
    sent = pickle.loads(pickle.dumps(request.sample()))
    assert (sent.code_key, sent.batch_key) == (request.sample().code_key, request.sample().batch_key)
    assert [*sent.attached] == [*(ATTACHED if world and "attached" in world else {})]


def test_an_archive_has_the_columns(served_cell, target):
    arrays = io.BytesIO()
    np.savez(arrays, positions=target["positions"], orientations_xyzw=target["orientations_xyzw"])
    answer = served_cell.post(
        f"/v1/robots/cell/solve?link={HAND}&include=clearance&margin_m=0.02",
        content=arrays.getvalue(),
        headers={"Content-Type": "application/x-npz"},
    )
    columns = np.load(io.BytesIO(answer.content))
    assert columns["closest"].shape == (COUNT, 2)
    assert (columns["clearance_m"][columns["success"]] >= 0.02).all()


@pytest.mark.parametrize(
    ("robot", "fields", "pointer", "code"),
    [
        ("cell", {"world": {"objects": {"a": {"shape": "cone"}}}}, "/world/objects", "invalid_value"),
        ("cell", {"world": {"objects": {"a": {"shape": "sphere", "radius": "1"}}}}, "/world/objects", "invalid_value"),
        ("cell", {"world": {"objects": [1]}}, "/world/objects", "invalid_value"),
        (
            "cell",
            {"world": {"objects": {str(k): {"shape": "sphere", "radius": 1} for k in range(REQUEST_OBJECTS_MAX + 1)}}},
            "/world/objects",
            "invalid_value",
        ),
        ("cell", {"world": {"objects": {"a" * 1025: OBJECTS["post"]}}}, "/world/objects", "invalid_value"),
        ("cell", {"world": {"objects": OBJECTS, "disable": ["door"]}}, "/world/disable/0", "unknown_object"),
        ("cell", {"world": {"objects": OBJECTS, "disable": [["post"]]}}, "/world/disable", "wrong_shape"),
        ("cell", {"options": {"collision": "world"}}, "/options/collision", "no_collision_check"),
        ("cell", {"options": {"collision": "off"}, "include": ["clearance"]}, "/include", "no_collision_check"),
        ("cell", {"options": {"margin_m": -1}}, "/options/margin_m", "out_of_range"),
        ("four_bar", {"world": {"objects": OBJECTS}}, "/world", "no_collision_check"),
        ("four_bar", {"include": ["clearance"]}, "/include", "no_collision_check"),
    ],
)
def test_what_is_wrong_is_named(served_cell, target, robot, fields, pointer, code):
    own = target if robot == "cell" else {"link": load_robot(robot).link_names[-1], "positions": target["positions"]}
    answer = served_cell.post(f"/v1/robots/{robot}/solve", json={"targets": [own], **fields})
    assert answer.status_code == 422
    assert [(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]] == [(pointer, code)]


def own_lists(count, names):
    """A solve of so many problems, each with a list of its own in a kept world of 4096 objects."""
    world = {"name": "hall", "disable": [[name] for name in names] + [[]] * (count - len(names))}
    return {"problem_count": count, "objectives": [POSTURE], "world": world, "options": {"seeds": 1}}


def test_a_list_for_each_problem_takes_little_memory(cell):
    kept = {"hall": World({f"o{k}": Sphere(0.01, (9.0, 0.0, 0.01 * k)) for k in range(4096)})}
    most = MAX_SWITCH_COUNT // 4096
    tracemalloc.start()
    request = read_solve(own_lists(most, ["o1", "o2"]), cell, kept).request
    with pytest.raises(FaultyFieldsError) as raised:
        read_solve(own_lists(60_000, []), cell, kept)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(most) in str(raised.value)
    assert "/world/disable" in str(raised.value)
    assert request.object_enabled.shape == (most, 4096)
    assert np.argwhere(~request.object_enabled).tolist() == [[0, 1], [1, 2]]
    assert peak < 2 * MAX_SWITCH_COUNT
    without = dataclasses.replace(request, object_enabled=None)
    assert array_bytes(cell, request) - array_bytes(cell, without) == MAX_SWITCH_COUNT


@pytest.mark.parametrize(("lists", "expected"), [([["o0"], ["o0"]], [False, True]), ([[], []], None)])
def test_lists_that_say_the_same_are_one(cell, lists, expected):
    kept = {"hall": World({name: Sphere(0.01, (9.0, 0.0, 0.0)) for name in ("o0", "o1")})}
    document = {**own_lists(2, []), "world": {"name": "hall", "disable": lists}}
    enabled = read_solve(document, cell, kept).request.object_enabled
    assert expected == (None if enabled is None else enabled.tolist())


def test_too_many_attached_objects_are_not_read(cell, target):
    attached = {"none": 1} | {str(k): ROD for k in range(20_000)}
    with pytest.raises(FaultyFieldsError, match="Allowed: 4") as raised:
        read_solve({"targets": [target], "world": {"objects": {}, "attached": attached}}, cell)
    assert "/world/attached:" in str(raised.value)


@pytest.mark.parametrize("route", ["solve", "check"])
def test_a_world_is_read_beside_the_event_loop(served_cell, cell, target, route, monkeypatch):
    module, threads = solve_request if route == "solve" else check, []

    def recorded(*given):
        threads.append(threading.current_thread().name)
        return read_surroundings(*given)

    monkeypatch.setattr(module, "read_surroundings", recorded)
    body = {"targets": [target]} if route == "solve" else {"joint_q": [[0.0] * cell.joint_coord_count]}
    for world in ({"objects": OBJECTS}, None):
        reply = served_cell.post(f"/v1/robots/cell/{route}", json={**body, "world": world})
        assert reply.status_code == 200, reply.text
    beside, on_the_loop = threads
    assert beside.startswith("ik-side")
    assert not on_the_loop.startswith("ik-side")


def test_many_objects_leave_fewer_attempts(cell):
    target = {"link": HAND, "positions": [[0.4, 0.1, 0.5]] * 7000}
    ball = {"shape": "sphere", "radius": 0.01}
    few = {"objects": {str(k): ball for k in range(8)}}
    options = {"seeds": 1000}
    assert read_solve({"targets": [target], "world": few, "options": options}, cell).request.problem_count == 7000
    many = {"objects": {str(k): ball for k in range(REQUEST_OBJECTS_MAX)}}
    with pytest.raises(ValueError, match="256 objects") as raised:
        read_solve({"targets": [target], "world": many, "options": options}, cell)
    assert "/options/seeds" in str(raised.value)


def test_grids_leave_fewer_attempts_and_configurations(served_cell, cell):
    grid = {**GRID, "values": [[[1, 1], [1, 1]], [[1, 1], [1, 1]]]}
    boxes, grids = ({"objects": {str(k): one for k in range(256)}} for one in (OBJECTS["table"], grid))
    allowed = []
    for world in (boxes, grids):
        body = {"joint_q": [[0] * cell.joint_coord_count] * 50_000, "world": world}
        (fault,) = served_cell.post("/v1/robots/cell/check", json=body).json()["errors"]
        allowed.append(int(fault["detail"].split()[-1].rstrip(".")))
    assert 5 * allowed[1] < allowed[0]
    target = {"link": HAND, "positions": [[0.4, 0.1, 0.5]] * 1000}
    options = {"seeds": 800}
    assert read_solve({"targets": [target], "world": boxes, "options": options}, cell).request.problem_count == 1000
    with pytest.raises(FaultyFieldsError, match="256 objects"):
        read_solve({"targets": [target], "world": grids, "options": options}, cell)
