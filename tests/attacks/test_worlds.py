"""Callers who ask about worlds with as many objects, grids, lists and configurations as a request can name."""

import contextlib
import json
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest

from tests.attacks.attack import for_a_moment_and_a_minute, under_attack
from tests.attacks.service import KEYS

CALLERS = 6
TIMEOUT_S = 120.0
OBJECTS = 4096
LISTS = 6000  # a list of three objects in each, for which a body of 200 kB is enough
MOST_MEMORY_MB = 1500.0
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
    return [("POST", f"/v1/robots/panda/{route}", json.dumps(body)) for route, body in bodies]


@cache
def large_worlds():
    """Requests with worlds of as many nodes of grids as are allowed, as lists of numbers."""
    values = [[[0.5] * 128] * 128] * 127
    worlds = [{"objects": {"rock": {**GRID, "spacing": step, "values": values}}} for step in (0.1, 0.2)]
    return [("PUT", "/v1/worlds/rock{}", json.dumps(world)) for world in worlds]


def ask(connection, method, path, body):
    """Send a request; return the status of the answer."""
    headers = {"X-API-Key": KEYS["attacker"], "Content-Type": "application/json"}
    connection.request(method, path, body, headers)
    reply = connection.getresponse()
    reply.read()
    return reply.status


def again_and_again(service, stop, asked):
    """Let several callers send requests in turn, each a method, a path that may have the caller's number, and a body.

    Returns:
        How often each status came.
    """

    def caller(number):
        statuses = Counter()
        with contextlib.closing(service.connect(TIMEOUT_S)) as connection:
            while not (stop.is_set() and statuses):  # once at least, however busy the machine is
                method, path, body = asked[(number + statuses.total()) % len(asked)]
                statuses[ask(connection, method, path.format(number), body)] += 1
        return statuses

    with ThreadPoolExecutor(CALLERS) as pool:
        return sum(pool.map(caller, range(CALLERS)), Counter())


def ask_about_worlds(service, stop):
    return again_and_again(service, stop, large_questions())


def put_worlds(service, stop):
    return again_and_again(service, stop, large_worlds())


@pytest.fixture(scope="module")
def hall(service):
    """A world of as many objects as are kept; the requests of the attacks are written before these begin."""
    large_questions(), large_worlds()
    body = json.dumps({"objects": {f"o{k}": BALL for k in range(OBJECTS)}})
    with contextlib.closing(service.connect(TIMEOUT_S)) as connection:
        assert ask(connection, "PUT", "/v1/worlds/hall", body) in {200, 201}


@pytest.mark.evidence
@for_a_moment_and_a_minute
@pytest.mark.parametrize("attack", [ask_about_worlds, put_worlds])
@pytest.mark.usefixtures("hall")
def test_who_asks_about_large_worlds_holds_up_nobody_else(service, attack, seconds):
    report = under_attack(service, attack, seconds)
    sys.stdout.write(f"{report.outcome}\n")
    assert report.outcome[200] + report.outcome[201] > 0
    assert set(report.outcome) <= {200, 201, 422, 429, 503}
    assert report.solved_share == report.live_share == 1.0
    assert report.memory_peak_mb < MOST_MEMORY_MB
    assert report.recovery_s < float("inf")
