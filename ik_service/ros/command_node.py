"""The stream of joint commands as a node and a thread of its own: poses and joint states in, commands out."""

import threading
import time
from typing import Any

import rclpy
from geometry_msgs.msg import PoseStamped
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from ik_service.robots.transforms import Float64Array
from ik_service.ros.command_stream import CommandStream, StreamSettings
from ik_service.ros.described_robot import DescribedRobot
from ik_service.ros.error_codes import RequestRefusedError
from ik_service.ros.groups import PlanningGroup
from objectives.errors import InputError

NAME = "ik_service_commands"
COMMAND_TYPES = ("trajectory", "position")


class CommandNode:
    """Publishes commands for the joints of a group while its tip follows `target_pose`.

    Args:
        described: The robot.
        group: The group.
        settings: How commands are made.
        command_type: "trajectory" for `trajectory_msgs/JointTrajectory` of one point on `joint_trajectory`,
            "position" for `std_msgs/Float64MultiArray` on `joint_commands`.

    Attributes:
        node: The node of rclpy.

    Raises:
        InputError: The group or a setting is not allowed.
    """

    def __init__(
        self, described: DescribedRobot, group: PlanningGroup, settings: StreamSettings, command_type: str
    ) -> None:
        if command_type not in COMMAND_TYPES:
            raise InputError(f"command_type is {command_type!r}. Allowed: {', '.join(map(repr, COMMAND_TYPES))}.")
        self._stream = CommandStream(described.robot, group, settings, described.root_frames)
        self._stream.warm_up()
        self.node: Any = rclpy.create_node(NAME)
        self._as_trajectory = command_type == "trajectory"
        kind, topic = (
            (JointTrajectory, "joint_trajectory") if self._as_trajectory else (Float64MultiArray, "joint_commands")
        )
        self._publisher = self.node.create_publisher(kind, topic, 1)
        self.node.create_subscription(PoseStamped, "target_pose", self._take_target, 1)
        self.node.create_subscription(JointState, "joint_states", self._stream.hear, qos_profile_sensor_data)
        self.node.create_timer(1.0 / settings.rate, self._tick)
        self._executor: Any = SingleThreadedExecutor()
        self._executor.add_node(self.node)
        self._thread = threading.Thread(target=self._executor.spin, name=NAME, daemon=True)
        self._thread.start()
        joints = ", ".join(self._stream.joint_names)
        self.node.get_logger().info(f"Commands at {settings.rate:g} Hz for {joints}.")

    def stop(self) -> None:
        """End the thread and the node."""
        self._executor.shutdown()
        self._thread.join()
        self.node.destroy_node()

    def _take_target(self, stamped: Any) -> None:
        try:
            self._stream.take_target(stamped, time.monotonic())
        except RequestRefusedError as refusal:
            self.node.get_logger().warning(f"A pose is passed over: {refusal}", throttle_duration_sec=1.0)

    def _tick(self) -> None:
        command = self._stream.tick(time.monotonic())
        if command is not None:
            self._publisher.publish(self._trajectory(*command) if self._as_trajectory else _positions(command[0]))

    def _trajectory(self, position: Float64Array, speed: Float64Array) -> Any:
        """Return a trajectory of one point, to be reached a tick from now."""
        point = JointTrajectoryPoint(positions=position.tolist(), velocities=speed.tolist())
        point.time_from_start.nanosec = min(round(1e9 / self._stream.settings.rate), 999_999_999)
        return JointTrajectory(joint_names=list(self._stream.joint_names), points=[point])


def _positions(position: Float64Array) -> Any:
    return Float64MultiArray(data=position.tolist())
