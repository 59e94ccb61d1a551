"""Objective for the robot's centre of mass."""

from collections.abc import Sequence
from typing import Any

from objectives.data_field import DataField
from objectives.errors import InputError
from objectives.expression import Scalar
from objectives.expression.element_table import Element
from objectives.expression.expression_objective import ExpressionObjective
from objectives.expression.frame_algebra import scale, subtract, vector
from objectives.expression.rows import RowGroup, RowInputs
from objectives.model import IKModel
from objectives.robot_indices import BodyFrame

POSITION, SHARE = "target_positions", "mass_share"


def _body_rows(inputs: RowInputs) -> Sequence[Scalar]:
    """State one body's term; the shares of all bodies sum to 1, so the terms of the target sum to the target."""
    return scale(inputs.constants[SHARE], subtract(inputs.frames["com"].position, vector(inputs.data[POSITION])))


_BODY = RowGroup(
    "center_of_mass", 3, _body_rows, frames=("com",), constants=(SHARE,), data=((POSITION, 3),), summed=True
)


class IKObjectiveCenterOfMass(ExpressionObjective):
    """Bring the centre of mass of all links to a point, for example above the feet.

    residual = weight row_weights (sum_i m_i p_i / sum_i m_i - p_target), 3 rows [m times weight], world frame; m_i is
    the mass of link i and p_i the centre of mass in the robot's file, static links included. The rows depend on every
    DOF that moves a link with mass, and couple the trees of these DOFs. To balance over a point of the ground, disable
    the vertical row: row_weights (1, 1, 0).

    Args:
        target_positions: Target positions in the world frame [m], shape [3] or [problem_count, 3]; Warp arrays are
            used in place.
        row_weights: Weights of the rows, shape [3] or [problem_count, 3]; 0 disables a row.
        weight: Factor of all rows [1/m].
    """

    def __init__(self, target_positions: Any, *, row_weights: Any = None, weight: float = 1.0) -> None:
        fields = [DataField(type(self).__name__, POSITION, 3, target_positions)]
        super().__init__(fields, row_count=3, row_weights=row_weights, weight=weight)

    def set_targets(self, target_positions: Any) -> None:
        """Replace the target positions [m], world frame, shape [3] or [problem_count, 3]; see `set_data` for errors."""
        self.set_data(POSITION, target_positions)

    def stated_elements(self, model: IKModel) -> Sequence[tuple[RowGroup, Sequence[Element]]]:
        """State one term for every body with mass; InputError for a robot without masses."""
        total = sum(one.mass for one in model.body_masses)
        if total <= 0.0:
            raise InputError(
                f"{type(self).__name__}: the robot has no masses; its file must give links an <inertial> with a <mass> "
                "above 0 kg."
            )
        frames = [BodyFrame(one.body, (*one.com, 0.0, 0.0, 0.0, 1.0)) for one in model.body_masses]
        shares = [one.mass / total for one in model.body_masses]
        terms = zip(frames, shares, strict=True)
        return [(_BODY, [Element((frame,), data_columns=(0,), constants=(share,)) for frame, share in terms])]
