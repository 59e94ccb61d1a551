"""Round trips of the ROS node over rclpy and over Cyclone DDS, and the time of its adapter without the solver.

python ros_trips.py answers.npz: it runs in the environment of `tests/integrations/ros/ros_environment.py`, with the
variables of that environment.
"""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

import numpy as np
import rclpy
from geometry_msgs.msg import PoseStamped, Transform
from moveit_msgs.srv import GetPositionIK
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from ik_service import IKSolver
from ik_service.integrations.ros.adapter import KinematicsAdapter
from ik_service.integrations.ros.described_robot import DescriptionSettings, read_described_robot
from ik_service.robots import builtin_urdf
from tests.integrations.ros.cyclone_client import CONFIGURATION, CycloneClient, empty

REQUESTS, WARM = 1000, 100
RATES, COMMANDS = (100.0, 250.0, 500.0, 1000.0), 2000  # [Hz]
POSE_INTERVAL = 0.02  # [s]
COMMANDS_WAIT = 60.0  # [s]
WAIT = 300.0  # [s] for the node to start and to compile
SUCCESS = 1
ROBOT, GROUP, LINK, FRAME = "panda", "arm", "panda_hand", "panda_link0"
SRDF = f'<robot name="panda"><group name="{GROUP}"><chain base_link="{FRAME}" tip_link="{LINK}"/></group></robot>'
SPHERES = str(files("ik_service.robots") / "builtin" / "panda.collision.json")
START = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 0.7])


def problems() -> tuple[list[str], np.ndarray]:
    """Return the names of joints, and reachable poses free of contact, shape [REQUESTS + WARM, 7]."""
    robot = robot_here().robot
    joint_q = robot.random_free_joint_q(np.random.default_rng(0), REQUESTS + WARM)
    poses = robot.forward_kinematics(joint_q, [LINK])
    return list(robot.joint_names), np.concatenate((poses.positions[:, 0], poses.orientations_xyzw[:, 0]), axis=1)


def robot_here() -> Any:
    """Return the robot as the node has it."""
    return read_described_robot(builtin_urdf(ROBOT).decode(), SRDF, DescriptionSettings(collision_spheres=SPHERES))


def fill(request: Any, names: list[str], pose: np.ndarray) -> Any:
    """Fill a request of any stack as MoveIt's plugin for services does."""
    asked = request.ik_request
    asked.group_name, asked.ik_link_name, asked.avoid_collisions = GROUP, LINK, True
    asked.robot_state.joint_state.name, asked.robot_state.joint_state.position = names, START.tolist()
    asked.pose_stamped.header.frame_id = FRAME
    place, turn = asked.pose_stamped.pose.position, asked.pose_stamped.pose.orientation
    place.x, place.y, place.z, turn.x, turn.y, turn.z, turn.w = pose.tolist()
    return request


def times_of(call: Callable[[Any], Any], requests: list[Any]) -> tuple[np.ndarray, int]:
    """Return the round trips [s] after the first ones, and how many answers were no success."""
    times, failures = [], 0
    for request in requests:
        begun = time.perf_counter()
        response = call(request)
        times.append(time.perf_counter() - begun)
        failures += response.error_code.val != SUCCESS
    return np.array(times[WARM:]), failures


@contextlib.contextmanager
def running_node(*parameters: str) -> Iterator[None]:
    """Run the node in a process of its own."""
    given = [word for one in (f"collision_spheres:={SPHERES}", *parameters) for word in ("-p", one)]
    node = subprocess.Popen([sys.executable, "-m", "ik_service.integrations.ros", "--ros-args", *given])
    try:
        yield
    finally:
        node.terminate()
        node.wait()


def caller(node: Any, name: str) -> Callable[[Any], Any]:
    """Return a function that calls a service and waits for its answer."""
    client = node.create_client(GetPositionIK, name)
    if not client.wait_for_service(timeout_sec=WAIT):
        raise TimeoutError(f"{name} is not there")

    def call(request: Any) -> Any:
        future = client.call_async(request)
        rclpy.spin_until_future_complete(node, future)
        return future.result()

    return call


def describe(node: Any, call: Callable[[Any], Any], request: Any) -> list[Any]:
    """Describe the robot, and wait until it is there; return the publishers, which must stay."""
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    texts = {"robot_description_semantic": SRDF, "robot_description": builtin_urdf(ROBOT).decode()}
    publishers = [node.create_publisher(String, topic, latched) for topic in texts]
    for publisher, text in zip(publishers, texts.values(), strict=True):
        publisher.publish(String(data=text))
    end = time.monotonic() + WAIT
    while call(request).error_code.val != SUCCESS:
        if time.monotonic() > end:
            raise TimeoutError("the robot is not there")
        time.sleep(0.2)
    return publishers


