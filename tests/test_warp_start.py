"""What Warp says while it starts and loads: into the log; to standard output only where it was asked for."""

import pytest

from tests.fork_server import fork_server

PROGRAM = """
import logging, os, sys, threading
import warp as wp
from ik_service import warp_start

logging.basicConfig(format="LOG %(message)s")
wp.config.log_level = wp.LOG_WARNING
start = wp.init

def init():
    start()
    os.write(2, b"Warp CUDA error 1: a fault\\n\\nanother thread\\n")

wp.init = init
warp_start.start_warp(log_notes=os.environ["HOW"] == "log")
warp_start.start_warp()
os.write(2, b"after\\n")
"""


@pytest.fixture(scope="module")
def said():
    """Gives what a program writes to standard output and to standard error; it finds Warp imported, not started."""
    with fork_server("import warp") as server:
        yield lambda program, **variables: server.finish_both(server.start(program, variables))


def lines(said, how, program=PROGRAM):
    stdout, stderr = said(program, HOW=how)
    assert not stdout
    return stderr.splitlines()


def test_notes_of_native_code_are_logged_line_by_line(said):
    found = lines(said, "log")
    assert all(line.startswith("LOG Warp ") for line in found[:-2])
    assert found[-3:] == ["LOG Warp CUDA error 1: a fault", "another thread", "after"]


def test_notes_of_native_code_may_be_dropped(said):
    assert lines(said, "drop") == ["another thread", "after"]


NOTE = "Warp CUDA warning: Could not find or load the NVIDIA CUDA driver. GPU execution will not be available."
SOLVE = """
import ik_service
solver = ik_service.IKSolver(ik_service.load_robot("panda"), ["panda_hand"], device="cpu")
assert solver.solve([[0.4, 0.1, 0.5]], [[1.0, 0.0, 0.0, 0.0]]).success.all()
"""
SETTINGS = """
import warp as wp
{}
import ik_service
ik_service.load_robot("panda").on_device("cpu")
print("level", wp.config.log_level)
"""


def test_a_program_that_solves_prints_nothing(said):
    stdout, stderr = said(SOLVE)
    assert stdout == ""
    assert NOTE not in stderr.splitlines()


def test_an_application_that_wants_the_lines_of_warp_gets_them(said):
    stdout, _ = said("import warp as wp; wp.config.quiet = False" + SOLVE)
    assert stdout.startswith("Warp ")
    assert "Module " in stdout
    stdout, _ = said("import warp as wp; wp.init()" + SOLVE)  # it has started Warp itself
    assert stdout.startswith("Warp ")
    assert "Module " in stdout


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        ("", 30),
        ("wp.config.log_level = wp.LOG_ERROR", 40),
        ("wp.config.log_level = wp.LOG_DEBUG", 10),
        ("wp.config.quiet = True", 30),
        ("wp.config.quiet = True; wp.init()", 30),
        ("wp.config.quiet = True; wp.config.log_level = wp.LOG_ERROR", 40),
        ("wp.config.quiet = False", 20),
        ("wp.init()", 20),
    ],
)
def test_settings_of_the_application_are_respected(said, settings, level):
    assert said(SETTINGS.format(settings))[0].splitlines()[-1] == f"level {level}"


@pytest.mark.parametrize("card", [True, False])
def test_a_missing_driver_is_a_warning_only_where_there_is_a_card(said, card):
    program = PROGRAM.replace("Warp CUDA error 1: a fault", NOTE).replace(
        "def init", f"warp_start._has_card = lambda: {card}\ndef init"
    )
    found = lines(said, "log", program)
    assert (f"LOG {NOTE}" in found) is card
    assert found[-2:] == ["another thread", "after"]
