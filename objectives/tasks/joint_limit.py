"""Objective that pulls joints back inside their limits."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from objectives.data_field import DataField
from objectives.element_table import Element
from objectives.expression import Scalar, maximum
from objectives.expression_objective import ExpressionObjective
from objectives.model import IKModel
from objectives.robot_indices import RobotIndices
from objectives.statement.rows import RowGroup, RowInputs


def _limit_rows(inputs: RowInputs) -> Sequence[Scalar]:
    q = inputs.coordinates["q"]
    (lower,), (upper,) = inputs.data["joint_limit_lower"], inputs.data["joint_limit_upper"]
    return [maximum(q - upper, 0.0) - maximum(lower - q, 0.0)]


_LIMIT = RowGroup(
    "joint_limit", 1, _limit_rows, coordinates=("q",), data=(("joint_limit_lower", 1), ("joint_limit_upper", 1))
)


class IKObjectiveJointLimit(ExpressionObjective):
    """Pull joints back inside their limits.

    residual = weight row_weights (max(q - upper, 0) - max(lower - q, 0)), one row for every DOF that has a limit, in
    the order of the DOFs; it is 0 inside the limits and on them. `weight` stands for 1/m or 1/rad.

    The limits are the robot's; `set_data("joint_limit_lower", ...)` and `"joint_limit_upper"` replace them, shape
    [joint_dof_count] or [problem_count, joint_dof_count], once the objective is bound.
    """

    def __init__(self, weight: float = 1.0, *, joints: Sequence[str] | None = None, row_weights: Any = None) -> None:
        """State that joints should stay inside their limits.

        Args:
            weight: Factor of all rows.
            joints: Names of the joints; None for all.
            row_weights: Weights of the rows, shape [row_count] or [problem_count, row_count]; 0 switches a row off.

        Raises:
            InputError: A weight is negative or not finite.
        """
        owner = type(self).__name__
        none = {"lower": -np.inf, "upper": np.inf}  # until the robot is known
        fields = [DataField(owner, f"joint_limit_{side}", None, [limit], finite=False) for side, limit in none.items()]
        super().__init__(fields, row_count=None, row_weights=row_weights, weight=weight)
        self._joints = joints

    def bind_model(self, model: IKModel) -> None:
        """Take the limits of the robot.

        Raises:
            UnknownNameError: A joint is not in the robot.
            InputError: The row weights do not fit the number of limited DOFs.
        """
        for side, limits in (("lower", model.joint_limit_lower), ("upper", model.joint_limit_upper)):
            name = f"joint_limit_{side}"
            self._fields[name] = DataField(
                type(self).__name__, name, model.joint_dof_count, limits.numpy(), finite=False
            )
        super().bind_model(model)

    def stated_elements(self, model: IKModel) -> Sequence[tuple[RowGroup, Sequence[Element]]]:
        """State one row for every limited DOF."""
        lower, upper = model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()
        limited = np.isfinite(lower) | np.isfinite(upper)
        robot = RobotIndices(model)
        joints = robot.select_joints(self._joints, type(self).__name__)
        dofs = [dof for dof in robot.scalar_dofs(joints) if limited[dof]]
        return [(_LIMIT, [Element(coordinate_dofs=(dof,), data_columns=(dof, dof)) for dof in dofs])]
