"""Forward kinematics and centres of mass in float64 on the host; the solver verifies every solution with these poses.

The code loops over joints and is vectorised over configurations. Arrays have components first ([4, n] and [3, n]), so
memory is contiguous; long batches are split into blocks that fit into the cache.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ik_service.mechanism.configuration import checked_joint_q
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import JointStep, KinematicRobot
from ik_service.mechanism.transforms import Float64Array, quaternion_multiply, quaternion_rotate
from objectives.errors import InputError
from objectives.model import BodyMass

CONFIGURATIONS_PER_BLOCK = 2048  # configurations per block: the arrays of one joint fit into the second-level cache


class LinkPoses(NamedTuple):
    """Poses of links in the world frame.

    Attributes:
        positions: [m], shape [n, links, 3].
        orientations_xyzw: Unit quaternions, shape [n, links, 4].
    """

    positions: Float64Array
    orientations_xyzw: Float64Array


class BodyPose(NamedTuple):
    """Pose of one body in many configurations: position [3, n] and quaternion xyzw [4, n]."""

    position: Float64Array
    q_xyzw: Float64Array


def joint_steps(robot: KinematicRobot) -> tuple[JointStep, ...]:
    """Precompute the constants of every joint."""
    steps = []
    for joint in range(robot.joint_count):
        X_p = robot.joint_X_p[joint]
        local_axes = robot.joint_axis[robot.joint_qd_start[joint] : robot.joint_qd_start[joint + 1]]
        half_turn_xyzw = np.append(local_axes[-1], 0.0)
        turn = [_right_multiplication(q) for q in (X_p[3:], quaternion_multiply(X_p[3:], half_turn_xyzw))]
        steps.append(
            JointStep(
                joint_type=JointType(robot.joint_type[joint]),
                parent=int(robot.joint_parent[joint]),
                coordinates=slice(int(robot.joint_q_start[joint]), int(robot.joint_q_start[joint + 1])),
                origin=X_p[:3],
                axes=quaternion_rotate(X_p[3:], local_axes),
                turn=np.concatenate(turn),
            )
        )
    return tuple(steps)


def _right_multiplication(q_xyzw: Float64Array) -> Float64Array:
    """Give the matrix M with M @ p = p * q, shape [4, 4]."""
    return quaternion_multiply(np.eye(4), q_xyzw).T


def forward_kinematics(robot: KinematicRobot, joint_q: ArrayLike, links: Sequence[str] | None = None) -> LinkPoses:
    """Give the poses of links in the world frame; see ``RobotModel.forward_kinematics``."""
    indices = chosen_links(robot, links)
    configurations = checked_joint_q(robot, joint_q)
    positions = np.empty((len(configurations), len(indices), 3))
    orientations_xyzw = np.empty((len(configurations), len(indices), 4))
    bodies = _with_ancestors(robot, {int(robot.link_body[i]) for i in indices})
    for block in blocks_of(len(configurations)):
        poses = poses_of_bodies(robot, configurations[block], bodies)
        for column, index in enumerate(indices):
            pose = _carried(poses, int(robot.link_body[index]), robot.link_X_body[index])
            positions[block, column] = pose.position.T
            orientations_xyzw[block, column] = pose.q_xyzw.T
    return LinkPoses(positions, orientations_xyzw)


def body_poses(robot: KinematicRobot, joint_q: ArrayLike) -> Float64Array:
    """Give ``T_world_body`` of every body, shape [n, body_count, 7]; see ``RobotModel.body_poses``."""
    configurations = checked_joint_q(robot, joint_q)
    T_world_body = np.empty((len(configurations), robot.body_count, 7))
    for block in blocks_of(len(configurations)):
        poses = poses_of_bodies(robot, configurations[block], range(robot.body_count))
        for body, pose in poses.items():
            T_world_body[block, body, :3] = pose.position.T
            T_world_body[block, body, 3:] = pose.q_xyzw.T
    return T_world_body


def chosen_links(robot: KinematicRobot, links: Sequence[str] | None) -> Sequence[int]:
    """Give the indices of named links, None for all; UnknownNameError, or InputError for a text instead of a list."""
    if isinstance(links, str):
        raise InputError(f"links must be a list of names, got the text {links!r}.")
    return range(len(robot.link_names)) if links is None else [robot.link_index(link) for link in links]


def blocks_of(n: int, dofs: int = 1) -> Iterator[slice]:
    """Split n configurations into blocks, smaller ones for many DOFs."""
    import os
    size = int(os.environ.get("BL", 2048*20)) // dofs if dofs > 1 else 2048
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def _with_ancestors(robot: KinematicRobot, bodies: set[int]) -> list[int]:
    """Give bodies with all their ancestors, parents first."""
    needed = bodies - {-1}
    for body in range(robot.body_count - 1, -1, -1):
        if body in needed and robot.joint_parent[body] >= 0:
            needed.add(int(robot.joint_parent[body]))
    return sorted(needed)


def poses_of_bodies(robot: KinematicRobot, configurations: Float64Array, bodies: Sequence[int]) -> dict[int, BodyPose]:
    """Give the world poses of bodies at checked configurations [n, joint_coord_count].

    `bodies` has parents before children, and every ancestor of its bodies.
    """
    columns = np.ascontiguousarray(configurations.T)
    poses: dict[int, BodyPose] = {}
    for body in bodies:
        step = robot.joint_steps[body]
        parent = poses[step.parent] if step.parent >= 0 else world_pose(columns.shape[1])
        poses[body] = moved(step, parent, columns[step.coordinates])
    return poses


def world_pose(n: int) -> BodyPose:
    """Give n copies of the identity pose."""
    return BodyPose(np.zeros((3, n)), np.tile([[0.0], [0.0], [0.0], [1.0]], (1, n)))


def _carried(poses: dict[int, BodyPose], body: int, T_body_link: Float64Array) -> BodyPose:
    if body < 0:
        return BodyPose(T_body_link[:3, np.newaxis], T_body_link[3:, np.newaxis])
    pose = poses[body]
    q_xyzw = pose.q_xyzw
    if T_body_link[3:6].any():  # not a test of w: w rounds to 1 for small rotations
        q_xyzw = _times(_right_multiplication(T_body_link[3:]), q_xyzw)
    return BodyPose(shifted(pose, T_body_link[:3]), q_xyzw)


def shifted(pose: BodyPose, point: Float64Array) -> Float64Array:
    """Give a point of a body [m, shape 3] in the world frame, shape [3, n]."""
    return np.asarray(pose.position + rotated(pose.q_xyzw, point)) if point.any() else pose.position


def rotated(q_xyzw: Float64Array, vector: Float64Array) -> Float64Array:
    """Rotate a vector, shape [3] or [3, n], by quaternions [4, n], shape [3, n]."""
    x, y, z, w = q_xyzw
    a, b, c = vector
    # 2 (vector part of the quaternion) x vector
    u, v, t = y * c - z * b, z * a - x * c, x * b - y * a
    u, v, t = u + u, v + v, t + t
    first = a + w * u + (y * t - z * v)
    turned = np.empty((3, *first.shape))
    turned[0] = first
    turned[1] = b + w * v + (z * u - x * t)
    turned[2] = c + w * t + (x * v - y * u)
    return turned


def moved(step: JointStep, parent: BodyPose, q: Float64Array) -> BodyPose:
    """Give the pose of a joint's child from the pose of the parent and the joint's coordinates [coordinates, n]."""
    position = shifted(parent, step.origin)
    kind = step.joint_type
    if kind is JointType.PRISMATIC:
        return BodyPose(position + rotated(parent.q_xyzw, step.axes[0]) * q[0], _times(step.turn[:4], parent.q_xyzw))
    if kind in (JointType.REVOLUTE, JointType.CONTINUOUS):
        return BodyPose(position, _turned(step, parent.q_xyzw, q[0]))
    if kind is JointType.PLANAR:
        slide = _times(step.axes[:2].T, q[:2])
        return BodyPose(position + rotated(parent.q_xyzw, slide), _turned(step, parent.q_xyzw, q[2]))
    if kind is JointType.FLOATING:
        position = position + rotated(parent.q_xyzw, _times(step.axes[:3].T, q[:3]))
    turned = quaternion_multiply(_times(step.turn[:4], parent.q_xyzw).T, q[-4:].T)
    return BodyPose(position, np.moveaxis(turned, -1, 0))


def _turned(step: JointStep, q_xyzw: Float64Array, angle: Float64Array) -> Float64Array:
    half = 0.5 * angle
    both = _times(step.turn, q_xyzw)
    both[:4] *= np.cos(half)
    both[4:] *= np.sin(half)
    return np.asarray(both[:4] + both[4:])


def _times(matrix: Float64Array, columns: Float64Array) -> Float64Array:
    """Multiply a matrix and columns [k, n]; the order of additions does not depend on n, as it would with BLAS.

    `einsum` adds in another order for a single column, so a single column is computed twice.
    """
    if columns.shape[1] == 1:
        return np.asarray(np.einsum("ij,jn->in", matrix, np.repeat(columns, 2, axis=1))[:, :1])
    return np.asarray(np.einsum("ij,jn->in", matrix, columns))


def body_masses(robot: KinematicRobot) -> tuple[BodyMass, ...]:
    """Sum up the masses of the links of each body; see ``RobotModel.body_masses``."""
    found = []
    for body in range(-1, robot.body_count):
        links = np.flatnonzero((robot.link_body == body) & (robot.link_mass > 0.0))
        if len(links) == 0:
            continue
        masses, X = robot.link_mass[links], robot.link_X_body[links]
        centres = X[:, :3] + quaternion_rotate(X[:, 3:], robot.link_com[links])
        com = masses @ centres / masses.sum()
        found.append(BodyMass(body, float(masses.sum()), (float(com[0]), float(com[1]), float(com[2]))))
    return tuple(found)


def center_of_mass(robot: KinematicRobot, joint_q: ArrayLike) -> Float64Array:
    """Give the centre of mass, shape [n, 3]; see ``RobotModel.center_of_mass``."""
    poses = body_poses(robot, joint_q)
    if not robot.body_masses:
        raise InputError(f"Robot '{robot.name}' has no masses; its file gives no <inertial> above 0 kg.")
    moments = np.zeros((len(poses), 3))
    for one in robot.body_masses:
        centre = np.broadcast_to(one.com, (len(poses), 3))
        if one.body >= 0:
            centre = poses[:, one.body, :3] + quaternion_rotate(poses[:, one.body, 3:], centre)
        moments += one.mass * centre
    return np.asarray(moments / sum(one.mass for one in robot.body_masses))
