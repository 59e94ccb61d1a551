"""Spheres of a robot and its kinematics as arrays for the check of one configuration.

The frame of each body is rotated so that the axis of its joint is z. Spheres of a link are stored in blocks as wide as
a SIMD packet, padded with spheres far from everything.
"""

from collections.abc import Collection
from copy import copy
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.collision.body_spheres import BodySpheres
from ik_service.mechanism.device_model import DeviceModel
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import (
    Float64Array,
    identity_transform,
    quaternion_between,
    quaternion_rotate,
    transform_inverse,
    transform_multiply,
)

ABSENT_RADIUS = -1.0e6  # radius of padding spheres [m]: far from everything
_Z_AXIS = np.array([0.0, 0.0, 1.0])


@wp.struct
class CollisionSpheres:
    """The bodies of a robot, the spheres of its links, and the checked pairs; int32 and float32."""

    joint_kind: wp.array[wp.int32]  # [bodies]
    joint_parent: wp.array[wp.int32]  # [bodies]
    joint_q_start: wp.array[wp.int32]  # [bodies + 1]
    frame: wp.array2d[wp.float32]  # [bodies, 12]: in the parent's frame at zero, rotation by rows, then position
    link_body: wp.array[wp.int32]  # [links], -1 for the world
    link_count: wp.array[wp.int32]  # [links]: spheres
    link_block: wp.array[wp.int32]  # [links + 1]: first block of each link
    bound: wp.array2d[wp.float32]  # [links, 4]: bounding sphere of each link, centre and radius
    sphere: wp.array3d[wp.float32]  # [blocks, 4, width]: centres and radii
    pair: wp.array2d[wp.int32]  # [pairs, 2]: links
    in_world: wp.array[wp.int32]  # [links]: bit of each link checked against the world, from `world_bits`


class SphereArrays:
    """Arrays for the check of one configuration, independent of the checked trees, with blocks of `width` spheres."""

    def __init__(self, model: DeviceModel, spheres: BodySpheres, width: int) -> None:
        self._model, self._width = model, width
        self._turns = _axis_turns(model.robot)
        self._frame = self._floats(_frames(model.robot, self._turns))
        self._take(spheres)

    def with_spheres(self, spheres: BodySpheres) -> "SphereArrays":
        """Give the arrays of other spheres, or other pairs, of the same robot."""
        found = copy(self)
        found._take(spheres)
        return found

    def of_trees(self, trees: Collection[int]) -> Any:
        """Return the `CollisionSpheres` of links moved by trees; all results share arrays, except pairs and bits."""
        robot, spheres = self._model.robot, self._spheres
        tree = np.where(spheres.link_body >= 0, robot.trees.body_treeid[spheres.link_body], -1)
        moved = np.isin(tree, list(trees)) & (spheres.link_body >= 0)
        known = moved | (tree < 0)
        a, b = spheres.pairs.T
        found: Any = CollisionSpheres()
        for name, own in self._shared.items():
            setattr(found, name, own)
        found.pair = self._integers(spheres.pairs[(moved[a] | moved[b]) & known[a] & known[b]])
        found.in_world = self._integers(np.where(moved, world_bits(spheres), 0))
        return found

    def _take(self, spheres: BodySpheres) -> None:
        model, self._spheres = self._model, spheres
        counts = np.diff(spheres.link_start)
        link_block = np.cumsum([0, *-(-counts // self._width)])
        self._shared = {
            "joint_kind": model.joint_kind,
            "joint_parent": model.joint_parent,
            "joint_q_start": model.joint_q_start,
            "frame": self._frame,
            "link_body": self._integers(spheres.link_body),
            "link_count": self._integers(counts),
            "link_block": self._integers(link_block),
            "bound": self._floats(_turned(self._turns, spheres.bounds, spheres.link_body)),
            "sphere": self._floats(_blocks(self._turns, spheres, link_block, self._width)),
        }

    def _integers(self, values: Any) -> "wp.array[Any]":
        return wp.array(values, dtype=wp.int32, device=self._model.device)

    def _floats(self, values: Any) -> "wp.array[Any]":
        return wp.array(values, dtype=wp.float32, device=self._model.device)


def world_bits(spheres: BodySpheres) -> NDArray[np.int32]:
    """Return a bit per link: the first bit for links of the robot, a bit of its own for each attached object."""
    own = len(spheres.links) - len(spheres.touches)
    return np.array([*[1] * own, *(2 << k for k in range(len(spheres.touches)))], dtype=np.int32)


def _axis_turns(robot: KinematicRobot) -> Float64Array:
    """Give the rotation from each joint-parent frame to a frame with z along the joint axis, shape [joints, 7]."""
    turns = np.tile(identity_transform(), (robot.joint_count, 1))
    for joint in np.flatnonzero(~np.isin(robot.joint_type, (JointType.FLOATING, JointType.BALL))):
        turns[joint, 3:] = quaternion_between(_Z_AXIS, robot.joint_axis[robot.joint_qd_start[joint + 1] - 1])
    return turns


def _frames(robot: KinematicRobot, turns: Float64Array) -> Float64Array:
    """Give the frame of each body in its parent's frame at zero, rotation by rows, then position, [bodies, 12]."""
    above = np.vstack([transform_inverse(turns), identity_transform()])[robot.joint_parent]  # the last is the world's
    T = transform_multiply(transform_multiply(above, robot.joint_X_p), turns)
    columns = quaternion_rotate(T[:, np.newaxis, 3:], np.eye(3))
    return np.concatenate([columns.swapaxes(1, 2).reshape(-1, 9), T[:, :3]], axis=1)


def _turned(turns: Float64Array, spheres: Float64Array, body: NDArray[np.int32]) -> Float64Array:
    """Give spheres in the rotated frames of their bodies, [spheres, 4]; spheres of the world are unchanged."""
    found = np.array(spheres)
    moved = body >= 0
    found[moved, :3] = quaternion_rotate(transform_inverse(turns[body[moved]])[:, 3:], spheres[moved, :3])
    return found


def _blocks(turns: Float64Array, spheres: BodySpheres, link_block: NDArray[Any], width: int) -> Float64Array:
    """Give the spheres in blocks of their links, padded, shape [blocks, 4, width]."""
    counts = np.diff(spheres.link_start)
    own = np.column_stack([spheres.centers, spheres.radii])
    own = _turned(turns, own, np.repeat(spheres.link_body, counts))
    filled = np.repeat(own[spheres.link_start[:-1]], np.diff(link_block) * width, axis=0)
    filled[:, 3] = ABSENT_RADIUS
    first = np.repeat(link_block[:-1] * width - spheres.link_start[:-1], counts)
    filled[first + np.arange(len(own))] = own
    return filled.reshape(-1, width, 4).transpose(0, 2, 1)
