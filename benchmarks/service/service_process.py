"""The service in a process of its own on one core, and what it costs there."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
START_S = 300.0
SERVER_CORE, CLIENT_CORE = 0, 1


class ServiceProcess:
    """A running service, where it listens, and its process."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int) -> None:
        self.url, self.pid, self._process = f"http://127.0.0.1:{port}", process.pid, process

    @property
    def cpu_seconds(self) -> float:
        """CPU time of all its threads so far [s]."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(int(field) for field in fields[11:13]) / TICKS

    @property
    def memory_mib(self) -> float:
        """Resident memory [MiB]."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

    def wait_until_ready(self) -> None:
        """Wait for the end of the warm-up."""
        end = time.monotonic() + START_S
        while True:
            with suppress(OSError), urllib.request.urlopen(f"{self.url}/health/ready", timeout=1.0):
                return  # an answer of another status is an error
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("The service did not become ready.")
            time.sleep(0.05)


@contextmanager
def service(core: int | None, settings: Mapping[str, object] | None = None) -> Iterator[ServiceProcess]:
    """Run the service on one core, or on all, ready, with settings by their names, and end it afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    chosen = {"device": "cpu", **(settings or {})}
    given = {f"IK_SERVICE_{name.upper()}": str(value) for name, value in chosen.items()}
    command = [sys.executable, "-c", "from ik_service.cli import main; main()", "serve", "--port", str(port)]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env={**os.environ, **given}, stdout=quiet, stderr=quiet)
    if core is not None:
        os.sched_setaffinity(process.pid, {core})  # before it has threads
    try:
        running = ServiceProcess(process, port)
        running.wait_until_ready()
        yield running
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
