"""An objective that couples two joints: the coordinate of one is a polynomial in that of the other."""

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
    """The row of a polynomial with so many coefficients; made once, so that its kernels are."""
    names = tuple(f"c{k}" for k in range(count))

    def state(inputs: RowInputs) -> Sequence[Scalar]:
        value: Scalar = 0.0
        for name in reversed(names):
            value = value * inputs.coordinates["reference"] + inputs.constants[name]
        return [inputs.coordinates["q"] - value]

    return RowGroup(f"coupling_{count}", 1, state, coordinates=("q", "reference"), constants=names)


class IKObjectiveCoupling(ConstraintObjective):
    """Couple two joints, as gears and cams do.

    residual = weight row_weights (q - (c0 + c1 r + c2 r^2 + ...)), one row: q the coordinate of the joint [rad or m], r
    that of the reference joint, c the coefficients. `weight` stands for 1/m or 1/rad.
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
        """State which joints are coupled.

        Args:
            joint: Name of the joint, of one coordinate.
            reference_joint: Name of the other joint, alike.
            coefficients: Those of the polynomial, the constant first, 2 to 16; a gear has an offset and a ratio.
            row_weights: Weight of the row, shape [1] or [problem_count, 1]; 0 switches it off.
            weight: Factor of the row [1/m or 1/rad].

        Raises:
            InputError: The joints are one, or the coefficients are not 2 to 16 finite numbers.
        """
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
        """The joint, and the one that it is coupled to."""
        return self._joints

    def stated_elements(self, model: IKModel) -> Sequence[tuple[RowGroup, Sequence[Element]]]:
        """State the row.

        Raises:
            UnknownNameError: The robot has no joint of a name.
            InputError: A joint has several coordinates.
        """
        robot = RobotIndices(model)
        dofs = []
        for name in self._joints:
            own = robot.scalar_dofs(robot.select_joints([name], type(self).__name__))
            if len(own) != 1:
                raise InputError(f"IKObjectiveCoupling: joint '{name}' has not one coordinate; allowed: one that has.")
            dofs.append(own[0])
        element = Element(coordinate_dofs=tuple(dofs), constants=self._coefficients)
        return [(_group(len(self._coefficients)), [element])]
