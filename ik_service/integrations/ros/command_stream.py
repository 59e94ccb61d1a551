"""Joint commands for a tip that follows a moving pose: one tick of the controller at a time, without ROS.

The stream is idle until joint positions and a pose are known. Then every tick gives a command, starting from the
previous command and not from measured positions, until the tip has arrived and stands still; or, if poses stop coming,
until the joints have braked. The next pose starts from measured positions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ik_service.control import ControlLimits, IKController
from ik_service.integrations.ros.described_robot import PlanningGroup, joints_above
from ik_service.integrations.ros.error_codes import MoveItErrorCode, RequestRefusedError
from ik_service.integrations.ros.poses import RobotFrames, in_world, read_pose
from ik_service.integrations.ros.robot_states import RobotStates
from ik_service.mechanism.transforms import Float64Array
from ik_service.robots import RobotModel
from objectives.errors import InputError

RATE_LEAST, RATE_MOST = 2.0, 2000.0
STANDS_STILL = 1e-4  # speed below which a joint counts as standing [m/s or rad/s]
SETTLING_S = 0.5
"""Time for which all joints stand before commands end [s]: a pose that turns back makes them stand for a moment."""


@dataclass(frozen=True)
class StreamSettings:
    """Settings of commands."""

    rate: float = 250.0  # commands per second [Hz]
    tip: str = ""  # link to move to the pose; empty for the group's only tip
    acceleration: float = 5.0  # largest acceleration of joints [m/s^2 or rad/s^2]; the robot's own limits still apply
    velocity_scaling: float = 1.0  # used share of the robot's speed limits, above 0 to 1
    target_timeout: float = 0.0  # time without a new pose after which the joints brake [s]; 0 for never

    def __post_init__(self) -> None:
        if not RATE_LEAST <= self.rate <= RATE_MOST:
            raise InputError(f"command_rate is {self.rate:g}. Allowed: {RATE_LEAST:g} to {RATE_MOST:g} Hz.")
        if not 0.0 < self.velocity_scaling <= 1.0:
            raise InputError(f"velocity_scaling is {self.velocity_scaling:g}. Allowed: above 0, at most 1.")
        if not self.target_timeout >= 0.0:
            raise InputError(f"target_timeout is {self.target_timeout:g}. Allowed: 0 or more seconds.")


class CommandStream:
    """Follows a pose with a tip of a robot, by the joints of a group in the order `joint_names`. Not thread-safe.

    RequestRefusedError if the tip is ambiguous, or no joint of the group moves the tip; InputError for a joint of more
    than one coordinate. `root_frames` are further names of the frame in which the root link is fixed.
    """

    def __init__(
        self,
        robot: RobotModel,
        group: PlanningGroup,
        settings: StreamSettings,
        root_frames: frozenset[str] = frozenset(),
    ) -> None:
        tip = settings.tip or (group.tips[0] if len(group.tips) == 1 else "")
        if tip not in robot.link_names:
            reason = f"command_tip '{tip}' is no link. Tips of group '{group.name}': {', '.join(group.tips)}."
            raise RequestRefusedError(MoveItErrorCode.INVALID_LINK_NAME, reason)
        moving = [name for name in joints_above(robot, tip) if name in group.joints]
        leads = [name for name in moving if _leads(robot, name)]
        if not leads:
            reason = f"No joint of group '{group.name}' moves link '{tip}'."
            raise RequestRefusedError(MoveItErrorCode.INVALID_LINK_NAME, reason)
        active = robot.activate(leads)
        self.joint_names, self.settings, self._tip = tuple(leads), settings, tip
        columns = [active.coordinate_names.index(name) for name in leads if name in active.coordinate_names]
        if len(columns) < len(leads):
            raise InputError("Joints with more than one coordinate cannot be commanded. Leave them out of the group.")
        self._columns = np.array(columns, dtype=np.intp)
        self._dofs = np.array([active.dof_names.index(name) for name in leads], dtype=np.intp)
        self._states, self._frames = RobotStates(robot), RobotFrames(robot, root_frames)
        speeds = settings.velocity_scaling * robot.joint_velocity_limit
        self._accelerations = np.minimum(settings.acceleration, robot.joint_acceleration_limit)
        limits = ControlLimits(velocity=speeds, acceleration=self._accelerations)
        self._controller = IKController(active, [tip], limits=limits)
        self._robot, self._moving = active, frozenset(moving)
        self._target, self._target_time, self._is_given = np.zeros(7), 0.0, False
        self._is_moving, self._still = False, 0
        self._last = robot.mid_joint_q.copy(), np.zeros(len(leads))

    def warm_up(self) -> None:
        """Run a first tick in advance, so the first real tick is as fast as the later ticks."""
        self._controller.warmup()

    @property
    def is_moving(self) -> bool:
        """True while ticks give commands."""
        return self._is_moving

    def hear(self, joint_state: Any) -> None:
        """Take a `sensor_msgs/JointState`."""
        self._states.hear(joint_state)

    def take_target(self, stamped: Any, now: float) -> None:
        """Take a `geometry_msgs/PoseStamped` as target of the tip, at a time [s] of any monotonic clock.

        RequestRefusedError if the pose or its frame is not allowed, or the joint positions are unknown.
        """
        missing = [name for name in self.joint_names if name not in self._states.heard]
        if missing:
            reason = f"No joint state has named joint '{missing[0]}' yet."
            raise RequestRefusedError(MoveItErrorCode.INVALID_ROBOT_STATE, reason)
        placed = self._frames.placed(stamped.header.frame_id, self._states.current, self._moving)
        self._target, self._target_time, self._is_given = in_world(placed, read_pose(stamped.pose)), now, True
        if not self._is_moving:
            self._controller.reset(self._robot.complete_joint_q(self._states.current[None])[0])
            self._last = self._states.current.copy(), np.zeros(len(self.joint_names))
            self._is_moving = True
        self._still = 0

    def tick(self, now: float) -> tuple[Float64Array, Float64Array] | None:
        """Return the next positions [m or rad] and speeds of the commanded joints; None where nothing is to do."""
        if not self._is_moving:
            return None
        timeout = self.settings.target_timeout
        if self._is_given and timeout > 0.0 and now - self._target_time > timeout:
            self._target, self._is_given = self._stop_pose(), False
        result = self._controller.step(self._target, dt=1.0 / self.settings.rate)
        position, speed = result.joint_q[0, self._columns].copy(), result.joint_qd[0, self._dofs].copy()
        self._still = self._still + 1 if np.abs(speed).max() < STANDS_STILL else 0
        self._is_moving = self._still < SETTLING_S * self.settings.rate
        self._last = result.joint_q[0].copy(), speed
        return position, speed

    def _stop_pose(self) -> Float64Array:
        """Return where the tip is once all joints have braked, shape [7]."""
        joint_q, speed = self._last[0].copy(), self._last[1]
        joint_q[self._columns] += 0.5 * speed * np.abs(speed) / self._accelerations[self._dofs]
        poses = self._robot.forward_kinematics(self._robot.clamp_joint_q(joint_q[None]), [self._tip])
        return np.concatenate((poses.positions[0, 0], poses.orientations_xyzw[0, 0]))


def _leads(robot: RobotModel, joint: str) -> bool:
    dof = int(robot.joint_qd_start[robot.joint_index(joint)])
    return int(robot.dof_leader[dof]) == dof
