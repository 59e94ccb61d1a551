"""Functions and files of this project that one warm call enters: a POST of one target, and `IKSolver.solve`.

python -m benchmarks.walk [--list]

All threads are profiled. Functions of Warp kernels run on devices and are left out, and so are comprehensions.
"""

import argparse
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
from ik_service.cli.service_server import ServiceServer
from ik_service.service import create_app
from ik_service.service.gate.connection import server_config
from ik_service.settings import load_settings

ROOT = Path(__file__).parents[1]
FOLDERS = tuple(str(ROOT / name) for name in ("ik_service", "objectives"))
TARGET = {"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]], "orientations_xyzw": [[1.0, 0.0, 0.0, 0.0]]}
BODY = json.dumps({"targets": [TARGET]}).encode()
WARM = 8
BOUNDS = {"POST of one target": (120, 45), "IKSolver.solve": (40, 18)}


class Walk:
    """Collects the functions that calls enter while it counts, as (file, name)."""

    def __init__(self) -> None:
        self.entered: dict[tuple[str, str], None] = {}
        self.counts = False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Note a call; the hook of `sys.setprofile`."""
        code = frame.f_code
        if self.counts and event == "call" and code.co_filename.startswith(FOLDERS) and code.co_name[0] != "<":
            self.entered[code.co_filename, code.co_qualname if sys.version_info >= (3, 11) else code.co_name] = None

    def of(self, call: Callable[[], Any]) -> dict[tuple[str, str], None]:
        """Return what a call enters, in order, once it is warm."""
        for _ in range(WARM):
            call()
        self.entered, self.counts = {}, True
        call()
        time.sleep(0.05)  # for what runs after the answer
        self.counts = False
        return self.entered


def post(walk: Walk) -> dict[tuple[str, str], None]:
    """Return what the service enters for a POST of one target."""
    listener = socket.create_server(("127.0.0.1", 0))
    settings = load_settings(device="cpu", robots="panda", log_format="console", log_level="warning")
    app = create_app(settings, bound_to="127.0.0.1")
    server = ServiceServer(server_config(app, settings), app, settings)
    connection = http.client.HTTPConnection("127.0.0.1", listener.getsockname()[1], timeout=60)
    found: list[dict[tuple[str, str], None]] = []

    def call() -> None:
        connection.request("POST", "/v1/robots/panda/solve", BODY, {"content-type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200 or not answer.read():
            raise RuntimeError(f"The service answers with status {answer.status}.")

    def visit() -> None:
        sys.setprofile(None)
        while not server.started:
            time.sleep(0.05)
        while not app.state.service.is_ready:
            time.sleep(0.05)
        found.append(walk.of(call))
        connection.close()
        server.should_exit = True

    threading.Thread(target=visit, daemon=True).start()
    server.run(sockets=[listener])
    return found[0]


def solve(walk: Walk) -> dict[tuple[str, str], None]:
    """Return what `IKSolver.solve` enters for one target of NumPy arrays."""
    solver = ik_service.IKSolver(ik_service.load_robot("panda"), ["panda_hand"], device="cpu")
    positions, orientations = np.array([[0.4, 0.1, 0.5]]), np.array([[1.0, 0.0, 0.0, 0.0]])
    return walk.of(lambda: solver.solve(positions, orientations))


def main() -> None:
    """Print both walks beside their bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the functions, too")
    shows, walk, report = parser.parse_args().list, Walk(), Report("Functions that a warm call enters")
    threading.setprofile(walk)
    sys.setprofile(walk)
    for (name, (functions, files)), run in zip(BOUNDS.items(), (post, solve), strict=True):
        entered = run(walk)
        folders = {str(Path(file).parent) for file, _ in entered}
        count = len({file for file, _ in entered})
        report.line(f"{name}: {len(entered)} functions of {count} files in {len(folders)} folders.")
        report.claim(f"{name}, functions", str(len(entered)), str(functions), len(entered) <= functions)
        report.claim(f"{name}, files", str(count), str(files), count <= files)
        if shows:
            for file, function in entered:
                report.line(f"{Path(file).relative_to(ROOT)}: {function}")


if __name__ == "__main__":
    main()
