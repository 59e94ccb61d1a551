"""Clips and paths over HTTP: the results of the library, byte for byte, and refusals with their place."""

import json
from typing import Any

import numpy as np
import pytest

from ik_service import IKSolver, Target, load_robot
from ik_service.motion_columns import CLIP_COLUMNS, PATH_COLUMNS
from ik_service.robots import AttachedObject, Sphere, World
from ik_service.service.codecs.media_types import BY_NAME
from ik_service.service.documents.motion import read_clip, read_follow
from ik_service.service.documents.solve_answer import solve_bytes
from ik_service.solver.lm.status import STATUS_WORDS
from tests.service.messages import JSON, KINDS, MSGPACK, NPZ, answered, archive, packed, post, problem

URL = "/v1/robots/panda/"
READERS = {"clip": read_clip, "follow": read_follow}
CALLS = {"clip": ("fit_clip", CLIP_COLUMNS), "follow": ("follow", PATH_COLUMNS)}
COUNT, DT = 60, 0.02
START = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]
STANDS = np.arange(COUNT) < COUNT // 3
LIMITS = {"velocity": {"panda_joint1": 0.5, "panda_joint4": 0.7}, "acceleration": 15.0}
LOOSE = 8.0  # an estimate is at most so many times the answer


def circle() -> Any:
    """Positions and orientations of a circle, of which a part is out of reach."""
    turn = np.linspace(0.0, 2.0 * np.pi, COUNT)
    positions = np.column_stack([0.5 + 0.15 * np.cos(turn), 0.25 * np.sin(turn), np.full(COUNT, 0.4)])
    positions[-5:] += [1.0, 0.0, 0.0]
    return positions, np.tile([1.0, 0.0, 0.0, 0.0], (COUNT, 1))


@pytest.fixture(scope="module")
def poses():
    return circle()


@pytest.fixture(scope="module")
def solver(panda):
    return IKSolver(panda, ["panda_hand"], device="cpu")


def body(poses: Any, **more: Any) -> dict[str, Any]:
    target = {"link": "panda_hand", "positions": poses[0], "orientations_xyzw": poses[1]}
    return {"targets": [target], "dt": DT, **more}


def moved(solver: Any, name: str, poses: Any, **given: Any) -> Any:
    """The library's own motion."""
    return getattr(solver, CALLS[name][0])(*poses, DT, **given)


def assert_same(answer: Any, found: Any, name: str, *, exact: bool = True) -> None:
    """An answer has the columns of the library, byte for byte, or as numbers in JSON."""
    for column in CALLS[name][1]:
        expected = getattr(found, column.name)
        if expected is None:
            assert column.edge_name not in answer
        elif column.dtype == "status":
            words = np.asarray(answer["status_names"])[answer["status"]] if exact else answer["status"]
            assert list(words) == found.status_names
        elif exact:
            given = answer[column.edge_name]
            assert (given.dtype, given.shape) == (expected.dtype, expected.shape), column.name
            assert given.tobytes() == np.ascontiguousarray(expected).tobytes(), column.name
        else:
            given = np.array(answer[column.edge_name], expected.dtype)  # null is NaN
            np.testing.assert_array_equal(given, np.where(np.isinf(expected), np.nan, expected), column.name)
    for names in ("coordinate_names", "dof_names"):
        assert list(answer[names]) == list(getattr(found, names))


