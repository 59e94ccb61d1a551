"""Callers who open more connections than there may be, and leave them idle or busy."""

import contextlib
import http.client
import os
import pathlib
import threading
import time

import pytest

from tests.attacks.attack import under_attack
from tests.attacks.callers import ask_once
from tests.attacks.raw import opened, request_bytes
from tests.attacks.service import KEYS
from tests.attacks.victim import PANDA
from tests.bounded import until

MOST = 64
COUNT = 3 * MOST
LEAST_SHARE = 0.9
AGAIN_S = 0.05
NEW = 20
pytestmark = pytest.mark.evidence


@pytest.fixture(scope="module")
def narrow(start_service):
    return start_service(max_connections=MOST)


def is_closed(connection):
    """Whether the service has closed a connection; what it has sent is read and dropped."""
    try:
        while connection.recv(65536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def keep_open(service, stop, data):
    """Keep many connections that have sent something, in the place of those that the service closes."""
    kept = []
    try:
        while not stop.is_set():
            for connection in [one for one in kept if is_closed(one)]:
                connection.close()
                kept.remove(connection)
            for _ in range(min(COUNT - len(kept), MOST // 4)):
                with contextlib.suppress(OSError):
                    kept.append(opened(service))
                    kept[-1].sendall(data)
                    kept[-1].setblocking(False)
            time.sleep(AGAIN_S)
    finally:
        for connection in kept:
            connection.close()


KEPT = {
    "silent": b"",
    "idle": request_bytes("GET", "/health/live", key=None),
    "idle with a key": request_bytes("GET", "/v1/robots"),
    "busy": request_bytes("POST", "/v1/robots/panda/solve", b"x" * 1000)[:-999],
}


@pytest.mark.parametrize("data", KEPT.values(), ids=KEPT)
def test_connections_of_one_caller_leave_room_for_others(narrow, data):
    def keep_connections(service, stop):
        return keep_open(service, stop, data)

    under_attack(narrow, keep_connections, least=LEAST_SHARE)


@pytest.mark.parametrize("kept", ["silent", "idle with a key"])
def test_who_comes_new_is_served_while_one_caller_keeps_all_connections(narrow, kept):
    stop, statuses = threading.Event(), []
    attacking = threading.Thread(target=keep_open, args=(narrow, stop, KEPT[kept]))
    attacking.start()
    try:
        until(lambda: narrow_is_full(narrow))
        for _ in range(NEW):
            with contextlib.suppress(OSError, http.client.HTTPException):
                answer = ask_once(narrow, "POST", "/v1/robots/panda/solve", PANDA, key=KEYS["victim"])
                statuses.append(answer.status)
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
