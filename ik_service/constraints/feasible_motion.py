"""Rates of joints that keep loops closed: those nearest to what is wanted, with frozen ones as they are."""

import numpy as np

from ik_service.constraints.linear_algebra import BoolArray, applied, coupling_matrix, least_change
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import Float64Array


def nearest_rates(
    robot: KinematicRobot,
    jacobian: Float64Array,
    drift: Float64Array,
    wanted: Float64Array,
    free: BoolArray,
    on: BoolArray,
) -> tuple[Float64Array, Float64Array]:
    """Find rates of all DOFs with which enabled rows stand still, and what is left of all rows.

    Args:
        robot: The robot; its followers go with their leaders, its locked joints stand still.
        jacobian: Derivatives of the rows by all DOFs, shape [n, rows, joint_dof_count].
        drift: Rates of the rows when all rates are zero, shape [n, rows].
        wanted: Rates to be near to, shape [n, joint_dof_count].
        free: Which active DOFs may get other rates than wanted, shape [active_dof_count].
        on: Whether rows are enabled, shape [n, rows].
    """
    spread = coupling_matrix(robot)
    columns = jacobian @ spread
    rates = wanted[:, robot.active_dof].copy()
    rest = applied(columns, rates) + drift
    change = least_change(columns * free * on[..., np.newaxis], rest * on)
    rates[:, free] += change[:, free]
    return rates @ spread.T, applied(columns, rates) + drift
