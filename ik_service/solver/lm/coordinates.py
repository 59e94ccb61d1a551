"""Active DOFs and coordinates: map from DOFs to coordinates, mimic couplings on the device, joints at a bound."""

import typing
from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.linear_solve.factors import ActiveDofs
from ik_service.mechanism.coupling import follower_numbers, inwards, leader_limits
from ik_service.robots import DeviceModel


@wp.func
@typing.no_type_check
def is_at_bound(q: Any, lower: Any, upper: Any, gradient: float):
    """Return whether a DOF is at a bound and a step down the gradient would leave the bounds.

    The compiled iteration has the same test as text; see `compiler.code.iteration`.
    """
    return (q <= lower and gradient > 0.0) or (q >= upper and gradient < 0.0)


@wp.struct
class Coordinates:
    """Coordinates of a robot by active DOFs."""

    # Coordinate to which an active DOF is added, -1 for rotations of ball and floating joints, [active_dof_count].
    active_coordinate: wp.array[wp.int32]
    # First coordinate of the quaternion whose rotation vector starts at this active DOF, else -1, [active_dof_count].
    # The other two DOFs of the rotation follow.
    active_quaternion: wp.array[wp.int32]
    # Enforced limits, rounded inwards to float32, infinite if none, [1 or problems, active_dof_count].
    limit_lower: wp.array2d[wp.float64]
    limit_upper: wp.array2d[wp.float64]
    leader: wp.array[wp.int32]  # [joint_coord_count]: coordinate of the leader, or -1
    follower_number: wp.array2d[wp.float32]  # [joint_coord_count, 4]: see `follower_table`
    mid_joint_q: wp.array[wp.float32]  # [joint_coord_count]: middle of the ranges


def coordinates_of(model: DeviceModel, limits: Sequence[wp.array[Any]], *, hard_limits: bool) -> Any:
    """Return the `Coordinates` of a robot; limits are float64 [1 or problems, active_dof_count]."""
    # Followers keep their limits only with `hard_limits`
    robot, count = model.robot, model.joint_coord_count
    quaternion = np.full(robot.active_dof_count, -1)
    for joint, first in robot.quaternion_starts.items():
        active = robot.dof_active[robot.joint_qd_start[joint + 1] - 3]
        if active >= 0:
            quaternion[active] = first
    dofs = follower_dofs(model)
    places = robot.dof_coordinate[dofs]
    leader, numbers = np.full(count, -1), np.zeros((count, 4))
    leader[places] = robot.dof_coordinate[robot.active_dof[robot.dof_active[dofs]]]
    numbers[places] = follower_table(model, dofs, hard_limits=hard_limits)
    coordinates: Any = Coordinates()
    coordinates.active_coordinate = _integers(model, robot.dof_coordinate[robot.active_dof])
    coordinates.active_quaternion = _integers(model, quaternion)
    coordinates.limit_lower, coordinates.limit_upper = limits
    coordinates.leader, coordinates.follower_number = _integers(model, leader), _floats(model, numbers)
    coordinates.mid_joint_q = model.mid_joint_q
    return coordinates


def _integers(model: DeviceModel, values: Any) -> wp.array[Any]:
    return wp.array(np.ascontiguousarray(values, np.int32), dtype=wp.int32, device=model.device)


def _floats(model: DeviceModel, values: NDArray[Any]) -> wp.array[Any]:
    return wp.array(np.ascontiguousarray(values, np.float32), dtype=wp.float32, device=model.device)


def active_dofs(model: DeviceModel) -> Any:
    """Return `ActiveDofs`, the constant map from the DOFs of a robot to its active DOFs."""
    active: Any = ActiveDofs()
    robot = model.robot
    followers = [
        [d for d in np.flatnonzero(robot.dof_active == a) if d != leader] for a, leader in enumerate(robot.active_dof)
    ]
    flat = np.array([d for group in followers for d in group], dtype=np.int32)
    active.dof, active.follower_dof = model.active_dof, _integers(model, flat)
    active.follower_start = _integers(model, np.cumsum([0] + [len(group) for group in followers]))
    active.follower_multiplier = _floats(model, robot.dof_multiplier[flat])
    return active


@wp.struct
class StartCoordinates:
    """Data to read a start configuration, locked joints included."""

    leader: wp.array[wp.int32]  # [joint_coord_count]: coordinate of the leader, or -1
    # [joint_coord_count, 4]: as in `follower_table`; coordinates without a leader have limits only
    follower_number: wp.array2d[wp.float32]
    fixed: wp.array[wp.int32]  # [joint_coord_count]: 1 for a coordinate without an active DOF
    quaternion: wp.array[wp.int32]  # first coordinates of quaternions
    mid_joint_q: wp.array[wp.float32]  # [joint_coord_count]


def start_coordinates(model: DeviceModel, *, hard_limits: bool) -> Any:
    """Return the `StartCoordinates` of a robot."""
    robot, count = model.robot, model.joint_coord_count
    leader, fixed = np.full(count, -1), np.ones(count)
    number = np.tile(np.array([1.0, 0.0, -np.inf, np.inf], np.float32), (count, 1))
    multiplier, offset, lower, upper = number.T
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
    start: Any = StartCoordinates()
    start.leader, start.follower_number = _integers(model, leader), _floats(model, number)
    start.fixed, start.quaternion = _integers(model, fixed), _integers(model, [*robot.quaternion_starts.values()])
    start.mid_joint_q = model.mid_joint_q
    return start


@wp.func
@typing.no_type_check
def follow(number: wp.array2d[Any], f: int, leader: Any):
    """Return the value of follower f of a table of `follower_table`, in its leader's precision.

    Clamped to the follower's own limits, because of rounding.
    """
    multiplier, offset = type(leader)(number[f, 0]), type(leader)(number[f, 1])
    return wp.clamp(multiplier * leader + offset, type(leader)(number[f, 2]), type(leader)(number[f, 3]))


def follower_dofs(model: DeviceModel) -> list[int]:
    """Return the follower (mimic) DOFs of active leaders."""
    robot = model.robot
    return [dof for dof, a in enumerate(robot.dof_active) if a >= 0 and robot.active_dof[a] != dof]


def follower_table(
    model: DeviceModel, dofs: list[int], *, exact: bool = False, hard_limits: bool = True
) -> NDArray[np.float64]:
    """Return multiplier, offset and limits of follower DOFs, [dofs, 4]; infinite limits without `hard_limits`."""
    # Limits are exact in float64, else rounded inwards to float32
    robot = model.robot
    lower, upper = robot.joint_limit_lower, robot.joint_limit_upper
    if not exact:
        lower, upper = model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()
    if not hard_limits:
        lower, upper = np.full_like(lower, -np.inf), np.full_like(upper, np.inf)
    return follower_numbers(robot, dofs, lower, upper)
