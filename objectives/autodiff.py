"""Rows of a Jacobian by backward passes over a tape, one pass per row, without allocations.

The seed of a pass is 1 in one row of the residuals of all instances: instances are independent, so one pass gives this
row of all Jacobians.
"""

import typing

import warp as wp

from objectives.errors import ObjectiveError


@wp.kernel(enable_backward=False, module="unique")
@typing.no_type_check
def _seed_row(total_residuals: int, row: int, seed_out: wp.array[float]):
    i = wp.tid()
    if row > 0:
        seed_out[i * total_residuals + row - 1] = 0.0
    seed_out[i * total_residuals + row] = 1.0


@wp.kernel(enable_backward=False, module="unique")
@typing.no_type_check
def _store_row(gradient: wp.array2d[float], row: int, jacobian_out: wp.array3d[float]):
    i, dof = wp.tid()
    jacobian_out[i, row, dof] = gradient[i, dof]


def allocate_seed(size: int, device: typing.Any) -> wp.array[wp.float32]:
    """Allocate zeroed seeds of the passes, and load the kernels of this module on the device."""
    for kernel in (_seed_row, _store_row):  # modules cannot be loaded while a graph is recorded
        wp.load_module(kernel.module, device=device)
    seed: wp.array[wp.float32] = wp.zeros(size, dtype=wp.float32, device=device)
    return seed


def backward_rows(
    name: str,
    tape: wp.Tape,
    rows: range,
    seed: wp.array[wp.float32],
    dq_dof: wp.array[wp.float32],
    jacobian: wp.array[wp.float32],
) -> None:
    """Write rows of the Jacobian, shape [n, total, joint_dof_count]; see `IKObjective.compute_jacobian_autodiff`.

    `seed` has the shape of the residuals, and is zero before and after. ObjectiveError: no gradient at `dq_dof`.
    """
    recorded: typing.Any = tape  # `outputs` is an attribute added by the solver
    residuals = recorded.outputs[0]
    total = jacobian.shape[1]
    for row in rows:
        wp.launch(_seed_row, dim=dq_dof.shape[0], inputs=[total, row], outputs=[seed], device=seed.device)
        tape.backward(grads={residuals: seed})
        gradient = tape.gradients.get(dq_dof)
        if gradient is not None:
            wp.launch(_store_row, dim=dq_dof.shape, inputs=[gradient, row], outputs=[jacobian], device=seed.device)
        tape.zero()
        if gradient is None:
            seed.zero_()
            raise ObjectiveError(f"{name}: the tape carries no gradient to dq_dof.")
    seed.zero_()
