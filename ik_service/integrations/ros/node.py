"""The node: robot_description and MoveIt's services of kinematics, carried to the adapter and back.

The node needs `rclpy` and `moveit_msgs` with their dependencies, present in an installation of ROS 2. Requests are
answered one after another, in the spinning thread.
"""

from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

from ik_service.integrations.ros.adapter import AdapterSettings, KinematicsAdapter
from ik_service.integrations.ros.command_stream import StreamSettings
from ik_service.integrations.ros.described_robot import DescribedRobot, DescriptionSettings, read_described_robot
from ik_service.integrations.ros.error_codes import MoveItErrorCode, RequestRefusedError, write_error_code
from ik_service.robots import World, load_world
from objectives.errors import IKError

NAME = "ik_service"
WAKE_S = 0.2  # interval of checks for the end of the process
WITHOUT_ROS = (
    "ik_service.integrations.ros needs {name}, which comes with ROS 2: source the setup file of an installation that "
    "has rclpy and moveit_msgs (apt install ros-$ROS_DISTRO-moveit-msgs), and run the Python of that installation."
)

ROS_PACKAGES = {"rclpy", "geometry_msgs", "moveit_msgs", "sensor_msgs", "std_msgs", "trajectory_msgs"}

try:
    import rclpy
    from geometry_msgs.msg import PoseStamped, Transform
    from moveit_msgs.srv import GetPositionFK, GetPositionIK
    from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
    from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
    from sensor_msgs.msg import JointState
    from std_msgs.msg import String

    from ik_service.integrations.ros.command_loop import CommandLoop
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] not in ROS_PACKAGES:
        raise
    raise ModuleNotFoundError(WITHOUT_ROS.format(name=error.name), name=error.name) from None

PARAMETERS: dict[str, Any] = {
    "robot_description": "",
    "robot_description_semantic": "",
    "groups": [""],
    "prepared_groups": [""],
    "ik_service_name": "solve_ik",
    "fk_service_name": "solve_fk",
    "position_tolerance": 1e-4,
    "orientation_tolerance": 1e-3,
    "timeout": 0.0,
    "nearest": True,
    "collision": "shapes",
    "collision_spheres": "",
    "world": "",
    "floating_base": False,
    "device": "cpu",
    "command_group": "",
    "command_tip": "",
    "command_rate": 250.0,
    "command_type": "trajectory",
    "acceleration": 5.0,
    "velocity_scaling": 1.0,
    "target_timeout": 0.0,
}
"""Parameters of the node and their defaults; docs/ros.md says what they mean."""


