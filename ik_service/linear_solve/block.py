"""Block-decomposed normal equations: J'J and J'r of every island of every instance, and damped steps from them.

Each island is gathered, formed, factored and solved alone, by one thread, in storage of its own: sum n_i^3 work, and
nothing of the size of the whole system is touched. Within an island DOFs and rows keep their order. Vectors over the
DOFs stand in island order: entry `island_dofadr + a` belongs to DOF `island_dof[island_dofadr + a]`. No tiles: they are
unsafe across CPU threads and slower at these sizes. Runs once an iteration.
"""

import functools
import typing
from dataclasses import dataclass

import warp as wp

from ik_service.linear_solve.islands import Islands
from ik_service.linear_solve.small_block import (
    PADDED_SIZE,
    PIVOT_MIN,
    small_damped_steps_kernel,
    small_normal_equations_kernel,
)


@dataclass(frozen=True)
class Equations:
    """Normal equations of a batch and their solution, float32 in island order unless said.

    Attributes:
        columns: J by columns: the entries of a DOF's column in its island's rows stand together,
            [n_batch, rows x dofs].
        residuals: [n_batch, rows].
        hessian: J'J, lower triangles of square blocks, [n_batch, dofs x dofs].
        gradient: J'r, [n_batch, dofs].
        at_bound: 1 where a DOF is kept at its bound, int32 [n_batch, dofs].
        factor: Cholesky factors with inverse pivots, [n_batch x candidates, dofs x dofs].
        step: [n_batch x candidates, dofs].
        predicted: Predicted decrease of each island's cost, [n_batch x candidates, trees].
    """

    columns: wp.array[typing.Any]
    residuals: wp.array[typing.Any]
    hessian: wp.array[typing.Any]
    gradient: wp.array[typing.Any]
    at_bound: wp.array[typing.Any]
    factor: wp.array[typing.Any]
    step: wp.array[typing.Any]
    predicted: wp.array[typing.Any]

    @classmethod
    def allocate(cls, islands: Islands, n_batch: int, candidates: int) -> "Equations":
        """Return zeroed arrays."""
        rows, dofs, trees = (a.shape[1] for a in (islands.island_row, islands.island_dof, islands.tree_island))
        widths = {"columns": rows * dofs, "residuals": rows, "hessian": dofs * dofs, "factor": dofs * dofs}
        per_candidate = ("factor", "step", "predicted")
        arrays = {
            name: wp.zeros(
                (n_batch * candidates if name in per_candidate else n_batch, widths.get(name, dofs)),
                dtype=wp.int32 if name == "at_bound" else wp.float32,
                device=islands.island_dof.device,
            )
            for name in cls.__annotations__
            if name != "predicted"
        }
        predicted = wp.zeros((n_batch * candidates, trees), dtype=wp.float32, device=islands.island_dof.device)
        return cls(**arrays, predicted=predicted)


