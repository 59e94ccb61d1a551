"""The best of many candidates over HTTP: the answers of the library, byte for byte, and refusals with their place."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ik_service import IKSolver
from ik_service.robots import Sphere, World
from ik_service.service.codecs.media_types import BY_NAME
from ik_service.service.documents.solve_answer import solve_bytes
from ik_service.service.documents.solve_any import read_solve_any
from ik_service.service.pool.kernel_marks import mark_of
from ik_service.solver.candidates import FATES
from tests.bounded import PATIENCE_S, until
from tests.service.messages import JSON, KINDS, MSGPACK, NPZ, answered, archive, packed, post, problem

URL = "/v1/robots/panda/solve_any"
COUNT, GROUPS = 40, 5  # the third group and the last are empty
GROUP = np.repeat([0, 1, 3], [10, 20, 10])
COST = np.random.default_rng(1).uniform(0.0, 0.5, COUNT)
START = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]
LIFT, CHANGE = [0.0, 0.0, 0.02], 0.6  # of the hand before a candidate [m], and of joints on the way [rad]
CRITERIA = ("first", "nearest", "clearance", "manipulability", "limit_margin")
BALL = {"shape": "sphere", "radius": 0.2, "position": [0.4, 0.0, 0.4]}
LOOSE = 8.0  # an estimate is at most so many times the answer
POSTURE = {"type": "posture", "joint_q_reference": START, "weight": 0.01}


@pytest.fixture(scope="module")
def poses(panda):
    """Positions and orientations of candidates, a fifth of them out of reach."""
    joint_q = panda.random_free_joint_q(np.random.default_rng(0), COUNT)
    reached = panda.forward_kinematics(joint_q, links=["panda_hand"])
    positions = reached.positions[:, 0].copy()
    positions[::5] += [0.0, 0.0, 2.0]
    return positions, reached.orientations_xyzw[:, 0]


@pytest.fixture(scope="module")
def solver(panda):
    return IKSolver(panda, ["panda_hand"], device="cpu")


def body(poses: Any, **more: Any) -> dict[str, Any]:
    """A request for the best candidate of each group."""
    target = {"link": "panda_hand", "positions": poses[0], "orientations_xyzw": poses[1]}
    return {"targets": [target], "group": GROUP.tolist(), "group_count": GROUPS, "initial_joint_q": START, **more}


def second(poses: Any) -> dict[str, Any]:
    return {"targets": [{"positions": poses[0] + LIFT, "orientations_xyzw": poses[1]}], "max_change": CHANGE}


def assert_same(answer: Any, found: Any, *, exact: bool = True) -> None:
    """An answer is that of the library, byte for byte, or as numbers in JSON."""
    columns = {name: getattr(found, name) for name in ("candidate", "joint_q", "value", "via_joint_q")}
    columns |= {f"counts.{name}": found.counts[:, k] for k, name in enumerate(FATES)}
    counts = answer.get("counts") if isinstance(answer, dict) else None
    for name, expected in columns.items():
        given = counts[name.partition(".")[2]] if counts and "." in name else answer.get(name)
        if expected is None:
            assert given is None
        elif exact:
            assert (given.dtype, given.tobytes()) == (expected.dtype, np.ascontiguousarray(expected).tobytes()), name
        else:
            numbers = np.array(given, np.float64)  # null is NaN
            wanted = np.where(expected < 0, np.nan, expected) if name == "candidate" else expected
            np.testing.assert_array_equal(numbers.astype(expected.dtype if numbers.ndim > 1 else float), wanted)
    status = np.asarray(answer["status"])
    words = np.asarray(answer["status_names"])[status] if exact else status
    assert words.tolist() == found.status_names


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("kind", [JSON, MSGPACK])
def test_answers_are_those_of_the_library(client, solver, poses, criterion, kind):
    given = {"criterion": criterion, "cost": COST, "via": (poses[0] + LIFT, poses[1], CHANGE)}
    found = solver.solve_any(*poses, group=GROUP, group_count=GROUPS, initial_joint_q=START, **given)
    assert found.success.tolist() == [True, True, False, True, False]
    answer = answered(client, URL, body(poses, criterion=criterion, cost=COST.tolist(), via=second(poses)), kind)
    assert_same(answer, found, exact=kind == MSGPACK)
    assert answer["status"][2] == ("no_candidate" if kind == JSON else answer["status_names"].index("no_candidate"))
    assert set(answer["timing_ms"]) == {"queue", "solve", "total"}
    assert list(answer["coordinate_names"]) == list(solver.coordinate_names)
    assert sum(map(sum, answer["counts"].values())) == COUNT


def test_an_archive_has_arrays_and_a_query(client, solver, poses):
    given = {"criterion": "nearest", "cost": COST, "good_enough": 0.5}
    found = solver.solve_any(*poses, group=GROUP, group_count=GROUPS, initial_joint_q=START, **given)
    arrays = {"positions": poses[0], "orientations_xyzw": poses[1], "group": GROUP, "cost": COST}
    query = f"?link=panda_hand&criterion=nearest&group_count={GROUPS}&good_enough=0.5"
    for group in (GROUP, GROUP.astype(np.int32)):
        content = archive(**{**arrays, "group": group, "initial_joint_q": np.array(START)})
        assert_same(answered(client, URL + query, content, NPZ), found)
    content = archive(**{**arrays, "group": GROUP.astype(np.float64)})
    told = problem(post(client, URL + "?link=panda_hand", content, NPZ), 422, "invalid_value", "/group")
    assert "group is float64 of shape [40]" in told["detail"]
    problem(post(client, URL + "?link=panda_hand&criterion=best", archive(**arrays), NPZ), 422, "unknown_option")


def test_obstacles_may_differ_between_candidates(client, solver, poses):
    enabled = np.arange(COUNT) % 2 == 0
    around = {"world": World({"ball": Sphere(0.2, (0.4, 0.0, 0.4))}), "object_enabled": enabled[:, None]}
    given = {"group": GROUP, "group_count": GROUPS, "initial_joint_q": START, "criterion": "clearance"}
    world = {"objects": {"ball": BALL}, "disable": [[] if one else ["ball"] for one in enabled]}
    answer = answered(client, URL, body(poses, criterion="clearance", world=world), MSGPACK)
    assert_same(answer, solver.solve_any(*poses, **given, **around))
    assert answer["counts"]["blocked"].sum() + answer["counts"]["proven_blocked"].sum() > 0


def test_one_row_of_starts_is_that_of_all_candidates_and_a_rule_for_all_is_allowed(client, solver, poses):
    rows = {"initial_joint_q": packed(np.tile(START, (COUNT, 1)))}
    limits = {"max_change": 1.5, "criterion": "nearest"}
    answers = [answered(client, URL, body(poses, **limits, **one), MSGPACK) for one in ({}, rows)]
    assert_same(answers[0], solver.solve_any(*poses, group=GROUP, group_count=GROUPS, initial_joint_q=START, **limits))
    assert answers[0]["joint_q"].tobytes() == answers[1]["joint_q"].tobytes()
    damped = [{"type": "damping", "weight": 0.01}, POSTURE]
    assert answered(client, URL, body(poses, objectives=damped))["candidate"][0] is not None


def test_many_candidates_give_few_rows(client, poses):
    many = [np.tile(one, (250, 1)) for one in poses]
    asked = {**body(many), "group": np.tile(GROUP, 250).tolist(), "initial_joint_q": None}
    reply = post(client, URL, asked, MSGPACK)
    assert reply.status_code == 200
    assert len(reply.content) < 4000


def via(**poses: Any) -> dict[str, Any]:
    """Second poses of candidates."""
    return {"via": {"targets": [poses], "max_change": 1}}


UNCHECKED = {"criterion": "clearance", "options": {"collision": "off"}}
NO_TARGET = {"targets": [], "objectives": [POSTURE], "problem_count": COUNT, "criterion": "manipulability"}
MANY_POSTURES = {**POSTURE, "joint_q_reference": [START] * COUNT}
TURNS, POSTURES = "/via/targets/0/orientations_xyzw", "/objectives/0/joint_q_reference"
WHOLE = "Give a list of whole numbers"
LEFT_OUT = "Leave the option out"
REFUSED = {
    "negative": ({"group": [-1] * COUNT}, "/group", "invalid_value", "group[0] is -1. Allowed: whole numbers from 0"),
    "float": ({"group": [0.5] * COUNT}, "/group", "wrong_type", WHOLE),
    "truth": ({"group": [True] * COUNT}, "/group", "wrong_type", WHOLE),
    "nested": ({"group": [[0]] * COUNT}, "/group", "wrong_type", WHOLE),
    "immense": ({"group": [2**63] * COUNT}, "/group", "invalid_value", "whole numbers"),
    "ids": ({"group": [5] * COUNT}, "/group", "invalid_value", "group[0] is 5. Allowed: whole numbers from 0 to 4."),
    "fewer": ({"group": [0, 1]}, "/group", "invalid_value", "Allowed: [40] whole numbers"),
    "no groups": ({"group_count": 0}, "/group_count", "out_of_range", ""),
    "costs": ({"cost": [0.0]}, "/cost", "wrong_shape", "The row has 1 numbers. Give 40."),
    "no cost": ({"cost": [None] * COUNT}, "/cost/0", "wrong_type", "Give a number, not null."),
    "criterion": ({"criterion": "best"}, "/criterion", "unknown_option", "'first', 'nearest'"),
    "start": ({"criterion": "nearest", "initial_joint_q": None}, "/criterion", "invalid_value", "initial_joint_q"),
    "unchecked": (
        UNCHECKED,
        "/criterion",
        "invalid_value",
        "or leave out the option collision='off'",
    ),
    "no target": (NO_TARGET, "/criterion", "invalid_value", "needs a target"),
    "other poses": (via(positions=[[0, 0, 0.5]]), "/via/targets", "invalid_value", "via has 1 poses for 40 candidates"),
    "other targets": ({"via": {"targets": [], "max_change": 1}}, "/via/targets", "invalid_value", "positions"),
    "turn": (via(orientations_xyzw=[[1, 1, 0, 0]] * COUNT), f"{TURNS}/0", "not_unit_quaternion", ""),
    "no change": ({"via": {"targets": [], "max_change": 0}}, "/via/max_change", "out_of_range", ""),
    "no via": ({"via": {"targets": []}}, "/via/max_change", "missing_field", ""),
    "best_of": ({"options": {"best_of": "cost"}}, "/options/best_of", "invalid_value", LEFT_OUT),
    "solutions": ({"options": {"solutions": "all"}}, "/options/solutions", "invalid_value", LEFT_OUT),
    "nearest": ({"options": {"approximate": "nearest"}}, "/options/approximate", "invalid_value", LEFT_OUT),
    "derived": ({"options": {"sensitivity": "target"}}, "/options/sensitivity", "invalid_value", LEFT_OUT),
    "include": ({"include": ["advice"]}, "/include", "unknown_option", "Leave the field out"),
    "rows": ({"objectives": [MANY_POSTURES]}, POSTURES, "wrong_shape", "There are 40 rows here. Give one row for all"),
    "field": ({"groups": [0]}, "/groups", "unknown_field", "Did you mean 'group'?"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_told_with_its_place(client, poses, case):
    change, pointer, code, text = REFUSED[case]
    told = problem(post(client, URL, body(poses, **change)), 422, code, pointer)
    assert text in told["errors"][0]["detail"]


def test_numbers_that_are_not_finite_are_told_with_their_place(client, poses):
    cost = np.where(np.arange(COUNT) == 3, np.nan, 0.0)
    problem(post(client, URL, body(poses, cost=packed(cost)), MSGPACK), 422, "not_finite", "/cost/3")
    text = json.dumps(body([one.tolist() for one in poses], good_enough=float("nan"))).encode()
    problem(post(client, URL, text), 422, "not_finite", "/good_enough")


def test_a_choice_that_would_hold_up_everybody_is_refused(client, poses):
    many = [np.tile(one, (1000, 1)) for one in poses]
    asked = {**body(many), "group": None, "initial_joint_q": None, "group_count": None}
    told = problem(post(client, URL, asked, MSGPACK), 422, "out_of_range", "/options/seeds")
    assert (
        "40000 problems with 256 seeds each are 10240000 attempts. Allowed in one request: 8000000." in told["detail"]
    )
    asked["options"] = {"seeds": 64, "max_iterations": 1000}
    told = problem(post(client, URL, asked, MSGPACK), 422, "out_of_range")
    assert "Allowed in one request: 666666." in told["detail"]


def test_the_answer_is_not_larger_than_its_shape_says_and_one_too_large_is_refused(client, panda, poses):
    for via in (None, second(poses)):
        asked = body(poses, via=via, group_count=400)
        most = {kind: solve_bytes(panda, read_solve_any(asked, panda, {}), BY_NAME[kind])[0] for kind in KINDS}
        for kind in KINDS:
            reply = post(client, URL, asked, JSON, kind)
            assert reply.status_code == 200
            assert len(reply.content) <= most[kind] <= LOOSE * len(reply.content)
    problem(post(client, URL, body(poses, group_count=2**20)), 413, "answer_too_large")
    assert client.app.state.service.admission.pool.waiting_requests == 0


def test_choices_that_wait_together_are_solved_one_at_a_time(client, panda, poses, monkeypatch):
    asked = read_solve_any(body([one.tolist() for one in poses]), panda, {}).request
    pool, seen = client.app.state.service.pool, []
    cache = pool._runner.solver_cache
    solve = cache.solve_together
    monkeypatch.setattr(cache, "solve_together", lambda *given: seen.append(given[1]) or solve(*given))
    with pool.submit_together():
        answers = [pool.submit(panda, one) for one in (asked, asked, replace(asked, choice=None))]
    first, other, plain = (answer.result(PATIENCE_S).result for answer in answers)
    assert first.joint_q.tobytes() == other.joint_q.tobytes()
    assert (len(first), len(plain)) == (GROUPS, COUNT)
    assert sum(requests == [asked] for requests in seen) == 2
    assert all(len(requests) == 1 for requests in seen)


def test_a_choice_needs_the_kernels_of_its_solves(panda, poses):
    document = body([one.tolist() for one in poses])
    asked = {one: read_solve_any({**document, "criterion": one}, panda, {}).request for one in CRITERIA}
    plain = replace(asked["first"], choice=None)
    assert asked["first"].code_key == (plain.code_key,)
    assert asked["nearest"].code_key == asked["clearance"].code_key
    assert asked["manipulability"].solves[1].options.solutions == 2
    best = replace(plain, options=replace(plain.options, best_of="cost"))
    assert asked["nearest"].code_key == (plain.code_key, best.code_key)
    placed = {"targets": [{"positions": poses[0].tolist()}], "max_change": 1}
    via = read_solve_any({**document, "via": placed}, panda, {}).request
    assert via.code_key[1] not in (plain.code_key, best.code_key)
    sample = via.sample()
    assert [one.problem_count for one in sample.solves] == [1, 1]
    assert sample.code_key == via.code_key
    assert mark_of(panda, sample, "cpu") == mark_of(panda, via, "cpu")


@pytest.mark.parametrize("name", ["solve_any", "clip", "follow"])
def test_deadlines_metrics_and_versions_are_as_in_a_solve(client, poses, name):
    url, asked = URL.replace("solve_any", name), body([one.tolist() for one in poses])
    asked = asked if name == "solve_any" else {"targets": asked["targets"], "dt": 0.02}
    content, json_type = json.dumps(asked).encode(), {"Content-Type": JSON}
    late = client.post(url, content=content, headers={**json_type, "Prefer": "wait=0"})
    assert late.status_code in (503, 504)
    stale = client.post(url, content=content, headers={**json_type, "If-Match": '"other"'})
    problem(stale, 412, "precondition_failed")
    problem(post(client, url.replace("panda", "nobody"), content), 404, "unknown_robot")
    before = empty_groups(client)
    answered(client, url, content)
    counted = 2 if name == "solve_any" else 0
    until(lambda: (empty_groups(client) or 0) == (before or 0) + counted, 5.0)  # a batch is counted after its answer
    shown = client.app.state.service.metrics.render("")[0].decode()
    assert f'route="/v1/robots/{{robot}}/{name}",status="{late.status_code}"' in shown


def empty_groups(client: Any) -> float:
    """The groups without candidates so far."""
    registry = client.app.state.service.metrics.registry
    return registry.get_sample_value("ik_service_problems_total", {"robot": "panda", "status": "no_candidate"})
