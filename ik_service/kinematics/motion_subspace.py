"""Motion subspace of a batch: the twist of a body per unit velocity of each DOF of the joint above the body."""

import typing

import warp as wp

from ik_service.kinematics.forward_kinematics import FLOATING, PLANAR, PRISMATIC, joint_frame
from ik_service.mechanism.device_model import DeviceModel


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _motion_subspace(
    # model
    joint_type: wp.array[wp.int32],  # [joint_count]
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
    for j in range(joint_type.shape[0]):
        kind = joint_type[j]
        rotation = wp.transform_get_rotation(joint_frame(joint_parent[j], j, i, joint_X_p, body_q))
        origin = wp.transform_get_translation(body_q[i, j])
        slides = int(0)  # leading DOFs that are translations
        if kind == PRISMATIC:
            slides = 1
        elif kind == PLANAR:
            slides = 2
        elif kind == FLOATING:
            slides = 3
        start = joint_qd_start[j]
        for d in range(start, joint_qd_start[j + 1]):
            axis = wp.quat_rotate(rotation, joint_axis[d])
            if d - start < slides:
                joint_S_s_out[i, d] = wp.spatial_vector(axis, wp.vec3(0.0))
            else:
                joint_S_s_out[i, d] = wp.spatial_vector(wp.cross(origin, axis), axis)


def motion_subspace(model: DeviceModel, body_q: wp.array[typing.Any], joint_S_s: wp.array[typing.Any]) -> None:
    """Write the motion-subspace column of every DOF.

    Column d is the twist of every body moved by DOF d, per unit velocity of DOF d: at the world origin, in the world
    frame, linear then angular. A point x of such a body moves with `linear + angular x x`.

    Args:
        model: The robot on the device of the arrays.
        body_q: Body poses in the world frame, shape [n_batch, body_count].
        joint_S_s: Out: columns [m/s, rad/s per unit], shape [n_batch, joint_dof_count].
    """
    inputs = [model.joint_kind, model.joint_parent, model.joint_qd_start, model.joint_X_p, model.joint_axis, body_q]
    wp.launch(_motion_subspace, body_q.shape[0], inputs, [joint_S_s], device=model.device)
