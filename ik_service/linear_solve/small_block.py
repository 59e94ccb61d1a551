"""The normal equations of `block` for islands of few DOFs: one island in registers, loops unrolled.

A kernel has a padded size; an island of fewer DOFs fills the rest with a unit diagonal. On CPUs this takes half the
time of the loops over memory.
"""

import functools
import typing

import warp as wp

from ik_service.linear_solve.equations import ActiveDofs, Equations
from ik_service.linear_solve.factors import elimination_in_registers
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
