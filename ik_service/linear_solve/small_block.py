"""The same equations as `block`, for islands of few DOFs: all of one island in registers, loops unrolled.

A kernel is made for a padded size; an island of fewer DOFs fills the rest with a unit diagonal. On the CPU this takes
half the time of the loops over memory.
"""

import functools
import typing

import warp as wp

PADDED_SIZE = 8  # covers every arm of six or seven joints
PIVOT_MIN = wp.constant(1.0e-20)  # keeps the factor finite where rounding makes a pivot vanish


@functools.cache
def small_normal_equations_kernel(size: int, coupled: bool) -> wp.Kernel:
    """Return the kernel for islands of at most `size` DOFs, on robots with or without followers."""
    Vector = wp.types.vector(size, float)
    Index = wp.types.vector(size, int)
    Matrix = wp.types.matrix((size, size), float)

    @wp.kernel(module="unique", enable_backward=False)
    @typing.no_type_check
    def small_normal_equations(
        # active DOFs
        active_dof: wp.array[wp.int32],  # [active_dof_count]
        follower_start: wp.array[wp.int32],  # [active_dof_count + 1]
        follower_dof: wp.array[wp.int32],  # [follower_start[-1]]
        follower_multiplier: wp.array[float],  # [follower_start[-1]]
        # islands
        island_dofadr: wp.array2d[wp.int32],
        island_dof: wp.array2d[wp.int32],
        island_rowadr: wp.array2d[wp.int32],
        island_row: wp.array2d[wp.int32],
        hessian_adr: wp.array2d[wp.int32],
        # rows
        problem_idx: wp.array[wp.int32],  # [n_batch]
        running: wp.array2d[wp.int32],  # [n_batch, trees]
        residuals: wp.array2d[float],  # [n_batch, total_residuals]
        jacobian: wp.array3d[float],  # [n_batch, total_residuals, joint_dof_count]
        # out
        residuals_out: wp.array2d[float],
        hessian_out: wp.array2d[float],
        gradient_out: wp.array2d[float],
    ):
        i, island = wp.tid()
        if running[i, island] == 0:
            return
        p = problem_idx[i]
        first_dof = island_dofadr[p, island]
        dofs = island_dofadr[p, island + 1] - first_dof
        if dofs > size:
            return
        index = Index()
        for a in range(size):
            if a < dofs:
                index[a] = island_dof[p, first_dof + a]
        gradient = Vector()
        hessian = Matrix()
        for r in range(island_rowadr[p, island], island_rowadr[p, island + 1]):
            row = island_row[p, r]
            residual = residuals[i, row]
            residuals_out[i, r] = residual
            column = Vector()
            for a in range(size):
                if a < dofs:
                    entry = jacobian[i, row, active_dof[index[a]]]
                    if wp.static(coupled):
                        for m in range(follower_start[index[a]], follower_start[index[a] + 1]):
                            entry += follower_multiplier[m] * jacobian[i, row, follower_dof[m]]
                    column[a] = entry
            gradient += column * residual
            hessian += wp.outer(column, column)
        block = hessian_adr[p, island]
        for a in range(size):
            if a < dofs:
                gradient_out[i, first_dof + a] = gradient[a]
                for b in range(a + 1):
                    hessian_out[i, block + a * dofs + b] = hessian[a, b]

    kernel: wp.Kernel = small_normal_equations
    return kernel


@functools.cache
def small_damped_steps_kernel(size: int) -> wp.Kernel:
    """Return the kernel for islands of at most `size` DOFs."""
    Vector = wp.types.vector(size, float)
    Matrix = wp.types.matrix((size, size), float)

    @wp.kernel(module="unique", enable_backward=False)
    @typing.no_type_check
    def small_damped_steps(
        # islands
        island_dofadr: wp.array2d[wp.int32],
        hessian_adr: wp.array2d[wp.int32],
        # equations
        problem_idx: wp.array[wp.int32],  # [n_batch]
        running: wp.array2d[wp.int32],  # [n_batch, trees]
        hessian: wp.array2d[float],
        gradient: wp.array2d[float],
        at_bound: wp.array2d[wp.int32],
        damping: wp.array2d[float],  # [n_batch, trees]
        # candidates
        candidate_damping: wp.array[float],  # [candidates]
        step_scale: wp.array[float],  # [candidates]
        # out
        step_out: wp.array2d[float],
    ):
        i, k, island = wp.tid()
        if running[i, island] == 0:
            return
        p = problem_idx[i]
        first = island_dofadr[p, island]
        dofs = island_dofadr[p, island + 1] - first
        if dofs > size:
            return
        block = hessian_adr[p, island]
        mu = damping[i, island] * candidate_damping[k]
        free = Vector()  # 0 where a DOF is at its bound or there is none: its row becomes that of a unit matrix
        factor = Matrix()
        pivot = Vector(1.0)
        step = Vector()
        for a in range(size):
            if a < dofs:
                free[a] = 1.0 - float(at_bound[i, first + a])
                pivot[a] = free[a] * (hessian[i, block + a * dofs + a] + mu) + (1.0 - free[a])
                step[a] = -free[a] * gradient[i, first + a]
                for b in range(a):
                    factor[a, b] = free[a] * free[b] * hessian[i, block + a * dofs + b]
        inverse = Vector()
        for a in range(size):
            for b in range(a):
                entry = factor[a, b]
                for c in range(b):
                    entry -= factor[a, c] * factor[b, c]
                entry *= inverse[b]
                factor[a, b] = entry
                pivot[a] -= entry * entry
                step[a] -= entry * step[b]
            inverse[a] = 1.0 / wp.sqrt(wp.max(pivot[a], PIVOT_MIN))
            step[a] *= inverse[a]
        for reverse in range(size):
            a = size - 1 - reverse
            for c in range(a + 1, size):
                step[a] -= factor[c, a] * step[c]
            step[a] *= inverse[a]
        t = i * candidate_damping.shape[0] + k
        for a in range(size):
            if a < dofs:
                step_out[t, first + a] = step[a] * step_scale[k]

    kernel: wp.Kernel = small_damped_steps
    return kernel
