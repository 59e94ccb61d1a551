"""Callers who flood streams with pings and read nothing."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.attacks.attack import for_a_moment_and_a_minute, under_attack
from tests.attacks.frames import PING, configuration, frame, handshake
from tests.attacks.raw import SMALL_WINDOW, opened
from tests.attacks.service import KEYS

STREAMS = 4
MOST_GROWTH_MB = 100.0
FLOOD = frame(PING, b"p" * 125) * 2000


def flood_with_pings(service, stop):
    def flood(_):
        count = 0
        while not stop.is_set():
            with contextlib.suppress(OSError), contextlib.closing(opened(service, SMALL_WINDOW)) as connection:
                handshake(connection, f"X-API-Key: {KEYS['attacker']}")
                connection.sendall(configuration())
                while not stop.is_set():
                    connection.sendall(FLOOD)
                    count += 1
        return count

    with ThreadPoolExecutor(STREAMS) as pool:
        return sum(pool.map(flood, range(STREAMS)))


@pytest.mark.evidence
@for_a_moment_and_a_minute
def test_pings_that_nobody_reads_the_answers_to_cost_others_nothing(service, seconds):
    report = under_attack(service, flood_with_pings, seconds)
    assert report.memory_grown_mb < MOST_GROWTH_MB
    assert report.solved_share == report.live_share == 1.0
    assert report.recovery_s < float("inf")
