"""Rows of the loops that a robot closes: their objectives, and in which problems they are on."""

import numpy as np
from numpy.typing import NDArray

from ik_service.robots import LoopConstraint, RobotModel
from objectives import IKObjectiveLoop

ROW_TOLERANCE = 5e-7  # [m and rad] of a row of a loop: three are within 1e-6 where the status is not `LOOP_OPEN`


class LoopRows:
    """The rows of a robot's loops, of one solver; a loop that is not enabled in a problem has weights of 0 there.

    Args:
        robot: The robot.

    Attributes:
        objectives: The objectives of the loops.
    """

    def __init__(self, robot: RobotModel) -> None:
        self.objectives = tuple(map(_rows_of, robot.loops))
        self._enabled: NDArray[np.bool_] = np.ones((1, len(robot.loops)), dtype=bool)

    def enable(self, enabled: NDArray[np.bool_] | None) -> None:
        """Switch loops on and off; weights change only where others are enabled than before.

        Args:
            enabled: One line for all problems or one each, [1 or problems, loops]; None for all.
        """
        wanted = np.ones_like(self._enabled[:1]) if enabled is None else enabled
        if np.array_equal(wanted, self._enabled):
            return
        self._enabled = wanted.copy()
        for rows, own in zip(self.objectives, wanted.T, strict=True):
            rows.set_row_weights(np.repeat(own[:, None], rows.residual_dim(), axis=1))


def _rows_of(loop: LoopConstraint) -> IKObjectiveLoop:
    """Return the rows of a loop, to which all others yield."""
    rows = loop.rows()
    rows.is_constraint, rows.label = True, f"constraint {loop.name}"
    rows.set_row_tolerances(ROW_TOLERANCE)
    return rows
