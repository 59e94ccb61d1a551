"""Checks of the hooks of objectives: Jacobians by central differences, and hooks with code on the host."""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from traceback import walk_stack
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kinematics.device_kinematics import integrate
from ik_service.robots import DeviceModel
from ik_service.solver.rows.blocks import BatchState, Rows, RowTapes
from objectives import ObjectiveError
from objectives.expression.expression_objective import ExpressionObjective

CHECK_STEP = 1e-3  # [m or rad]: float32 rounding and truncation are both near 1e-4 of a unit residual
CHECK_TOLERANCE = 1e-2  # relative to the largest entry of the row, or to 1 if larger: well above both
REPLAY_TOLERANCE = 1e-4  # absolute and relative: threads of a GPU may add the terms of a row in any order
_logger = logging.getLogger(__name__)


def check_jacobians(model: DeviceModel, rows: Rows, poses: BatchState, jacobian: wp.array[Any]) -> None:
    """Compare a Jacobian with central differences of the residuals at poses with both just computed."""
    # The ObjectiveError names the objective, its row and the DOF
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


def _central_differences(model: DeviceModel, rows: Rows, poses: BatchState) -> NDArray[np.float64]:
    """Derivatives of all rows with respect to all DOFs, [n_batch, total_residuals, joint_dof_count]."""
    n = poses.joint_q.shape[0]
    moved = BatchState.allocate(model, n, rows.count, poses.problem_idx, requires_grad=False)
    result = np.zeros((n, rows.count, model.joint_dof_count))
    for dof in range(model.joint_dof_count):
        for sign in (1.0, -1.0):
            dq = np.zeros((n, model.joint_dof_count), np.float32)
            dq[:, dof] = sign * CHECK_STEP
            integrate(model, poses.joint_q, wp.array(dq, device=model.device), moved.joint_q)
            rows.compute_residuals(moved)
            result[:, :, dof] += sign * moved.residuals.numpy() / (2.0 * CHECK_STEP)
    return result


def compute_on_host(
    rows: Rows, poses: BatchState, joint_S_s: wp.array[Any], jacobian: wp.array[Any], tapes: RowTapes
) -> bool:
    """Return whether hooks of an objective compute on the host, with `.numpy()` or `assign` for example."""
    # Such hooks read a Warp array on the host, other than the robot's constants; or, recorded at one configuration and
    # replayed at another, they give other rows than unrecorded there. The solve then launches every
    # iteration without a graph; a line of the log names the objective. Poses, joint_S_s and Jacobian are scratch.
    own = [k for k, objective in enumerate(rows.objectives) if not isinstance(objective, ExpressionObjective)]
    if not own:
        return False

    def evaluate() -> None:
        rows.compute_residuals(poses, tapes)
        rows.compute_jacobian(poses, joint_S_s, jacobian, tapes)

    def move(random_seed: int) -> None:
        rng = np.random.default_rng(random_seed)
        poses.joint_q.assign(rows.model.robot.random_joint_q(rng, len(poses.joint_q)).astype(np.float32))

    def values() -> list[NDArray[np.float32]]:
        blocks = [slice(rows.start[k], rows.start[k] + rows.sizes[k]) for k in own]
        both = np.concatenate([poses.residuals.numpy()[:, :, None], jacobian.numpy()], axis=2)
        return [both[:, block] for block in blocks]

    move(0)
    with _reads_on_host(rows, own) as found:
        evaluate()
    if not found:
        with wp.ScopedCapture(device=rows.model.device) as capture:
            evaluate()
        move(1)
        wp.capture_launch(capture.graph)
        replayed = values()
        evaluate()
        pairs = zip(own, replayed, values(), strict=True)
        tolerances = (REPLAY_TOLERANCE, REPLAY_TOLERANCE)
        found |= {k for k, one, two in pairs if not np.allclose(one, two, *tolerances, equal_nan=True)}
    for k in sorted(found):
        _logger.warning(
            "Objective %d, %s, computes on the host, so its solves cannot be recorded and take much longer. "
            "Write its hooks as Warp kernels, or as an expression.",
            k,
            type(rows.objectives[k]).__name__,
        )
    return bool(found)


@contextmanager
def _reads_on_host(rows: Rows, own: Sequence[int]) -> Iterator[set[int]]:
    """Yield the numbers of objectives with hooks that read an array on the host, in this block and thread."""
    # Every such read uses one of two attributes of Warp's arrays. A read outside the methods of an objective, for
    # example by a function on a tape, counts for every objective.
    found, thread, names = set[int](), threading.get_ident(), ("__array_interface__", "__dlpack__")
    before = {name: vars(wp.array)[name] for name in names}
    constants = [array for name, array in vars(rows.model).items() if name not in ("joint_q", "body_q")]

    def read(name: str, array: Any) -> Any:
        if threading.get_ident() == thread and all(array is not one for one in constants):
            callers = [frame.f_locals.get("self") for frame, _ in walk_stack(None)]
            found.update([k for k in own if any(rows.objectives[k] is one for one in callers)] or own)
        return before[name].__get__(array)

    for name in names:
        setattr(wp.array, name, property(partial(read, name)))
    try:
        yield found
    finally:
        for name in names:
            setattr(wp.array, name, before[name])
