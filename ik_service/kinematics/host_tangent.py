"""Tangents in float64 on the host: motion subspace, integration, random configurations, Jacobians of links.

A joint's tangent is expressed in the joint-parent frame. Floating joint: (v, w), v the velocity of the child's origin;
ball joint: w. Rotations are integrated by the left product ``exp(w) * q``.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ik_service.kinematics.host_poses import blocks_of, chosen_links, poses_of_bodies, rotated
from ik_service.mechanism.configuration import checked_joint_q, checked_tangent
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import (
    Float64Array,
    cross,
    identity_transform,
    quaternion_exp,
    quaternion_multiply,
    quaternion_rotate,
)
from ik_service.mechanism.trees import moving_dofs
from objectives.errors import InputError


class BodyMotion(NamedTuple):
    """Poses of all bodies and their motion subspace, in many configurations."""

    joint_q: Float64Array  # shape [n, joint_coord_count]
    T_world_body: Float64Array  # [m, xyzw], shape [n, body_count, 7]
    S: Float64Array  # motion subspace: twist per unit velocity of each DOF, world frame, shape [n, joint_dof_count, 6]


def body_motion(robot: KinematicRobot, joint_q: ArrayLike, needed: NDArray[np.bool_] | None = None) -> BodyMotion:
    """Compute the poses of bodies and the motion subspace, of `needed` ones as in `poses_of_bodies`."""
    configurations = checked_joint_q(robot, joint_q)
    poses = poses_of_bodies(robot, configurations, needed)
    S = np.zeros((robot.joint_dof_count, 6, len(configurations)))
    for step in robot.joint_steps:
        own = slice(None) if needed is None else needed[step.joints]
        joints, p_xyzw = step.joints[own], poses[step.parents[own], 3:].swapaxes(0, 1)
        for k, axes in enumerate(step.axes[:, :, own] if len(joints) else ()):
            world_axes, dofs = rotated(p_xyzw, axes).T, robot.joint_qd_start[joints] + k
            if k < step.joint_type.linear_dof_count:
                S[dofs, :3] = world_axes.transpose(1, 2, 0)
            else:
                S[dofs, :3] = cross(poses[joints, :3].transpose(2, 0, 1), world_axes).transpose(1, 2, 0)
                S[dofs, 3:] = world_axes.transpose(1, 2, 0)
    return BodyMotion(configurations, poses[:-1].transpose(2, 0, 1), S.transpose(2, 0, 1))


class BodyRate(NamedTuple):
    """Motion of all bodies at some joint velocities, and the time derivative of their motion subspace."""

    joint_qd: Float64Array  # joint velocities, shape [n, joint_dof_count]
    twists: Float64Array  # of all bodies, and last of the world, in the world frame, shape [n, body_count + 1, 6]
    S: Float64Array  # time derivative of the motion subspace, shape [n, joint_dof_count, 6]


def body_rate(robot: KinematicRobot, motion: BodyMotion, joint_qd: Float64Array) -> BodyRate:
    """Compute the twists of all bodies and the rate of the motion subspace at velocities [n, joint_dof_count].

    A joint's axes turn with the parent body; axes of angular DOFs pass through the child's origin.
    """
    twists = np.zeros((len(joint_qd), robot.body_count + 1, 6))  # the last twist, index -1, belongs to the world
    for body, parent in enumerate(robot.joint_parent):
        own = slice(int(robot.joint_qd_start[body]), int(robot.joint_qd_start[body + 1]))
        twists[:, body] = twists[:, parent] + np.einsum("nd,ndk->nk", joint_qd[:, own], motion.S[:, own])
    joint, linear = robot.dof_joint, robot.linear_dofs[:, np.newaxis]
    turn, origin = twists[:, robot.joint_parent[joint], 3:], motion.T_world_body[:, joint, :3]
    axes = np.where(linear, motion.S[..., :3], motion.S[..., 3:])
    turned = cross(turn, axes)
    velocity = twists[:, joint, :3] + cross(twists[:, joint, 3:], origin)
    both = np.where(linear, turned, cross(velocity, axes) + cross(origin, turned)), np.where(linear, 0.0, turned)
    return BodyRate(joint_qd, twists, np.concatenate(both, axis=-1))


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
    return _jacobians(robot, checked_joint_q(robot, joint_q), None, links)


def jacobian_dot(
    robot: KinematicRobot, joint_q: ArrayLike, joint_qd: ArrayLike, links: Sequence[str] | None
) -> Float64Array:
    """Give the time derivatives of Jacobians, of the same shape; see ``RobotModel.jacobian_dot``."""
    configurations, velocities = checked_joint_q(robot, joint_q), checked_tangent(robot, joint_qd, "joint_qd")
    n = len(configurations)
    if len(velocities) not in (1, n):
        raise InputError(f"joint_q has {n} rows and joint_qd {len(velocities)}; they must be as many, or one.")
    return _jacobians(robot, configurations, np.broadcast_to(velocities, (n, robot.joint_dof_count)), links)


def _jacobians(
    robot: KinematicRobot, joint_q: Float64Array, joint_qd: Float64Array | None, links: Sequence[str] | None
) -> Float64Array:
    places = chosen_links(robot, links)
    found = np.empty((len(joint_q), len(places), 6, robot.joint_dof_count))
    for block in blocks_of(len(joint_q)):
        motion = body_motion(robot, joint_q[block])
        rate = None if joint_qd is None else body_rate(robot, motion, joint_qd[block])
        for column, link in enumerate(places):
            origin, moving = _place(robot, motion, link)
            own = found[block, column] = moved(motion.S, origin, moving)
            if rate is not None:
                turned = cross(motion.S[..., 3:], np.einsum("nkd,nd->nk", own[:, :3], rate.joint_qd)[:, np.newaxis])
                found[block, column] = moved(rate.S, origin, moving)
                found[block, column, :3] += turned.transpose(0, 2, 1) * moving
    return _folded(robot, found)


def _place(robot: KinematicRobot, motion: BodyMotion, link: int) -> tuple[Float64Array, NDArray[np.bool_]]:
    """Give the origin of a link in the world, shape [n, 3], and a mask of the DOFs that move the link."""
    body, X = int(robot.link_body[link]), robot.link_X_body[link]
    carrier = motion.T_world_body[:, body] if body >= 0 else np.tile(identity_transform(), (len(motion.joint_q), 1))
    return carrier[:, :3] + quaternion_rotate(carrier[:, 3:], X[:3]), moving_dofs(robot, body)


def moved(twists: Float64Array, point: Float64Array, moving: NDArray[np.bool_]) -> Float64Array:
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
