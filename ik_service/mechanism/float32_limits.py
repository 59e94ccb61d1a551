"""Limits of active DOFs in float32, rounded inwards: inside the exact ones."""

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.coupling import mapped_limits
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import Float64Array

Float32Array = NDArray[np.float32]
FOLLOWER_ROUNDINGS = 4.0
"""Roundings between a leader's coordinate and its follower's in float32: multiplier, offset, product, sum."""
UNIT_ROUNDOFF = 2.0**-24
"""Largest relative error of one rounding to float32."""


def inwards(lower: Float64Array, upper: Float64Array) -> tuple[Float32Array, Float32Array]:
    """Round limits to float32, lower ones up and upper ones down.

    Where no float32 lies between two limits (a joint that cannot move), both become the one nearest to their middle.

    Args:
        lower: Lower limits, any shape; finite ones within the range of float32.
        upper: Upper limits, same shape.

    Returns:
        Lower and upper limits in float32, never crossed.
    """
    low, high = lower.astype(np.float32), upper.astype(np.float32)
    low = np.where(low < lower, np.nextafter(low, np.float32(np.inf)), low)
    high = np.where(high > upper, np.nextafter(high, np.float32(-np.inf)), high)
    crossed = low > high
    middle = np.where(crossed, 0.5 * (np.where(crossed, lower, 0.0) + np.where(crossed, upper, 0.0)), 0.0)
    return np.where(crossed, middle.astype(np.float32), low), np.where(crossed, middle.astype(np.float32), high)


def active_inwards(robot: KinematicRobot) -> tuple[Float32Array, Float32Array]:
    """Round the active limits inwards, so far that followers computed in float32 stay inside their own limits.

    Returns:
        Lower and upper limits of the active DOFs, each of shape [active_dof_count].
    """
    lower, upper = robot.active_limit_lower.copy(), robot.active_limit_upper.copy()
    for dof in robot.follower_dofs[robot.dof_active[robot.follower_dofs] >= 0]:
        multiplier, offset = float(robot.dof_multiplier[dof]), float(robot.dof_offset[dof])
        if multiplier == 0.0 or (abs(multiplier) == 1.0 and offset == 0.0):  # stands still, or is exact in float32
            continue
        active = robot.dof_active[dof]
        own = np.array([robot.joint_limit_lower[dof], robot.joint_limit_upper[dof]])
        size = np.where(np.isfinite(own), np.abs(own - offset) + abs(offset), 0.0)
        margin = FOLLOWER_ROUNDINGS * UNIT_ROUNDOFF * size * np.array([1.0, -1.0])
        low, high = mapped_limits(robot, int(dof), *(own + margin))
        lower[active], upper[active] = max(lower[active], low), min(upper[active], high)
    crossed = lower > upper
    lower[crossed] = upper[crossed] = 0.5 * (robot.active_limit_lower[crossed] + robot.active_limit_upper[crossed])
    return inwards(lower, upper)
