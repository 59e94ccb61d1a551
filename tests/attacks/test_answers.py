"""Callers who ask for large answers, or answers to pings, and do not take them."""

import contextlib
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import msgpack
import numpy as np
import pytest

from tests.attacks.attack import under_attack
from tests.attacks.callers import again_and_again
from tests.attacks.frames import PING, configuration, frame, handshake
from tests.attacks.raw import SMALL_WINDOW, many, opened, request_bytes, status_of
from tests.attacks.service import KEYS

CONNECTIONS = 40
MOST_MEMORY_MB, MOST_GROWTH_MB = 400.0, 100.0
STREAMS, FLOOD = 4, frame(PING, b"p" * 125) * 2000
POSE = [0.1, -0.785, 0.2, -2.356, 0.3, 1.571, 0.785]
pytestmark = pytest.mark.evidence


def forward(configurations, links):
    body = json.dumps({"joint_q": [POSE] * configurations, "links": links}).encode()
    return request_bytes("POST", "/v1/robots/panda/forward", body)


def solve_with_everything(problems):
    rows = np.full((problems, 3), 9.0, np.float32)
    column = {"dtype": "float32", "shape": [problems, 3], "data": rows.tobytes()}
    include = ["active_limits", "advice", "islands", "solutions"]
    document = {"targets": [{"link": "panda_hand", "positions": column}], "include": include}
    body = msgpack.packb({**document, "options": {"seeds": 1, "max_iterations": 1}})
    head = request_bytes("POST", "/v1/robots/panda/solve", b"x", "Accept: application/json")
    head = head[:-1].replace(b"application/json\r\n\r\n", b"application/msgpack\r\n\r\n")
    return head.replace(b"Content-Length: 1\r\n", b"Content-Length: %d\r\n" % len(body)) + body


def leave_unread(request):
    """An attack: the same request again and again on connections from which nothing is read until the end."""

    def leave_answers_unread(service, stop):
        with many(service, CONNECTIONS, SMALL_WINDOW) as connections:
            for connection in connections:
                connection.sendall(request)
            stop.wait()
            return Counter(map(status_of, connections))

    return leave_answers_unread


@pytest.mark.parametrize(
    "request_",
    [forward(15_000, ["panda_hand", "panda_link7"]), solve_with_everything(6_000)],
    ids=["forward", "solve"],
)
def test_answers_that_nobody_takes_are_bounded_in_memory(service, request_):
    report = under_attack(service, leave_unread(request_))
    assert report.memory_peak_mb < MOST_MEMORY_MB
    assert report.outcome[429] > 0
    assert set(report.outcome) <= {0, 200, 429, 503, 504}  # 504: too slow a machine for its deadline


def test_a_short_request_for_a_huge_answer_is_refused(service):
    request = "POST", "/v1/robots/panda/forward", {"joint_q": [POSE] * 244, "links": ["panda_hand"] * 4096}

    def repeat_names(service, stop):
        return again_and_again(service, stop, 4, lambda number, turn: request)

    report = under_attack(service, repeat_names)
    assert {answer.status for answer in report.outcome} == {422}
    assert report.memory_peak_mb < MOST_MEMORY_MB


def flood_with_pings(service, stop):
    def flood(_):
        while not stop.is_set():
            with contextlib.suppress(OSError), contextlib.closing(opened(service, SMALL_WINDOW)) as connection:
                handshake(connection, f"X-API-Key: {KEYS['attacker']}")
                connection.sendall(configuration())
                while not stop.is_set():
                    connection.sendall(FLOOD)

    with ThreadPoolExecutor(STREAMS) as pool:
        list(pool.map(flood, range(STREAMS)))


def test_pings_that_nobody_reads_the_answers_to_cost_others_nothing(service):
    assert under_attack(service, flood_with_pings).memory_grown_mb < MOST_GROWTH_MB
