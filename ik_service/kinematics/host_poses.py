"""Forward kinematics and centres of mass in float64 on the host; the solver verifies every solution with these poses.

The code loops over depths of joints and is vectorised over joints and configurations. Arrays have components first
([4, k, n] and [3, k, n]), so memory is contiguous; long batches are split into blocks of the size of the cache.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ik_service.mechanism.configuration import checked_joint_q
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import JointStep, KinematicRobot
from ik_service.mechanism.transforms import Float64Array, identity_transform, quaternion_multiply, quaternion_rotate
from objectives.errors import InputError
from objectives.model import BodyMass

CONFIGURATIONS_PER_BLOCK = 2048  # configurations per block: the arrays of a few joints fit into the second-level cache


class LinkPoses(NamedTuple):
    """Poses of links in the world frame.

    Attributes:
        positions: [m], shape [n, links, 3].
        orientations_xyzw: Unit quaternions, shape [n, links, 4].
    """

    positions: Float64Array
    orientations_xyzw: Float64Array


def joint_steps(robot: KinematicRobot) -> tuple[JointStep, ...]:
    """Precompute the constants of joints; joints of one type and depth are computed together."""
    depth, alike = np.zeros(robot.joint_count, np.int32), dict[tuple[int, JointType], list[int]]()
    for joint, parent in enumerate(robot.joint_parent):
        depth[joint] = depth[parent] + 1 if parent >= 0 else 0
        kind = JointType(robot.joint_type[joint])
        alike.setdefault((int(depth[joint]), JointType.REVOLUTE if kind is JointType.CONTINUOUS else kind), []).append(
            joint
        )
    steps = []
    for (_, kind), own in sorted(alike.items()):
        joints, X_p = np.array(own, np.int32), robot.joint_X_p[own]
        dofs = robot.joint_qd_start[joints] + np.arange(len(kind.dof_components))[:, np.newaxis]
        half_turn_xyzw = np.pad(robot.joint_axis[dofs[-1]], ((0, 0), (0, 1)))
        turns = X_p[:, 3:], quaternion_multiply(X_p[:, 3:], half_turn_xyzw)
        steps.append(
            JointStep(
                joint_type=kind,
                joints=joints,
                parents=robot.joint_parent[joints],
                coordinates=robot.joint_q_start[joints] + np.arange(len(kind.coordinate_components))[:, np.newaxis],
                origins=X_p[:, :3].T[..., np.newaxis],
                axes=quaternion_rotate(X_p[:, 3:], robot.joint_axis[dofs]).swapaxes(1, 2)[..., np.newaxis],
                turn=np.concatenate([_right_multiplications(q) for q in turns], axis=1),
            )
        )
    return tuple(steps)


def _right_multiplications(q_xyzw: Float64Array) -> Float64Array:
    """Give the matrices M with M @ p = p * q of quaternions [k, 4], shape [k, 4, 4]."""
    return quaternion_multiply(np.eye(4), q_xyzw[:, np.newaxis]).swapaxes(1, 2)


def forward_kinematics(robot: KinematicRobot, joint_q: ArrayLike, links: Sequence[str] | None = None) -> LinkPoses:
    """Give the poses of links in the world frame; see ``RobotModel.forward_kinematics``."""
    indices = chosen_links(robot, links)
    configurations = checked_joint_q(robot, joint_q)
    bodies, T_body_link = robot.link_body[indices], robot.link_X_body[indices]
    needed, found = with_ancestors(robot, bodies), np.empty((len(configurations), len(indices), 7))
    turns = _right_multiplications(T_body_link[:, 3:])
    is_turned = T_body_link[:, 3:6].any(axis=1)  # not a test of w: w rounds to 1 for small rotations
    for block in blocks_of(len(configurations)):
        poses = poses_of_bodies(robot, configurations[block], needed)[bodies].swapaxes(0, 1)
        found[block, :, :3] = (poses[:3] + rotated(poses[3:], T_body_link[:, :3].T[..., np.newaxis])).T
        found[block, :, 3:] = poses[3:].T
        found[block, is_turned, 3:] = _times(turns[is_turned], poses[3:, is_turned]).T
    return LinkPoses(found[..., :3], found[..., 3:])


def body_poses(robot: KinematicRobot, joint_q: ArrayLike) -> Float64Array:
    """Give ``T_world_body`` of every body, shape [n, body_count, 7]; see ``RobotModel.body_poses``."""
    configurations = checked_joint_q(robot, joint_q)
    T_world_body = np.empty((len(configurations), robot.body_count, 7))
    for block in blocks_of(len(configurations)):
        T_world_body[block] = poses_of_bodies(robot, configurations[block])[:-1].transpose(2, 0, 1)
    return T_world_body


def chosen_links(robot: KinematicRobot, links: Sequence[str] | None) -> Sequence[int]:
    """Give the indices of named links, None for all; UnknownNameError, or InputError for a text instead of a list."""
    if isinstance(links, str):
        raise InputError(f"links must be a list of names, got the text {links!r}.")
    return range(len(robot.link_names)) if links is None else [robot.link_index(link) for link in links]


def blocks_of(n: int) -> Iterator[slice]:
    """Split n configurations into blocks."""
    return (slice(start, min(start + CONFIGURATIONS_PER_BLOCK, n)) for start in range(0, n, CONFIGURATIONS_PER_BLOCK))


def with_ancestors(robot: KinematicRobot, bodies: Iterable[int]) -> NDArray[np.bool_]:
    """Give a mask of bodies with all their ancestors, shape [body_count]."""
    needed = np.zeros(robot.body_count + 1, dtype=bool)
    needed[list(bodies)] = True
    for body in range(robot.body_count - 1, -1, -1):
        needed[robot.joint_parent[body]] |= needed[body]
    return needed[:-1]


def poses_of_bodies(
    robot: KinematicRobot, configurations: Float64Array, needed: NDArray[np.bool_] | None = None
) -> Float64Array:
    """Give the world poses of bodies at checked configurations, shape [body_count + 1, 7, n]; the last is the world's.

    `needed` is a mask of the bodies to compute, with all ancestors, shape [body_count]; None for all.
    """
    columns = np.ascontiguousarray(configurations.T)
    poses = np.empty((robot.body_count + 1, 7, len(configurations)))
    poses[-1] = identity_transform()[:, np.newaxis]
    for step in robot.joint_steps:
        own = slice(None) if needed is None else needed[step.joints]
        joints = step.joints[own]
        if len(joints):
            parent = poses[step.parents[own]].swapaxes(0, 1)
            position, q_xyzw = _moved(step, own, parent[:3], parent[3:], columns[step.coordinates[:, own]])
            poses[joints, :3], poses[joints, 3:] = position.swapaxes(0, 1), q_xyzw.swapaxes(0, 1)
    return poses


def rotated(q_xyzw: Float64Array, vector: Float64Array) -> Float64Array:
    """Rotate vectors, shape [3] or [3, ...], by quaternions [4, ...], shape [3, ...]."""
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


def _moved(
    step: JointStep, own: slice | NDArray[np.bool_], parent: Float64Array, p_xyzw: Float64Array, q: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Give positions [3, k, n] and quaternions [4, k, n] of the children of joints from those of the parents.

    `own` chooses joints of the step; q: their coordinates, shape [coordinates, k, n].
    """
    kind, axes, turn = step.joint_type, step.axes[:, :, own], step.turn[own]
    position = parent + rotated(p_xyzw, step.origins[:, own])
    if kind is JointType.PRISMATIC:
        return position + rotated(p_xyzw, axes[0]) * q[0], _times(turn[:, :4], p_xyzw)
    if kind is JointType.PLANAR:
        position = position + rotated(p_xyzw, axes[0] * q[0] + axes[1] * q[1])
    if kind is JointType.FLOATING:
        position = position + rotated(p_xyzw, axes[0] * q[0] + axes[1] * q[1] + axes[2] * q[2])
    if kind.quaternion_offset is not None:
        return position, quaternion_multiply(_times(turn[:, :4], p_xyzw).T, q[-4:].T).T
    half, both = 0.5 * q[-1], _times(turn, p_xyzw)
    both[:4] *= np.cos(half)
    both[4:] *= np.sin(half)
    return position, both[:4] + both[4:]


def _times(matrices: Float64Array, columns: Float64Array) -> Float64Array:
    """Multiply matrices [k, rows, 4] and columns [4, k, n], shape [rows, k, n].

    The order of additions does not depend on n, unlike that of BLAS. `einsum` adds in another order for n = 1, so a
    single column is computed twice.
    """
    n = columns.shape[2]
    return np.asarray(np.einsum("kij,jkn->ikn", matrices, columns if n > 1 else np.repeat(columns, 2, axis=2))[..., :n])


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
    T_world_body = np.concatenate([poses, np.tile(identity_transform(), (len(poses), 1, 1))], axis=1)
    moments = np.zeros((len(poses), 3))
    for one in robot.body_masses:
        T = T_world_body[:, one.body]
        moments += one.mass * (T[:, :3] + quaternion_rotate(T[:, 3:], np.broadcast_to(one.com, (len(poses), 3))))
    return np.asarray(moments / sum(one.mass for one in robot.body_masses))
