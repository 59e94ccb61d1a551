"""Callers who open more connections than there may be, and leave them idle or busy."""

import contextlib
import http.client
import json
import os
import pathlib
import threading
import time

import pytest

from tests.attacks.attack import for_a_moment_and_a_minute, under_attack
from tests.attacks.raw import opened, request_bytes
from tests.attacks.service import KEYS
from tests.attacks.victim import PANDA
from tests.bounded import until

MOST = 64
COUNT = 3 * MOST
LEAST_SHARE = 0.9
AGAIN_S = 0.05
NEW, TIMEOUT_S = 20, 20.0


@pytest.fixture(scope="module")
def narrow(start_service):
    return start_service(max_connections=MOST)


def keep_open(service, stop, data):
    """Keep many connections that have sent something, in the place of those that the service closes."""
    kept = []

    def renew():
        with contextlib.suppress(OSError):
            connection = opened(service)
            kept.append(connection)
            connection.sendall(data)

    try:
        while not stop.is_set():
            for connection in kept[: max(0, len(kept) - COUNT)]:
                connection.close()
            del kept[: max(0, len(kept) - COUNT)]
            for _ in range(MOST // 4 if len(kept) >= COUNT else COUNT):
                renew()
            time.sleep(AGAIN_S)
    finally:
        for connection in kept:
            connection.close()
    return threading.active_count()


def keep_connections_silent(service, stop):
    return keep_open(service, stop, b"")


def keep_connections_idle(service, stop):
    return keep_open(service, stop, request_bytes("GET", "/health/live", key=None))


def keep_connections_idle_with_a_key(service, stop):
    return keep_open(service, stop, request_bytes("GET", "/v1/robots"))


def keep_connections_busy(service, stop):
    return keep_open(service, stop, request_bytes("POST", "/v1/robots/panda/solve", b"x" * 1000)[:-999])


@pytest.mark.evidence
@pytest.mark.parametrize(
    "attack",
    [keep_connections_idle, keep_connections_silent, keep_connections_idle_with_a_key, keep_connections_busy],
)
@for_a_moment_and_a_minute
def test_connections_of_one_caller_leave_room_for_others(narrow, seconds, attack):
    report = under_attack(narrow, attack, seconds)
    assert report.live_share >= LEAST_SHARE
    assert report.solved_share >= LEAST_SHARE
    assert report.recovery_s < float("inf")


@pytest.mark.evidence
@pytest.mark.parametrize("attack", [keep_connections_silent, keep_connections_idle_with_a_key])
def test_who_comes_new_is_served_while_one_caller_keeps_all_connections(narrow, attack):
    stop, statuses = threading.Event(), []
    attacking = threading.Thread(target=attack, args=(narrow, stop))
    attacking.start()
    try:
        until(lambda: narrow_is_full(narrow))
        for _ in range(NEW):
            connection = narrow.connect(TIMEOUT_S)
            headers = {"X-API-Key": KEYS["victim"], "Content-Type": "application/json"}
            with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
                connection.request("POST", "/v1/robots/panda/solve", json.dumps(PANDA), headers)
                statuses.append(connection.getresponse().status)
    finally:
        stop.set()
        attacking.join()
    assert statuses.count(200) >= LEAST_SHARE * NEW


def narrow_is_full(service):
    """Whether each process that serves has as many sockets open as connections are allowed."""
    return all(sockets(pid) >= MOST for pid in service.serving)


def sockets(pid):
    """Number of sockets that a process has open."""
    found = 0
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # it has just been closed
            found += os.readlink(link).startswith("socket:")
    return found
