"""Objective that pulls joints back inside their limits, or inside a narrower range."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from objectives.data_field import DataField
from objectives.expression import Scalar, maximum
from objectives.expression.element_table import Element
from objectives.expression.expression_objective import ExpressionObjective
from objectives.expression.rows import RowGroup, RowInputs
from objectives.model import IKModel
from objectives.robot_indices import RobotIndices


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

    The limits are the robot's, or those given: `set_data("joint_limit_lower", ...)` and `"joint_limit_upper"` replace
    them, shape [joint_dof_count] or [problem_count, joint_dof_count], once the objective is bound.
    """

    def __init__(
        self,
        weight: float = 1.0,
        *,
        joint_limit_lower: Any = None,
        joint_limit_upper: Any = None,
        joints: Sequence[str] | None = None,
        row_weights: Any = None,
    ) -> None:
        """State that joints should stay inside their limits.

        Args:
            weight: Factor of all rows.
            joint_limit_lower: Lower limits [rad or m], shape [joint_dof_count] or [problem_count, joint_dof_count];
                None takes the robot's. A DOF that the robot does not limit has no row.
            joint_limit_upper: Upper limits, alike.
            joints: Names of the joints; None for all.
            row_weights: Weights of the rows, shape [row_count] or [problem_count, row_count]; 0 switches a row off.

        Raises:
            InputError: A weight is negative or not finite, or a limit is NaN.
        """
        owner = type(self).__name__
        given = {"joint_limit_lower": joint_limit_lower, "joint_limit_upper": joint_limit_upper}
        self._given_limits = frozenset(name for name, limits in given.items() if limits is not None)
        unknown = [np.inf]  # stands for the robot's limits until the robot is known
        fields = [
            DataField(owner, name, None, unknown if limits is None else limits, finite=False)
            for name, limits in given.items()
        ]
        super().__init__(fields, row_count=None, row_weights=row_weights, weight=weight)
        self._joints = joints

    def bind_model(self, model: IKModel) -> None:
        """Take the limits of the robot where none are given.

        Raises:
            UnknownNameError: A joint is not in the robot.
            InputError: The limits do not fit the number of DOFs, or the row weights that of limited DOFs.
        """
        own, count = type(self).__name__, model.joint_dof_count
        for name, limits in (
            ("joint_limit_lower", model.joint_limit_lower),
            ("joint_limit_upper", model.joint_limit_upper),
        ):
            if name in self._given_limits:
                self._fields[name].set_columns(count)
            else:
                self._fields[name] = DataField(own, name, count, limits.numpy(), finite=False)
        super().bind_model(model)

    def stated_elements(self, model: IKModel) -> Sequence[tuple[RowGroup, Sequence[Element]]]:
        """State one row for every limited DOF."""
        lower, upper = model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()
        limited = np.isfinite(lower) | np.isfinite(upper)
        robot = RobotIndices(model)
        joints = robot.select_joints(self._joints, type(self).__name__)
        dofs = [dof for dof in robot.scalar_dofs(joints) if limited[dof]]
        return [(_LIMIT, [Element(coordinate_dofs=(dof,), data_columns=(dof, dof)) for dof in dofs])]
