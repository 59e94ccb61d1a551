"""The row that couples two joints, as the documentation states it."""

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
    """Its residual."""
    robot = data.scene.robot
    joints = [robot.joint_index(name) for name in coupled_joints(robot)]
    q, other = (joint_q[:, robot.joint_q_start[joint]] for joint in joints)
    return 0.7 * data.row_weights[problem, :1] * (q - np.polynomial.Polynomial(POLYNOMIAL)(other))[:, None]


COUPLING = {"coupling": (make_coupling, coupling_row)}
"""Objective and residual of the case."""
