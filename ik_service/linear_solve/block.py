"""Block-decomposed normal equations: J'J and J'r of every island of every instance, and damped steps from them.

Each island is gathered, formed, factored and solved alone, by one thread, in storage of its own: sum n_i^3 work, and
nothing of the size of the whole system is touched. Within an island DOFs and rows keep their order. Vectors over the
DOFs stand in island order: entry `dofadr + a` belongs to DOF `dof[dofadr + a]`. No tiles: they are
unsafe across CPU threads and slower at these sizes. Runs once an iteration.
"""

import functools
import typing

import warp as wp

from ik_service.linear_solve.equations import ActiveDofs, Equations
from ik_service.linear_solve.factors import eliminate
from ik_service.linear_solve.islands import Islands
from ik_service.linear_solve.small_block import (
    PADDED_SIZE,
    PIVOT_MIN,
    small_damped_steps_kernel,
    small_normal_equations_kernel,
)


@functools.cache
def _normal_equations_kernel(coupled: bool) -> wp.Kernel:
    """Return the kernel for robots with or without followers."""

    @wp.kernel(module="unique", enable_backward=False)
    @typing.no_type_check
    def normal_equations_kernel(
        small: int,  # islands of at most so many DOFs are treated elsewhere
        active: ActiveDofs,
        islands: Islands,
        # rows
        problem_idx: wp.array[wp.int32],  # [n_batch]
        running: wp.array2d[wp.int32],  # [n_batch, trees], 0: the island needs nothing
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
        if dofs <= small:
            return
        first_row = islands.rowadr[p, island]
        rows = islands.rowadr[p, island + 1] - first_row
        block = islands.hessian_adr[p, island]
        store = islands.jacobian_adr[p, island]
        triples = rows / 3
        for r in range(rows):
            equations_out.residuals[i, first_row + r] = residuals[i, islands.row[p, first_row + r]]
        for a in range(dofs):
            dof = islands.dof[p, first_dof + a]
            own = store + a * rows
            gradient = float(0.0)
            for r in range(rows):
                row = islands.row[p, first_row + r]
                entry = jacobian[i, row, active.dof[dof]]
                if wp.static(coupled):
                    for m in range(active.follower_start[dof], active.follower_start[dof + 1]):
                        entry += active.follower_multiplier[m] * jacobian[i, row, active.follower_dof[m]]
                equations_out.columns[i, own + r] = entry
                gradient += entry * equations_out.residuals[i, first_row + r]
            equations_out.gradient[i, first_dof + a] = gradient
            for b in range(a + 1):
                other = store + b * rows
                product = float(0.0)
                for triple in range(triples):  # most rows come in threes; a third of the loop's own cost
                    x = own + 3 * triple
                    y = other + 3 * triple
                    product += (
                        equations_out.columns[i, x] * equations_out.columns[i, y]
                        + equations_out.columns[i, x + 1] * equations_out.columns[i, y + 1]
                        + equations_out.columns[i, x + 2] * equations_out.columns[i, y + 2]
                    )
                for r in range(3 * triples, rows):
                    product += equations_out.columns[i, own + r] * equations_out.columns[i, other + r]
                equations_out.hessian[i, block + a * dofs + b] = product

    kernel: wp.Kernel = normal_equations_kernel
    return kernel


def normal_equations(
    active: ActiveDofs,
    islands: Islands,
    instances: "tuple[wp.array[typing.Any], wp.array[typing.Any]]",
    rows: "tuple[wp.array[typing.Any], wp.array[typing.Any]]",
    equations: Equations,
) -> None:
    """Gather J and r of every running island and form its J'J and J'r.

    Args:
        active: The constant map from DOFs to active DOFs.
        islands: Islands of every problem.
        instances: Problem of each instance [n_batch], and which of its islands run [n_batch, trees], int32.
        rows: Residuals [n_batch, total_residuals] and Jacobian [n_batch, total_residuals, joint_dof_count].
        equations: Out.
    """
    coupled = active.follower_dof.shape[0] > 0
    inputs, dim, device = [active, islands, *instances, *rows, equations], instances[1].shape, instances[1].device
    if islands.smallest <= PADDED_SIZE:
        wp.launch(small_normal_equations_kernel(PADDED_SIZE, coupled), dim, inputs, device=device)
    if islands.largest > PADDED_SIZE:
        wp.launch(_normal_equations_kernel(coupled), dim, [PADDED_SIZE, *inputs], device=device)


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _damped_steps(
    small: int,  # islands of at most so many DOFs are treated elsewhere
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
    for reverse in range(dofs):
        a = dofs - 1 - reverse
        if equations.at_bound[i, first + a] != 0:
            equations.step[t, first + a] = 0.0
            continue
        value = equations.step[t, first + a]
        for c in range(a + 1, dofs):
            if equations.at_bound[i, first + c] == 0:
                value -= equations.factor[t, block + c * dofs + a] * equations.step[t, first + c]
        equations.step[t, first + a] = value * equations.factor[t, block + a * dofs + a]
    for a in range(dofs):
        equations.step[t, first + a] = equations.step[t, first + a] * step_scale[k]


def damped_steps(
    islands: Islands,
    instances: "tuple[wp.array[typing.Any], wp.array[typing.Any]]",
    damping: "tuple[wp.array[typing.Any], wp.array[typing.Any], wp.array[typing.Any]]",
    equations: Equations,
) -> None:
    """Solve (J'J + damping I) d = -J'r over the DOFs that are not at a bound, for all candidates of running islands.

    Args:
        islands: Islands of every problem.
        instances: Problem of each instance [n_batch], and which of its islands run [n_batch, trees], int32.
        damping: Damping per instance and island, then its factor and the length of the step per candidate.
        equations: In: J'J, J'r and which DOFs are at a bound; out: factors and steps.
    """
    count, trees = instances[1].shape
    dim, device = (count, damping[1].shape[0], trees), instances[1].device
    inputs = [islands, *instances, *damping, equations]
    if islands.smallest <= PADDED_SIZE:
        wp.launch(small_damped_steps_kernel(PADDED_SIZE), dim, inputs, device=device)
    if islands.largest > PADDED_SIZE:
        wp.launch(_damped_steps, dim, [PADDED_SIZE, *inputs], device=device)
