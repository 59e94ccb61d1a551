"""Arrays of the normal equations and of the solution."""

from typing import Any

import warp as wp

from ik_service.linear_solve.islands import zeroed


@wp.struct
class Equations:
    """Normal equations of a batch and the solution; vectors and blocks in island order."""

    jacobian: wp.array2d[float]  # [n_batch, rows x dofs]: J, blocks of islands one after another, by rows
    residuals: wp.array2d[float]  # [n_batch, rows]
    hessian: wp.array2d[float]  # [n_batch, dofs x dofs]: J'J, lower triangles of square blocks
    gradient: wp.array2d[float]  # [n_batch, dofs]: J'r
    at_bound: wp.array2d[wp.int32]  # [n_batch, dofs]: 1 for a DOF held at a bound (active set)
    factor: wp.array2d[float]  # [n_batch x candidates, dofs x dofs]: factors L' D L, inverse pivots on the diagonal
    step: wp.array2d[float]  # [n_batch x candidates, dofs]
    predicted: wp.array2d[float]  # [n_batch x candidates, trees]: predicted decrease of the island's cost


def allocate_equations(islands: Any, n_batch: int, candidates: int) -> Any:
    """Return zeroed `Equations` for problems with these `Islands`."""
    rows, dofs, trees = (a.shape[1] for a in (islands.row, islands.dof, islands.tree_island))
    return zeroed(
        Equations,
        islands.dof.device,
        (n_batch, dofs),
        jacobian=(n_batch, rows * dofs),
        residuals=(n_batch, rows),
        hessian=(n_batch, dofs * dofs),
        factor=(n_batch * candidates, dofs * dofs),
        step=(n_batch * candidates, dofs),
        predicted=(n_batch * candidates, trees),
    )


@wp.struct
class ActiveDofs:
    """The constant map from DOFs to active DOFs."""

    dof: wp.array[wp.int32]  # [active_dof_count]
    follower_start: wp.array[wp.int32]  # [active_dof_count + 1]
    follower_dof: wp.array[wp.int32]  # [follower_start[-1]]: followers (mimic joints) of each active DOF
    follower_multiplier: wp.array[float]  # [follower_start[-1]]
