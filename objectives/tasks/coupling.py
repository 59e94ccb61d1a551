"""Objective for a coupling of two joints: a coordinate is a polynomial in another coordinate."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from objectives.errors import InputError
from objectives.expression import Scalar
from objectives.expression.element_table import Element
from objectives.expression.expression_objective import ConstraintObjective
from objectives.expression.rows import RowGroup, RowInputs
from objectives.model import IKModel
from objectives.robot_indices import RobotIndices

COEFFICIENTS_MOST = 16


@cache
def _group(count: int) -> RowGroup:
    """Make the row of a polynomial with `count` coefficients; cached, so that its kernels are built once."""
    names = tuple(f"c{k}" for k in range(count))

    def state(inputs: RowInputs) -> Sequence[Scalar]:
        value: Scalar = 0.0
        for name in reversed(names):
            value = value * inputs.coordinates["reference"] + inputs.constants[name]
        return [inputs.coordinates["q"] - value]

    return RowGroup(f"coupling_{count}", 1, state, coordinates=("q", "reference"), constants=names)


class IKObjectiveCoupling(ConstraintObjective):
    """Couple two joints, like gears and cams.

    residual = weight row_weights (q - (c0 + c1 r + c2 r^2 + ...)), one row: q is the coordinate of the joint [rad or
    m], r the coordinate of the reference joint, c the coefficients.

    Args:
        joint: Name of the joint, with one coordinate.
        reference_joint: Name of the reference joint, with one coordinate.
        coefficients: Coefficients of the polynomial, the constant first, 2 to 16; for a gear: offset and ratio.
        row_weights: Weight of the row, shape [1] or [problem_count, 1]; 0 disables the row.
        weight: Factor of the row [1/m or 1/rad].

    Raises:
        InputError: The joints are the same, or the coefficients are not 2 to 16 finite numbers.
    """

    def __init__(
        self,
        joint: str,
        reference_joint: str,
        coefficients: Sequence[float],
        *,
        row_weights: Any = None,
        weight: float = 1.0,
    ) -> None:
        if joint == reference_joint:
            raise InputError(f"IKObjectiveCoupling couples joint '{joint}' to itself. Allowed: two joints.")
        numbers = np.asarray(coefficients, np.float64)
        if numbers.ndim != 1 or not 2 <= len(numbers) <= COEFFICIENTS_MOST or not np.isfinite(numbers).all():
            allowed = f"2 to {COEFFICIENTS_MOST} finite numbers, the constant first"
            raise InputError(f"IKObjectiveCoupling: coefficients is {coefficients}; allowed: {allowed}.")
        self._joints, self._coefficients = (joint, reference_joint), tuple(numbers.tolist())
        super().__init__([], row_count=1, row_weights=row_weights, weight=weight)

    @property
    def joints(self) -> tuple[str, str]:
        """Names of the joint and the reference joint."""
        return self._joints

    def stated_elements(self, model: IKModel) -> Sequence[tuple[RowGroup, Sequence[Element]]]:
        """State the row; UnknownNameError for an unknown joint, InputError for a joint with several coordinates."""
        robot = RobotIndices(model)
        dofs = []
        for name in self._joints:
            own = robot.scalar_dofs(robot.select_joints([name], type(self).__name__))
            if len(own) != 1:
                raise InputError(f"IKObjectiveCoupling: joint '{name}' has not one coordinate; allowed: one that has.")
            dofs.append(own[0])
        element = Element(coordinate_dofs=tuple(dofs), constants=self._coefficients)
        return [(_group(len(self._coefficients)), [element])]
