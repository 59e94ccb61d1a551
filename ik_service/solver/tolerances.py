"""Whether an attempt that has ended meets a target: decides if its problem needs another seed.

Read off the residual rows, in float32. Whether the answer is a success is judged later, in float64.
"""

import typing

import warp as wp

from ik_service.solver.attempts import Slots

MARGIN = wp.constant(0.999)  # an attempt this close to a tolerance is tried again rather than judged a failure later


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _meet_target(
    # target
    first: int,
    start_idx: int,
    row_weights: wp.array2d[float],  # [problem_capacity, 6]
    tolerances: wp.array[float],  # [2]: position [m], orientation [rad]
    # attempt
    problem_idx: wp.array[wp.int32],  # [n_batch]
    phase: wp.array[wp.int32],  # [n_batch]
    residuals: wp.array2d[float],  # [n_batch, total_residuals]
    # in and out
    met: wp.array[wp.int32],  # [n_batch]
):
    i = wp.tid()
    if phase[i] < 0:
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
    angle = 2.0 * wp.asin(wp.min(0.5 * wp.sqrt(chord), 1.0))
    if first == 1:
        met[i] = 1
    if not (wp.sqrt(position) <= MARGIN * tolerances[0] and angle <= MARGIN * tolerances[1]):
        met[i] = 0


def meet_target(
    first: bool,
    start_idx: int,
    row_weights: wp.array[typing.Any],
    tolerances: wp.array[typing.Any],
    slots: Slots,
    residuals: wp.array[typing.Any],
) -> None:
    """Clear `met` of the ended attempts that miss a target.

    Args:
        first: Whether this is the first target, which sets the marks.
        start_idx: First of the target's six rows.
        row_weights: Weights of its rows, [problem_capacity, 6].
        tolerances: Position [m] and orientation [rad] tolerance.
        slots: The slots.
        residuals: Residuals of the accepted configurations, [n_batch, total_residuals].
    """
    wp.launch(
        _meet_target,
        dim=slots.phase.shape[0],
        inputs=[int(first), start_idx, row_weights, tolerances, slots.problem_idx, slots.phase, residuals],
        outputs=[slots.met],
        device=slots.phase.device,
    )
