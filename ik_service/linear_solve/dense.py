"""Dense normal equations: J'J and J'r of every instance, and damped steps from their Cholesky factors.

One thread per instance (or candidate) and loops over its own scratch rows: no tiles, which are unsafe across CPU
threads and slower at these sizes. Runs once an iteration, over all active DOFs of the robot.
"""

import typing

import warp as wp

PIVOT_MIN = wp.constant(1.0e-20)  # keeps the factor finite where rounding makes a pivot vanish


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _normal_equations(
    # active DOFs
    one_to_one: int,  # 1: every DOF is an active DOF of the same index, and the two Jacobians are one array
    active_start: wp.array[wp.int32],  # [active_dof_count + 1]
    active_members: wp.array[wp.int32],  # DOFs that an active DOF moves, [active_start[-1]]
    active_multiplier: wp.array[float],  # [active_start[-1]]
    # rows
    running: wp.array[wp.int32],  # [n_batch], 0: the instance needs nothing
    residuals: wp.array2d[float],  # [n_batch, total_residuals]
    jacobian: wp.array3d[float],  # [n_batch, total_residuals, joint_dof_count]
    # out
    jacobian_active_out: wp.array3d[float],  # [n_batch, total_residuals, active_dof_count]
    hessian_out: wp.array3d[float],  # [n_batch, active_dof_count, active_dof_count], lower triangle
    gradient_out: wp.array2d[float],  # [n_batch, active_dof_count]
):
    i = wp.tid()
    if running[i] == 0:
        return
    rows = residuals.shape[1]
    dofs = gradient_out.shape[1]
    for a in range(dofs):
        gradient = float(0.0)
        if one_to_one == 0:
            for r in range(rows):
                column = float(0.0)
                for m in range(active_start[a], active_start[a + 1]):
                    column += active_multiplier[m] * jacobian[i, r, active_members[m]]
                jacobian_active_out[i, r, a] = column
        for r in range(rows):
            gradient += jacobian_active_out[i, r, a] * residuals[i, r]
        gradient_out[i, a] = gradient
        for b in range(a + 1):
            product = float(0.0)
            for r in range(rows):
                product += jacobian_active_out[i, r, a] * jacobian_active_out[i, r, b]
            hessian_out[i, a, b] = product


def normal_equations(
    active: tuple[wp.array[typing.Any], wp.array[typing.Any], wp.array[typing.Any]],
    running: wp.array[typing.Any],
    rows: tuple[wp.array[typing.Any], wp.array[typing.Any]],
    out: tuple[wp.array[typing.Any], wp.array[typing.Any], wp.array[typing.Any]],
) -> None:
    """Form J'J and J'r over the active DOFs of every running instance.

    Args:
        active: Offsets, members and multipliers of the constant map from DOFs to active DOFs.
        running: Instances to treat, int32 [n_batch].
        rows: Residuals [n_batch, total_residuals] and Jacobian [n_batch, total_residuals, joint_dof_count].
        out: Jacobian over the active DOFs, J'J (lower triangle) and J'r. Where every DOF is active, the first may be
            the Jacobian itself.
    """
    wp.launch(
        _normal_equations,
        dim=running.shape[0],
        inputs=[int(out[0] is rows[1]), *active, running, *rows],
        outputs=list(out),
        device=running.device,
    )


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _damped_steps(
    # rows
    running: wp.array[wp.int32],  # [n_batch]
    hessian: wp.array3d[float],  # [n_batch, active_dof_count, active_dof_count], lower triangle
    gradient: wp.array2d[float],  # [n_batch, active_dof_count]
    held: wp.array2d[wp.int32],  # [n_batch, active_dof_count], 1: the DOF does not move in this step
    damping: wp.array[float],  # [n_batch]
    # settings
    damping_factor: wp.array[float],  # [candidates]
    step_scale: wp.array[float],  # [candidates]
    # out
    factor_out: wp.array3d[float],  # [n_batch x candidates, active_dof_count, active_dof_count]
    step_out: wp.array2d[float],  # [n_batch x candidates, active_dof_count]
):
    i, k = wp.tid()
    if running[i] == 0:
        return
    dofs = gradient.shape[1]
    t = i * damping_factor.shape[0] + k
    mu = damping[i] * damping_factor[k]
    for a in range(dofs):
        if held[i, a] != 0:
            continue
        for b in range(a):
            if held[i, b] == 0:
                value = hessian[i, a, b]
                for c in range(b):
                    if held[i, c] == 0:
                        value -= factor_out[t, a, c] * factor_out[t, b, c]
                factor_out[t, a, b] = value * factor_out[t, b, b]
        pivot = hessian[i, a, a] + mu
        value = -gradient[i, a]
        for c in range(a):
            if held[i, c] == 0:
                entry = factor_out[t, a, c]
                pivot -= entry * entry
                value -= entry * step_out[t, c]
        inverse = 1.0 / wp.sqrt(wp.max(pivot, PIVOT_MIN))
        factor_out[t, a, a] = inverse
        step_out[t, a] = value * inverse
    for reverse in range(dofs):
        a = dofs - 1 - reverse
        if held[i, a] != 0:
            step_out[t, a] = 0.0
            continue
        value = step_out[t, a]
        for c in range(a + 1, dofs):
            if held[i, c] == 0:
                value -= factor_out[t, c, a] * step_out[t, c]
        step_out[t, a] = value * factor_out[t, a, a]
    for a in range(dofs):
        step_out[t, a] = step_out[t, a] * step_scale[k]


def damped_steps(
    running: wp.array[typing.Any],
    equations: tuple[wp.array[typing.Any], wp.array[typing.Any]],
    held: wp.array[typing.Any],
    damping: tuple[wp.array[typing.Any], wp.array[typing.Any], wp.array[typing.Any]],
    out: tuple[wp.array[typing.Any], wp.array[typing.Any]],
) -> None:
    """Solve (J'J + damping I) d = -J'r over the DOFs that are not held, for every candidate of every instance.

    Args:
        running: Instances to treat, int32 [n_batch].
        equations: J'J (lower triangle) and J'r.
        held: DOFs that keep still, int32 [n_batch, active_dof_count].
        damping: Damping per instance, then its factor and the length of the step per candidate.
        out: Scratch for the Cholesky factors (inverse pivots on the diagonal) and the steps,
            [n_batch x candidates, active_dof_count].
    """
    wp.launch(
        _damped_steps,
        dim=(running.shape[0], damping[1].shape[0]),
        inputs=[running, *equations, held, *damping],
        outputs=list(out),
        device=running.device,
    )
