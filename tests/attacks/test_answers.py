"""Callers who ask for large answers and do not take them."""

import contextlib
import json
import time
from collections import Counter

import msgpack
import numpy as np
import pytest

from tests.attacks.attack import for_a_moment_and_a_minute, under_attack
from tests.attacks.raw import SMALL_WINDOW, many, request_bytes, status_of

CONNECTIONS = 40
MOST_MEMORY_MB = 1500.0
POSE = [0.1, -0.785, 0.2, -2.356, 0.3, 1.571, 0.785]


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
            while not stop.wait(0.1):
                pass
            return Counter(map(status_of, connections))

    return leave_answers_unread


@pytest.mark.evidence
@pytest.mark.parametrize(
    "request_",
    [forward(60_000, ["panda_hand", "panda_link7"]), solve_with_everything(30_000)],
    ids=["forward", "solve"],
)
@for_a_moment_and_a_minute
def test_answers_that_nobody_takes_are_bounded_in_memory(service, seconds, request_):
    report = under_attack(service, leave_unread(request_), seconds)
    assert report.memory_peak_mb < MOST_MEMORY_MB
    assert report.outcome[429] > 0
    assert set(report.outcome) <= {0, 200, 429, 503, 504}  # 504: too slow a machine for its deadline
    assert report.solved_share == 1.0
    assert report.live_share == 1.0
    assert report.recovery_s < float("inf")


@pytest.mark.evidence
@for_a_moment_and_a_minute
def test_a_short_request_for_a_huge_answer_is_refused(service, seconds):
    def repeat_names(service, stop):
        body = json.dumps({"joint_q": [POSE] * 244, "links": ["panda_hand"] * 4096}).encode()
        request, statuses = request_bytes("POST", "/v1/robots/panda/forward", body), Counter()
        while not stop.is_set():
            with many(service, 4) as connections:
                for connection in connections:
                    with contextlib.suppress(OSError):
                        connection.sendall(request)
                statuses.update(map(status_of, connections))
            time.sleep(0.01)
        return statuses

    report = under_attack(service, repeat_names, seconds)
    assert set(report.outcome) == {422}
    assert report.memory_peak_mb < MOST_MEMORY_MB
    assert report.solved_share == report.live_share == 1.0
