"""The row that couples two joints, and its derivatives, in float64."""

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
