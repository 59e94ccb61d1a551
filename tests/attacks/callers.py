"""Attackers who ask again and again, each over a connection of its own."""

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from tests.attacks.service import KEYS, Service

TIMEOUT_S = 600.0
JSON = "application/json"


class Answer(NamedTuple):
    """An answer: its status, "ok" or the code of the refusal, and its length [bytes]."""

    status: int
    code: str
    size: int


def ask(connection: http.client.HTTPConnection, method: str, path: str, body: Any = None, **given: Any) -> Answer:
    """Send a request whose body are bytes or a document; `key` (None for none) and `media_type` may be given."""
    key = given.get("key", KEYS["attacker"])
    headers = {"Content-Type": given.get("media_type", JSON), **({"X-API-Key": key} if key else {})}
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, path, content, headers)
    reply = connection.getresponse()
    content = reply.read()
    return Answer(reply.status, "ok" if reply.status < 400 else json.loads(content)["code"], len(content))


def ask_once(service: Service, method: str, path: str, body: Any = None, **given: Any) -> Answer:
    """The same over a connection for this request alone."""
    with contextlib.closing(service.connect(TIMEOUT_S)) as connection:
        return ask(connection, method, path, body, **given)


def again_and_again(
    service: Service,
    stop: threading.Event,
    callers: int,
    request_of: Callable[[int, int], tuple[Any, ...]],
    *,
    is_cut_off: bool = False,
    **given: Any,
) -> list[Answer]:
    """Let callers send in turn what `request_of(caller, turn)` says, method, path and body, until `stop` is set.

    Then each caller waits for its last answer, and for a first one at least, unless all are cut off.
    """
    connections = [service.connect(TIMEOUT_S) for _ in range(callers)]

    def caller(number: int) -> list[Answer]:
        answers: list[Answer] = []
        while not (stop.is_set() and (answers or is_cut_off)):
            try:
                answers.append(ask(connections[number], *request_of(number, len(answers)), **given))
            except (OSError, http.client.HTTPException):
                connections[number].close()
                if stop.is_set():
                    break
        return answers

    with ThreadPoolExecutor(callers) as pool:
        asking = [pool.submit(caller, number) for number in range(callers)]
        stop.wait()
        for connection in connections if is_cut_off else ():
            if connection.sock is not None:
                with contextlib.suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)
    for connection in connections:
        connection.close()
    return [answer for one in asking for answer in one.result()]
