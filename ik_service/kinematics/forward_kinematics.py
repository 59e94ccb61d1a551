"""Forward kinematics of a batch: one pass over the joints in topological order, one thread per instance."""

import typing

import warp as wp

from ik_service.mechanism.device_model import DeviceModel
from ik_service.mechanism.joint_type import JointType

REVOLUTE = wp.constant(int(JointType.REVOLUTE))
CONTINUOUS = wp.constant(int(JointType.CONTINUOUS))
PRISMATIC = wp.constant(int(JointType.PRISMATIC))
PLANAR = wp.constant(int(JointType.PLANAR))
FLOATING = wp.constant(int(JointType.FLOATING))
BALL = wp.constant(int(JointType.BALL))


@wp.func
@typing.no_type_check
def joint_frame(
    parent: int, joint: int, instance: int, joint_X_p: wp.array[wp.transform], body_q: wp.array2d[wp.transform]
):
    """Return the joint-parent frame of a joint in the world: the pose of the child at coordinate zero."""
    frame = joint_X_p[joint]
    if parent >= 0:
        frame = body_q[instance, parent] * joint_X_p[joint]
    return frame


@wp.func
@typing.no_type_check
def turn_about(axis: wp.vec3, angle: float):
    """Return the rotation by an angle [rad] about a unit axis."""
    s = wp.sin(0.5 * angle)
    return wp.quat(axis[0] * s, axis[1] * s, axis[2] * s, wp.cos(0.5 * angle))


@wp.kernel(module="unique")
@typing.no_type_check
def _forward_kinematics(
    # model
    joint_count: int,
    joint_type: wp.array[wp.int32],  # [joint_count]
    joint_parent: wp.array[wp.int32],  # [joint_count]
    joint_q_start: wp.array[wp.int32],  # [joint_count + 1]
    joint_qd_start: wp.array[wp.int32],  # [joint_count + 1]
    joint_X_p: wp.array[wp.transform],  # [joint_count]
    joint_axis: wp.array[wp.vec3],  # [joint_dof_count]
    # state
    joint_q: wp.array2d[float],  # [n_batch, joint_coord_count]
    stale: wp.array[wp.int32],  # [n_batch], or empty
    # out
    body_q_out: wp.array2d[wp.transform],  # [n_batch, body_count]
):
    i = wp.tid()
    if stale.shape[0] > 0:
        if stale[i] == 0:
            return
    for j in range(joint_count):
        kind = joint_type[j]
        c = joint_q_start[j]
        d = joint_qd_start[j]
        frame = joint_frame(joint_parent[j], j, i, joint_X_p, body_q_out)
        p = wp.transform_get_translation(frame)
        r = wp.transform_get_rotation(frame)
        if kind == REVOLUTE or kind == CONTINUOUS:
            body_q_out[i, j] = wp.transform(p, r * turn_about(joint_axis[d], joint_q[i, c]))
        elif kind == PRISMATIC:
            body_q_out[i, j] = wp.transform(p + wp.quat_rotate(r, joint_axis[d] * joint_q[i, c]), r)
        elif kind == PLANAR:
            slide = joint_axis[d] * joint_q[i, c] + joint_axis[d + 1] * joint_q[i, c + 1]
            turn = turn_about(joint_axis[d + 2], joint_q[i, c + 2])
            body_q_out[i, j] = wp.transform(p + wp.quat_rotate(r, slide), r * turn)
        elif kind == FLOATING:
            offset = wp.vec3(joint_q[i, c], joint_q[i, c + 1], joint_q[i, c + 2])
            turn = wp.quat(joint_q[i, c + 3], joint_q[i, c + 4], joint_q[i, c + 5], joint_q[i, c + 6])
            body_q_out[i, j] = wp.transform(p + wp.quat_rotate(r, offset), r * turn)
        elif kind == BALL:
            turn = wp.quat(joint_q[i, c], joint_q[i, c + 1], joint_q[i, c + 2], joint_q[i, c + 3])
            body_q_out[i, j] = wp.transform(p, r * turn)


def forward_kinematics(
    model: DeviceModel,
    joint_q: wp.array[typing.Any],
    body_q: wp.array[typing.Any],
    stale: "wp.array[typing.Any] | None" = None,
) -> None:
    """Write the world pose of every body.

    Args:
        model: The robot on the device of the arrays.
        joint_q: Coordinates [m or rad, quaternions xyzw], shape [n_batch, joint_coord_count].
        body_q: Out: body poses in the world frame [m, xyzw], shape [n_batch, body_count]. Must not alias `joint_q`.
        stale: 0 where `body_q` fits `joint_q` already and the instance is skipped, int32 [n_batch]; None skips none.
    """
    joints = [model.joint_count, model.joint_kind, model.joint_parent, model.joint_q_start, model.joint_qd_start]
    inputs = [*joints, model.joint_X_p, model.joint_axis, joint_q, stale]
    wp.launch(_forward_kinematics, joint_q.shape[0], inputs, [body_q], device=model.device)
