"""An honest caller, run as a program of its own so that the work of an attack does not slow its clock.

Usage: victim.py HOST PORT KEY. It prints READY once a call of each kind has ended, calls until its standard
input ends, and then prints its calls, one JSON list a line with the fields of `Call`. Each kind of call has a thread
and a connection; `fresh` makes a new one each time.
"""

import http.client
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

PANDA = {"targets": [{"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]], "orientations_xyzw": [[1, 0, 0, 0]]}]}
TIMEOUT_S = 20.0  # who waits longer counts as not served
PAUSE_S = 0.005
KINDS = ("solve", "live", "fresh")
READY = "ready"


class Call(NamedTuple):
    """One call of a kind (`solve`, `live` or `fresh`): when it began and how long it took by the machine's clock [s].

    `code` is "ok", the code of a problem document, or the name of the exception.
    """

    kind: str
    began_s: float
    took_s: float
    code: str

    @property
    def is_served(self) -> bool:
        """Whether the answer was the one that an idle service gives."""
        return self.code == "ok"


def call(connection: http.client.HTTPConnection, kind: str, key: str) -> Call:
    """Ask for one solve, or whether the service is live; the connection is closed where that fails."""
    began = time.monotonic()
    try:
        if kind == "solve":
            headers = {"X-API-Key": key, "Content-Type": "application/json"}
            connection.request("POST", "/v1/robots/panda/solve", json.dumps(PANDA), headers)
        else:
            connection.request("GET", "/health/live")
        reply = connection.getresponse()
        content = reply.read()
        code = "ok"
        if reply.status != 200:
            code = json.loads(content).get("code", "none")
        elif kind == "solve" and json.loads(content)["success"] != [True]:
            code = "not_solved"
    except (OSError, http.client.HTTPException, ValueError) as error:
        code = type(error).__name__
        connection.close()
    return Call(kind, began, time.monotonic() - began, code)


def keep_calling(calls: list[Call], kind: str, address: tuple[str, int], key: str, stop: threading.Event) -> None:
    """Call until told to stop."""
    connection = http.client.HTTPConnection(*address, timeout=TIMEOUT_S)
    while not stop.wait(PAUSE_S):
        calls.append(call(connection, kind, key))
        if kind == "fresh":
            connection.close()
    connection.close()


def main(host: str, port: str, key: str) -> None:
    """Call in one thread per kind until standard input ends, then print the calls."""
    stop = threading.Event()
    calls: list[Call] = []
    with ThreadPoolExecutor(len(KINDS)) as pool:
        for kind in KINDS:
            pool.submit(keep_calling, calls, kind, (host, int(port)), key, stop)
        while len({made.kind for made in list(calls)}) < len(KINDS):
            time.sleep(PAUSE_S)
        sys.stdout.write(f"{READY}\n")
        sys.stdout.flush()
        sys.stdin.read()
        stop.set()
    for made in calls:
        sys.stdout.write(json.dumps(made) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
