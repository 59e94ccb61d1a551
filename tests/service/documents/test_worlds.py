"""Worlds over HTTP: objects in a request, per problem or not, and clearances in its answer."""

import dataclasses
import pickle
import threading
import tracemalloc

import numpy as np
import pytest
from starlette.datastructures import Headers

from ik_service import IKSolver, load_robot
from ik_service.robots import AttachedObject, Sphere, World
from ik_service.robots.readers.world_file import read_world
from ik_service.service.codecs.json_codec import JsonCodec
from ik_service.service.codecs.media_types import answer_codec
from ik_service.service.documents import solve_request
from ik_service.service.documents.solve_answer import array_bytes, solve_bytes
from ik_service.service.documents.solve_request import read_solve
from ik_service.service.documents.surroundings import read_surroundings
from ik_service.service.errors.exceptions import FaultyFieldsError
from ik_service.service.routes import check
from ik_service.service.schema.collision import MAX_GRID_NODES, REQUEST_OBJECTS_MAX
from ik_service.service.schema.limits import MAX_SWITCH_COUNT
from tests.service.conftest import COLUMNS, assert_one_batch, in_process
from tests.service.messages import JSON, KINDS, answered, post, problem
from tests.solver.test_collision import HAND, free_targets

COUNT, SOLVE = 6, "/v1/robots/cell/solve"
OBJECTS = {
    "table": {"shape": "box", "size": [2, 2, 0.1], "position": [0, 0, -0.1]},
    "post": {"shape": "capsule", "radius": 0.04, "length": 1, "position": [0.5, 0.3, 0.4]},
    "wall": {"shape": "half_space", "normal": [1, 0, 0], "offset": -0.5},
}
POSTURE = {"type": "posture", "joint_q_reference": [0.0] * 7}
SHELF = {"shelf": {"shape": "box", "size": [0.5, 0.6, 0.04], "position": [0.55, 0, 0.5]}}
FURTHER = {"options": {"margin_m": 0.01}, "include": ["advice", "clearance"]}
GRID = {"shape": "grid", "spacing": 0.3, "position": [0.2, -0.5, -0.2]}
ROD = {"link": HAND, "spheres": [[0, 0, 0.1, 0.03], [0, 0, 0.15, 0.03]]}
ATTACHED = {"rod": ROD, "camera": {"link": "panda_link4", "spheres": [[0, 0, 0.1, 0.04]], "touches": ["post"]}}


@pytest.fixture(scope="module")
def target(cell):
    positions, orientations = free_targets(cell, COUNT)
    return {"link": HAND, "positions": positions.tolist(), "orientations_xyzw": orientations.tolist()}


def expected_of(robot, target, enabled=None):
    """Our objects, and the result of a solve in this process among them."""
    world, poses = read_world({"objects": OBJECTS}), (np.array(target["positions"]), target["orientations_xyzw"])
    solver, options = IKSolver(robot, [HAND], device="cpu"), {"margin": 0.01, "world_clearance": True}
    return world, solver.solve(*poses, world=world, object_enabled=enabled, options=options)


def solve(served_cell, target, world, **fields):
    return answered(served_cell, SOLVE, {"targets": [target], "world": world, **FURTHER, **fields})


def held_of(attached):
    return {name: AttachedObject(**fields) for name, fields in attached.items()}


def test_objects_can_be_absent_for_all_problems_or_for_some(served_cell, cell, target):
    lists = [["post"], [], ["wall", "table"]] * 2
    enabled = np.array([[name not in names for name in OBJECTS] for names in lists])
    _, expected = expected_of(cell, target, enabled)
    each = solve(served_cell, target, {"objects": OBJECTS, "disable": lists})
    np.testing.assert_array_equal(each["clearance_m"], expected.clearance)
    np.testing.assert_array_equal(each["world_clearance_m"], expected.world_clearance)
    assert (expected.world_clearance > expected.clearance).any()
    without = {name: fields for name, fields in OBJECTS.items() if name != "post"}
    all_ = solve(served_cell, target, {"objects": OBJECTS, "disable": ["post"]})
    assert all_["clearance_m"] == solve(served_cell, target, {"objects": without})["clearance_m"]


