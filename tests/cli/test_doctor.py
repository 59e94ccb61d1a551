"""`ik-service doctor`, `health` and `version`: output, also into full disks."""

import os
import subprocess
import sys
from importlib.metadata import version

import httpx2
import pytest
import warp as wp
from typer.testing import CliRunner

import ik_service
from ik_service.cli import health_command
from ik_service.cli.app import app
from ik_service.settings import load_settings
from tests.bounded import PATIENCE_S
from tests.cli.test_drain import GOOD


def test_versions_processor_and_cache_are_told(run):
    told = run("doctor").stdout
    assert f"ik-service {ik_service.__version__}" in told
    assert f"warp-lang {wp.__version__}" in told
    assert f"{len(os.sched_getaffinity(0))} cores" in told
    assert f"'{wp.config.kernel_cache_dir}'" in told.replace("\n", "")
    assert "fails" not in told


def test_a_cache_that_cannot_be_made_fails_with_its_reason():
    code = "from ik_service.cli.app import app; app()"
    given = os.environ | {"WARP_CACHE_PATH": "/dev/null/kernels"}
    command = [sys.executable, "-c", code, "doctor"]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "fails" in done.stdout
    assert "/dev/null/kernels" in done.stdout.replace("\n", "")
    assert "WARP_CACHE_PATH" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_read_only_cache_is_sound_if_it_is_filled(run, monkeypatch, tmp_path):
    """As in an image: only an empty one fails. `os.access` is replaced, since root may always write."""
    monkeypatch.setattr("ik_service.cli.doctor.os.access", lambda _path, _mode: False)
    monkeypatch.setattr("ik_service.cli.doctor.kernel_cache.folder", lambda: tmp_path)
    told = run("doctor", code=1).stdout
    assert "fails" in told
    assert "0 modules" in told
    (tmp_path / "wp_kernel").mkdir()
    told = run("doctor").stdout
    assert "fails" not in told
    assert "1 modules" in told
    assert "read-only" in told


# ---------------------------------------------------------------------- full disks
PROGRAM = "from ik_service.cli import main; main()"
PATIENT = "--timeout", str(PATIENCE_S)  # a busy machine answers late


@pytest.mark.evidence_cases("openapi", "robots")
@pytest.mark.parametrize(
    "arguments",
    [("solve", "panda", "targets.csv", "--device", "cpu"), ("robots",), ("version",), ("openapi",)],
    ids=lambda arguments: arguments[0],
)
def test_a_full_disk_is_said_in_one_line(tmp_path, arguments):
    (tmp_path / "targets.csv").write_text("x,y,z\n0.4,0.1,0.5\n")
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-c", PROGRAM, *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("Warp ")]
    assert lines == ["Error: Cannot write to standard output: No space left on device."]
    assert done.returncode == 2


def test_the_version_is_an_option_too():
    found = [CliRunner().invoke(app, [word]) for word in ("--version", "version")]
    assert [result.exit_code for result in found] == [0, 0]
    assert found[0].output == found[1].output
    assert found[0].output.startswith(f"ik-service {version('ik-service')} (Python ")


# ---------------------------------------------------------------------- `ik-service health`
def test_a_ready_service_is_well(service_url, run):
    assert '"ready"' in run("health", service_url, *PATIENT).stdout
    assert '"live"' in run("health", service_url + "/", "--live", *PATIENT).stdout


def test_a_service_that_drains_is_not_ready_and_yet_alive_and_still_answers(running_service, run):
    with running_service() as (url, server):
        server._app.state.service.admission.draining = True
        assert "shutting_down" in run("health", url, *PATIENT, code=1).output
        run("health", url, "--live", *PATIENT)
        solved = httpx2.post(f"{url}/v1/robots/panda/solve", json=GOOD, timeout=PATIENCE_S)
    assert (solved.status_code, solved.headers["connection"]) == (200, "close")


def test_where_nobody_listens_it_says_so(run):
    assert "No answer" in run("health", "http://127.0.0.1:9", code=1).stderr
    assert "No answer" in run("health", "nonsense", code=1).stderr


@pytest.mark.parametrize(
    ("variables", "url"),
    [
        ({}, "http://127.0.0.1:8000"),
        ({"IK_SERVICE_HOST": "0.0.0.0", "IK_SERVICE_PORT": "9000"}, "http://127.0.0.1:9000"),
        ({"IK_SERVICE_HOST": "::"}, "http://[::1]:8000"),
        ({"IK_SERVICE_PORT": "tcp://10.0.0.1:80"}, "http://127.0.0.1:8000"),
    ],
)
def test_it_asks_where_a_service_with_the_same_environment_listens(variables, url, monkeypatch):
    for name in ("IK_SERVICE_HOST", "IK_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert health_command.own_url() == url
    assert url.endswith(f":{load_settings().port}")