@functools.cache
def _normal_equations_kernel(coupled: bool) -> wp.Kernel:
    """Return the kernel for robots with or without followers."""

    @wp.kernel(module="unique", enable_backward=False)
    @typing.no_type_check
    def normal_equations_kernel(
        small: int,  # islands of at most so many DOFs are treated elsewhere
        # active DOFs
        active_dof: wp.array[wp.int32],  # [active_dof_count]
        follower_start: wp.array[wp.int32],  # [active_dof_count + 1]
        follower_dof: wp.array[wp.int32],  # DOFs that follow each active DOF, [follower_start[-1]]
        follower_multiplier: wp.array[float],  # [follower_start[-1]]
        # islands
        island_dofadr: wp.array2d[wp.int32],
        island_dof: wp.array2d[wp.int32],
        island_rowadr: wp.array2d[wp.int32],
        island_row: wp.array2d[wp.int32],
        hessian_adr: wp.array2d[wp.int32],
        jacobian_adr: wp.array2d[wp.int32],
        # rows
        problem_idx: wp.array[wp.int32],  # [n_batch]
        running: wp.array2d[wp.int32],  # [n_batch, trees], 0: the island needs nothing
        residuals: wp.array2d[float],  # [n_batch, total_residuals]
        jacobian: wp.array3d[float],  # [n_batch, total_residuals, joint_dof_count]
        # out
        columns_out: wp.array2d[float],
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
        if dofs <= small:
            return
        first_row = island_rowadr[p, island]
        rows = island_rowadr[p, island + 1] - first_row
        block = hessian_adr[p, island]
        store = jacobian_adr[p, island]
        triples = rows / 3
        for r in range(rows):
            residuals_out[i, first_row + r] = residuals[i, island_row[p, first_row + r]]
        for a in range(dofs):
            dof = island_dof[p, first_dof + a]
            own = store + a * rows
            gradient = float(0.0)
            for r in range(rows):
                row = island_row[p, first_row + r]
                entry = jacobian[i, row, active_dof[dof]]
                if wp.static(coupled):
                    for m in range(follower_start[dof], follower_start[dof + 1]):
                        entry += follower_multiplier[m] * jacobian[i, row, follower_dof[m]]
                columns_out[i, own + r] = entry
                gradient += entry * residuals_out[i, first_row + r]
            gradient_out[i, first_dof + a] = gradient
            for b in range(a + 1):
                other = store + b * rows
                product = float(0.0)
                for triple in range(triples):  # most rows come in threes; a third of the loop's own cost
                    x = own + 3 * triple
                    y = other + 3 * triple
                    product += (
                        columns_out[i, x] * columns_out[i, y]
                        + columns_out[i, x + 1] * columns_out[i, y + 1]
                        + columns_out[i, x + 2] * columns_out[i, y + 2]
                    )
                for r in range(3 * triples, rows):
                    product += columns_out[i, own + r] * columns_out[i, other + r]
                hessian_out[i, block + a * dofs + b] = product

    kernel: wp.Kernel = normal_equations_kernel
    return kernel


def normal_equations(
    active: "tuple[wp.array[typing.Any], wp.array[typing.Any], wp.array[typing.Any], wp.array[typing.Any]]",
    islands: Islands,
    instances: "tuple[wp.array[typing.Any], wp.array[typing.Any]]",
    rows: "tuple[wp.array[typing.Any], wp.array[typing.Any]]",
    equations: Equations,
) -> None:
    """Gather J and r of every running island and form its J'J and J'r.

    Args:
        active: The constant map from DOFs to active DOFs: the DOF of each active DOF, then offsets, DOFs and
            multipliers of those that follow it.
        islands: Islands of every problem.
        instances: Problem of each instance [n_batch], and which of its islands run [n_batch, trees], int32.
        rows: Residuals [n_batch, total_residuals] and Jacobian [n_batch, total_residuals, joint_dof_count].
        equations: Out.
    """
    coupled = active[2].shape[0] > 0
    adr = (islands.island_dofadr, islands.island_dof, islands.island_rowadr, islands.island_row, islands.hessian_adr)
    device = instances[1].device
    if islands.smallest <= PADDED_SIZE:
        wp.launch(
            small_normal_equations_kernel(PADDED_SIZE, coupled),
            dim=instances[1].shape,
            inputs=[*active, *adr, *instances, *rows],
            outputs=[equations.residuals, equations.hessian, equations.gradient],
            device=device,
        )
    if islands.largest > PADDED_SIZE:
        wp.launch(
            _normal_equations_kernel(coupled),
            dim=instances[1].shape,
            inputs=[PADDED_SIZE, *active, *adr, islands.jacobian_adr, *instances, *rows],
            outputs=[equations.columns, equations.residuals, equations.hessian, equations.gradient],
            device=device,
        )


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _damped_steps(
    small: int,  # islands of at most so many DOFs are treated elsewhere
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
    factor_out: wp.array2d[float],
    step_out: wp.array2d[float],
):
    i, k, island = wp.tid()
    if running[i, island] == 0:
        return
    p = problem_idx[i]
    first = island_dofadr[p, island]
    dofs = island_dofadr[p, island + 1] - first
    if dofs <= small:
        return
    block = hessian_adr[p, island]
    t = i * candidate_damping.shape[0] + k
    mu = damping[i, island] * candidate_damping[k]
    for a in range(dofs):
        if at_bound[i, first + a] != 0:
            continue
        row = block + a * dofs
        pivot = hessian[i, row + a] + mu
        value = -gradient[i, first + a]
        for b in range(a):
            if at_bound[i, first + b] == 0:
                above = block + b * dofs
                entry = hessian[i, row + b]
                for c in range(b):
                    if at_bound[i, first + c] == 0:
                        entry -= factor_out[t, row + c] * factor_out[t, above + c]
                entry *= factor_out[t, above + b]
                factor_out[t, row + b] = entry
                pivot -= entry * entry
                value -= entry * step_out[t, first + b]
        inverse = 1.0 / wp.sqrt(wp.max(pivot, PIVOT_MIN))
        factor_out[t, row + a] = inverse
        step_out[t, first + a] = value * inverse
    for reverse in range(dofs):
        a = dofs - 1 - reverse
        if at_bound[i, first + a] != 0:
            step_out[t, first + a] = 0.0
            continue
        value = step_out[t, first + a]
        for c in range(a + 1, dofs):
            if at_bound[i, first + c] == 0:
                value -= factor_out[t, block + c * dofs + a] * step_out[t, first + c]
        step_out[t, first + a] = value * factor_out[t, block + a * dofs + a]
    for a in range(dofs):
        step_out[t, first + a] = step_out[t, first + a] * step_scale[k]


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
    system = (equations.hessian, equations.gradient, equations.at_bound)
    inputs = [islands.island_dofadr, islands.hessian_adr, *instances, *system, *damping]
    if islands.smallest <= PADDED_SIZE:
        kernel = small_damped_steps_kernel(PADDED_SIZE)
        wp.launch(kernel, dim=dim, inputs=inputs, outputs=[equations.step], device=device)
    if islands.largest > PADDED_SIZE:
        outputs = [equations.factor, equations.step]
        wp.launch(_damped_steps, dim=dim, inputs=[PADDED_SIZE, *inputs], outputs=outputs, device=device)
