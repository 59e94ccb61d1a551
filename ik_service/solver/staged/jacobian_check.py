"""Comparison of a Jacobian with central differences of its residuals."""

from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kinematics import integrate
from ik_service.robots import DeviceModel
from ik_service.solver.problems.rows.blocks import Poses, Rows
from objectives import ObjectiveError

CHECK_STEP = 1e-3  # [m or rad]: float32 rounding and truncation are both near 1e-4 of a unit residual
CHECK_TOLERANCE = 1e-2  # of the largest entry of the row, and at least this of one: well above both


def check_jacobians(model: DeviceModel, rows: Rows, poses: Poses, jacobian: wp.array[Any]) -> None:
    """Compare a Jacobian with central differences of the residuals at the same configurations.

    Args:
        model: The robot on the device.
        rows: Layout of the objectives.
        poses: Configurations whose residuals and Jacobian have just been computed.
        jacobian: The Jacobian, [n_batch, total_residuals, joint_dof_count].

    Raises:
        ObjectiveError: An entry differs; the message names the objective, its row and the DOF.
    """
    actual = jacobian.numpy().astype(np.float64)
    expected = _central_differences(model, rows, poses)
    scale = np.maximum(np.abs(expected).max(axis=2, keepdims=True), 1.0)
    error = np.abs(actual - expected) / scale
    error = np.where(np.isfinite(error), error, np.inf)
    worst = np.unravel_index(int(error.argmax()), error.shape)
    if error[worst] <= CHECK_TOLERANCE:
        return
    instance, row, dof = (int(k) for k in worst)
    block = int(np.searchsorted(rows.start, row, side="right")) - 1
    raise ObjectiveError(
        f"The Jacobian of {type(rows.objectives[block]).__name__} (objective {block}) is wrong in row "
        f"{row - rows.start[block]}, DOF '{model.robot.dof_names[dof]}': it gives {actual[worst]:.6g}, central "
        f"differences give {expected[worst]:.6g} (instance {instance})."
    )


def _central_differences(model: DeviceModel, rows: Rows, poses: Poses) -> NDArray[np.float64]:
    """Derivatives of all rows with respect to all DOFs, [n_batch, total_residuals, joint_dof_count]."""
    n = poses.joint_q.shape[0]
    moved = Poses.allocate(model, n, rows.count, poses.problem_idx, requires_grad=False)
    result = np.zeros((n, rows.count, model.joint_dof_count))
    for dof in range(model.joint_dof_count):
        for sign in (1.0, -1.0):
            dq = np.zeros((n, model.joint_dof_count), np.float32)
            dq[:, dof] = sign * CHECK_STEP
            integrate(model, poses.joint_q, wp.array(dq, device=model.device), moved.joint_q)
            rows.compute_residuals(moved)
            result[:, :, dof] += sign * moved.residuals.numpy() / (2.0 * CHECK_STEP)
    return result
