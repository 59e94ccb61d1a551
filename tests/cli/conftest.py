import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ik_service.cli.app import app
from tests.bounded import until

READY_TIMEOUT_S = 300.0  # the first solve on a machine compiles kernels
END_TIMEOUT_S = 60.0
READY = re.compile(r"Ready(?: at (http://\S+))?, solving on")


class ServerProcess:
    """`ik-service serve` in a process of its own on a free port of loopback.

    Once it is ready it has a URL, unless its log is for people; `log` has the lines so far.
    """

    # Tests that run under nohup ignore SIGHUP, and so would what they start.
    program = "import signal; signal.signal(1, signal.SIG_DFL); from ik_service.cli import main; main()"

    def __init__(self, *arguments: str, **variables: str) -> None:
        program = [sys.executable, "-W", "default", "-c", self.program]
        command = [*program, "serve", "--port", "0", "--device", "cpu", *arguments]
        own = {name: value for name, value in os.environ.items() if not name.startswith("IK_SERVICE_")}
        own["IK_SERVICE_WARM_UP_ROBOTS"] = ","  # panda once, and nothing is compiled in the background
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, env={**own, **variables})
        self.url, self.log = "", list[str]()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stderr:
            self.log.append(line.decode().rstrip("\n"))

    def matches(self, pattern: re.Pattern[str]) -> list[re.Match[str]]:
        return [match for line in list(self.log) if (match := pattern.search(line))]

    def wait_until_ready(self) -> None:
        until(lambda: self.matches(READY) or not self._reader.is_alive(), READY_TIMEOUT_S)
        found = self.matches(READY)
        assert found, f"ended before it was ready: {self.log}"
        self.url = found[0][1]

    def end(self, sig: signal.Signals = signal.SIGTERM) -> int:
        """Sends a signal and returns the exit code; the rest of the log is read."""
        self.process.send_signal(sig)
        code = self.process.wait(END_TIMEOUT_S)
        self._reader.join(END_TIMEOUT_S)
        return code


@pytest.fixture
def serve() -> Iterator[Callable[..., ServerProcess]]:
    """Starts servers, waits until they are ready, and ends them after the test."""
    with contextlib.ExitStack() as stack:

        def start(*arguments: str, **variables: str) -> ServerProcess:
            server = ServerProcess(*arguments, **variables)
            stack.callback(server.process.stderr.close)
            stack.callback(server._reader.join, END_TIMEOUT_S)
            stack.callback(server.process.wait, END_TIMEOUT_S)
            stack.callback(server.process.kill)
            server.wait_until_ready()
            return server

        yield start


@pytest.fixture
def run() -> Callable[..., Result]:
    """Runs a command line in this process and checks its exit code."""

    def invoke(*arguments: Any, code: int = 0) -> Result:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == code, result.output
        return result

    return invoke