def command_intervals(node: Any, request: Any, rate: float) -> np.ndarray:
    """Return the time between commands as they arrive [s], while a pose moves along a circle.

    Args:
        node: A node.
        request: A request that the node can answer.
        rate: Commands per second that the node is told to send.
    """
    arrived: list[float] = []
    subscription = node.create_subscription(
        JointTrajectory, "ik_service/joint_trajectory", lambda _: arrived.append(time.perf_counter()), 1000
    )
    states = node.create_publisher(JointState, "joint_states", 1)
    poses = node.create_publisher(PoseStamped, "ik_service/target_pose", 1)
    names = request.ik_request.robot_state.joint_state.name
    stamped = PoseStamped()
    stamped.header.frame_id = FRAME
    home = robot_here().robot.forward_kinematics(START, [LINK])
    place, turn = stamped.pose.position, stamped.pose.orientation
    turn.x, turn.y, turn.z, turn.w = home.orientations_xyzw[0, 0].tolist()
    with running_node(f"command_group:={GROUP}", f"command_rate:={rate:.1f}"):
        publishers = describe(node, caller(node, "solve_ik"), request)
        begun = last = time.perf_counter()
        while len(arrived) < WARM + COMMANDS:
            now = time.perf_counter()
            if now > begun + COMMANDS_WAIT:
                raise TimeoutError(f"{len(arrived)} commands have come")
            if now - last > POSE_INTERVAL:
                last, angle = now, now - begun
                x, y, z = home.positions[0, 0].tolist()
                place.x, place.y, place.z = x - 0.05 + 0.05 * np.cos(angle), y + 0.05 * np.sin(angle), z
                if not arrived:
                    states.publish(JointState(name=names, position=START.tolist()))
                poses.publish(stamped)
            rclpy.spin_once(node, timeout_sec=0.5 * POSE_INTERVAL)
        del publishers
    node.destroy_subscription(subscription)
    return np.diff(arrived)[WARM:]


def bare_times(node: Any, requests: list[Any]) -> np.ndarray:
    """Return the round trips [s] of a service of rclpy that answers the same messages without doing anything."""
    server, filled = rclpy.create_node("bare"), START.tolist()

    def answer(request: Any, response: Any) -> Any:
        response.solution.joint_state.name = request.ik_request.robot_state.joint_state.name
        response.solution.joint_state.position = filled
        response.error_code.val = SUCCESS
        return response

    server.create_service(GetPositionIK, "bare", answer)
    executor = SingleThreadedExecutor()
    executor.add_node(server)
    thread = threading.Thread(target=executor.spin, daemon=True)
    thread.start()
    times, _ = times_of(caller(node, "bare"), requests)
    executor.shutdown()
    return times


def clocks() -> np.ndarray:
    """Return the time, and the CPU time of this thread [s]."""
    return np.array((time.perf_counter(), time.thread_time()))


def adapter_times(requests: list[Any]) -> dict[str, np.ndarray]:
    """Return the times [s] of the adapter without solves, by the clock and of the CPU, and of solves, by request."""
    described = robot_here()
    messages = SimpleNamespace(PoseStamped=PoseStamped, Transform=Transform)
    adapter = KinematicsAdapter(described.robot, described.groups, messages=messages)
    adapter.prepare(GROUP)
    spent, solve = np.zeros(2), IKSolver.solve

    def timed(*given: Any, **options: Any) -> Any:
        begun = clocks()
        try:
            return solve(*given, **options)
        finally:
            spent[:] += clocks() - begun

    IKSolver.solve = timed
    lines = []
    for request in requests:
        spent[:] = 0.0
        response = GetPositionIK.Response()
        begun = clocks()
        adapter.solve_position_ik(request, response)
        own = clocks() - begun - spent
        assert response.error_code.val == SUCCESS
        lines.append((*own, spent[0]))
    return dict(zip(("adapter", "adapter_cpu", "solve"), np.array(lines[WARM:]).T, strict=True))


def main() -> None:
    """Measure everything and write it."""
    rclpy.init()
    names, poses = problems()
    requests = [fill(GetPositionIK.Request(), names, pose) for pose in poses]
    found: dict[str, Any] = adapter_times(requests)
    node = rclpy.create_node("asker")
    with running_node():
        call = caller(node, "solve_ik")
        publishers = describe(node, call, requests[0])
        found["rclpy"], found["rclpy_failures"] = times_of(call, requests)
        os.environ["CYCLONEDDS_URI"] = CONFIGURATION
        client = CycloneClient(int(os.environ["ROS_DOMAIN_ID"]), "moveit_msgs/GetPositionIK", "solve_ik")
        if not client.wait(WAIT):
            raise TimeoutError("Cyclone DDS does not find the node")
        others = [fill(empty(client.request_type), names, pose) for pose in poses]
        found["cyclone"], found["cyclone_failures"] = times_of(client.call, others)
        del publishers
    for rate in RATES:
        found[f"commands_{rate:g}"] = command_intervals(node, requests[0], rate)
    found["bare"] = bare_times(node, requests)
    np.savez(sys.argv[1], **found)
    rclpy.shutdown()


if __name__ == "__main__":
    main()
