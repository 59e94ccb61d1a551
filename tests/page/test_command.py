"""`ik-service page`: it says where it is, ends in order, and says in one line why it cannot begin."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ik_service.cli.app import app
from tests.bounded import until

PROGRAM = "from ik_service.cli import main; main()"
END_S = 120.0  # the first solve on a machine compiles kernels, and the page ends after it


def run(*arguments, code):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.mark.evidence_cases("2")
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_interrupted(signal_number):
    command = [sys.executable, "-c", PROGRAM, "page", "ur5e", "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = process.stderr.readline()
            url = re.search(r"The page is at (http://127\.0\.0\.1:\d+)", said)[1]
            with urllib.request.urlopen(url, timeout=60) as reply:
                assert b"<html" in reply.read()
            process.send_signal(signal_number)
            printed, said = process.communicate(timeout=END_S)
        finally:
            process.kill()
    assert (process.returncode, printed, said) == (0, "", "")


def test_it_runs_with_the_packages_of_the_lock():
    lock = Path(__file__).parents[2] / "requirements-page.lock"
    pins = dict(re.findall(r"^([^\s=]+)==(\S+)", lock.read_text(), flags=re.MULTILINE))
    names = ("viser", "websockets", "rich", "trimesh", "msgspec")
    assert {name: version(name) for name in names} == {name: pins[name] for name in names}


def test_a_service_starts_a_page_beside_it_and_says_so_once_it_is_there(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-c", PROGRAM, "serve", "--port", "0", "--page-port", str(port), "--device", "cpu"]
    command += ["--log-format", "console"]
    said = tmp_path / "said"
    quiet = {**os.environ, "IK_SERVICE_WARM_UP_ROBOTS": ","}  # nothing is compiled in the background
    with said.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file, env=quiet) as process:
        try:

            def is_there():
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=60) as reply:
                        return b"<html" in reply.read()
                except OSError:
                    return False

            until(lambda: "Open http://127.0.0.1:" in said.read_text(), END_S)
            assert is_there()
            process.send_signal(signal.SIGTERM)
            assert process.wait(END_S) == 0
        finally:
            process.kill()
    until(lambda: not is_there())


def test_a_service_with_keys_starts_no_page(tmp_path):
    (tmp_path / "keys").write_text("lab:0123456789abcdef\n")
    keys = "--api-keys-file", tmp_path / "keys"
    said = run("serve", "--port", "0", "--page-port", "8099", *keys, "--device", "cpu", code=1).stderr
    assert "ik-service page --url" in said


def test_a_port_in_use_is_said_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("page", "--port", port, "--device", "cpu", code=1)
    assert f"Cannot listen on 127.0.0.1:{port}" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_robot_or_service_that_is_not_there_is_said(service_url):
    assert "nobody" in run("page", "nobody", "--port", "0", code=2).stderr
    assert "does not answer" in run("page", "--url", "http://127.0.0.1:9", "--port", "0", code=1).stderr
    assert "no robot 'nobody'" in run("page", "nobody", "--url", service_url, "--port", "0", code=1).stderr
