"""Locked joints and active subsets: new models in which fewer joints may move."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from ik_service.mechanism.coupling import leader_limits
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import KinematicRobot, Robot
from ik_service.mechanism.number_bounds import MAX_NUMBER
from ik_service.mechanism.transforms import Float64Array
from objectives.data_field import UNIT_TOLERANCE
from objectives.errors import InputError


def lock(robot: Robot, values: Mapping[str, float | Sequence[float]]) -> Robot:
    """Give a model with joints locked at coordinates; see ``RobotModel.lock``."""
    fixed = {name: _checked(robot, name, value) for name, value in values.items()}
    return dataclasses.replace(robot, locked={**robot.locked, **fixed})


def _checked(robot: KinematicRobot, name: str, value: float | Sequence[float]) -> tuple[float, ...]:
    joint = robot.joint_index(name)
    dof = int(robot.joint_qd_start[joint])
    if robot.dof_leader[dof] != dof:
        leader = robot.dof_names[robot.dof_leader[dof]]
        raise InputError(f"Joint '{name}' follows '{leader}' and cannot be locked alone; lock '{leader}'.")
    try:
        numbers = np.atleast_1d(np.array(value, dtype=np.float64))
    except (TypeError, ValueError):
        raise InputError(f"The locked value of joint '{name}' must be numbers, got {value!r}.") from None
    count = int(robot.joint_q_start[joint + 1] - robot.joint_q_start[joint])
    if numbers.shape != (count,) or not (np.abs(numbers) <= MAX_NUMBER).all():
        allowed = f"{count} finite number(s) within +-{MAX_NUMBER:g}"
        raise InputError(f"The locked value of joint '{name}' must be {allowed}, got {value!r}.")
    _check_limits(robot, joint, numbers)
    offset = JointType(robot.joint_type[joint]).quaternion_offset
    if offset is not None:
        length = float(np.linalg.norm(numbers[offset:]))
        if abs(length - 1.0) > UNIT_TOLERANCE:
            raise InputError(f"The locked quaternion (xyzw) of joint '{name}' has length {length:.6g}; it must be 1.")
        numbers[offset:] /= length
    return tuple(float(number) + 0.0 for number in numbers)  # -0.0 would change the content hash


def _check_limits(robot: KinematicRobot, joint: int, numbers: Float64Array) -> None:
    lower, upper = leader_limits(robot)
    for dof in range(robot.joint_qd_start[joint], robot.joint_qd_start[joint + 1]):
        coordinate = robot.dof_coordinate[dof]
        if coordinate < 0:
            continue
        number = numbers[coordinate - robot.joint_q_start[joint]]
        if not lower[dof] <= number <= upper[dof]:
            name = robot.dof_names[dof]
            raise InputError(f"Joint '{name}' cannot be locked at {number:g}: limits [{lower[dof]:g}, {upper[dof]:g}].")


def activate(robot: Robot, joints: Sequence[str]) -> Robot:
    """Give a model in which only these joints move; see ``RobotModel.activate``."""
    if isinstance(joints, str):
        raise InputError(f"The active joints must be a list of names, got the text {joints!r}.")
    chosen = {robot.joint_index(name) for name in joints}
    fixed: dict[str, tuple[float, ...]] = {}
    for joint, name in enumerate(robot.joint_names):
        dof = int(robot.joint_qd_start[joint])
        leader = int(np.searchsorted(robot.joint_qd_start, robot.dof_leader[dof], side="right")) - 1
        if joint in chosen and leader not in chosen:
            other = robot.joint_names[leader]
            raise InputError(f"Joint '{name}' follows '{other}' and moves only with it; name '{other}' as active.")
        if joint not in chosen and leader == joint:
            own = slice(robot.joint_q_start[joint], robot.joint_q_start[joint + 1])
            fixed[name] = tuple(map(float, robot.mid_joint_q[own]))
    return dataclasses.replace(robot, locked=fixed)
