"""The node over stand-ins of ROS, and over rclpy in an environment of its own."""

import importlib
import os
import subprocess
import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from benchmarks.peers.environments import PeerMissingError
from ik_service.robots import builtin_urdf
from tests.integrations.ros.ros_environment import ROOT, find_interpreter, ros_python

MESSAGES = ("geometry", "sensor", "std", "trajectory")


def test_without_ros_the_node_says_what_it_needs():
    blocked = "import sys; sys.modules['rclpy'] = None; import runpy; runpy.run_module('ik_service.integrations.ros')"
    done = subprocess.run([sys.executable, "-c", blocked], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("ik_service.integrations.ros needs rclpy, which comes with ROS 2: source ")
    assert "Traceback" not in done.stderr


def test_the_group_that_a_parameter_names_gets_commands(monkeypatch):
    parts = ("rclpy.executors", "rclpy.qos", "moveit_msgs.srv", *(f"{kind}_msgs.msg" for kind in MESSAGES))
    for name in {*parts, *(part.partition(".")[0] for part in parts)}:
        monkeypatch.setitem(sys.modules, name, MagicMock())
    for name in ("node", "command_loop"):  # made over the stand-ins, and gone with them
        monkeypatch.setitem(sys.modules, f"ik_service.integrations.ros.{name}", None)
        del sys.modules[f"ik_service.integrations.ros.{name}"]
    asked = {"robot_description": builtin_urdf("panda").decode(), "groups": ["arm=panda_hand"], "command_group": "arm"}
    given = MagicMock()
    given.declare_parameter = lambda name, default: SimpleNamespace(value=asked.get(name, default))
    sys.modules["rclpy"].create_node.return_value = given
    node = importlib.import_module("ik_service.integrations.ros.node").KinematicsNode()
    assert node.commands is not None, given.get_logger().mock_calls
    node.commands.stop()
    assert [call.args[1] for call in given.create_publisher.mock_calls] == ["~/joint_trajectory"]
    topics = ["joint_states", "joint_states", "robot_description", "robot_description_semantic", "~/target_pose"]
    assert sorted(call.args[1] for call in given.create_subscription.mock_calls) == topics


@pytest.mark.evidence  # its messages take minutes to compile
@pytest.mark.skipif(find_interpreter() is None, reason="wheels of rclpy are for Python 3.12, which is not here")
def test_the_node_answers_over_rclpy():
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
