"""Rows of manipulability by NumPy's Cholesky factor of the host's Jacobians."""

import numpy as np

from ik_service.mechanism.transforms import quaternion_rotate

WEIGHT, STEP = 0.6, 1e-6  # of the objective, and of differences
PARTS = {"pose": slice(0, 6), "position": slice(0, 3), "orientation": slice(3, 6)}


def jacobians(robot, link, joint_q, options):
    """Jacobians of the frame [n, 6, joints that count] and the length of the chain [m]."""
    names = options.get("joints", robot.joint_names)
    counted = [int(robot.joint_qd_start[robot.joint_index(name)]) for name in names]
    full = np.asarray(robot.jacobian(joint_q, [link])).reshape(len(joint_q), 6, -1)
    at = np.zeros(3)
    if "offset" in options:
        at = options["offset"][:3]
        turns = robot.forward_kinematics(joint_q, [link]).orientations_xyzw[:, 0]
        arms = quaternion_rotate(turns, np.broadcast_to(at, (len(joint_q), 3)))
        full[:, :3] -= np.cross(arms[:, :, None], full[:, 3:], axis=1)
    moving = [dof for dof in counted if np.abs(full[:, :, dof]).max() > 0.0]
    body, offset = robot.link_frame(link)
    length, first = np.linalg.norm(offset[:3]), min(moving)
    while body >= 0 and robot.joint_qd_start[body] > first:
        length += np.linalg.norm(robot.joint_X_p[body, :3].astype(np.float32))  # as objectives read it
        body = int(robot.joint_parent[body])
    full[:, :3] /= length
    return full[:, :, moving], length


def expected_rows(robot, link, joint_q, options):
    """Rows by NumPy's Cholesky factor, and the manipulability."""
    part = PARTS[options.get("motion", "pose")]
    jacobian, length = jacobians(robot, link, joint_q, options)
    used = jacobian[:, part]
    slides = np.abs(jacobian[:, 3:]).max(axis=(0, 1)) == 0.0
    bounds = np.repeat([np.where(slides, length**-2, 1.0).sum(), max(1, (~slides).sum())], 3)[part]
    pivots = np.diagonal(np.linalg.cholesky(used @ used.transpose(0, 2, 1)), axis1=1, axis2=2)
    rows = np.sqrt(2.0 * (0.5 * np.log(bounds) + 0.5 - np.log(pivots)))
    return WEIGHT * np.array(options.get("row_weights", 1.0)) * rows, pivots.prod(axis=1), bounds


def differences(robot, link, joint_q, options):
    """Derivatives of the rows by all DOFs, in float64, to about 1e-8."""
    columns = []
    for dof in range(robot.joint_dof_count):
        step = np.zeros(robot.joint_dof_count)
        step[dof] = STEP
        ahead, behind = (
            expected_rows(robot, link, robot.integrate(joint_q, s * step), options)[0] for s in (1.0, -1.0)
        )
        columns.append((ahead - behind) / (2.0 * STEP))
    return np.stack(columns, axis=2)
