"""Block-decomposed normal equations: J'J and J'r of every island of every instance, and the damped steps.

One thread gathers, forms, factors and solves one island in the island's own storage: work sum n_i^3, no array of the
size of the whole system. DOFs and rows keep their order within an island. Vectors over DOFs are in island order: entry
`dofadr + a` belongs to DOF `dof[dofadr + a]`. No Warp tiles: tiles are unsafe across CPU threads and slower at these
sizes. Islands of few DOFs are solved in registers with unrolled loops: a kernel has a padded size, and a smaller island
fills the rest with a unit diagonal. On CPUs this takes half the time of the loops over memory. Runs once per iteration.
"""

import functools
import typing

import warp as wp

from ik_service.linear_solve.factors import (
    ActiveDofs,
    Equations,
    eliminate,
    elimination_in_registers,
    finish_step,
    form_products,
)
from ik_service.linear_solve.islands import Islands

PADDED_SIZE = 8  # enough for an arm of six or seven joints
PIVOT_MIN = wp.constant(1.0e-20)  # keeps the factor finite if rounding makes a pivot vanish


@functools.cache
def small_normal_equations_kernel(size: int, coupled: bool) -> wp.Kernel:
    """Return the kernel of `normal_equations` for at most `size` DOFs; `coupled`: the robot has mimic joints."""
    Vector = wp.types.vector(size, float)
    Index = wp.types.vector(size, int)
    Matrix = wp.types.matrix((size, size), float)

    @wp.kernel(module="unique", enable_backward=False)
    @typing.no_type_check
    def small_normal_equations(
        active: ActiveDofs,
        islands: Islands,
        problem_idx: wp.array[wp.int32],  # [n_batch]
        running: wp.array2d[wp.int32],  # [n_batch, trees]
        residuals: wp.array2d[float],  # [n_batch, total_residuals]
        jacobian: wp.array3d[float],  # [n_batch, total_residuals, joint_dof_count]
        equations_out: Equations,
    ):
        i, island = wp.tid()
        if running[i, island] == 0:
            return
        p = problem_idx[i]
        first_dof = islands.dofadr[p, island]
        dofs = islands.dofadr[p, island + 1] - first_dof
        if dofs > size:
            return
        index = Index()
        for a in range(size):
            if a < dofs:
                index[a] = islands.dof[p, first_dof + a]
        gradient = Vector()
        hessian = Matrix()
        for r in range(islands.rowadr[p, island], islands.rowadr[p, island + 1]):
            row = islands.row[p, r]
            residual = residuals[i, row]
            equations_out.residuals[i, r] = residual
            column = Vector()
            for a in range(size):
                if a < dofs:
                    entry = jacobian[i, row, active.dof[index[a]]]
                    if wp.static(coupled):
                        for m in range(active.follower_start[index[a]], active.follower_start[index[a] + 1]):
                            entry += active.follower_multiplier[m] * jacobian[i, row, active.follower_dof[m]]
                    column[a] = entry
            gradient += column * residual
            hessian += wp.outer(column, column)
        block = islands.hessian_adr[p, island]
        for a in range(size):
            if a < dofs:
                equations_out.gradient[i, first_dof + a] = gradient[a]
                for b in range(a + 1):
                    equations_out.hessian[i, block + a * dofs + b] = hessian[a, b]

    kernel: wp.Kernel = small_normal_equations
    return kernel


