"""Coordinates that follow another one: mimic joints and linear couplings.

The compiled programs state the same map as expressions (`compiler.program.chain`), `robots.structure.coupling` on the
host.
"""

import typing
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.mechanism.coupling import follower_numbers
from ik_service.robots import DeviceModel


@wp.func
@typing.no_type_check
def follow(number: wp.array2d[Any], f: int, leader: Any):
    """Return the value of follower f of a table of `follower_table`, in its leader's precision.

    Rounding keeps it between its own limits.
    """
    multiplier, offset = type(leader)(number[f, 0]), type(leader)(number[f, 1])
    return wp.clamp(multiplier * leader + offset, type(leader)(number[f, 2]), type(leader)(number[f, 3]))


def follower_dofs(model: DeviceModel) -> list[int]:
    """Return the DOFs that follow an active one."""
    robot = model.robot
    return [dof for dof, a in enumerate(robot.dof_active) if a >= 0 and robot.active_dof[a] != dof]


def follower_table(
    model: DeviceModel, dofs: list[int], *, exact: bool = False, hard_limits: bool = True
) -> NDArray[np.float64]:
    """Return multiplier, offset and limits of DOFs that follow others, [dofs, 4].

    Args:
        model: The robot on the device.
        dofs: The DOFs.
        exact: Whether limits are those in float64; else they are rounded inwards to float32.
        hard_limits: Whether they keep their limits; else these are infinite.
    """
    robot = model.robot
    lower, upper = robot.joint_limit_lower, robot.joint_limit_upper
    if not exact:
        lower, upper = model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()
    if not hard_limits:
        lower, upper = np.full_like(lower, -np.inf), np.full_like(upper, np.inf)
    return follower_numbers(robot, dofs, lower, upper)