def test_requests_in_different_worlds_are_one_batch(cell, target):
    worlds = [{"objects": OBJECTS, "disable": ["post"]}, {"objects": SHELF}]
    worlds.append({"objects": OBJECTS, "disable": [["wall"]] * COUNT})
    documents = [{"targets": [target], "world": world} for world in worlds]
    assert_one_batch(cell, [read_solve(one, cell).request for one in documents], (*COLUMNS, "clearance", "closest"))
    alone = [{**document, "options": {"collision": "self"}} for document in documents]
    requests = [read_solve(document, cell).request for document in alone]
    cache = assert_one_batch(cell, requests)
    assert len({cache.solve(cell, request).joint_q.tobytes() for request in requests}) == 1
    without = read_solve({"targets": [target]}, cell).request
    assert without.batch_key != requests[0].batch_key
    assert cache.solve(cell, without).clearance.shape == (COUNT,)


def test_requests_that_carry_the_same_are_one_batch(cell, target):
    worlds = [{"objects": objects, "attached": ATTACHED} for objects in (OBJECTS, SHELF | {"post": OBJECTS["post"]})]
    worlds.append({"objects": OBJECTS, "attached": ATTACHED | {"rod": {**ROD, "touches": ["post"]}}})
    *requests, other = [read_solve({"targets": [target], "world": world}, cell).request for world in worlds]
    assert_one_batch(cell, requests)
    assert other.batch_key != requests[0].batch_key


@pytest.mark.parametrize("name", ["box", "\U0001f4e6" * 900, '"\\' * 500], ids=["box", "parcels", "escapes"])
@pytest.mark.parametrize("accept", KINDS)
def test_an_answer_has_no_more_bytes_than_were_reserved(served_cell, cell, target, name, accept):
    world = {"objects": {name: {"shape": "box", "size": [3, 3, 3]}}}
    document = {"targets": [target], "world": world, **FURTHER, "options": {"seeds": 1}}
    reply = post(served_cell, SOLVE, document, JSON, accept)
    assert reply.status_code == 200, reply.text
    codec = answer_codec(Headers({"accept": accept}), JsonCodec())
    assert len(reply.content) <= solve_bytes(cell, read_solve(document, cell), codec)[0]


