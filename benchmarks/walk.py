"""Functions and files of this project that one warm call enters: a POST of one target, and `IKSolver.solve`.

All threads are profiled. Functions of Warp kernels run on devices and are left out, and so are comprehensions.
"""

import http.client
import json
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import ik_service
from benchmarks.report import Report
from benchmarks.run import benchmark
from ik_service.cli.service_server import ServiceServer
from ik_service.service import create_app
from ik_service.service.gate.connection import server_config
from ik_service.settings import load_settings

ROOT = Path(__file__).parents[1]
FOLDERS = tuple(str(ROOT / name) for name in ("ik_service", "objectives"))
TARGET = {"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]], "orientations_xyzw": [[1.0, 0.0, 0.0, 0.0]]}
WARM, AFTERWARDS_S = 8, 0.05


class Walk:
    """Collects the functions that calls enter, as (file, name); the hook of `sys.setprofile`."""

    def __init__(self) -> None:
        self.entered, self.counts = set[tuple[str, str]](), False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Note a call."""
        code = frame.f_code
        if self.counts and event == "call" and code.co_filename.startswith(FOLDERS) and code.co_name[0] != "<":
            self.entered.add((code.co_filename, f"{code.co_name}:{code.co_firstlineno}"))

    def of(self, call: Callable[[], Any]) -> set[tuple[str, str]]:
        """Return the functions that a warm call enters, and those that run right after its answer."""
        for _ in range(WARM):
            call()
        self.entered, self.counts = set(), True
        call()
        time.sleep(AFTERWARDS_S)
        self.counts = False
        return self.entered


def of_post(walk: Walk) -> set[tuple[str, str]]:
    """Return the functions that the service enters for a POST of one target on a kept connection."""
    listener, found = socket.create_server(("127.0.0.1", 0)), list[set[tuple[str, str]]]()
    settings = load_settings(device="cpu", robots="panda", warm_up_robots="panda")
    app = create_app(settings, bound_to="127.0.0.1")
    server = ServiceServer(server_config(app, settings), app, settings)
    connection = http.client.HTTPConnection("127.0.0.1", listener.getsockname()[1], timeout=60)

    def call() -> None:
        body = json.dumps({"targets": [TARGET]})
        connection.request("POST", "/v1/robots/panda/solve", body, {"content-type": "application/json"})
        if not json.loads(connection.getresponse().read())["success"][0]:
            raise RuntimeError("The target is not solved.")

    def visit() -> None:
        sys.setprofile(None)
        while not (server.started and app.state.service.is_ready):
            time.sleep(AFTERWARDS_S)
        found.append(walk.of(call))
        server.should_exit = True

    threading.Thread(target=visit, daemon=True).start()
    server.run(sockets=[listener])
    return found[0]


def show(report: Report) -> None:
    """Count both walks, and add them to the report."""
    walk = Walk()
    threading.setprofile(walk)
    sys.setprofile(walk)
    solver = ik_service.IKSolver(ik_service.load_robot("panda"), ["panda_hand"], device="cpu")
    targets = np.array(TARGET["positions"]), np.array(TARGET["orientations_xyzw"])
    of_solve = walk.of(lambda: solver.solve(*targets))
    for name, entered, most in (("POST", of_post(walk), (120, 45)), ("IKSolver.solve", of_solve, (40, 18))):
        counts = len(entered), len({file for file, _ in entered})
        for what, count, bound in zip(("functions", "files"), counts, most, strict=True):
            report.claim(f"{name}: {what}", str(count), str(bound), count <= bound)


if __name__ == "__main__":
    benchmark("Functions that a warm call enters", show, core=None)
