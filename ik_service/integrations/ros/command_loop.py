"""The loop of joint commands: poses and joint states in by callbacks of the node, commands out by a separate thread.

A timer of rclpy is not used, because its executor takes more time for a tick than the tick itself.
"""

import threading
import time
from typing import Any

from geometry_msgs.msg import PoseStamped
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from ik_service.integrations.ros.command_stream import CommandStream, StreamSettings
from ik_service.integrations.ros.described_robot import DescribedRobot, PlanningGroup
from ik_service.integrations.ros.error_codes import RequestRefusedError
from ik_service.mechanism.transforms import Float64Array
from objectives.errors import InputError

COMMAND_TYPES = ("trajectory", "position")
REFUSALS_APART_S = 1.0  # least time between two lines of the log about poses that are passed over [s]


class CommandLoop:
    """Publishes commands for the joints of a group while its tip follows `~/target_pose`.

    The command type "trajectory" is `trajectory_msgs/JointTrajectory` of one point on `~/joint_trajectory`, "position"
    is `std_msgs/Float64MultiArray` on `~/joint_commands`. InputError if the group or a setting is not allowed.
    """

    def __init__(
        self, node: Any, described: DescribedRobot, group: PlanningGroup, settings: StreamSettings, command_type: str
    ) -> None:
        if command_type not in COMMAND_TYPES:
            raise InputError(f"command_type is {command_type!r}. Allowed: {', '.join(map(repr, COMMAND_TYPES))}.")
        self._stream = CommandStream(described.robot, group, settings, described.root_frames)
        self._stream.warm_up()
        self._node, self._is_trajectory, self._is_ended = node, command_type == "trajectory", False
        if self._is_trajectory:
            self._publisher = node.create_publisher(JointTrajectory, "~/joint_trajectory", 1)
        else:
            self._publisher = node.create_publisher(Float64MultiArray, "~/joint_commands", 1)
        self._subscriptions = (
            node.create_subscription(PoseStamped, "~/target_pose", self._take_target, 1),
            node.create_subscription(JointState, "joint_states", self._hear, qos_profile_sensor_data),
        )
        self._changed = threading.Condition()  # over the stream
        self._thread = threading.Thread(target=self._run, name="commands", daemon=True)
        self._thread.start()
        node.get_logger().info(f"Commands at {settings.rate:g} Hz for {', '.join(self._stream.joint_names)}.")

    def end(self) -> None:
        """End the thread, before its process ends."""
        with self._changed:
            self._is_ended = True
            self._changed.notify()
        self._thread.join()

    def stop(self) -> None:
        """End the thread and leave all topics; the node goes on."""
        self.end()
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        self._node.destroy_publisher(self._publisher)

    def _hear(self, joint_state: Any) -> None:
        with self._changed:
            self._stream.hear(joint_state)

    def _take_target(self, stamped: Any) -> None:
        try:
            with self._changed:
                self._stream.take_target(stamped, time.monotonic())
                self._changed.notify()
        except RequestRefusedError as refusal:
            sentence = f"A pose is passed over: {refusal}"
            self._node.get_logger().warning(sentence, throttle_duration_sec=REFUSALS_APART_S)

    def _run(self) -> None:
        """Send a command each tick; a late tick delays the later ticks."""
        period, due = 1.0 / self._stream.settings.rate, 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_ended or self._stream.is_moving)
                if self._is_ended:
                    return
                command = self._stream.tick(time.monotonic())
            if command is not None and not self._is_published(self._message(*command)):
                return
            now = time.monotonic()
            due = max(due + period, now)
            time.sleep(due - now)

    def _is_published(self, message: Any) -> bool:
        """Publish a message; return whether the node was still there to do so."""
        try:
            self._publisher.publish(message)
        except RuntimeError:  # rclpy's own for a node whose process has been told to end
            if self._node.context.ok():
                raise
            return False
        return True

    def _message(self, position: Float64Array, speed: Float64Array) -> Any:
        """Return positions [m or rad] and speeds as a message; a trajectory is to be reached a tick from now."""
        if not self._is_trajectory:
            return Float64MultiArray(data=position.tolist())
        point = JointTrajectoryPoint(positions=position.tolist(), velocities=speed.tolist())
        point.time_from_start.nanosec = round(1e9 / self._stream.settings.rate)
        return JointTrajectory(joint_names=list(self._stream.joint_names), points=[point])