def test_nodes_of_grids_are_bounded(served_cell, target):
    grid = {**GRID, "spacing": 1e-3, "values": np.ones((2, 3, MAX_GRID_NODES // 6 + 1)).tolist()}
    reply = post(served_cell, SOLVE, {"targets": [target], "world": {"objects": {"a": grid}}})
    assert reply.status_code == 422
    assert f"Allowed in one request: {MAX_GRID_NODES}" in reply.json()["errors"][0]["detail"]


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
def test_worlds_and_what_links_carry_are_those_of_a_solve_in_process(served_cell, cell, target, encoding):
    rock = {**GRID, "values": np.random.default_rng(0).uniform(0.0, 0.3, (3, 4, 5)).astype(np.float32)}
    table = {**OBJECTS["table"], "size": np.array([2, 2, 0.1]), "position": (0, 0, np.float32(-0.125))}
    held = ATTACHED | {"rod": {**ROD, "spheres": np.array(ROD["spheres"])}}
    sent = {"objects": {**OBJECTS, "table": table, "rock": rock}, "attached": held}
    lower = {**OBJECTS["table"], "position": [0, 0, -0.125]}
    world = read_world({"objects": {**OBJECTS, "table": lower, "rock": rock}})
    poses = np.array(target["positions"]), target["orientations_xyzw"]
    solver = IKSolver(cell, [HAND], device="cpu")
    options = {"margin": 0.01, "world_clearance": True}
    expected = solver.solve(*poses, world=world, attached=held_of(ATTACHED), options=options)
    asked = {"options": {"margin_m": 0.01}, "include": ["clearance", "advice"]}
    with in_process(served_cell, encoding) as one:
        found = one.solve("cell", *poses, link=HAND, world=sent, **asked)
    assert found.collision_names == (*cell.body_spheres.links, "rod", "camera", *OBJECTS, "rock")
    np.testing.assert_array_equal(found.clearance_m, expected.clearance)
    np.testing.assert_array_equal(found.world_clearance_m, expected.world_clearance)
    np.testing.assert_array_equal(found.closest, expected.closest)
    np.testing.assert_array_equal(np.asarray(found.joint_q, np.float32), expected.joint_q)
    among = cell.collision(expected.joint_q, world).clearance
    assert (expected.clearance < among).any()
    assert (among < cell.collision(expected.joint_q).clearance).any()


def test_a_check_counts_what_links_carry(served_cell, cell):
    joint_q = cell.random_joint_q(np.random.default_rng(0), 20)
    world = {"objects": OBJECTS, "attached": ATTACHED, "disable": ["wall"]}
    answer = answered(served_cell, "/v1/robots/cell/check", {"joint_q": joint_q, "world": world})
    enabled = np.array([name != "wall" for name in OBJECTS])
    check = cell.collision(joint_q, read_world({"objects": OBJECTS}), enabled, held_of(ATTACHED))
    np.testing.assert_allclose(answer["clearance_m"], check.clearance, atol=1e-12)
    assert answer["collision_names"] == [*check.names]


def carried(*attached):
    return [{"world": {"objects": OBJECTS, "attached": one}} for one in attached]


def among(*objects, **further):
    return [{"world": {"objects": one, **further}} for one in objects]


BALL = {"shape": "sphere", "radius": 1}
FAULTS = [
    # code, pointer, fields of a request
    ("wrong_type", "/world/attached", *carried([])),
    ("wrong_type", "/world/attached/rod", *carried({"rod": []}, {"rod": {"link": HAND}}, {"rod": {**ROD, "mass": 1}})),
    ("wrong_type", "/world/attached/a~1b/link", *carried({"a/b": {**ROD, "link": 1}})),
    ("unknown_link", "/world/attached/rod/link", *carried({"rod": {**ROD, "link": "hand"}})),
    ("wrong_shape", "/world/attached/rod/spheres/0", *carried({"rod": {**ROD, "spheres": [[0, 0, 0]]}})),
    ("invalid_value", "/world/attached/rod/spheres", *carried({"rod": {**ROD, "spheres": [[0, 0, 0, -1]]}})),
    ("invalid_value", "/world/attached/rod/spheres", *carried({"rod": {**ROD, "spheres": [[0, 0, 0, 1]] * 65}})),
    ("wrong_type", "/world/attached/rod/touches", *carried({"rod": {**ROD, "touches": "post"}})),
    ("invalid_value", "/world/attached", *carried({"post": ROD}, {str(k): ROD for k in range(5)})),
    ("invalid_value", "/world/objects", *among({"a": {"shape": "cone"}}, {"a": {**BALL, "radius": "1"}}, [1])),
    ("invalid_value", "/world/objects", *among({str(k): BALL for k in range(REQUEST_OBJECTS_MAX + 1)})),
    ("invalid_value", "/world/objects", *among({"a": 1}, {"a" * 1025: OBJECTS["post"]})),
    ("unknown_object", "/world/disable/0", *among(OBJECTS, disable=["door"]), {"world": {"disable": ["a"]}}),
    ("wrong_shape", "/world/disable", *among(OBJECTS, disable=[["post"]] * 2)),
]
ONLY_SOLVES = [
    ("no_collision_check", "/options/collision", {"options": {"collision": "world"}}),
    ("no_collision_check", "/include", {"options": {"collision": "off"}, "include": ["clearance"]}),
    ("out_of_range", "/options/margin_m", {"options": {"margin_m": -1}}),
]
CASES = [(code, pointer, fields) for code, pointer, *several in FAULTS for fields in several]


@pytest.mark.parametrize(
    ("route", "code", "pointer", "fields"),
    [*(("solve", *one) for one in CASES + ONLY_SOLVES), *(("check", *one) for one in CASES)],
)
def test_what_is_wrong_is_named(served_cell, cell, target, route, code, pointer, fields):
    body = {"targets": [target]} if route == "solve" else {"joint_q": [[0.0] * cell.joint_coord_count]}
    document = problem(post(served_cell, f"/v1/robots/cell/{route}", {**body, **fields}), 422, code, pointer)
    assert len(document["errors"]) == 1


@pytest.mark.parametrize(("pointer", "fields"), [("/world", *among(OBJECTS)), ("/include", {"include": ["clearance"]})])
def test_a_robot_without_a_collision_model_is_not_checked(client, pointer, fields):
    target = {"link": load_robot("four_bar").link_names[-1], "positions": [[0.4, 0.1, 0.5]]}
    reply = post(client, "/v1/robots/four_bar/solve", {"targets": [target], **fields})
    problem(reply, 422, "no_collision_check", pointer)


@pytest.mark.parametrize(
    "world", [None, {"objects": OBJECTS}, {"objects": OBJECTS, "attached": ATTACHED}], ids=["none", "world", "carried"]
)
def test_a_request_goes_to_the_process_that_compiles(cell, target, world):
    request = read_solve({"targets": [target], "world": world}, cell).request
    sent = pickle.loads(pickle.dumps(request.sample()))
    assert (sent.code_key, sent.batch_key) == (request.sample().code_key, request.sample().batch_key)
    assert [*sent.attached] == [*(ATTACHED if world and "attached" in world else {})]


def test_answers_in_contact_are_repaired_where_that_is_asked_for(served_cell, cell):
    world = read_world({"objects": OBJECTS})
    poses = free_targets(cell, 200, world)
    target = {"link": HAND, "positions": poses[0].tolist(), "orientations_xyzw": poses[1].tolist()}
    options = {"seeds": 1, "sampler": "none"}
    plain, expected = (
        IKSolver(cell, [HAND], device="cpu").solve(*poses, world=world, options={**options, "repair": repair})
        for repair in (False, True)
    )
    answer = solve(served_cell, target, {"objects": OBJECTS}, options={**options, "repair": True})
    np.testing.assert_array_equal(np.array(answer["joint_q"], np.float32), expected.joint_q)
    assert answer["success"] == expected.success.tolist()
    assert sum(answer["success"]) > plain.success.sum()


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
        answered(served_cell, f"/v1/robots/cell/{route}", {**body, "world": world})
    beside, on_the_loop = threads
    assert beside.startswith("ik-side")
    assert not on_the_loop.startswith("ik-side")


def test_objects_and_grids_leave_fewer_attempts_and_configurations(served_cell, cell):
    grid = {**GRID, "values": [[[1, 1], [1, 1]], [[1, 1], [1, 1]]]}
    boxes, grids = ({"objects": {str(k): one for k in range(256)}} for one in (OBJECTS["table"], grid))
    allowed = []
    for world in (boxes, grids):
        body = {"joint_q": [[0] * cell.joint_coord_count] * 50_000, "world": world}
        (fault,) = served_cell.post("/v1/robots/cell/check", json=body).json()["errors"]
        allowed.append(int(fault["detail"].split()[-1].rstrip(".")))
    assert 5 * allowed[1] < allowed[0]
    few = {"objects": {str(k): OBJECTS["table"] for k in range(8)}}
    for count, seeds, allowed_world, refused in ((1000, 800, boxes, grids), (7000, 1000, few, boxes)):
        target = {"link": HAND, "positions": [[0.4, 0.1, 0.5]] * count}
        body = {"targets": [target], "options": {"seeds": seeds}}
        assert read_solve({**body, "world": allowed_world}, cell).request.problem_count == count
        with pytest.raises(FaultyFieldsError, match="256 objects") as raised:
            read_solve({**body, "world": refused}, cell)
        assert "/options/seeds" in str(raised.value)