@pytest.mark.parametrize("kind", [JSON, MSGPACK])
def test_a_clip_is_that_of_the_library(client, panda, poses, kind):
    weights = np.tile([1.0, 1.0, 1.0, 0.3, 0.3, 0.3], (COUNT, 1))
    weights[COUNT // 2 :] *= 2.0
    solver = IKSolver(panda, [Target("panda_hand", row_weights=weights)], device="cpu")
    starts = np.array([0, 25])
    own = {"plane": [0.0, 0.0, 1.0, 0.4], "smoothness": 2.0, "first_joint_q": START}
    found = moved(solver, "clip", poses, held={"panda_hand": STANDS}, clip_start=starts, **LIMITS, **own)
    assert found.cost.max() > 0.0
    assert np.isfinite(found.held_drift).sum() == STANDS.sum()
    asked = body(poses, held={"panda_hand": STANDS.tolist()}, clip_start=starts.tolist(), **LIMITS, **own)
    asked["targets"][0]["row_weights"] = weights
    answer = answered(client, URL + "clip", asked, kind)
    assert_same(answer, found, "clip", exact=kind == MSGPACK)
    assert (list(answer["links"]), list(answer["held_links"])) == (["panda_hand"], ["panda_hand"])
    assert set(answer["timing_ms"]) == {"queue", "solve", "total"}


@pytest.mark.parametrize("kind", [JSON, MSGPACK])
def test_a_path_is_that_of_the_library(client, solver, poses, kind):
    given = {"start_joint_q": START, "solutions": 3, "options": {"seeds": 32, "random_seed": 5}}
    found = moved(solver, "follow", poses, **LIMITS, **given)
    assert found.success.tolist() == [True] * (COUNT - 5) + [False] * 5
    answer = answered(client, URL + "follow", body(poses, **LIMITS, **given), kind)
    assert_same(answer, found, "follow", exact=kind == MSGPACK)
    assert "held_links" not in answer


@pytest.mark.parametrize("name", CALLS)
def test_an_archive_has_arrays_and_a_query(client, solver, poses, name):
    arrays = dict(zip(("positions", "orientations_xyzw"), poses, strict=True))
    if name == "clip":
        given = {"smoothness": 0.5, "held": {"panda_hand": STANDS}, "clip_start": np.array([0, 30])}
        further = {"held": STANDS, "clip_start": np.array([0, 30], np.int32)}
    else:
        given = further = {"start_joint_q": np.array(START)}
        given = given | {"solutions": 2, "options": {"random_seed": 3}}
    found = moved(solver, name, poses, velocity=0.4, **given)
    query = "?link=panda_hand&dt=0.02&velocity=0.4" + ("&smoothness=0.5" if name == "clip" else "")
    query += "" if name == "clip" else "&solutions=2&random_seed=3"
    content = archive(**arrays, **further)
    assert_same(answered(client, URL + name + query, content, NPZ), found, name)
    problem(post(client, URL + name + query + "&include=advice", content, NPZ), 422, "unknown_field", "/include")
    problem(post(client, URL + name + "?link=panda_hand", content, NPZ), 422, "missing_field", "/dt")
    wrong = archive(**arrays, held=np.ones((COUNT, 2), bool))
    problem(post(client, URL + name + query, wrong, NPZ), 422, "wrong_shape", "/held")


TOOL = [0.0, 0.02, 0.1, 0.0, 0.0, 0.70710678, 0.70710678]
OF_TARGETS = {
    "tool": ({"offset": {"position": TOOL[:3], "orientation_xyzw": TOOL[3:]}}, {"offset": np.array(TOOL)}),
    "weights": ({"row_weights": [1, 1, 1, 0.5, 0.5, 0]}, {"row_weights": np.array([1, 1, 1, 0.5, 0.5, 0])}),
    "free": ({"free": ["rz"]}, {"free": ["rz"]}),
    "tolerance": ({"tolerance": [0.02] * 6, "frame": "world"}, {"tolerance": np.full(6, 0.02), "frame": "world"}),
    "reference": ({"reference_link": "panda_link0"}, {"reference_link": "panda_link0"}),
}


@pytest.mark.parametrize("case", OF_TARGETS)
@pytest.mark.parametrize("name", CALLS)
def test_data_of_targets_are_those_of_the_library(client, panda, poses, name, case):
    fields, own = OF_TARGETS[case]
    asked = body(poses)
    asked["targets"][0] |= fields
    plain = {**asked, "options": {"seeds": 2}}
    del plain["dt"]
    answered(client, URL + "solve", plain)  # shares the solver, with data for each problem
    found = moved(IKSolver(panda, [Target("panda_hand", **own)], device="cpu"), name, poses)
    assert_same(answered(client, URL + name, asked, MSGPACK), found, name)


def test_several_links_have_columns_of_their_own(client):
    robot = load_robot("dual_panda")
    links = ["left_panda_hand", "right_panda_hand"]
    joint_q = robot.random_free_joint_q(np.random.default_rng(3), 2)
    share = np.linspace(0.0, 1.0, 20)[:, None]
    reached = robot.forward_kinematics((1 - share) * joint_q[:1] + share * joint_q[1:], links=links)
    arms = IKSolver(robot, links, device="cpu")
    targets = [
        {"link": link, "positions": reached.positions[:, k], "orientations_xyzw": reached.orientations_xyzw[:, k]}
        for k, link in enumerate(links)
    ]
    del targets[1]["orientations_xyzw"]
    turns = [reached.orientations_xyzw[:, 0], None]
    for name in CALLS:
        found = moved(arms, name, ([*np.moveaxis(reached.positions, 1, 0)], turns))
        assert found.position_error.shape == (20, 2)
        assert np.isnan(found.orientation_error[:, 1]).all()
        answer = answered(client, f"/v1/robots/dual_panda/{name}", {"targets": targets, "dt": DT}, MSGPACK)
        assert_same(answer, found, name)
        assert answer["links"] == links


def test_worlds_and_what_links_carry_are_those_of_the_library(client, solver, poses):
    ball = {"shape": "sphere", "radius": 0.05, "position": [0.3, 0.0, 0.4]}
    world = World({"ball": Sphere(0.05, (0.3, 0.0, 0.4))})
    answer = answered(client, URL + "clip", body(poses, world={"objects": {"ball": ball}}), MSGPACK)
    assert_same(answer, moved(solver, "clip", poses, world=world), "clip")
    assert answer["clearance_m"].min() < 0.0
    spheres = [[0.0, 0.0, 0.12, 0.02]]
    around = {"objects": {"ball": ball}, "attached": {"cup": {"link": "panda_hand", "spheres": spheres}}}
    answer = answered(client, URL + "follow", body(poses, world=around), MSGPACK)
    held = {"cup": AttachedObject("panda_hand", np.array(spheres))}
    assert_same(answer, moved(solver, "follow", poses, world=world, attached=held), "follow")
    assert STATUS_WORDS.index("blocked_by_collision") in answer["status"]


MANY = 10**9
BOTH = {
    "no time": ({"dt": 0}, "/dt", "out_of_range"),
    "backwards": ({"dt": -0.1}, "/dt", "out_of_range"),
    "text as time": ({"dt": "0.02"}, "/dt", "wrong_type"),
    "without time": ({"dt": None}, "/dt", "wrong_type"),
    "no targets": ({"targets": []}, "/targets", "wrong_shape"),
    "junk targets": ({"targets": [[[[]]]]}, "/targets/0", "wrong_type"),
    "no speed": ({"velocity": 0}, "/velocity", "invalid_value"),
    "less than none": ({"velocity": -1}, "/velocity", "out_of_range"),
    "text as speed": ({"velocity": "fast"}, "/velocity", "wrong_type"),
    "unknown joint": ({"acceleration": {"elbow": 1}}, "/acceleration", "unknown_joint"),
    "junk of a joint": ({"velocity": {"panda_joint1": [1]}}, "/velocity/panda_joint1", "wrong_type"),
    "junk limits": ({"velocity": [1]}, "/velocity", "wrong_type"),
    "jerk": ({"jerk": 1}, "/jerk", "unknown_field"),
    "best_of": ({"options": {"best_of": "cost"}}, "/options/best_of", "invalid_value"),
    "several": ({"options": {"solutions": 2}}, "/options/solutions", "invalid_value"),
    "derived": ({"options": {"sensitivity": "target"}}, "/options/sensitivity", "invalid_value"),
    "disabled": ({"world": {"objects": {}, "disable": ["x"]}}, "/world/disable/0", "unknown_object"),
    "problems": ({"problem_count": 3}, "/problem_count", "unknown_field"),
}
CLIP = {
    "falling": ({"clip_start": [0, 30, 20]}, "/clip_start", "invalid_value"),
    "late": ({"clip_start": [5, 30]}, "/clip_start", "invalid_value"),
    "beyond": ({"clip_start": [0, COUNT]}, "/clip_start", "invalid_value"),
    "immense": ({"clip_start": [0, 2**63, 5]}, "/clip_start", "invalid_value"),
    "beyond all": ({"clip_start": [0, 2**70]}, "/clip_start", "wrong_type"),
    "no starts": ({"clip_start": []}, "/clip_start", "wrong_type"),
    "part of a frame": ({"clip_start": [0, 1.5]}, "/clip_start", "wrong_type"),
    "nested starts": ({"clip_start": [[0], [[1]]]}, "/clip_start", "wrong_type"),
    "unknown link": ({"held": {"foot/~": [True] * COUNT}}, "/held/foot~1~0", "unknown_link"),
    "short": ({"held": {"panda_hand": [True]}}, "/held/panda_hand", "invalid_value"),
    "numbers": ({"held": {"panda_hand": [1] * COUNT}}, "/held/panda_hand", "wrong_type"),
    "texts": ({"held": {"panda_hand": "yes"}}, "/held/panda_hand", "wrong_type"),
    "nested": ({"held": {"panda_hand": [[True]] * COUNT}}, "/held/panda_hand", "wrong_type"),
    "list": ({"held": [True]}, "/held", "wrong_type"),
    "flat": ({"plane": [0, 0, 0, 1]}, "/plane", "invalid_value"),
    "three": ({"plane": [0, 0, 1]}, "/plane", "wrong_shape"),
    "rough": ({"smoothness": -1}, "/smoothness", "out_of_range"),
    "start": ({"first_joint_q": [0.0]}, "/first_joint_q", "wrong_shape"),
    "seeds": ({"options": {"seeds": 4}}, "/options/seeds", "invalid_value"),
    "deadline": ({"options": {"deadline_s": 1}}, "/options/deadline_s", "invalid_value"),
    "carried": (
        {"world": {"objects": {}, "attached": {"a": {"link": "panda_hand", "spheres": [[0, 0, 0, 0.1]]}}}},
        "/world/attached",
        "invalid_value",
    ),
    "start of a path": ({"start_joint_q": START}, "/start_joint_q", "unknown_field"),
}
FOLLOW = {
    "start": ({"start_joint_q": [[0.0] * 7]}, "/start_joint_q", "wrong_shape"),
    "none": ({"solutions": 0}, "/solutions", "out_of_range"),
    "all": ({"solutions": "all"}, "/solutions", "wrong_type"),
    "held": ({"held": {}}, "/held", "unknown_field"),
}
REFUSED = [("clip", *one) for one in (BOTH | CLIP).items()] + [("follow", *one) for one in (BOTH | FOLLOW).items()]


@pytest.mark.parametrize(("name", "case", "told"), REFUSED, ids=[f"{name}-{case}" for name, case, _ in REFUSED])
def test_what_is_wrong_is_told_with_its_place(client, poses, name, case, told):
    change, pointer, code = told
    document = problem(post(client, URL + name, body(poses, **change)), 422, code, pointer)
    assert document["errors"][0]["detail"]


@pytest.mark.parametrize("name", CALLS)
def test_frames_that_cannot_be_are_told_with_their_place(client, poses, name):
    positions = poses[0].copy()
    positions[7, 1] = np.nan
    targets = [{"link": "panda_hand", "positions": packed(positions)}]
    asked = {"targets": targets, "dt": DT}
    problem(post(client, URL + name, asked, MSGPACK), 422, "not_finite", "/targets/0/positions/7/1")
    text = json.dumps(body([one.tolist() for one in (positions, poses[1])])).encode()
    problem(post(client, URL + name, text), 422, "not_finite", "/targets/0/positions/7/1")
    content, query = archive(positions=positions), "?link=panda_hand&dt=0.02"
    problem(post(client, URL + name + query, content, NPZ), 422, "not_finite", "/targets/0/positions/7/1")
    one = [column[:1] for column in poses]
    problem(post(client, URL + name, body(one)), 422, "wrong_shape", "/targets/0/positions")
    turned = {"targets": [{"link": "panda_hand", "orientations_xyzw": one[1]}], "dt": DT}
    problem(post(client, URL + name, turned), 422, "wrong_shape", "/targets/0/orientations_xyzw")
    none = [column[:0] for column in poses]
    problem(post(client, URL + name, body(none)), 422, "empty_batch", "/targets/0/positions")
    targets[0]["positions"] = {"dtype": "float64", "shape": [MANY, 3], "data": b""}
    problem(post(client, URL + name, asked, MSGPACK), 422, "wrong_shape", "/targets/0/positions/data")
    targets[0]["positions"] = {"dtype": "float64", "shape": [MANY, 0], "data": b""}
    problem(post(client, URL + name, asked, MSGPACK), 422, "out_of_range", "/targets/0/positions/shape")
    rows = [np.tile(column, (2000, 1)) for column in poses]
    problem(post(client, URL + name, body([packed(row, "float32") for row in rows]), MSGPACK), 413, "too_many_problems")


def test_a_held_link_needs_a_whole_pose_and_a_path_has_one_row_of_data(client, poses):
    asked = body(poses, held={"panda_hand": STANDS.tolist()})
    del asked["targets"][0]["orientations_xyzw"]
    problem(post(client, URL + "clip", asked), 422, "invalid_value", "/held/panda_hand")
    for name in ("row_weights", "tolerance"):
        asked = body(poses)
        asked["targets"][0][name] = [[1.0] * 6] * COUNT
        problem(post(client, URL + "follow", asked), 422, "wrong_shape", f"/targets/0/{name}")


def test_a_robot_with_loops_is_refused_in_words(client):
    link = client.get("/v1/robots/four_bar").json()["links"][-1]["name"]
    target = {"link": link, "positions": [[0.1, 0.1, 0.0]] * 3}
    told = problem(post(client, "/v1/robots/four_bar/clip", {"targets": [target], "dt": DT}), 422, "invalid_value")
    assert "robots without constraints" in told["detail"]


@pytest.mark.parametrize("name", CALLS)
def test_the_answer_is_not_larger_than_its_shape_says(client, panda, poses, name):
    many = [np.tile(one, (10, 1)) for one in poses]
    held = {"held": {"panda_hand": (np.arange(10 * COUNT) < COUNT).tolist()}} if name == "clip" else {}
    asked = body([one.tolist() for one in many], **held)
    most = {kind: solve_bytes(panda, READERS[name](asked, panda, {}), BY_NAME[kind])[0] for kind in KINDS}
    for kind in KINDS:
        reply = post(client, URL + name, asked, JSON, kind)
        assert reply.status_code == 200
        assert len(reply.content) <= most[kind] <= LOOSE * len(reply.content)


def test_a_long_path_has_fewer_seeds(client, panda, poses):
    many = [packed(np.tile(one, (200, 1))) for one in poses]
    asked = body(many, options={"seeds": 1024})
    told = problem(post(client, URL + "follow", asked, MSGPACK), 422, "out_of_range", "/options/seeds")
    assert "12000 problems with 1024 seeds each" in told["detail"]
