"""Forward kinematics in float64 on the device, for verification: from base to link, joint by joint.

It reads the robot as numbers and shares nothing with the engines, whose answers it verifies.
"""

import typing
from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp

from ik_service.kinematics.forward_kinematics import CONTINUOUS, FLOATING, PLANAR, PRISMATIC, REVOLUTE
from ik_service.robots import DeviceModel
from ik_service.robots.transforms import identity_transform
from ik_service.solver.problems.parts import first_problem


@wp.struct
class Kinematics:
    """The robot in float64, and the links whose poses are asked for."""

    joint_type: wp.array[wp.int32]
    joint_q_start: wp.array[wp.int32]
    joint_qd_start: wp.array[wp.int32]
    joint_X_p: wp.array[wp.transformd]
    joint_axis: wp.array[wp.vec3d]
    path_start: wp.array[wp.int32]  # [links + 1]: joints from the base to each link
    path_joint: wp.array[wp.int32]
    link_offset: wp.array[wp.transformd]  # [links]: T_body_link; of the world, identity


@wp.func
@typing.no_type_check
def turned_about(axis: wp.vec3d, angle: wp.float64):
    """Return the rotation by an angle about a unit axis."""
    s = wp.sin(wp.float64(0.5) * angle)
    return wp.quatd(axis[0] * s, axis[1] * s, axis[2] * s, wp.cos(wp.float64(0.5) * angle))


@wp.func
@typing.no_type_check
def joint_slide(robot: Kinematics, j: int, q: wp.array2d[wp.float64], p: int):
    """Return how far a joint moves its child at the configuration of a problem, in its parent frame [m]."""
    kind = robot.joint_type[j]
    c = robot.joint_q_start[j]
    d = robot.joint_qd_start[j]
    slide = wp.vec3d()
    if kind == PRISMATIC:
        slide = robot.joint_axis[d] * q[p, c]
    elif kind == PLANAR:
        slide = robot.joint_axis[d] * q[p, c] + robot.joint_axis[d + 1] * q[p, c + 1]
    elif kind == FLOATING:
        slide = wp.vec3d(q[p, c], q[p, c + 1], q[p, c + 2])
    return slide


@wp.func
@typing.no_type_check
def joint_turn(robot: Kinematics, j: int, q: wp.array2d[wp.float64], p: int):
    """Return how a joint turns its child, in its parent frame."""
    kind = robot.joint_type[j]
    c = robot.joint_q_start[j]
    d = robot.joint_qd_start[j]
    if kind == REVOLUTE or kind == CONTINUOUS:
        return turned_about(robot.joint_axis[d], q[p, c])
    if kind == PRISMATIC:
        return wp.quatd(wp.float64(0.0), wp.float64(0.0), wp.float64(0.0), wp.float64(1.0))
    if kind == PLANAR:
        return turned_about(robot.joint_axis[d + 2], q[p, c + 2])
    if kind == FLOATING:
        c += 3
    return wp.normalize(wp.quatd(q[p, c], q[p, c + 1], q[p, c + 2], q[p, c + 3]))  # rounding lengthens it


@wp.func
@typing.no_type_check
def link_pose(robot: Kinematics, link: int, q: wp.array2d[wp.float64], p: int):
    """Return the pose of a link in the world, by the joints from the base to it."""
    position = wp.vec3d()
    turn = wp.quatd(wp.float64(0.0), wp.float64(0.0), wp.float64(0.0), wp.float64(1.0))
    for m in range(robot.path_start[link], robot.path_start[link + 1]):
        j = robot.path_joint[m]
        position += wp.quat_rotate(turn, wp.transform_get_translation(robot.joint_X_p[j]))
        turn = turn * wp.transform_get_rotation(robot.joint_X_p[j])
        kind = robot.joint_type[j]
        if kind == PRISMATIC or kind == PLANAR or kind == FLOATING:
            position += wp.quat_rotate(turn, joint_slide(robot, j, q, p))
        turn = turn * joint_turn(robot, j, q, p)
    return wp.transformd(position, turn) * robot.link_offset[link]


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def body_poses(
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    robot: Kinematics,
    joint_parent: wp.array[wp.int32],  # [joint_count]
    joint_q: wp.array2d[wp.float64],  # [problem_capacity, joint_coord_count]
    # out
    body_q_out: wp.array2d[wp.transformd],  # [problem_capacity, body_count]
    missed_out: wp.array2d[wp.int32],  # [problem_capacity, trees + 1]; zeroed
):
    """Write the poses of all bodies in the world, parents before their children."""
    p = first_problem(settings, part, parts) + wp.tid()
    for k in range(missed_out.shape[1]):
        missed_out[p, k] = 0
    for j in range(body_q_out.shape[1]):
        pose = robot.joint_X_p[j]
        if joint_parent[j] >= 0:
            pose = body_q_out[p, joint_parent[j]] * pose
        body_q_out[p, j] = pose * wp.transformd(joint_slide(robot, j, joint_q, p), joint_turn(robot, j, joint_q, p))


def float64_kinematics(model: DeviceModel, links: Sequence[str | None]) -> Any:
    """Return the `Kinematics` of a robot with the paths to links; None is the world."""
    robot, starts, joints, offsets = model.robot, [0], list[int](), list[Any]()
    for link in links:
        body, offset = (-1, identity_transform()) if link is None else robot.link_frame(link)
        path: list[int] = []
        while body >= 0:
            path.insert(0, body)
            body = int(robot.joint_parent[body])
        joints += path
        starts.append(len(joints))
        offsets.append(offset)
    found: Any = Kinematics()
    device = model.device
    found.joint_type, found.joint_q_start = model.joint_kind, model.joint_q_start
    found.joint_qd_start = model.joint_qd_start
    found.joint_X_p = wp.array(robot.joint_X_p, dtype=wp.transformd, device=device)
    found.joint_axis = wp.array(robot.joint_axis, dtype=wp.vec3d, device=device)
    found.path_start = wp.array(starts, dtype=wp.int32, device=device)
    found.path_joint = wp.array(joints, dtype=wp.int32, device=device)
    found.link_offset = wp.array(np.array(offsets, np.float64).reshape(-1, 7), dtype=wp.transformd, device=device)
    return found
