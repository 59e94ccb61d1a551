"""Check before recording: hooks of objectives that compute on the host, whose work a replay would leave out."""

import logging
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.solver.problems.rows.blocks import Poses, Rows, RowTapes
from objectives.expression_objective import ExpressionObjective

SAME = 1e-4  # absolute and relative: threads of a GPU may add the terms of a row in any order
_logger = logging.getLogger(__name__)


def host_objectives(
    rows: Rows, poses: Poses, joint_S_s: wp.array[Any], jacobian: wp.array[Any], tapes: RowTapes
) -> frozenset[int]:
    """Return the numbers of the objectives whose hooks compute on the host, with `.numpy()` or `assign` for example.

    The hooks are recorded at one configuration and replayed at another. Where the replay does not give the rows that
    the hooks give there, the solve launches every iteration anew; a line of the log names the objective.

    Args:
        rows: Layout of the objectives, with a recording allowed.
        poses: Scratch: configurations and residuals of the batch.
        joint_S_s: Scratch: motion subspace.
        jacobian: Scratch, [n_batch, total_residuals, joint_dof_count].
        tapes: The tapes of these poses.
    """
    own = [k for k, objective in enumerate(rows.objectives) if not isinstance(objective, ExpressionObjective)]
    if not own:
        return frozenset()

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
    with wp.ScopedCapture(device=rows.model.device) as capture:
        evaluate()
    evaluate()
    move(1)
    wp.capture_launch(capture.graph)
    replayed = values()
    evaluate()
    pairs = zip(own, replayed, values(), strict=True)
    found = frozenset(k for k, one, two in pairs if not np.allclose(one, two, SAME, SAME, equal_nan=True))
    for k in sorted(found):
        _logger.warning(
            "Objective %d, %s, computes on the host, so its solves cannot be recorded and take much longer. "
            "Write its hooks as Warp kernels, or as an expression.",
            k,
            type(rows.objectives[k]).__name__,
        )
    return found
