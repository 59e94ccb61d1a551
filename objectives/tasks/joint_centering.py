"""Objective for joints in the middle of their limits."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from objectives.expression import Scalar
from objectives.expression.element_table import Element
from objectives.expression.expression_objective import ExpressionObjective
from objectives.expression.rows import RowGroup, RowInputs
from objectives.model import IKModel
from objectives.robot_indices import RobotIndices


def _centering_row(inputs: RowInputs) -> Sequence[Scalar]:
    return [inputs.constants["per_half_range"] * (inputs.coordinates["q"] - inputs.constants["middle"])]


_CENTERING = RowGroup("joint_centering", 1, _centering_row, coordinates=("q",), constants=("middle", "per_half_range"))


class IKObjectiveJointCentering(ExpressionObjective):
    """Pull joints to the middle of their limits.

    residual = weight row_weights (q - (lower + upper) / 2) / ((upper - lower) / 2), one row for every DOF with two
    limits, in the order of the DOFs: 0 in the middle, 1 and -1 at the limits, times weight.

    Args:
        weight: Factor of all rows.
        joints: Names of the joints; None for all.
        row_weights: Weights of the rows, shape [row_count] or [problem_count, row_count]; 0 disables a row.
    """

    def __init__(self, weight: float = 1.0, *, joints: Sequence[str] | None = None, row_weights: Any = None) -> None:
        super().__init__([], row_count=None, row_weights=row_weights, weight=weight)
        self._joints = joints

    def stated_elements(self, model: IKModel) -> Sequence[tuple[RowGroup, Sequence[Element]]]:
        """State one row for every DOF with two different limits; UnknownNameError for an unknown joint."""
        limits = model.joint_limit_lower, model.joint_limit_upper
        lower, upper = (array.numpy().astype(np.float64) for array in limits)
        robot = RobotIndices(model)
        joints = robot.select_joints(self._joints, type(self).__name__)
        dofs = [
            dof for dof in robot.scalar_dofs(joints) if np.isfinite(upper[dof] - lower[dof]) and lower[dof] < upper[dof]
        ]
        constants = {dof: (float(lower[dof] + upper[dof]) / 2.0, 2.0 / float(upper[dof] - lower[dof])) for dof in dofs}
        return [(_CENTERING, [Element(coordinate_dofs=(dof,), constants=constants[dof]) for dof in dofs])]
