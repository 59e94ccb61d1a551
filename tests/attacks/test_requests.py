"""Callers who ask again and again: for what is not there, with the largest robots, about the largest worlds."""

import itertools
import json
from collections import Counter
from functools import cache

import pytest

from tests.attacks.attack import under_attack
from tests.attacks.callers import again_and_again, ask_once

MANY_S = 15.0  # for some ten thousand requests
MOST_GROWTH_MB = 15.0  # of answers to refused requests; nothing of these may stay
MOST_MEMORY_MB = 1500.0
pytestmark = pytest.mark.evidence


@pytest.fixture(scope="module")
def service(start_service):
    """A service of two workers, which read what the other one has put into the folder of robots and worlds."""
    return start_service(workers=2)


def ask_for_unknown_paths(service, stop):
    return again_and_again(service, stop, 8, lambda number, turn: ("GET", f"/v1/{number}/{turn}"), key=None)


def test_paths_that_are_not_there_cost_others_nothing(service):
    report = under_attack(service, ask_for_unknown_paths, seconds=MANY_S)
    assert len(report.outcome) > 8
    assert {answer.status for answer in report.outcome} <= {401, 404, 429}
    assert report.memory_grown_mb < MOST_GROWTH_MB


# ---------------------------------------------------------------------- robots
LINKS, DOFS, FILLING = 2047, 512, 40_000
XML = "application/xml"


@cache
def heavy(number):
    """A chain of as many links and DOFs as are allowed, with much that says nothing."""
    links = ['<link name="l0"/>']
    for k in range(LINKS):
        kind = "continuous" if k < DOFS else "fixed"
        links.append(
            f'<link name="l{k + 1}"><inertial><mass value="1"/><origin xyz="0 0 {number}"/></inertial></link>'
            f'<joint name="j{k}" type="{kind}"><parent link="l{k}"/><child link="l{k + 1}"/>'
            '<origin xyz="0.01 0 0" rpy="0.1 0.2 0.3"/><axis xyz="0 0 1"/></joint>'
        )
    return f'<robot name="heavy">{"".join(links)}{"<x/>" * FILLING}</robot>'.encode()


def put_heavy_robots(service, stop):
    def request_of(number, turn):
        return "PUT", f"/v1/robots/heavy{number}", heavy(turn % 2)

    return again_and_again(service, stop, 6, request_of, media_type=XML)


def test_who_puts_large_robots_holds_up_nobody_else(service):
    report = under_attack(service, put_heavy_robots)
    statuses = Counter(answer.status for answer in report.outcome)
    assert statuses[201] + statuses[200] > 0
    assert set(statuses) <= {200, 201, 429}
    assert report.memory_peak_mb < MOST_MEMORY_MB


# ---------------------------------------------------------------------- worlds
OBJECTS = 4096
LISTS = 6000  # a list of three objects in each, for which a body of 200 kB is enough
BALL = {"shape": "sphere", "radius": 0.01, "position": [3, 0, 0]}
GRID = {"shape": "grid", "spacing": 0.1, "position": [3, 0, 0], "values": [[[1, 1], [1, 1]], [[1, 1], [1, 1]]]}
HELD = {"link": "panda_hand", "spheres": [[0, 0, 0.1, 0.02]]}
START = [[0, -0.785, 0, -2.356, 0, 1.571, 0.785]]
JOINT_Q = {"type": "posture", "joint_q_reference": START[0]}


@cache
def large_questions():
    """Requests: what takes long to read, or to answer, for its length."""
    lists = [[f"o{k % OBJECTS}"] * 3 for k in range(LISTS)]
    hall, many = {"name": "hall"}, {"objectives": [JOINT_Q], "options": {"seeds": 1}}
    bodies = [
        ("solve", {**many, "problem_count": LISTS, "world": {**hall, "disable": lists}}),
        ("solve", {**many, "problem_count": 50_000, "world": {**hall, "disable": [[]] * 50_000}}),
        ("solve", {**many, "problem_count": 1, "world": {"objects": {f"g{k}": GRID for k in range(256)}}}),
        ("solve", {**many, "problem_count": 1, "world": {**hall, "attached": {str(k): HELD for k in range(20_000)}}}),
        ("solve", {**many, "problem_count": 2000, "world": {**hall, "disable": lists[:2000]}}),
        ("check", {"joint_q": START * 300, "world": {**hall, "disable": lists[:300]}}),
        ("check", {"joint_q": START * 50_000, "world": {"objects": {f"o{k}": BALL for k in range(40)}}}),
    ]
    return [("POST", f"/v1/robots/panda/{route}", json.dumps(body).encode()) for route, body in bodies]


@cache
def large_worlds():
    """Requests with worlds of as many nodes of grids as are allowed, as lists of numbers."""
    values = [[[0.5] * 128] * 128] * 127
    worlds = [{"objects": {"rock": {**GRID, "spacing": step, "values": values}}} for step in (0.1, 0.2)]
    bodies = itertools.product(range(6), (json.dumps(world).encode() for world in worlds))
    return [("PUT", f"/v1/worlds/rock{number}", body) for number, body in bodies]


def ask_about_worlds(service, stop):
    return again_and_again(service, stop, 6, lambda number, turn: large_questions()[(number + turn) % 7])


def put_worlds(service, stop):
    return again_and_again(service, stop, 6, lambda number, turn: large_worlds()[2 * number + turn % 2])


@pytest.fixture(scope="module")
def hall(service):
    """A world of as many objects as are kept; the requests of the attacks are written before these begin."""
    large_questions(), large_worlds()
    body = {"objects": {f"o{k}": BALL for k in range(OBJECTS)}}
    assert ask_once(service, "PUT", "/v1/worlds/hall", body).status in {200, 201}


@pytest.mark.parametrize("attack", [ask_about_worlds, put_worlds])
@pytest.mark.usefixtures("hall")
def test_who_asks_about_large_worlds_holds_up_nobody_else(service, attack):
    report = under_attack(service, attack)
    statuses = Counter(answer.status for answer in report.outcome)
    assert statuses[200] + statuses[201] > 0
    assert set(statuses) <= {200, 201, 422, 429, 503, 504}  # 504: too slow a machine for its deadline
    assert report.memory_peak_mb < MOST_MEMORY_MB
