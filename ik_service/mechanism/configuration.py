"""Checks of the caller's configurations, tangents and numbers per DOF."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ik_service.mechanism.arrays import RobotArrays
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import Float64Array
from objectives.errors import InputError

MIN_QUATERNION_LENGTH = 1e-6  # a shorter quaternion has no direction in float32
MAX_QUATERNION_NUMBER = 1e100
"""Quaternions with larger numbers are scaled down first, because their length may overflow."""
FULL_TURN = 2.0 * math.pi


def checked_joint_q(robot: RobotArrays, joint_q: ArrayLike) -> Float64Array:
    """Read configurations as float64 with unit quaternions, shape [n, joint_coord_count].

    The caller's float64 array is returned uncopied if the robot has no quaternions. InputError for a wrong shape,
    non-finite values, or a quaternion of length zero.
    """
    array = _checked_rows(joint_q, robot.joint_coord_count, "joint_q", robot.name)
    if robot.quaternion_starts:
        array = array.copy()
    for joint, start in robot.quaternion_starts.items():
        q_xyzw = array[:, start : start + 4]
        largest = np.abs(q_xyzw).max(axis=-1, keepdims=True, initial=0.0)
        np.divide(q_xyzw, largest, out=q_xyzw, where=largest > MAX_QUATERNION_NUMBER)
        length = np.linalg.norm(q_xyzw, axis=-1, keepdims=True)
        if (length < MIN_QUATERNION_LENGTH).any():
            row = int(np.argmin(length))
            raise InputError(f"joint_q[{row}]: the quaternion of joint '{robot.joint_names[joint]}' has length zero.")
        q_xyzw /= length
    return array


def refuse_degrees(robot: KinematicRobot, name: str, joint_q: Float64Array) -> None:
    """Raise InputError for angles in degrees, see `degrees_hint`."""
    if (hint := degrees_hint(robot, joint_q)) is not None:
        raise InputError(f"{name}: {hint}")


def degrees_hint(robot: KinematicRobot, joint_q: Float64Array) -> str | None:
    """Return a hint if a joint is beyond its limits by more than a whole turn, as angles in degrees are, else None.

    `joint_q` has shape [..., joint_coord_count]; numbers that are not finite give no hint.
    """
    rows = joint_q.reshape(-1, joint_q.shape[-1])
    for joint, kind in enumerate(map(JointType, robot.joint_type)):
        dof, column = int(robot.joint_qd_start[joint]), int(robot.joint_q_start[joint])
        if not (kind.is_scalar and kind.repeats_each_turn):
            continue
        beyond = np.maximum(
            robot.joint_limit_lower[dof] - rows[:, column], rows[:, column] - robot.joint_limit_upper[dof]
        )
        row = int(np.argmax(np.nan_to_num(beyond, nan=-np.inf, posinf=-np.inf)))
        if FULL_TURN < beyond[row] < np.inf:
            angle = f"{rows[row, column]:g} rad, more than a turn beyond its limits"
            return f"'{robot.joint_names[joint]}' is at {angle}. Are the angles in degrees? Give radians: np.radians."
    return None


def checked_tangent(robot: RobotArrays, dq: ArrayLike, what: str = "dq") -> Float64Array:
    """Read tangents as float64, shape [n, joint_dof_count]; InputError about `what` for other shapes or infinities."""
    return _checked_rows(dq, robot.joint_dof_count, what, robot.name)


def _checked_rows(values: ArrayLike, width: int, what: str, robot_name: str) -> Float64Array:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{what} must be numbers of shape [{width}] or [n, {width}].") from None
    if array.ndim not in (1, 2) or array.shape[-1] != width:
        raise InputError(f"{what} has shape {list(array.shape)}; robot '{robot_name}' needs [{width}] or [n, {width}].")
    array = array.reshape(-1, width) if width else np.zeros((len(array) if array.ndim == 2 else 1, 0))
    if not np.isfinite(array).all():
        row, column = (int(i[0]) for i in np.nonzero(~np.isfinite(array)))
        raise InputError(f"{what}[{row}, {column}] is {array[row, column]}; it must be finite.")
    return array


def dof_values(robot: KinematicRobot, name: str, given: Any, default: Float64Array) -> Float64Array:
    """Return a number per DOF, [joint_dof_count], from a number, a mapping by joint names, an array, or the default.

    UnknownNameError for an unknown joint, InputError, naming `name`, for a wrong shape or a number below 0.
    """
    values = default.astype(np.float64)
    if isinstance(given, Mapping):
        for joint, number in given.items():
            index = robot.joint_index(joint)
            values[robot.joint_qd_start[index] : robot.joint_qd_start[index + 1]] = number
    elif given is not None:
        numbers = np.asarray(given, dtype=np.float64)
        if numbers.shape not in ((), (robot.joint_dof_count,)):
            allowed = f"a number, a mapping, or an array of shape [{robot.joint_dof_count}]"
            raise InputError(f"{name} has shape {list(numbers.shape)}. Allowed: {allowed}.")
        values[:] = numbers
    if not (values >= 0.0).all():
        raise InputError(f"{name} holds {values[~(values >= 0.0)][0]}. Allowed: 0 and above.")
    return values
