"""Poses between messages and arrays, and the frames allowed in requests."""

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from ik_service.integrations.ros.described_robot import joints_above
from ik_service.integrations.ros.error_codes import MoveItErrorCode, RequestRefusedError
from ik_service.mechanism.transforms import Float64Array, transform_inverse, transform_multiply
from ik_service.robots import RobotModel
from objectives.errors import InputError

UNIT_SLACK = 1e-2
"""Largest difference of the length of a quaternion of a message from 1: some programs write few digits."""
WORLD_FRAMES = frozenset(("", "world"))  # frames that stand for the one in which the root link is fixed


def unit_quaternion(message: Any) -> tuple[float, float, float, float]:
    """Return a `geometry_msgs/Quaternion` as x, y, z, w of length 1; InputError if its length is not about 1."""
    x, y, z, w = message.x, message.y, message.z, message.w
    length = math.sqrt(x * x + y * y + z * z + w * w)
    if not abs(length - 1.0) <= UNIT_SLACK:
        raise InputError(f"the quaternion has length {length:.6g}; it must be 1.")
    return x / length, y / length, z / length, w / length


def read_pose(pose: Any) -> Float64Array:
    """Return a `geometry_msgs/Pose` as position [m] and unit quaternion xyzw, shape [7]; else RequestRefusedError."""
    place = pose.position
    try:
        found = np.array((place.x, place.y, place.z, *unit_quaternion(pose.orientation)))
    except InputError as error:
        raise RequestRefusedError(MoveItErrorCode.INVALID_GOAL_CONSTRAINTS, f"A pose: {error}") from None
    if not np.isfinite(found).all():
        raise RequestRefusedError(MoveItErrorCode.INVALID_GOAL_CONSTRAINTS, "A pose has numbers that are not finite.")
    return found


def write_pose(values: Float64Array, place: Any, turn: Any) -> None:
    """Fill a point or vector and a quaternion of `geometry_msgs` from position [m] and quaternion xyzw, shape [7]."""
    place.x, place.y, place.z, turn.x, turn.y, turn.z, turn.w = values.tolist()


class RobotFrames:
    """Frames of a robot allowed for poses; `root_frames` are further names of the frame that fixes its root link."""

    def __init__(self, robot: RobotModel, root_frames: Collection[str] = ()) -> None:
        self._robot = robot
        links = frozenset(robot.link_names)
        self._root = frozenset((*WORLD_FRAMES, *root_frames, robot.link_names[0])) - (links - {robot.link_names[0]})

    def placed(self, frame: str, joint_q: Float64Array, moving: Collection[str] = ()) -> Float64Array | None:
        """Return the pose of a frame, `T_world_frame`, shape [7]; None for the frame of the root.

        RequestRefusedError for an unknown frame, or a frame above which joints of `moving` lie.
        """
        name = frame.removeprefix("/")
        if name in self._root:
            return None
        if name not in self._robot.link_names:
            allowed = f"'{self._robot.link_names[0]}', 'world', or a link that the joints of the request do not move"
            raise _refusal(f"Frame '{name}' is not known. Allowed: {allowed}. Poses in others need tf first.")
        movers = [joint for joint in joints_above(self._robot, name) if joint in moving]
        if movers:
            raise _refusal(f"Frame '{name}' moves with joint '{movers[0]}' of the request. Give the pose in another.")
        poses = self._robot.forward_kinematics(joint_q, [name])
        return np.concatenate((poses.positions[0, 0], poses.orientations_xyzw[0, 0]))


def in_world(T_world_frame: Float64Array | None, T_frame_target: Float64Array) -> Float64Array:
    """Return `T_world_target`, shape [7]; `T_world_frame` is None for the root's frame."""
    return T_frame_target if T_world_frame is None else transform_multiply(T_world_frame, T_frame_target)


def in_frame(T_world_frame: Float64Array | None, T_world_link: Float64Array) -> Float64Array:
    """Return `T_frame_link`, shape [..., 7]; `T_world_frame` is None for the root's frame."""
    return T_world_link if T_world_frame is None else transform_multiply(transform_inverse(T_world_frame), T_world_link)


def _refusal(reason: str) -> RequestRefusedError:
    return RequestRefusedError(MoveItErrorCode.FRAME_TRANSFORM_FAILURE, reason)
