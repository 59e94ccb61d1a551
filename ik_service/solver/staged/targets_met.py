"""Whether an attempt that has ended meets a target: decides if its island needs another seed.

Read off the residual rows, in float32. Whether the answer is a success is judged later, in float64.
"""

import typing

import warp as wp

from ik_service.linear_solve import Islands
from ik_service.solver.lm.codes import NO_TARGET
from ik_service.solver.lm.tolerances import chord_angle, is_within
from ik_service.solver.staged.slots import Slots


@wp.func
@typing.no_type_check
def mark_met(i: int, island: int, within: bool, phase: wp.array2d[wp.int32], met: wp.array2d[wp.int32]):
    """Note whether an ended island is within a tolerance; one miss outweighs everything."""
    if island >= 0:
        if phase[i, island] >= 0:
            if not within:
                met[i, island] = 0
            elif met[i, island] == NO_TARGET:
                met[i, island] = 1


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _meet_target(
    # target
    start_idx: int,
    row_weights: wp.array2d[float],  # [problem_capacity, 6]
    tolerances: wp.array[float],  # [2]: position [m], orientation [rad]
    row_island: wp.array2d[wp.int32],  # [problem_capacity, rows]
    # attempt
    problem_idx: wp.array[wp.int32],  # [n_batch]
    phase: wp.array2d[wp.int32],  # [n_batch, trees]
    residuals: wp.array2d[float],  # [n_batch, total_residuals]
    # in and out
    met: wp.array2d[wp.int32],  # [n_batch, trees]
):
    i = wp.tid()
    ended = int(0)
    for island in range(phase.shape[1]):
        if phase[i, island] >= 0:
            ended = 1
    if ended == 0:
        return
    p = problem_idx[i]
    position = float(0.0)
    chord = float(0.0)  # squared length of 2 sin(angle / 2) axis
    for k in range(6):
        weight = row_weights[p, k]
        if weight > 0.0:
            error = residuals[i, start_idx + k] / weight
            if k < 3:
                position += error * error
            else:
                chord += error * error
    near = is_within(wp.sqrt(position), tolerances[0])
    turned = is_within(chord_angle(wp.sqrt(chord)), tolerances[1])
    for k in range(3):
        mark_met(i, row_island[p, start_idx + k], near, phase, met)
        mark_met(i, row_island[p, start_idx + 3 + k], turned, phase, met)


def meet_target(
    islands: Islands,
    start: int,
    row_weights: wp.array[typing.Any],
    tolerances: wp.array[typing.Any],
    slots: Slots,
    residuals: wp.array[typing.Any],
) -> None:
    """Mark the ended attempts that meet or miss a target.

    Args:
        islands: Islands of every problem.
        start: First of the target's six rows.
        row_weights: Weights of these rows, [problem_capacity, 6].
        tolerances: Position [m] and orientation [rad] tolerance.
        slots: The slots.
        residuals: Residuals of the accepted configurations, [n_batch, total_residuals].
    """
    inputs = [start, row_weights, tolerances, islands.row_island, slots.problem_idx, slots.phase, residuals]
    wp.launch(_meet_target, slots.phase.shape[0], inputs, [slots.met], device=slots.phase.device)
