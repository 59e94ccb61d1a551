"""What Warp's native code writes while it starts: into the log, or nowhere; what others write stays as it is."""

import subprocess
import sys

PROGRAM = """
import logging, os, sys, threading
import warp as wp
from ik_service.batching import warp_start

logging.basicConfig(format="LOG %(message)s")
wp.config.log_level = wp.LOG_WARNING
start = wp.init

def init():
    start()
    os.write(2, b"Warp CUDA error 1: a fault\\n\\nanother thread\\n")

wp.init = init
warp_start.start_warp(log_notes=sys.argv[1] == "log")
warp_start.start_warp()
os.write(2, b"after\\n")
"""


def lines(how):
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], check=True, capture_output=True, text=True, timeout=120
    )
    assert not ended.stdout
    return ended.stderr.splitlines()


def test_notes_of_native_code_are_logged_line_by_line():
    found = lines("log")
    assert all(line.startswith("LOG Warp ") for line in found[:-2])
    assert found[-3:] == ["LOG Warp CUDA error 1: a fault", "another thread", "after"]


def test_notes_of_native_code_may_be_dropped():
    assert lines("drop") == ["another thread", "after"]
