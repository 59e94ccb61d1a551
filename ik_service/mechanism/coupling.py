"""Mimic joints, locks and limits: the active DOFs of a solver, and the coordinates of all other DOFs.

A follower's coordinate is ``multiplier * leader + offset``. Limits of followers, mapped to the leader, narrow the
leader's limits.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ik_service.mechanism.arrays import RobotArrays, read_only
from ik_service.mechanism.configuration import checked_joint_q
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import ActiveMap, KinematicRobot
from ik_service.mechanism.transforms import Float64Array

LIMIT_SLACK = 1e-9
"""Tolerated gap between the limits of a leader and of a follower [m or rad]: decimals in files are rounded."""


def narrow_leader(robot: KinematicRobot, follower: int, lower: Float64Array, upper: Float64Array) -> int:
    """Narrow the limits of a follower's leader, in place, by the follower's limits; return the leader."""
    leader = int(robot.dof_leader[follower])
    own = float(robot.joint_limit_lower[follower]), float(robot.joint_limit_upper[follower])
    low, high = mapped_limits(robot, follower, *own)
    lower[leader], upper[leader] = max(lower[leader], low), min(upper[leader], high)
    return leader


def leader_interval(multiplier: float, offset: float, lower: float, upper: float) -> tuple[float, float]:
    """Map a follower's limits to the leader: an interval of the leader's coordinate; empty: (inf, -inf)."""
    if multiplier == 0.0:  # the follower stands still: any leader coordinate is allowed, or none
        is_inside = lower - offset <= LIMIT_SLACK and upper - offset >= -LIMIT_SLACK
        return (-np.inf, np.inf) if is_inside else (np.inf, -np.inf)
    low, high = np.sort((np.array([lower, upper]) - offset) / multiplier)
    return float(low), float(high)


def mapped_limits(robot: RobotArrays, follower: int, lower: float, upper: float) -> tuple[float, float]:
    """Map limits of a follower of a robot to the leader; see `leader_interval`."""
    return leader_interval(float(robot.dof_multiplier[follower]), float(robot.dof_offset[follower]), lower, upper)


def follower_numbers(robot: RobotArrays, dofs: Sequence[int], lower: NDArray[Any], upper: NDArray[Any]) -> Float64Array:
    """Stack multiplier, offset, lower and upper limit of followers, shape [followers, 4], from limits of all DOFs."""
    columns = (robot.dof_multiplier, robot.dof_offset, lower, upper)
    return np.stack([np.asarray(column, np.float64)[list(dofs)] for column in columns], axis=-1)


def leader_limits(robot: KinematicRobot) -> tuple[Float64Array, Float64Array]:
    """Give lower and upper limits of all DOFs, [joint_dof_count] each, with leaders narrowed by their followers."""
    lower, upper = robot.joint_limit_lower.copy(), robot.joint_limit_upper.copy()
    for follower in robot.follower_dofs:
        narrow_leader(robot, int(follower), lower, upper)
    crossed = lower > upper  # by less than LIMIT_SLACK; larger gaps are refused when a robot is read
    lower[crossed] = upper[crossed] = 0.5 * (lower[crossed] + upper[crossed])
    return lower, upper


def active_map(robot: KinematicRobot) -> ActiveMap:
    """Number the active DOFs; give their limits and the configuration in the middle of the limits."""
    dof_count = robot.joint_dof_count
    leads = robot.dof_leader == np.arange(dof_count)
    locked = np.repeat([name in robot.locked for name in robot.joint_names], np.diff(robot.joint_qd_start)).astype(bool)
    active_dof = np.flatnonzero(leads & ~locked).astype(np.int32)
    number = np.full(dof_count, -1, dtype=np.int32)
    number[active_dof] = np.arange(len(active_dof), dtype=np.int32)
    lower, upper = leader_limits(robot)
    return ActiveMap(
        dof_active=read_only(number[robot.dof_leader]),
        active_dof=read_only(active_dof),
        active_limit_lower=read_only(lower[active_dof]),
        active_limit_upper=read_only(upper[active_dof]),
        mid_joint_q=read_only(_mid_joint_q(robot, lower, upper)),
    )


def _mid_joint_q(robot: KinematicRobot, lower: Float64Array, upper: Float64Array) -> Float64Array:
    middle = np.clip(0.0, lower, upper)
    limited = np.isfinite(lower) & np.isfinite(upper)
    middle[limited] = 0.5 * lower[limited] + 0.5 * upper[limited]
    mid_joint_q = np.zeros(robot.joint_coord_count)
    for joint, joint_type in enumerate(map(JointType, robot.joint_type)):
        if joint_type.quaternion_offset is not None:
            mid_joint_q[robot.joint_q_start[joint] + joint_type.quaternion_offset + 3] = 1.0
    has_coordinate = robot.dof_coordinate >= 0
    mid_joint_q[robot.dof_coordinate[has_coordinate]] = middle[has_coordinate]
    for joint_name, values in robot.locked.items():
        start = robot.joint_q_start[robot.joint_index(joint_name)]
        mid_joint_q[start : start + len(values)] = values
    _set_followers(robot, mid_joint_q)
    return mid_joint_q


def _set_followers(robot: KinematicRobot, joint_q: Float64Array) -> None:
    follower = robot.follower_dofs
    coordinate, leader = robot.dof_coordinate[follower], robot.dof_coordinate[robot.dof_leader[follower]]
    joint_q[..., coordinate] = robot.dof_multiplier[follower] * joint_q[..., leader] + robot.dof_offset[follower]


def coupling_matrix(robot: KinematicRobot) -> Float64Array:
    """Give the map of changes of active DOFs to changes of all DOFs, shape [joint_dof_count, active]."""
    matrix = np.zeros((robot.joint_dof_count, robot.active_dof_count))
    moved = np.flatnonzero(robot.dof_active >= 0)
    matrix[moved, robot.dof_active[moved]] = robot.dof_multiplier[moved]
    return matrix


def complete_joint_q(robot: KinematicRobot, joint_q: ArrayLike) -> Float64Array:
    """Set followers from leaders, in copies, shape [n, joint_coord_count]; see ``RobotModel.complete_joint_q``."""
    completed = checked_joint_q(robot, joint_q).copy()
    _set_followers(robot, completed)
    return completed


def clamp_joint_q(robot: KinematicRobot, joint_q: ArrayLike) -> Float64Array:
    """Clamp copies into limits and complete them, shape [n, joint_coord_count]; see ``RobotModel.clamp_joint_q``."""
    clamped = checked_joint_q(robot, joint_q).copy()
    leads = robot.dof_leader == np.arange(robot.joint_dof_count)
    limited = leads & (robot.dof_coordinate >= 0)
    lower, upper = leader_limits(robot)
    coordinate = robot.dof_coordinate[limited]
    clamped[:, coordinate] = np.clip(clamped[:, coordinate], lower[limited], upper[limited])
    completed = complete_joint_q(robot, clamped)
    follower = np.flatnonzero(~leads)
    own = robot.dof_coordinate[follower]
    # multiplier * limit + offset may exceed the follower's limit by the last bit
    completed[:, own] = np.clip(completed[:, own], robot.joint_limit_lower[follower], robot.joint_limit_upper[follower])
    return completed


Float32Array = NDArray[np.float32]
FOLLOWER_ROUNDINGS = 4.0
"""Roundings between the coordinates of leader and follower in float32: multiplier, offset, product, sum."""
UNIT_ROUNDOFF = 2.0**-24  # largest relative error of one rounding to float32


def inwards(lower: Float64Array, upper: Float64Array) -> tuple[Float32Array, Float32Array]:
    """Round limits of any shape to float32, lower limits up and upper limits down, never crossed.

    If no float32 lies between two limits (a joint that cannot move), both become the float32 nearest to their middle.
    """
    low, high = lower.astype(np.float32), upper.astype(np.float32)
    for end, exact, way in ((low, lower, 1.0), (high, upper, -1.0)):
        outside = way * end < way * exact
        end[outside] = np.nextafter(end[outside], np.float32(way * np.inf))
    crossed = low > high
    if not crossed.any():
        return low, high
    middle = np.where(crossed, 0.5 * (np.where(crossed, lower, 0.0) + np.where(crossed, upper, 0.0)), 0.0)
    return np.where(crossed, middle.astype(np.float32), low), np.where(crossed, middle.astype(np.float32), high)


def active_inwards(robot: KinematicRobot) -> tuple[Float32Array, Float32Array]:
    """Round active limits inwards, [active_dof_count], far enough to keep followers inside their limits in float32."""
    lower, upper = robot.active_limit_lower.copy(), robot.active_limit_upper.copy()
    for dof in robot.follower_dofs[robot.dof_active[robot.follower_dofs] >= 0]:
        multiplier, offset = float(robot.dof_multiplier[dof]), float(robot.dof_offset[dof])
        if multiplier == 0.0 or (abs(multiplier) == 1.0 and offset == 0.0):  # no motion, or exact in float32
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