@functools.cache
def small_damped_steps_kernel(size: int) -> wp.Kernel:
    """Return the kernel of `damped_steps` for at most `size` DOFs."""
    eliminate = elimination_in_registers(size)
    Vector = wp.types.vector(size, float)
    Matrix = wp.types.matrix((size, size), float)

    @wp.kernel(module="unique", enable_backward=False)
    @typing.no_type_check
    def small_damped_steps(
        islands: Islands,
        problem_idx: wp.array[wp.int32],  # [n_batch]
        running: wp.array2d[wp.int32],  # [n_batch, trees]
        damping: wp.array2d[float],  # [n_batch, trees]
        candidate_damping: wp.array[float],  # [candidates]
        step_scale: wp.array[float],  # [candidates]
        equations: Equations,
    ):
        i, k, island = wp.tid()
        if running[i, island] == 0:
            return
        p = problem_idx[i]
        first = islands.dofadr[p, island]
        dofs = islands.dofadr[p, island + 1] - first
        if dofs > size:
            return
        block = islands.hessian_adr[p, island]
        mu = damping[i, island] * candidate_damping[k]
        free = Vector()  # 0 where a DOF is at its bound or there is none: its row becomes that of a unit matrix
        lower = Matrix()
        diagonal = Vector(1.0)
        right = Vector()
        for a in range(size):
            if a < dofs:
                free[a] = 1.0 - float(equations.at_bound[i, first + a])
                diagonal[a] = free[a] * (equations.hessian[i, block + a * dofs + a] + mu) + (1.0 - free[a])
                right[a] = -free[a] * equations.gradient[i, first + a]
                for b in range(a):
                    lower[a, b] = free[a] * free[b] * equations.hessian[i, block + a * dofs + b]
        factor, inverse, step = eliminate(lower, diagonal, right, PIVOT_MIN)
        for reverse in range(size):
            a = size - 1 - reverse
            for c in range(a + 1, size):
                step[a] -= factor[c, a] * step[c]
            step[a] *= inverse[a]
        t = i * candidate_damping.shape[0] + k
        for a in range(size):
            if a < dofs:
                equations.step[t, first + a] = step[a] * step_scale[k]

    kernel: wp.Kernel = small_damped_steps
    return kernel


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _normal_equations(
    small: int,  # islands with at most this many DOFs have kernels of their own
    active: ActiveDofs,
    islands: Islands,
    # rows
    problem_idx: wp.array[wp.int32],  # [n_batch]
    running: wp.array2d[wp.int32],  # [n_batch, trees], 0: skip the island
    residuals: wp.array2d[float],  # [n_batch, total_residuals]
    jacobian: wp.array3d[float],  # [n_batch, total_residuals, joint_dof_count]
    equations_out: Equations,
):
    i, island = wp.tid()
    if running[i, island] == 0:
        return
    p = problem_idx[i]
    if islands.dofadr[p, island + 1] - islands.dofadr[p, island] > small:
        form_products(islands, active, residuals, jacobian, equations_out, i, p, island)


def normal_equations(
    active: ActiveDofs,  # the constant map from DOFs to active DOFs
    islands: Islands,
    # problem of each instance [n_batch]; mask of running islands [n_batch, trees], int32
    instances: "tuple[wp.array[typing.Any], wp.array[typing.Any]]",
    # residuals [n_batch, total_residuals] and Jacobian [n_batch, total_residuals, joint_dof_count]
    rows: "tuple[wp.array[typing.Any], wp.array[typing.Any]]",
    equations: Equations,  # out
) -> None:
    """Gather J and r of every running island and form J'J and J'r."""
    coupled = active.follower_dof.shape[0] > 0
    inputs, dim, device = [active, islands, *instances, *rows, equations], instances[1].shape, instances[1].device
    if islands.smallest <= PADDED_SIZE:
        wp.launch(small_normal_equations_kernel(PADDED_SIZE, coupled), dim, inputs, device=device)
    if islands.largest > PADDED_SIZE:
        wp.launch(_normal_equations, dim, [PADDED_SIZE, *inputs], device=device)


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _damped_steps(
    small: int,  # islands with at most this many DOFs have kernels of their own
    islands: Islands,
    problem_idx: wp.array[wp.int32],  # [n_batch]
    running: wp.array2d[wp.int32],  # [n_batch, trees]
    damping: wp.array2d[float],  # [n_batch, trees]
    candidate_damping: wp.array[float],  # [candidates]
    step_scale: wp.array[float],  # [candidates]
    equations: Equations,
):
    i, k, island = wp.tid()
    if running[i, island] == 0:
        return
    p = problem_idx[i]
    first = islands.dofadr[p, island]
    dofs = islands.dofadr[p, island + 1] - first
    if dofs <= small:
        return
    block = islands.hessian_adr[p, island]
    t = i * candidate_damping.shape[0] + k
    eliminate(equations, i, t, first, dofs, block, damping[i, island] * candidate_damping[k], PIVOT_MIN)
    finish_step(equations, t, first, dofs, block, step_scale[k])


def damped_steps(
    islands: Islands,
    # problem of each instance [n_batch]; mask of running islands [n_batch, trees], int32
    instances: "tuple[wp.array[typing.Any], wp.array[typing.Any]]",
    # damping per instance and island; per candidate, a factor of the damping and a scale of the step
    damping: "tuple[wp.array[typing.Any], wp.array[typing.Any], wp.array[typing.Any]]",
    equations: Equations,  # in: J'J, J'r and the mask of DOFs at a bound; out: factors and steps
) -> None:
    """Solve (J'J + damping I) d = -J'r over the DOFs not at a bound, for all candidates of running islands."""
    count, trees = instances[1].shape
    dim, device = (count, damping[1].shape[0], trees), instances[1].device
    inputs = [islands, *instances, *damping, equations]
    if islands.smallest <= PADDED_SIZE:
        wp.launch(small_damped_steps_kernel(PADDED_SIZE), dim, inputs, device=device)
    if islands.largest > PADDED_SIZE:
        wp.launch(_damped_steps, dim, [PADDED_SIZE, *inputs], device=device)
