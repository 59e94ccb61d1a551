"""Forward kinematics, motion subspace and integration of a batch: one thread per instance, or per joint of one.

Quaternions keep unit length in integration.
"""

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
    model: DeviceModel,  # the robot on the device of the arrays
    joint_q: wp.array[typing.Any],  # coordinates [m or rad, quaternions xyzw], shape [n_batch, joint_coord_count]
    # out: body poses in the world frame [m, xyzw], shape [n_batch, body_count]. Must not alias `joint_q`
    body_q: wp.array[typing.Any],
    # 0 where `body_q` fits `joint_q` already and the instance is skipped, int32 [n_batch]; None skips none
    stale: "wp.array[typing.Any] | None" = None,
) -> None:
    """Write the world pose of every body."""
    joints = [model.joint_count, model.joint_kind, model.joint_parent, model.joint_q_start, model.joint_qd_start]
    inputs = [*joints, model.joint_X_p, model.joint_axis, joint_q, stale]
    wp.launch(_forward_kinematics, joint_q.shape[0], inputs, [body_q], device=model.device)


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _motion_subspace(
    # model
    joint_dof_dim: wp.array2d[wp.int32],  # [joint_count, 2]
    joint_parent: wp.array[wp.int32],  # [joint_count]
    joint_qd_start: wp.array[wp.int32],  # [joint_count + 1]
    joint_X_p: wp.array[wp.transform],  # [joint_count]
    joint_axis: wp.array[wp.vec3],  # [joint_dof_count]
    # state
    body_q: wp.array2d[wp.transform],  # [n_batch, body_count]
    # out
    joint_S_s_out: wp.array2d[wp.spatial_vector],  # [n_batch, joint_dof_count]
):
    i = wp.tid()
    for j in range(joint_parent.shape[0]):
        rotation = wp.transform_get_rotation(joint_frame(joint_parent[j], j, i, joint_X_p, body_q))
        origin = wp.transform_get_translation(body_q[i, j])
        start = joint_qd_start[j]
        for d in range(start, joint_qd_start[j + 1]):
            axis = wp.quat_rotate(rotation, joint_axis[d])
            if d - start < joint_dof_dim[j, 0]:
                joint_S_s_out[i, d] = wp.spatial_vector(axis, wp.vec3(0.0))
            else:
                joint_S_s_out[i, d] = wp.spatial_vector(wp.cross(origin, axis), axis)


def motion_subspace(model: DeviceModel, body_q: wp.array[typing.Any], joint_S_s: wp.array[typing.Any]) -> None:
    """Write the motion-subspace columns [m/s, rad/s per unit], [n_batch, joint_dof_count], at poses of all bodies.

    Column d is the twist of every body moved by DOF d, per unit velocity of DOF d: at the world origin, in the world
    frame, linear then angular. A point x of such a body moves with `linear + angular x x`.
    """
    inputs = [model.joint_dof_dim, model.joint_parent, model.joint_qd_start, model.joint_X_p, model.joint_axis, body_q]
    wp.launch(_motion_subspace, body_q.shape[0], inputs, [joint_S_s], device=model.device)


SERIES_BELOW = wp.constant(1.0e-4)  # below this squared angle the series is exact in float32


@wp.func
@typing.no_type_check
def quat_exp(w: wp.vec3):
    """Return the quaternion xyzw of a rotation vector [rad]; smooth at zero, so that a tape can differentiate there."""
    angle2 = wp.dot(w, w)
    scale = 0.5 - angle2 / 48.0
    real = 1.0 - angle2 / 8.0
    if angle2 > SERIES_BELOW:
        angle = wp.sqrt(angle2)
        scale = wp.sin(0.5 * angle) / angle
        real = wp.cos(0.5 * angle)
    return wp.quat(w[0] * scale, w[1] * scale, w[2] * scale, real)


@wp.func
@typing.no_type_check
def turned(q: wp.quat, rotation_vector: wp.vec3):
    """Return a unit quaternion (xyzw) after a rotation in the world frame."""
    return wp.normalize(quat_exp(rotation_vector) * q)


@wp.func
@typing.no_type_check
def left_tangent(q: wp.quat, gradient: wp.quat):
    """Turn a gradient by the entries of a unit quaternion (xyzw) into the gradient by a rotation in the world frame."""
    axis = wp.vec3(q[0], q[1], q[2])
    by_axis = wp.vec3(gradient[0], gradient[1], gradient[2])
    return 0.5 * (q[3] * by_axis + wp.cross(axis, by_axis) - gradient[3] * axis)


@wp.kernel(module="unique")
@typing.no_type_check
def _integrate(
    # model
    joint_q_start: wp.array[wp.int32],  # [joint_count + 1]
    joint_qd_start: wp.array[wp.int32],  # [joint_count + 1]
    # state
    joint_q: wp.array2d[float],  # [n_batch, joint_coord_count]
    dq_dof: wp.array2d[float],  # [n_batch, joint_dof_count]
    # out
    joint_q_out: wp.array2d[float],  # [n_batch, joint_coord_count]
):
    i, j = wp.tid()
    c = joint_q_start[j]
    d = joint_qd_start[j]
    additive = joint_qd_start[j + 1] - d
    has_quaternion = joint_q_start[j + 1] - c > additive
    if has_quaternion:
        additive -= 3
    for k in range(additive):
        joint_q_out[i, c + k] = joint_q[i, c + k] + dq_dof[i, d + k]
    if has_quaternion:
        c += additive
        d += additive
        old = wp.quat(joint_q[i, c], joint_q[i, c + 1], joint_q[i, c + 2], joint_q[i, c + 3])
        new = turned(old, wp.vec3(dq_dof[i, d], dq_dof[i, d + 1], dq_dof[i, d + 2]))
        for k in range(4):
            joint_q_out[i, c + k] = new[k]


def integrate(
    model: DeviceModel, joint_q: wp.array[typing.Any], dq_dof: wp.array[typing.Any], joint_q_out: wp.array[typing.Any]
) -> None:
    """Write the coordinates after a step in all DOFs [m or rad]; the caller couples and locks joints.

    `joint_q_out` may alias `joint_q` while no tape records.
    """
    inputs = [model.joint_q_start, model.joint_qd_start, joint_q, dq_dof]
    wp.launch(_integrate, (joint_q.shape[0], model.joint_count), inputs, [joint_q_out], device=model.device)
