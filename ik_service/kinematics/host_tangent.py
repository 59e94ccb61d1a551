"""Tangents in float64 on the host: motion subspace, integration, random configurations, Jacobians of links.

A joint's tangent is expressed in the joint-parent frame. Floating joint: (v, w), v the velocity of the child's origin;
ball joint: w. Rotations are integrated by the left product ``exp(w) * q``.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ik_service.kinematics.host_poses import blocks_of, chosen_links, poses_of_bodies, rotated, world_pose
from ik_service.mechanism.configuration import checked_joint_q, checked_tangent
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import (
    Float64Array,
    cross,
    identity_transform,
    quaternion_exp,
    quaternion_multiply,
    transform_multiply,
)
from ik_service.mechanism.trees import moving_dofs
from objectives.errors import InputError


class BodyMotion(NamedTuple):
    """Poses of all bodies and their motion subspace, in many configurations."""

    joint_q: Float64Array  # shape [n, joint_coord_count]
    T_world_body: Float64Array  # [m, xyzw], shape [n, body_count, 7]
    S: Float64Array  # motion subspace: twist per unit velocity of each DOF, world frame, shape [n, joint_dof_count, 6]


def body_motion(robot: KinematicRobot, joint_q: ArrayLike) -> BodyMotion:
    """Compute the poses of all bodies and the motion subspace."""
    configurations = checked_joint_q(robot, joint_q)
    n, dofs = len(configurations), robot.joint_dof_count
    # the last body is the world; configurations are contiguous in memory
    T_world_body = np.empty((n, robot.body_count + 1, 7), order="F")
    T_world_body[:, -1] = identity_transform()
    for body, pose in poses_of_bodies(robot, configurations, range(robot.body_count)).items():
        T_world_body[:, body, :3], T_world_body[:, body, 3:] = pose.position.T, pose.q_xyzw.T
    S = np.zeros((n, dofs, 6), order="F")
    if dofs:
        axes = np.concatenate([step.axes for step in robot.joint_steps]).T[..., np.newaxis]
        turn = T_world_body.T[3:, robot.joint_parent[robot.dof_joint]]
        world_axes = rotated(turn, axes).T
        linear = robot.linear_dofs
        S[:, linear, :3] = world_axes[:, linear]
        S[:, ~linear, :3] = cross(T_world_body[:, robot.dof_joint[~linear], :3], world_axes[:, ~linear])
        S[:, ~linear, 3:] = world_axes[:, ~linear]
    return BodyMotion(configurations, T_world_body[:, :-1], S)


class BodyRate(NamedTuple):
    """Motion of all bodies at some joint velocities, and the time derivative of their motion subspace."""

    joint_qd: Float64Array  # joint velocities, shape [n, joint_dof_count]
    twists: Float64Array  # of all bodies, and last of the world, in the world frame, shape [n, body_count + 1, 6]
    S: Float64Array  # time derivative of the motion subspace, shape [n, joint_dof_count, 6]


def body_rate(robot: KinematicRobot, motion: BodyMotion, joint_qd: Float64Array) -> BodyRate:
    """Compute the twists of all bodies and the rate of the motion subspace at velocities [n, joint_dof_count].

    A joint's axes turn with the parent body; axes of angular DOFs pass through the child's origin.
    """
    rate = np.zeros_like(motion.S)
    twists = np.zeros((len(joint_qd), robot.body_count + 1, 6))  # the last twist, index -1, belongs to the world
    for body, step in enumerate(robot.joint_steps):
        own = slice(int(robot.joint_qd_start[body]), int(robot.joint_qd_start[body + 1]))
        linear = own.start + step.joint_type.linear_dof_count
        S = motion.S[:, own]
        twists[:, body] = twists[:, step.parent] + np.einsum("nd,ndk->nk", joint_qd[:, own], S)
        turn = twists[:, step.parent, np.newaxis, 3:]
        rate[:, own.start : linear, :3] = cross(turn, motion.S[:, own.start : linear, :3])
        axes = motion.S[:, linear : own.stop, 3:]
        origin = motion.T_world_body[:, body, np.newaxis, :3]
        velocity = twists[:, body, np.newaxis, :3] + cross(twists[:, body, np.newaxis, 3:], origin)
        rate[:, linear : own.stop, 3:] = cross(turn, axes)
        rate[:, linear : own.stop, :3] = cross(velocity, axes) + cross(origin, rate[:, linear : own.stop, 3:])
    return BodyRate(joint_qd, twists, rate)


def integrate(robot: KinematicRobot, joint_q: ArrayLike, dq: ArrayLike) -> Float64Array:
    """Move configurations along tangents, shape [n, joint_coord_count]; see ``RobotModel.integrate``."""
    start, step = checked_joint_q(robot, joint_q), checked_tangent(robot, dq)
    if len(start) != len(step) and 1 not in (len(start), len(step)):
        raise InputError(f"joint_q has {len(start)} rows and dq {len(step)}; they must be as many, or one.")
    n = len(step) if len(start) == 1 else len(start)
    result = np.broadcast_to(start, (n, robot.joint_coord_count)).copy()
    additive = robot.dof_coordinate >= 0
    result[:, robot.dof_coordinate[additive]] += step[:, additive]
    for joint, first in robot.quaternion_starts.items():
        w = step[:, robot.joint_qd_start[joint + 1] - 3 : robot.joint_qd_start[joint + 1]]
        turned = quaternion_multiply(quaternion_exp(w), result[:, first : first + 4])
        result[:, first : first + 4] = turned / np.linalg.norm(turned, axis=-1, keepdims=True)
    return result


def random_joint_q(robot: KinematicRobot, rng: np.random.Generator, n: int) -> Float64Array:
    """Draw configurations uniformly inside the limits, shape [n, joint_coord_count]; see ``RobotModel.random_joint_q``.

    The range of a DOF with one limit is as wide as the range without limits. InputError for a negative n.
    """
    if n < 0:
        raise InputError(f"n must not be negative, got {n}.")
    joint_q = np.broadcast_to(robot.mid_joint_q, (n, robot.joint_coord_count)).copy()
    for joint, first in robot.quaternion_starts.items():
        gaussian = rng.standard_normal((n, 4))
        if robot.dof_active[robot.joint_qd_start[joint + 1] - 1] < 0:
            continue  # drawn although locked: locking a joint must not change the numbers of other joints
        joint_q[:, first : first + 4] = gaussian / np.linalg.norm(gaussian, axis=-1, keepdims=True)
    lower, upper = _ranges(robot)
    coordinate = robot.dof_coordinate[robot.active_dof]
    has_own = coordinate >= 0
    drawn = rng.random((n, int(has_own.sum())))
    joint_q[:, coordinate[has_own]] = lower[has_own] + (upper - lower)[has_own] * drawn
    return robot.clamp_joint_q(joint_q)


def _ranges(robot: KinematicRobot) -> tuple[Float64Array, Float64Array]:
    reach = np.where(robot.linear_dofs[robot.active_dof], 1.0, np.pi)
    lower, upper = robot.active_limit_lower, robot.active_limit_upper
    free_below, free_above = np.isinf(lower), np.isinf(upper)
    low = np.where(free_below, np.where(free_above, -reach, upper - 2.0 * reach), lower)
    high = np.where(free_above, np.where(free_below, reach, lower + 2.0 * reach), upper)
    return low, high


def jacobian(robot: KinematicRobot, joint_q: ArrayLike, links: Sequence[str] | None) -> Float64Array:
    """Give the Jacobians of links, shape [n, links, 6, joint_dof_count]; see ``RobotModel.jacobian``."""
    configurations, places = checked_joint_q(robot, joint_q), chosen_links(robot, links)
    found = np.empty((len(configurations), len(places), 6, robot.joint_dof_count))
    for block in blocks_of(len(configurations)):
        motion = body_motion(robot, configurations[block])
        for column, link in enumerate(places):
            found[block, column] = _moved(motion.S, *_place(robot, motion, link))
    return _folded(robot, found)


def jacobian_dot(
    robot: KinematicRobot, joint_q: ArrayLike, joint_qd: ArrayLike, links: Sequence[str] | None
) -> Float64Array:
    """Give the time derivatives of Jacobians, of the same shape; see ``RobotModel.jacobian_dot``."""
    configurations, velocities = checked_joint_q(robot, joint_q), checked_tangent(robot, joint_qd, "joint_qd")
    places, n = chosen_links(robot, links), len(configurations)
    if len(velocities) not in (1, n):
        raise InputError(f"joint_q has {n} rows and joint_qd {len(velocities)}; they must be as many, or one.")
    velocities = np.broadcast_to(velocities, (n, robot.joint_dof_count))
    found = np.empty((n, len(places), 6, robot.joint_dof_count))
    for block in blocks_of(n):
        motion, qd = body_motion(robot, configurations[block]), velocities[block]
        rate = body_rate(robot, motion, qd).S
        for column, link in enumerate(places):
            origin, moving = _place(robot, motion, link)
            own = _moved(motion.S, origin, moving)
            velocity = np.einsum("nkd,nd->nk", own[:, :3], qd)
            found[block, column] = _moved(rate, origin, moving)
            found[block, column, :3] += cross(motion.S[..., 3:], velocity[:, np.newaxis]).transpose(0, 2, 1) * moving
    return _folded(robot, found)


def _place(robot: KinematicRobot, motion: BodyMotion, link: int) -> tuple[Float64Array, NDArray[np.bool_]]:
    """Give the origin of a link in the world, shape [n, 3], and a mask of the DOFs that move the link."""
    body, T_body_link = int(robot.link_body[link]), robot.link_X_body[link]
    n = len(motion.joint_q)
    carrier = motion.T_world_body[:, body] if body >= 0 else np.tile(identity_transform(), (n, 1))
    return transform_multiply(carrier, np.broadcast_to(T_body_link, (n, 7)))[:, :3], moving_dofs(robot, body)


def _moved(twists: Float64Array, point: Float64Array, moving: NDArray[np.bool_]) -> Float64Array:
    """Move twists [n, dofs, 6] from the world origin to a point [n, 3]; give [n, 6, dofs]."""
    linear = twists[..., :3] + cross(twists[..., 3:], point[:, np.newaxis])
    both: Float64Array = np.concatenate([linear, twists[..., 3:]], axis=-1).transpose(0, 2, 1)
    return both * moving


def _folded(robot: KinematicRobot, jacobians: Float64Array) -> Float64Array:
    """Add the columns of followers (mimic joints) to the columns of the leaders, and zero the followers' columns."""
    for follower in robot.follower_dofs:
        jacobians[..., robot.dof_leader[follower]] += robot.dof_multiplier[follower] * jacobians[..., follower]
        jacobians[..., follower] = 0.0
    return jacobians
