"""How the active DOFs move the coordinates: constant arrays on the device, shared by seeds and steps."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.robots import DeviceModel
from ik_service.robots.structure.coupling import leader_limits
from ik_service.robots.structure.float32_limits import inwards
from ik_service.solver.lm.coupling import follower_dofs, follower_table


@dataclass(frozen=True)
class Coordinates:
    """Coordinates of a robot as seen from its active DOFs.

    Attributes:
        active_coordinate: Coordinate to which an active DOF is added, -1 for rotations of ball and floating joints,
            int32 [active_dof_count].
        active_quaternion: First coordinate of the quaternion whose rotation vector starts at this active DOF, else -1,
            int32 [active_dof_count]. The other two DOFs of the rotation follow.
        limit_lower: Lower limits that are enforced, rounded inwards, float32 [active_dof_count]; infinite if none.
        limit_upper: Upper limits, alike.
        followers: Of every coordinate: the coordinate that it follows or -1 (int32), multiplier, offset, and its own
            limits, between which rounding keeps it, [joint_coord_count].
        mid_joint_q: Middle of the ranges, float32 [joint_coord_count].
        active_map: The DOF of each active DOF, then offsets, DOFs and multipliers of those that follow it.
    """

    active_coordinate: wp.array[Any]
    active_quaternion: wp.array[Any]
    limit_lower: wp.array[Any]
    limit_upper: wp.array[Any]
    followers: "tuple[wp.array[Any], ...]"
    mid_joint_q: wp.array[Any]
    active_map: "tuple[wp.array[Any], wp.array[Any], wp.array[Any], wp.array[Any]]"

    @classmethod
    def build(cls, model: DeviceModel, *, hard_limits: bool) -> "Coordinates":
        """Return the coordinates of a robot.

        Args:
            model: The robot on the device.
            hard_limits: Whether limits are enforced.
        """
        robot = model.robot
        limits: tuple[wp.array[Any], ...] = (model.active_limit_lower, model.active_limit_upper)
        if not hard_limits:
            limits = tuple(
                wp.full(len(limits[0]), end, dtype=wp.float32, device=model.device) for end in (-np.inf, np.inf)
            )
        quaternion = np.full(robot.active_dof_count, -1)
        for joint, first in robot.quaternion_starts.items():
            active = robot.dof_active[robot.joint_qd_start[joint + 1] - 3]
            if active >= 0:
                quaternion[active] = first
        return cls(
            active_coordinate=_integers(model, robot.dof_coordinate[robot.active_dof]),
            active_quaternion=_integers(model, quaternion),
            limit_lower=limits[0],
            limit_upper=limits[1],
            followers=_followers(model, hard_limits),
            mid_joint_q=model.mid_joint_q,
            active_map=_active_map(model),
        )


def _integers(model: DeviceModel, values: NDArray[Any]) -> wp.array[Any]:
    return wp.array(np.ascontiguousarray(values, np.int32), dtype=wp.int32, device=model.device)


def _floats(model: DeviceModel, values: NDArray[Any]) -> wp.array[Any]:
    return wp.array(np.ascontiguousarray(values, np.float32), dtype=wp.float32, device=model.device)


def _followers(model: DeviceModel, hard_limits: bool) -> tuple[wp.array[Any], ...]:
    """Leader, multiplier, offset and limits of every coordinate."""
    robot, count = model.robot, model.joint_coord_count
    leader = np.full(count, -1)
    numbers = np.tile(np.array([1.0, 0.0, -np.inf, np.inf], np.float32), (count, 1))
    dofs = follower_dofs(model)
    places = robot.dof_coordinate[dofs]
    leader[places] = robot.dof_coordinate[robot.active_dof[robot.dof_active[dofs]]]
    numbers[places] = follower_table(model, dofs, hard_limits=hard_limits)
    return (_integers(model, leader), *(_floats(model, column) for column in numbers.T))


def _active_map(model: DeviceModel) -> tuple[wp.array[Any], wp.array[Any], wp.array[Any], wp.array[Any]]:
    """The DOF of each active DOF, then offsets, DOFs and multipliers of those that follow it."""
    robot = model.robot
    followers = [
        [d for d in np.flatnonzero(robot.dof_active == a) if d != leader] for a, leader in enumerate(robot.active_dof)
    ]
    flat = np.array([d for group in followers for d in group], dtype=np.int32)
    start = np.cumsum([0] + [len(group) for group in followers])
    lists = (_integers(model, robot.active_dof), _integers(model, start), _integers(model, flat))
    return (*lists, _floats(model, robot.dof_multiplier[flat]))


def start_coordinates(model: DeviceModel, *, hard_limits: bool) -> list[wp.array[Any]]:
    """Return what reading a start configuration needs, locked joints included.

    Returns:
        Of every coordinate: leader or -1, multiplier, offset, limits, and 1 where no active DOF moves it; then the
        first coordinates of the quaternions.
    """
    robot, count, device = model.robot, model.joint_coord_count, model.device
    leader, fixed = np.full(count, -1, np.int32), np.ones(count, np.int32)
    multiplier, offset = np.ones(count, np.float32), np.zeros(count, np.float32)
    lower, upper = np.full(count, -np.inf, np.float32), np.full(count, np.inf, np.float32)
    dof_lower, dof_upper = model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()
    fixed_lower, fixed_upper = inwards(*leader_limits(robot))
    active_lower, active_upper = model.active_limit_lower.numpy(), model.active_limit_upper.numpy()
    for joint in range(robot.joint_count):
        coordinates = slice(int(robot.joint_q_start[joint]), int(robot.joint_q_start[joint + 1]))
        moving = robot.dof_active[robot.joint_qd_start[joint] : robot.joint_qd_start[joint + 1]] >= 0
        fixed[coordinates] = 0 if moving.any() else 1
    for dof, active in enumerate(robot.dof_active):
        c, leads = robot.dof_coordinate[dof], robot.dof_leader[dof]
        if c < 0:
            continue
        if not hard_limits:
            pass
        elif leads != dof:
            lower[c], upper[c] = dof_lower[dof], dof_upper[dof]
        elif active < 0:
            lower[c], upper[c] = fixed_lower[dof], fixed_upper[dof]
        else:
            lower[c], upper[c] = active_lower[active], active_upper[active]
        if leads != dof:
            leader[c] = robot.dof_coordinate[leads]
            multiplier[c], offset[c] = robot.dof_multiplier[dof], robot.dof_offset[dof]
    arrays = (leader, multiplier, offset, lower, upper, fixed, np.array([*robot.quaternion_starts.values()], np.int32))
    return [wp.array(a, dtype=wp.dtype_from_numpy(a.dtype), device=device) for a in arrays]
