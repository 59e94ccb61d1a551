"""The node in a process of its own, asked as MoveIt's plugin for services asks; `test_ros` runs this."""

import ast
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import rclpy
import yaml
from geometry_msgs.msg import PoseStamped
from moveit_msgs.srv import GetPositionFK, GetPositionIK
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from ik_service import load_robot
from ik_service.integrations.ros.node import PARAMETERS
from ik_service.robots import builtin_urdf

DOCUMENT = (Path(__file__).parents[3] / "docs" / "ros.md").read_text()
WAIT = 120.0  # [s] for a node to start, and for kernels to be compiled
ANSWER = 30.0  # [s]
POSITION = 1e-4  # [m] the node's tolerance
READY = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 0.7])
HAND, LEFT, RIGHT = "panda_hand", "left_panda_hand", "right_panda_hand"
SRDF = '<robot name="panda"><group name="arm"><chain base_link="panda_link0" tip_link="panda_hand"/></group></robot>'
TWO = """<robot name="dual_panda">
<group name="left"><chain base_link="base" tip_link="left_panda_hand"/></group>
<group name="right"><chain base_link="base" tip_link="right_panda_hand"/></group>
<group name="both"><group name="left"/><group name="right"/></group></robot>"""
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class Asker:
    """A node that asks, and describes robots."""

    def __init__(self):
        self.node = rclpy.create_node("asker")
        self.ik = self.node.create_client(GetPositionIK, "solve_ik")
        self.fk = self.node.create_client(GetPositionFK, "solve_fk")
        self.urdf = self.node.create_publisher(String, "robot_description", LATCHED)
        self.srdf = self.node.create_publisher(String, "robot_description_semantic", LATCHED)

    def answer(self, client, request):
        future = client.call_async(request)
        rclpy.spin_until_future_complete(self.node, future, timeout_sec=ANSWER)
        assert future.done(), "no answer came"
        return future.result()

    def describe(self, name, srdf):
        self.srdf.publish(String(data=srdf))
        self.urdf.publish(String(data=builtin_urdf(name).decode()))


@pytest.fixture(scope="module")
def asker():
    rclpy.init()
    arguments = ["--ros-args", "-p", "command_group:=arm", "-p", "command_rate:=200.0"]
    node = subprocess.Popen([sys.executable, "-m", "ik_service.integrations.ros", *arguments])
    made = Asker()
    assert made.ik.wait_for_service(timeout_sec=WAIT)
    assert made.fk.wait_for_service(timeout_sec=WAIT)
    yield made
    node.send_signal(signal.SIGINT)
    assert node.wait(ANSWER) == 0
    made.node.destroy_node()
    rclpy.shutdown()


def request_of(robot, group, tips, joint_q, seed_q, frame):
    poses = robot.forward_kinematics(joint_q, tips)
    values = np.concatenate((poses.positions[0], poses.orientations_xyzw[0]), axis=-1)
    request = GetPositionIK.Request()
    asked = request.ik_request
    asked.group_name, asked.avoid_collisions = group, True
    asked.robot_state.joint_state.name = list(robot.coordinate_names)
    asked.robot_state.joint_state.position = [float(value) for value in seed_q]
    if len(tips) > 1:
        asked.ik_link_names, asked.pose_stamped_vector = list(tips), [PoseStamped() for _ in tips]
    else:
        asked.ik_link_name = tips[0]
    for stamped, pose in zip(asked.pose_stamped_vector or [asked.pose_stamped], values, strict=True):
        stamped.header.frame_id = frame
        place, turn = stamped.pose.position, stamped.pose.orientation
        place.x, place.y, place.z, turn.x, turn.y, turn.z, turn.w = map(float, pose)
    return request, values


def until_solved(asker, robot, request, tips, poses):
    end = time.monotonic() + WAIT
    response = asker.answer(asker.ik, request)
    while response.error_code.val != 1 and time.monotonic() < end:
        time.sleep(0.1)
        response = asker.answer(asker.ik, request)
    assert response.error_code.val == 1, response.error_code
    given = dict(zip(response.solution.joint_state.name, response.solution.joint_state.position, strict=True))
    found = robot.forward_kinematics([given[name] for name in robot.coordinate_names], tips)
    assert np.abs(found.positions[0] - poses[:, :3]).max() < POSITION


