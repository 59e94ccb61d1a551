"""Spheres of a robot and its kinematics as arrays that a check of one configuration reads.

Each body has its frame turned so that the axis of its joint is z: a joint then turns or slides along its own frame.
Spheres of a link stand in blocks as wide as a packet, filled up with some that touch nothing.
"""

from collections.abc import Collection
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.robots import DeviceModel
from ik_service.robots.collision_checks.body_spheres import BodySpheres
from ik_service.robots.joint_type import JointType
from ik_service.robots.kinematic_robot import KinematicRobot
from ik_service.robots.transforms import (
    Float64Array,
    identity_transform,
    quaternion_between,
    quaternion_rotate,
    transform_inverse,
    transform_multiply,
)

ABSENT_RADIUS = -1.0e6
"""Radius of spheres that fill a block up [m]: they are far from everything."""
_Z_AXIS = np.array([0.0, 0.0, 1.0])


@wp.struct
class CollisionSpheres:
    """The bodies of a robot, the spheres of its links, and the pairs that are checked; int32 and float32."""

    joint_kind: wp.array[wp.int32]  # [bodies]
    joint_parent: wp.array[wp.int32]  # [bodies]
    joint_q_start: wp.array[wp.int32]  # [bodies + 1]
    frame: wp.array2d[wp.float32]  # [bodies, 12]: in the parent's at zero, rotation by rows, then position
    link_body: wp.array[wp.int32]  # [links], -1 for the world
    link_count: wp.array[wp.int32]  # [links]: spheres
    link_block: wp.array[wp.int32]  # [links + 1]: first block of each link
    bound: wp.array2d[wp.float32]  # [links, 4]: a sphere around those of each link, centre and radius
    sphere: wp.array3d[wp.float32]  # [blocks, 4, width]: centres and radii
    pair: wp.array2d[wp.int32]  # [pairs, 2]: links
    in_world: wp.array[wp.int32]  # [links]: bit of each that is checked against the world, as `world_bits` gives it


def collision_spheres(model: DeviceModel, spheres: BodySpheres, width: int, trees: Collection[int]) -> Any:
    """Return the `CollisionSpheres` of what some trees move.

    Args:
        model: The robot on the device.
        spheres: Its spheres.
        width: Spheres in a block.
        trees: Links of these trees are checked against each other, against static links, and against the world.
    """
    robot, device = model.robot, model.device
    turns = np.array([_axis_frame(robot, joint) for joint in range(robot.joint_count)]).reshape(-1, 7)
    moved = [body >= 0 and int(robot.trees.body_treeid[body]) in trees for body in spheres.link_body]
    known = [
        own or body < 0 or robot.trees.body_treeid[body] < 0 for own, body in zip(moved, spheres.link_body, strict=True)
    ]
    pairs = [(a, b) for a, b in spheres.pairs if (moved[a] or moved[b]) and known[a] and known[b]]
    counts = np.diff(spheres.link_start)
    blocks = -(-counts // width)
    found: Any = CollisionSpheres()

    def integers(values: Any) -> wp.array[Any]:
        return wp.array(values, dtype=wp.int32, device=device)

    def floats(values: Any) -> wp.array[Any]:
        return wp.array(values, dtype=wp.float32, device=device)

    found.joint_kind, found.joint_parent, found.joint_q_start = (
        model.joint_kind,
        model.joint_parent,
        model.joint_q_start,
    )
    found.frame = floats(_frames(robot, turns))
    found.link_body, found.link_count = integers(spheres.link_body), integers(counts)
    found.link_block = integers(np.cumsum([0, *blocks]))
    local = [_turned(turns, spheres, place) for place in range(len(spheres.links))]
    found.bound = floats(np.array([bound for bound, _ in local]).reshape(-1, 4))
    found.sphere = floats(np.concatenate([np.empty((0, 4, width)), *(_blocks(own, width) for _, own in local)]))
    found.pair = integers(np.array(pairs).reshape(-1, 2))
    found.in_world = integers(np.where(moved, world_bits(spheres), 0))
    return found


def world_bits(spheres: BodySpheres) -> NDArray[np.int32]:
    """Return a bit for each link: the first for links of the robot, each attached object has one of its own."""
    own = len(spheres.links) - len(spheres.touches)
    return np.array([*[1] * own, *(2 << k for k in range(len(spheres.touches)))], dtype=np.int32)


def _axis_frame(robot: KinematicRobot, joint: int) -> Float64Array:
    """Give the turn from the joint-parent frame to one whose z axis is the joint's, shape [7]."""
    kind, turn = JointType(robot.joint_type[joint]), identity_transform()
    if kind in (JointType.FLOATING, JointType.BALL):
        return turn
    axis = robot.joint_axis[robot.joint_qd_start[joint + 1] - 1]
    turn[3:] = quaternion_between(_Z_AXIS, axis)
    return turn


def _frames(robot: KinematicRobot, turns: Float64Array) -> Float64Array:
    """Give the frame of each body in that of its parent at zero, rotation by rows and then position, [bodies, 12]."""
    frames = []
    for joint in range(robot.joint_count):
        parent = int(robot.joint_parent[joint])
        above = identity_transform() if parent < 0 else transform_inverse(turns[parent])
        T = transform_multiply(transform_multiply(above, robot.joint_X_p[joint]), turns[joint])
        frames.append(np.concatenate([_rotation(T[3:]).ravel(), T[:3]]))
    return np.array(frames).reshape(-1, 12)


def _rotation(q_xyzw: Float64Array) -> Float64Array:
    return quaternion_rotate(q_xyzw, np.eye(3)).T


def _turned(turns: Float64Array, spheres: BodySpheres, place: int) -> tuple[Float64Array, Float64Array]:
    """Give the bound and the spheres of a link in the turned frame of its body, [4] and [spheres, 4]."""
    body, own = int(spheres.link_body[place]), spheres.of_link(place)
    given = np.vstack([spheres.bounds[place], np.column_stack([spheres.centers[own], spheres.radii[own]])])
    if body >= 0:
        back = transform_inverse(turns[body])
        given[:, :3] = quaternion_rotate(back[3:], given[:, :3])
    return given[0], given[1:]


def _blocks(spheres: Float64Array, width: int) -> Float64Array:
    """Give spheres in blocks, shape [blocks, 4, width]; the last one is filled up."""
    count = -(-len(spheres) // width) * width
    filled: NDArray[np.float64] = np.tile(np.append(spheres[0, :3], ABSENT_RADIUS), (count, 1))
    filled[: len(spheres)] = spheres
    return filled.reshape(-1, width, 4).transpose(0, 2, 1)
