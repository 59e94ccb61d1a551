"""Rows about joints, as the documentation states them."""

import numpy as np

import objectives

POLYNOMIAL = (0.1, -0.7, 0.3, 0.2)


def coupled_joints(robot):
    """The last and the first joint of one coordinate."""
    scalar = [name for name, kind in zip(robot.joint_names, robot.joint_type, strict=True) if kind <= 2]
    return scalar[-1], scalar[0]


def make_coupling(data):
    """The objective, with weights per problem."""
    joints = coupled_joints(data.scene.robot)
    return objectives.IKObjectiveCoupling(*joints, POLYNOMIAL, weight=0.7, row_weights=data.row_weights[:, :1])


def coupling_row(data, joint_q, problem):
    robot = data.scene.robot
    joints = [robot.joint_index(name) for name in coupled_joints(robot)]
    q, other = (joint_q[:, robot.joint_q_start[joint]] for joint in joints)
    return 0.7 * data.row_weights[problem, :1] * (q - np.polynomial.Polynomial(POLYNOMIAL)(other))[:, None]


def make_centering(data):
    """The objective, with weights per problem."""
    weights = data.row_weights[:, np.arange(len(centred_dofs(data.scene.robot))) % 6]
    return objectives.IKObjectiveJointCentering(0.5, row_weights=weights)


def centred_dofs(robot):
    """DOFs with a limit on both sides."""
    return np.flatnonzero(np.isfinite(robot.joint_limit_lower) & np.isfinite(robot.joint_limit_upper))


def centering_rows(data, joint_q, problem):
    """Their residual: where they are in their ranges, from -1 to 1."""
    robot, dofs = data.scene.robot, centred_dofs(data.scene.robot)
    place = np.stack([robot.joint_limit_lower[dofs], robot.joint_limit_upper[dofs]])
    share = (joint_q[:, robot.dof_coordinate[dofs]] - place[0]) / (place[1] - place[0])
    return 0.5 * data.row_weights[problem][:, np.arange(len(dofs)) % 6] * (2.0 * share - 1.0)


# Objective and residual of each case.
JOINTS = {"coupling": (make_coupling, coupling_row), "joint_centering": (make_centering, centering_rows)}
