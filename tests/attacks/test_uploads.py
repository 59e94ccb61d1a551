"""Callers who put the largest robots that are taken, again and again."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.attacks.attack import for_a_moment_and_a_minute, under_attack
from tests.attacks.service import KEYS

UPLOADERS = 6
TIMEOUT_S = 120.0
LINKS, DOFS, FILLING = 2047, 512, 40_000
MOST_MEMORY_MB = 1500.0


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
    bodies = [heavy(k) for k in range(2)]

    def put(number):
        statuses, connection = Counter(), service.connect(TIMEOUT_S)
        headers = {"X-API-Key": KEYS["attacker"], "Content-Type": "application/xml"}
        while not stop.is_set():
            connection.request("PUT", f"/v1/robots/heavy{number}", bodies[statuses.total() % 2], headers)
            reply = connection.getresponse()
            reply.read()
            statuses[reply.status] += 1
        connection.close()
        return statuses

    with ThreadPoolExecutor(UPLOADERS) as pool:
        return sum(pool.map(put, range(UPLOADERS)), Counter())


@pytest.mark.evidence
@for_a_moment_and_a_minute
def test_who_puts_large_robots_holds_up_nobody_else(service, seconds):
    report = under_attack(service, put_heavy_robots, seconds)
    assert report.outcome[201] + report.outcome[200] > 0
    assert set(report.outcome) <= {200, 201, 429}
    assert report.solved_share == report.live_share == 1.0
    assert report.memory_peak_mb < MOST_MEMORY_MB
    assert report.recovery_s < float("inf")
