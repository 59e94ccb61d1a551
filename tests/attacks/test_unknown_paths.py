"""Callers without a key who ask for what is not there."""

import contextlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.attacks.attack import for_a_moment_and_a_minute, under_attack

CONNECTIONS = 8
TIMEOUT_S = 30.0
MOST_GROWTH_MB = 50.0  # what the answers leave behind; nothing of a refused request may stay


def ask_for_unknown_paths(service, stop):
    """Paths that are not there, one after the other on each connection; how often each status came."""

    def ask(number):
        answers = Counter()
        with contextlib.closing(service.connect(TIMEOUT_S)) as connection:
            while not stop.is_set():
                connection.request("GET", f"/v1/{number}/{answers.total()}")
                reply = connection.getresponse()
                reply.read()
                answers[reply.status] += 1
        return answers

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        return sum(pool.map(ask, range(CONNECTIONS)), Counter())


@pytest.mark.evidence
@for_a_moment_and_a_minute
def test_paths_that_are_not_there_cost_others_nothing(service, seconds):
    report = under_attack(service, ask_for_unknown_paths, seconds)
    assert report.outcome.total() > CONNECTIONS
    assert set(report.outcome) <= {401, 404, 429}
    assert report.solved_share == 1.0
    assert report.live_share == 1.0
    assert report.memory_grown_mb < MOST_GROWTH_MB
    assert report.recovery_s < float("inf")
