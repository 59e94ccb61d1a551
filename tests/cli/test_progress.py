"""Progress of commands: on a terminal, on standard error; elsewhere nothing of it."""

import importlib
import io
import os
import pkgutil
import subprocess
import sys
import threading

import numpy as np
import pytest
from rich.console import Console

from ik_service import cli
from ik_service.cli import console, robot_bench, warmup_command
from ik_service.compiler.code.lanes import CPU_VARIABLE, cpu_target
from ik_service.kernels.kernel_loading import QUIET_VARIABLE
from objectives.errors import InputError
from tests.cli.test_doctor import PROGRAM

LINK = '<link name="{0}"><collision><geometry><box size="0.2 0.1 0.1"/></geometry></collision></link>'
ARM = f"""<robot name="arm">{LINK.format("base")}{LINK.format("[tip]")}
<joint name="turn" type="revolute"><parent link="base"/><child link="[tip]"/><origin xyz="0 0 0.5"/>
<limit lower="-1" upper="1"/></joint></robot>"""
TARGETS = "x,y,z\n0.4,0.1,0.5\n"
COMMANDS = {
    "warmup": (("warmup", "panda", "ur5e", "--device", "cpu"), "ur5e tool0", "1/2"),
    "bench": (("bench", "panda", "--count", "20", "--repeats", "1", "--device", "cpu"), "One target", ""),
    "spheres": (("spheres", "arm.urdf", "-o", "arm.json"), "Fitting spheres", "100/100"),
    "export": (("export", "panda", "-o", "panda_c", "--entry", "solve"), "Exporting panda", ""),
    "solve": (("solve", "panda", "targets.csv", "--device", "cpu"), "Solving", "0/1"),
    "follow": (("follow", "panda", "targets.csv", "--dt", "1", "--device", "cpu"), "Solving", ""),
    "bulk": (("solve", "panda", "targets.npz", "-o", "found", "--format", "npz", "--device", "cpu"), "Solving", "0/1"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "arm.urdf").write_text(ARM)
    (tmp_path / "targets.csv").write_text(TARGETS)
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "targets.npz", positions=np.array([[0.4, 0.1, 0.5]]))
    monkeypatch.setenv(CPU_VARIABLE, cpu_target().name)
    monkeypatch.delenv(QUIET_VARIABLE, raising=False)
    monkeypatch.setitem(robot_bench.LATENCY_CALLS, "compiled", 10)
    return tmp_path


@pytest.fixture
def shown(monkeypatch):
    for module in pkgutil.iter_modules(cli.__path__):  # commands are imported late and would keep the terminal
        importlib.import_module(f"{cli.__name__}.{module.name}")
    drawn = io.StringIO()
    terminal = Console(file=drawn, force_terminal=True, width=200, legacy_windows=False)
    monkeypatch.setattr(console, "message_console", lambda: terminal)
    return drawn


@pytest.mark.evidence_cases("export")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_terminal_sees_what_is_done_now_and_how_much_is_left(run, folder, shown, command):
    arguments, text, left = COMMANDS[command]
    run(*arguments)
    assert text in shown.getvalue()
    assert left in shown.getvalue()
    assert "0:00:" in shown.getvalue()


def test_names_in_square_brackets_are_no_markup(folder, shown):
    with console.progress_bar("Covering [tip]", 2) as bar:
        bar(advance=1)
    assert "Covering [tip]" in shown.getvalue()
    assert "1/2" in shown.getvalue()


def started(folder, terminal, **variables):
    """What a command writes into pipes; with a terminal, the pipe of standard error has what that shows."""
    colours = ("FORCE_COLOR", "TTY_COMPATIBLE", "NO_COLOR")
    own = {name: value for name, value in os.environ.items() if name not in colours}
    command = [sys.executable, "-c", PROGRAM, *COMMANDS["spheres"][0]]
    read, write = os.openpty() if terminal else os.pipe()
    given = {"stdout": subprocess.PIPE, "stderr": write, "cwd": folder, "env": {**own, "TERM": "xterm", **variables}}
    with subprocess.Popen(command, **given) as process:
        os.close(write)
        said = []
        reader = threading.Thread(target=lambda: said.extend(_parts(read)))
        reader.start()
        output = process.stdout.read()
        reader.join()
        os.close(read)
    return process.returncode, output, b"".join(said)


def _parts(read):
    try:
        while part := os.read(read, 65536):
            yield part
    except OSError:  # so a terminal ends whose program has gone
        return


def test_a_pipe_has_the_same_bytes_as_without_a_bar_and_standard_output_always_has(folder):
    code, output, said = started(folder, terminal=False)
    assert (code, said) == (0, b"")
    assert output.endswith(b"Wrote arm.json.\n")
    on_terminal = started(folder, terminal=True)
    assert on_terminal[:2] == (code, output)
    assert b"Fitting" in on_terminal[2]
    assert started(folder, terminal=True, IK_SERVICE_QUIET="1") == (code, output, b"")


def test_an_error_ends_the_bar_and_keeps_its_exit_code(run, folder, shown, monkeypatch):
    def fails(*_):
        raise InputError("no such thing")

    monkeypatch.setattr(warmup_command, "_solve_once", fails)
    result = run(*COMMANDS["warmup"][0], code=2)
    assert "no such thing" in shown.getvalue() + result.output
    assert "panda panda_hand" in shown.getvalue()
