"""Numbers per DOF as a caller may give them: one for all, by names of joints, or an array."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import Float64Array
from objectives.errors import InputError


def dof_values(robot: KinematicRobot, name: str, given: Any, default: Float64Array) -> Float64Array:
    """Return a number for every DOF, shape [joint_dof_count].

    Args:
        robot: The robot.
        name: What the numbers are, for messages.
        given: One number, a mapping from names of joints, or an array of shape [joint_dof_count]; None for the default.
        default: What DOFs have that are not given, shape [joint_dof_count].

    Raises:
        UnknownNameError: The robot has no joint of a name.
        InputError: Another shape, or a number below 0.
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
