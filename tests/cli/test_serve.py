"""`ik-service serve`: where it listens, what it prints, and that the printed line works."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from ik_service.cli.serve import curl_line

READY_TIMEOUT_S = 300.0  # the first solve on a machine compiles kernels
CURL = re.compile(r"curl -s (\S+) -H 'Content-Type: application/json' -d '(.*)'")


def test_serve_refuses_an_open_host_before_it_loads_anything(run):
    assert "--insecure" in run("serve", "--host", "0.0.0.0", code=2).stderr


@pytest.mark.parametrize(
    ("host", "address"),
    [("127.0.0.1", "127.0.0.1:80"), ("0.0.0.0", "127.0.0.1:80"), ("::", "[::1]:80"), ("10.0.0.1", "10.0.0.1:80")],
)
def test_the_printed_line_names_an_address_that_can_be_reached(host, address):
    assert CURL.fullmatch(curl_line(host, 80))[1] == f"http://{address}/v1/robots/panda/solve"


def test_a_port_in_use_is_said_in_one_line(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", "--port", port, "--device", "cpu", code=1)
    assert f"Cannot listen on 127.0.0.1:{port}" in result.stderr


def test_a_device_that_is_not_there_stops_the_service(run):
    result = run("serve", "--port", "0", "--device", "cuda:77", code=2)
    assert "cuda:77" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_printed_line_works_and_interrupting_ends_it():
    command = [
        sys.executable,
        "-c",
        "from ik_service.cli import main; main()",
        "serve",
        "--port",
        "0",
        "--device",
        "cpu",
    ]
    environment = {**os.environ, "PYTHONWARNINGS": "default"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as server:
        try:
            found = None
            deadline = time.monotonic() + READY_TIMEOUT_S
            while found is None and time.monotonic() < deadline:
                line = server.stderr.readline()
                assert line, "the service ended before it was ready"
                found = CURL.fullmatch(line.strip())
            request = urllib.request.Request(found[1], found[2].encode(), {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as reply:
                assert json.load(reply)["success"] == [True]
        finally:
            server.send_signal(signal.SIGINT)
            rest = server.communicate(timeout=60)[1]
    assert "Traceback" not in rest
    assert server.returncode in (0, -signal.SIGINT, 130)
