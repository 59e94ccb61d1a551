"""A service in a process of its own, which attacks are made on."""

import contextlib
import http.client
import os
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.bounded import until

KEYS = {"attacker": "attacker-0123456789", "victim": "victim-0123456789"}
READY_TIMEOUT_S = 300.0  # the first solve on a machine compiles kernels
END_TIMEOUT_S = 60.0
WORKER = re.compile(r"Process worker-\d+ has the id (\d+)")
READY = re.compile(r"Ready at (http://[^\s\"]+), solving on")
MEGABYTE = 2**20


class Service:
    """`ik-service serve` on a free port of loopback, with keys, uploads and the kernel cache of the other tests.

    `serving` are the ids of the processes that serve: its only one, or its workers. It logs into a file, since a pipe
    that nobody reads would stop the service.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        given = {
            "api_keys": ",".join(f"{name}:{key}" for name, key in KEYS.items()),
            "catalog_dir": folder / "catalog",
            "uploads_enabled": True,
            "warm_up_robots": ",",  # panda once, and nothing is compiled in the background
            **settings,
        }
        variables = {name: value for name, value in os.environ.items() if not name.startswith("IK_SERVICE_")}
        variables |= {f"IK_SERVICE_{name.upper()}": str(value) for name, value in given.items()}
        program = [sys.executable, "-W", "default", "-c", "from ik_service.cli import main; main()"]
        command = [*program, "serve", "--port", "0", "--device", "cpu", "--log-format", "json"]
        self.log_file = folder / "service.log"
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=variables)
        self.host, self.port, self.serving = "", 0, [self.process.pid]

    def wait_until_ready(self) -> None:
        """Reads the log until it says that the service is ready."""
        until(lambda: READY.search(self.log()) or self.process.poll() is not None, READY_TIMEOUT_S)
        found = READY.search(self.log())
        assert found, f"ended before it was ready: {self.log()}"
        self.serving = [int(pid) for pid in WORKER.findall(self.log())] or self.serving
        address = urlsplit(found[1])
        self.host, self.port = str(address.hostname), int(address.port or 80)

    def end(self) -> None:
        """Ends the process, kindly first."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(END_TIMEOUT_S)
        finally:
            self.process.kill()
            self.process.wait()

    def log(self) -> str:
        """What it has logged so far."""
        return self.log_file.read_text(errors="replace")

    def connect(self, timeout_s: float) -> http.client.HTTPConnection:
        """A new connection; nothing is sent yet."""
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout_s)

    def memory_mb(self) -> float:
        """Memory that the service's process holds, of several workers the one with most [MB]."""
        pages = [int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.serving]
        return max(pages) * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


@contextlib.contextmanager
def running(folder: Path, **settings: Any) -> Iterator[Service]:
    """A service that is ready, with settings by name and a folder for its catalog and log; it ends with the block."""
    service = Service(folder, settings)
    try:
        service.wait_until_ready()
        yield service
    finally:
        service.end()
