"""Motion of links in float64 on the host: Jacobians and their time derivatives, from the motion subspace."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ik_service.kinematics.host_poses import blocks_of, chosen_links
from ik_service.kinematics.host_tangent import BodyMotion, body_motion, motion_subspace_rate
from ik_service.mechanism.configuration import checked_joint_q, checked_tangent
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import Float64Array, cross, identity_transform, transform_multiply
from objectives.errors import InputError


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
        rate = motion_subspace_rate(robot, motion, qd)
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


def moving_dofs(robot: KinematicRobot, body: int) -> NDArray[np.bool_]:
    """Give a mask of the DOFs that move a body, shape [joint_dof_count]; none move the world, body -1."""
    moving = np.zeros(robot.joint_dof_count, dtype=bool)
    while body >= 0:
        moving[robot.joint_qd_start[body] : robot.joint_qd_start[body + 1]] = True
        body = int(robot.joint_parent[body])
    return moving
