"""States of robots between messages and configurations."""

from typing import Any

import numpy as np

from ik_service.integrations.ros.error_codes import MoveItErrorCode, RequestRefusedError
from ik_service.integrations.ros.poses import unit_quaternion, write_pose
from ik_service.mechanism.transforms import Float64Array
from ik_service.robots import JointType, RobotModel


class RobotStates:
    """Reads and writes `moveit_msgs/RobotState` for one robot, and stores the last `/joint_states`.

    Joints never named are at 0, or at mid-range if the limits exclude 0, as in MoveIt.
    """

    def __init__(self, robot: RobotModel) -> None:
        self._robot = robot
        types = [JointType(kind) for kind in robot.joint_type]
        first = {name: int(robot.joint_q_start[k]) for k, name in enumerate(robot.joint_names)}
        self._scalar = {
            name: first[name] for name, kind in zip(robot.joint_names, types, strict=True) if kind.is_scalar
        }
        floating = JointType.FLOATING
        self._floating = {n: first[n] for n, kind in zip(robot.joint_names, types, strict=True) if kind is floating}
        self.names = list(self._scalar)
        self._columns = np.array(list(self._scalar.values()), dtype=np.intp)
        self._has_followers = robot.follower_dofs.size > 0
        self.current = _default_joint_q(robot)
        self.heard: set[str] = set()

    def hear(self, joint_state: Any) -> None:
        """Remember the positions of a `sensor_msgs/JointState`; joints of other robots are passed over."""
        for name, position in zip(joint_state.name, joint_state.position, strict=False):
            column = self._scalar.get(name)
            if column is not None and np.isfinite(position):
                self.current[column] = position
                self.heard.add(name)

    def read(self, state: Any) -> Float64Array:
        """Return the configuration of a `moveit_msgs/RobotState`, shape [coordinates].

        Joints missing in the state keep their last position from `/joint_states`. RequestRefusedError if the state
        names an unknown joint, or a value is no position.
        """
        joint_q = self.current.copy()
        names, positions = state.joint_state.name, state.joint_state.position
        if len(names) != len(positions):
            raise _refusal(f"robot_state has {len(names)} names of joints and {len(positions)} positions.")
        try:
            joint_q[[self._scalar[name] for name in names]] = positions
        except KeyError as error:
            known = ", ".join(self.names)
            raise _refusal(f"robot_state names joint '{error.args[0]}'. Joints with one position: {known}.") from None
        if self._floating:
            self._read_transforms(state.multi_dof_joint_state, joint_q)
        if not np.isfinite(joint_q).all():
            raise _refusal("robot_state has positions that are not finite.")
        return np.array(self._robot.complete_joint_q(joint_q[None])[0]) if self._has_followers else joint_q

    def write(self, joint_q: Float64Array, state: Any, messages: Any) -> None:
        """Fill a `moveit_msgs/RobotState` from a configuration, shape [coordinates]."""
        root = self._robot.link_names[0]
        state.joint_state.header.frame_id = root
        state.joint_state.name = self.names
        state.joint_state.position = joint_q[self._columns].tolist()
        state.is_diff = False
        if self._floating:
            transforms = [_transform(joint_q[start : start + 7], messages) for start in self._floating.values()]
            state.multi_dof_joint_state.header.frame_id = root
            state.multi_dof_joint_state.joint_names = list(self._floating)
            state.multi_dof_joint_state.transforms = transforms

    def _read_transforms(self, multi_dof: Any, joint_q: Float64Array) -> None:
        """Put the transforms of floating joints into a configuration; other joints are ignored."""
        for name, transform in zip(multi_dof.joint_names, multi_dof.transforms, strict=False):
            start = self._floating.get(name)
            if start is not None:
                place, turn = transform.translation, transform.rotation
                joint_q[start : start + 3] = place.x, place.y, place.z
                try:
                    joint_q[start + 3 : start + 7] = unit_quaternion(turn)
                except ValueError as error:
                    raise _refusal(f"The transform of joint '{name}': {error}") from None


def _default_joint_q(robot: RobotModel) -> Float64Array:
    """Return the default configuration of a robot, shape [coordinates]."""
    joint_q = robot.mid_joint_q.copy()
    for dof, coordinate in enumerate(robot.dof_coordinate):
        if coordinate >= 0 and robot.joint_limit_lower[dof] <= 0.0 <= robot.joint_limit_upper[dof]:
            joint_q[coordinate] = 0.0
    return np.array(robot.complete_joint_q(joint_q[None])[0])


def _transform(pose: Float64Array, messages: Any) -> Any:
    transform = messages.Transform()
    write_pose(pose, transform.translation, transform.rotation)
    return transform


def _refusal(reason: str) -> RequestRefusedError:
    return RequestRefusedError(MoveItErrorCode.INVALID_ROBOT_STATE, reason)
