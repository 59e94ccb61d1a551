import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ik_service.cli.app import app

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
        self.url, self.log = "", [""]

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        found = None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stderr, selectors.EVENT_READ)
            while found is None:
                assert selector.select(deadline - time.monotonic()), f"not ready in time: {self.log}"
                data = os.read(self.process.stderr.fileno(), 65536).decode()
                assert data, f"ended before it was ready: {self.log}"
                lines = (self.log.pop() + data).split("\n")
                self.log += lines
                found = next((match for line in self.log if (match := READY.search(line))), None)
        self.url = found[1]

    def end(self, sig: signal.Signals) -> int:
        """Sends a signal and returns the exit code; the rest of the log is read."""
        self.process.send_signal(sig)
        rest = self.process.communicate(timeout=END_TIMEOUT_S)[1].decode()
        self.log += (self.log.pop() + rest).split("\n")
        return self.process.returncode


@pytest.fixture
def serve() -> Iterator[Callable[..., ServerProcess]]:
    """Starts servers, waits until they are ready, and ends them after the test."""
    with contextlib.ExitStack() as stack:

        def start(*arguments: str, **variables: str) -> ServerProcess:
            server = ServerProcess(*arguments, **variables)
            stack.callback(server.process.stderr.close)
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
