"""Objective that brings the robot's centre of mass to a point."""

from collections.abc import Sequence
from typing import Any

from objectives.data_field import DataField
from objectives.errors import InputError
from objectives.expression import Scalar
from objectives.expression.element_table import Element
from objectives.expression.expression_objective import ExpressionObjective
from objectives.expression.frame_algebra import scale, subtract, vector
from objectives.expression.rows import RowGroup, RowInputs
from objectives.model import BodyMass, IKModel
from objectives.robot_indices import BodyFrame

POSITION, SHARE = "target_positions", "mass_share"


def _body_rows(inputs: RowInputs) -> Sequence[Scalar]:
    """One body's term; the shares of all bodies sum to 1, and so the targets to one target."""
    return scale(inputs.constants[SHARE], subtract(inputs.frames["com"].position, vector(inputs.data[POSITION])))


_BODY = RowGroup(
    "center_of_mass", 3, _body_rows, frames=("com",), constants=(SHARE,), data=((POSITION, 3),), summed=True
)


class IKObjectiveCenterOfMass(ExpressionObjective):
    """Bring the centre of mass of all links to a point, such as one above the feet.

    residual = weight row_weights (sum_i m_i p_i / sum_i m_i - p_target), 3 rows [m times weight], world frame; m_i is
    the mass of link i and p_i its centre of mass, as the robot's file gives them, static links among them. The rows
    depend on every DOF that moves a link with mass, and so couple all of their trees. To balance over a point of the
    ground, switch the vertical row off: row_weights (1, 1, 0).
    """

    def __init__(self, target_positions: Any, *, row_weights: Any = None, weight: float = 1.0) -> None:
        """State where the centre of mass should be.

        Args:
            target_positions: Target positions in the world frame [m], shape [3] or [problem_count, 3]; Warp arrays are
                used as they are.
            row_weights: Weights of the rows, shape [3] or [problem_count, 3]; 0 switches a row off.
            weight: Factor of all rows [1/m].

        Raises:
            InputError: A value has a wrong shape or is not finite.
        """
        fields = [DataField(type(self).__name__, POSITION, 3, target_positions)]
        super().__init__(fields, row_count=3, row_weights=row_weights, weight=weight)

    def set_targets(self, target_positions: Any) -> None:
        """Replace the target positions [m], world frame, shape [3] or [problem_count, 3].

        Raises:
            InputError: The value has a wrong shape or is not finite.
        """
        self.set_data(POSITION, target_positions)

    def stated_elements(self, model: IKModel) -> Sequence[tuple[RowGroup, Sequence[Element]]]:
        """State one term for every body with mass.

        Raises:
            InputError: The robot has no masses.
        """
        total = sum(one.mass for one in model.body_masses)
        if total <= 0.0:
            raise InputError(
                f"{type(self).__name__}: the robot has no masses; its file must give links an <inertial> with a <mass> "
                "above 0 kg."
            )
        return [(_BODY, [_term(one, one.mass / total) for one in model.body_masses])]


def _term(one: BodyMass, share: float) -> Element:
    frame = BodyFrame(one.body, (*one.com, 0.0, 0.0, 0.0, 1.0))
    return Element((frame,), data_columns=(0,), constants=(share,))
