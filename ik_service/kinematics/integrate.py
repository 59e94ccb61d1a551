"""Integration on the manifold: a step in the DOFs applied to the coordinates; quaternions keep unit length."""

import typing

import warp as wp

from ik_service.kinematics.forward_kinematics import BALL, FLOATING
from ik_service.mechanism.device_model import DeviceModel

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
    joint_type: wp.array[wp.int32],  # [joint_count]
    joint_q_start: wp.array[wp.int32],  # [joint_count + 1]
    joint_qd_start: wp.array[wp.int32],  # [joint_count + 1]
    # state
    joint_q: wp.array2d[float],  # [n_batch, joint_coord_count]
    dq_dof: wp.array2d[float],  # [n_batch, joint_dof_count]
    # out
    joint_q_out: wp.array2d[float],  # [n_batch, joint_coord_count]
):
    i, j = wp.tid()
    kind = joint_type[j]
    c = joint_q_start[j]
    d = joint_qd_start[j]
    additive = joint_qd_start[j + 1] - d
    if kind == BALL:
        additive = 0
    elif kind == FLOATING:
        additive = 3
    for k in range(additive):
        joint_q_out[i, c + k] = joint_q[i, c + k] + dq_dof[i, d + k]
    if kind == BALL or kind == FLOATING:
        c += additive
        d += additive
        old = wp.quat(joint_q[i, c], joint_q[i, c + 1], joint_q[i, c + 2], joint_q[i, c + 3])
        new = turned(old, wp.vec3(dq_dof[i, d], dq_dof[i, d + 1], dq_dof[i, d + 2]))
        for k in range(4):
            joint_q_out[i, c + k] = new[k]


def integrate(
    model: DeviceModel, joint_q: wp.array[typing.Any], dq_dof: wp.array[typing.Any], joint_q_out: wp.array[typing.Any]
) -> None:
    """Write the coordinates after a step in the DOFs.

    Args:
        model: The robot on the device of the arrays.
        joint_q: Coordinates before the step, shape [n_batch, joint_coord_count].
        dq_dof: Step in all DOFs [m or rad], shape [n_batch, joint_dof_count]; the caller couples and locks joints.
        joint_q_out: Out: coordinates after the step, shape [n_batch, joint_coord_count]. May alias `joint_q` while no
            tape records.
    """
    inputs = [model.joint_kind, model.joint_q_start, model.joint_qd_start, joint_q, dq_dof]
    wp.launch(_integrate, (joint_q.shape[0], model.joint_count), inputs, [joint_q_out], device=model.device)