def test_the_node_answers_with_an_error_then_for_the_robot_that_is_described(asker):
    robot = load_robot("panda")
    joint_q = robot.random_joint_q(np.random.default_rng(0), 1)[0]
    request, poses = request_of(robot, "arm", [HAND], joint_q, READY, "panda_link0")
    response = asker.answer(asker.ik, request)
    assert response.error_code.val == 99999
    assert "robot_description" in response.error_code.message
    asker.describe("panda", SRDF)
    until_solved(asker, robot, request, [HAND], poses)
    request.ik_request.group_name = "leg"
    assert asker.answer(asker.ik, request).error_code.val == -15


def test_the_program_of_the_document_gets_an_answer(asker, monkeypatch, capsys):
    (program,) = re.findall(r"^```python\n(.*?)^```$", DOCUMENT, re.DOTALL | re.MULTILINE)
    monkeypatch.setattr(rclpy, "init", lambda: None)  # this process has done so
    exec(compile(program, "docs/ros.md", "exec"), {})
    code, _, positions = capsys.readouterr().out.partition(" ")
    assert int(code) == 1
    robot, found = load_robot("panda"), ast.literal_eval(positions)
    reached = robot.forward_kinematics([found[name] for name in robot.coordinate_names], [HAND])
    np.testing.assert_allclose(reached.positions[0, 0], [0.4, 0.1, 0.5], atol=POSITION)


def test_the_document_names_every_parameter_and_no_other():
    section = DOCUMENT.partition("## Parameters")[2].partition("\n## ")[0]
    named = re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in section.splitlines() if line[:3] == "| `"))
    assert sorted(named) == sorted(PARAMETERS)
    own, moveit = (
        yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", DOCUMENT, re.DOTALL | re.MULTILINE)
    )
    assert own["ik_service"]["ros__parameters"].keys() <= PARAMETERS.keys()
    assert moveit["arm"]["kinematics_solver_service_name"] == PARAMETERS["ik_service_name"]


def test_forward_kinematics(asker):
    request = GetPositionFK.Request(fk_link_names=[HAND])
    request.robot_state.joint_state.name = [f"panda_joint{k + 1}" for k in range(7)]
    request.robot_state.joint_state.position = READY.tolist()
    response = asker.answer(asker.fk, request)
    assert response.error_code.val == 1
    place = response.pose_stamped[0].pose.position
    expected = load_robot("panda").forward_kinematics(READY, [HAND]).positions[0, 0]
    np.testing.assert_allclose([place.x, place.y, place.z], expected, atol=1e-12)


def test_commands_take_the_tip_to_a_pose(asker):
    robot, node, commands = load_robot("panda"), asker.node, []
    node.create_subscription(JointTrajectory, "ik_service/joint_trajectory", commands.append, 100)
    states, poses = (
        node.create_publisher(JointState, "joint_states", 1),
        node.create_publisher(PoseStamped, "ik_service/target_pose", 1),
    )
    goal = PoseStamped()
    goal.header.frame_id = "panda_link0"
    found = robot.forward_kinematics(READY, [HAND])
    place, turn = goal.pose.position, goal.pose.orientation
    place.x, place.y, place.z = found.positions[0, 0] + (0.02, 0.03, -0.02)
    turn.x, turn.y, turn.z, turn.w = found.orientations_xyzw[0, 0]
    end = time.monotonic() + WAIT
    distance = np.inf
    while distance > 2.0 * POSITION and time.monotonic() < end:
        if not commands:  # until the node has found the publishers
            states.publish(JointState(name=[f"panda_joint{k + 1}" for k in range(7)], position=READY.tolist()))
            poses.publish(goal)
        rclpy.spin_once(node, timeout_sec=0.05)
        if commands:
            at = robot.forward_kinematics(list(commands[-1].points[0].positions), [HAND]).positions[0, 0]
            distance = np.linalg.norm(at - (place.x, place.y, place.z))
    assert distance < 2.0 * POSITION
    assert commands[0].joint_names == [f"panda_joint{k + 1}" for k in range(7)]
    assert commands[0].points[0].time_from_start.nanosec == 5_000_000
    assert np.abs(np.array(commands[0].points[0].positions) - READY).max() < 0.01


def test_another_description_brings_another_robot(asker):
    robot = load_robot("dual_panda")
    asker.describe("dual_panda", TWO)
    joint_q = robot.random_joint_q(np.random.default_rng(1), 1)[0]
    request, poses = request_of(robot, "both", [LEFT, RIGHT], joint_q, robot.mid_joint_q, robot.link_names[0])
    until_solved(asker, robot, request, [LEFT, RIGHT], poses)
