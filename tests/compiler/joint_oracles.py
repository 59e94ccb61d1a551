"""Rows about joints that are linear in one or couple two, and their derivatives, in float64."""

import numpy as np

from tests.compiler.oracles import Oracle


def coupling(robot, objective, coefficients):
    joints = [robot.joint_index(name) for name in objective.joints]
    columns, dofs = robot.joint_q_start[joints], robot.joint_qd_start[joints]
    polynomial, weight = np.polynomial.Polynomial(coefficients), objective.weight

    def jacobian(q):
        result = np.zeros((len(q), 1, robot.joint_dof_count))
        result[:, 0, dofs[0]] = weight
        result[:, 0, dofs[1]] = -weight * polynomial.deriv()(q[:, columns[1]])
        return result

    return Oracle(lambda q: weight * (q[:, columns[0]] - polynomial(q[:, columns[1]]))[:, None], jacobian)


def joint_centering(robot, objective):
    limited = np.flatnonzero(np.isfinite(robot.joint_limit_lower) & np.isfinite(robot.joint_limit_upper))
    model = robot.on_device("cpu")  # objectives read its limits, in float32
    arrays = model.joint_limit_lower, model.joint_limit_upper
    lower, upper = (array.numpy()[limited].astype(np.float64) for array in arrays)
    columns, scale = robot.dof_coordinate[limited], 2.0 * objective.weight / (upper - lower)

    def jacobian(q):
        result = np.zeros((len(q), len(limited), robot.joint_dof_count))
        result[:, np.arange(len(limited)), limited] = scale
        return result

    return Oracle(lambda q: scale * (q[:, columns] - 0.5 * (lower + upper)), jacobian)
