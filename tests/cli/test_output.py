"""What goes to standard output and standard error, and an output that takes no more."""

import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from ik_service.cli.app import app

PROGRAM = "from ik_service.cli import main; main()"


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
