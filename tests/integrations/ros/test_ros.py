"""The node over rclpy and over Cyclone DDS, in an environment of its own."""

import os
import subprocess
import sys

import pytest

from benchmarks.peers.environments import PeerMissingError
from tests.integrations.ros.ros_environment import ROOT, find_interpreter, ros_python


def test_without_ros_the_node_says_what_it_needs():
    blocked = "import sys; sys.modules['rclpy'] = None; import runpy; runpy.run_module('ik_service.integrations.ros')"
    done = subprocess.run([sys.executable, "-c", blocked], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("ik_service.integrations.ros needs rclpy, which comes with ROS 2: source ")
    assert "Traceback" not in done.stderr


@pytest.mark.evidence  # its messages take minutes to compile
@pytest.mark.skipif(find_interpreter() is None, reason="wheels of rclpy are for Python 3.12, which is not here")
def test_the_node_answers_over_two_stacks():
    try:
        python, variables = ros_python()
    except PeerMissingError as error:
        pytest.skip(f"rclpy and the messages cannot be installed here: {error}")
    own = ["-c", os.devnull, "--rootdir", ROOT, "--noconftest", "--import-mode=importlib", "-p", "no:cacheprovider"]
    command = [python, "-m", "pytest", "-q", *own, "tests/integrations/ros/rclpy_checks.py"]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