class KinematicsNode:
    """Answers requests of kinematics for the robot of robot_description; see `main` for the arguments."""

    def __init__(self, arguments: list[str] | None = None) -> None:
        self.node: Any = rclpy.create_node(NAME, cli_args=arguments)
        values = {name: self.node.declare_parameter(name, value).value for name, value in PARAMETERS.items()}
        self._values = SimpleNamespace(**values)
        self._log = self.node.get_logger()
        self.adapter: KinematicsAdapter | None = None  # until there is a robot
        self.commands: CommandLoop | None = None  # if disabled
        self._urdf, self._srdf = str(self._values.robot_description), str(self._values.robot_description_semantic)
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        make, listen = self.node.create_service, self.node.create_subscription
        make(GetPositionIK, self._values.ik_service_name, partial(self._answer, "solve_position_ik"))
        make(GetPositionFK, self._values.fk_service_name, partial(self._answer, "solve_position_fk"))
        listen(JointState, "joint_states", self._hear, qos_profile_sensor_data)
        listen(String, "robot_description", partial(self._take_text, "_urdf"), latched)
        listen(String, "robot_description_semantic", partial(self._take_text, "_srdf"), latched)
        self._load()

    def _answer(self, method: str, request: Any, response: Any) -> Any:
        if self.adapter is None:
            write_error_code(response.error_code, MoveItErrorCode.FAILURE, "There is no robot_description yet.")
            return response
        answered = getattr(self.adapter, method)(request, response)
        if response.error_code.val != MoveItErrorCode.SUCCESS:
            self._log.debug(f"{method}: {response.error_code}")
        return answered

    def _hear(self, joint_state: Any) -> None:
        if self.adapter is not None:
            self.adapter.hear(joint_state)

    def _take_text(self, attribute: str, message: Any) -> None:
        """Take a description from a topic; topics take precedence over parameters."""
        if message.data != getattr(self, attribute):
            setattr(self, attribute, message.data)
            self._load()

    def _load(self) -> None:
        """Load the robot, its adapter and its commands; after a failure the previous robot stays."""
        if not self._urdf:
            return
        values = self._values
        try:
            files = _lines(values.groups), values.collision, values.collision_spheres, values.floating_base
            described = read_described_robot(self._urdf, self._srdf, DescriptionSettings(*files))
            world: World | None = load_world(values.world) if values.world else None
            tolerances = values.position_tolerance, values.orientation_tolerance
            adapter = KinematicsAdapter(
                described.robot,
                described.groups,
                messages=SimpleNamespace(PoseStamped=PoseStamped, Transform=Transform),
                world=world,
                settings=AdapterSettings(
                    *tolerances, values.timeout, values.nearest, described.root_frames, values.device
                ),
                note=self._log.warning,
            )
            for group in _lines(values.prepared_groups) or [name for name, one in described.groups.items() if one.tips]:
                try:
                    adapter.prepare(group)
                except IKError as error:
                    self._log.warning(f"Group '{group}' is not solved for: {error}")
        except IKError as error:
            self._log.error(f"robot_description cannot be used: {error}")
            return
        if self.adapter is not None:
            adapter.states.hear(_as_joint_state(self.adapter))
        self.adapter = adapter
        groups = ", ".join(described.groups) or "none, every name is taken"
        self._log.info(f"Robot '{described.robot.name}' is ready. Groups: {groups}.")
        self._start_commands(described)

    def _start_commands(self, described: DescribedRobot) -> None:
        name, values = self._values.command_group, self._values
        if not name:
            return
        if self.commands is not None:
            self.commands.stop()
            self.commands = None
        group = described.groups.get(name)
        try:
            if group is None:
                known = ", ".join(described.groups)
                raise RequestRefusedError(
                    MoveItErrorCode.INVALID_GROUP_NAME, f"command_group '{name}' is none of {known}."
                )
            settings = StreamSettings(
                rate=values.command_rate,
                tip=values.command_tip,
                acceleration=values.acceleration,
                velocity_scaling=values.velocity_scaling,
                target_timeout=values.target_timeout,
            )
            self.commands = CommandLoop(self.node, described, group, settings, values.command_type)
        except IKError as error:
            self._log.error(f"There are no commands: {error}")


def _lines(values: Any) -> list[str]:
    """Return the texts of a parameter; empty lists cannot be declared, so an empty text means an empty list."""
    return [line for line in values if line]


def _as_joint_state(adapter: KinematicsAdapter) -> Any:
    """Return the joint positions known to an adapter, as a `sensor_msgs/JointState`."""
    heard = sorted(adapter.states.heard)
    columns = [adapter.robot.coordinate_names.index(name) for name in heard]
    return SimpleNamespace(name=heard, position=[float(adapter.states.current[k]) for k in columns])


def main(arguments: list[str] | None = None) -> None:
    """Run the node until it is interrupted; the arguments, also of ROS, are by default those of the process."""
    rclpy.init(args=arguments)
    node = KinematicsNode(arguments)
    executor = SingleThreadedExecutor()
    executor.add_node(node.node)
    try:
        with suppress(KeyboardInterrupt, ExternalShutdownException):
            while rclpy.ok():  # a signal just before the executor waits does not wake the executor
                executor.spin_once(timeout_sec=WAKE_S)
    except RuntimeError:  # raised by rclpy if the end of the process comes just before the wait
        if rclpy.ok():
            raise
    finally:
        if node.commands is not None:
            node.commands.end()
        rclpy.try_shutdown()
