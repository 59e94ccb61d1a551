"""J'J and J'r of one island, factors of J'J + damping I, triangular solves, and the predicted decrease of the cost.

Zero entries of J (DOFs that do not move the row's link) are skipped. Factors have two versions: over device arrays for
islands of any size (C++ loops over contiguous memory, vectorised by the compiler), and in registers with unrolled loops
for few DOFs. DOFs at a bound are left out. The diagonal of a factor holds inverse pivots. Pivots have a floor, because
rounding can make a pivot too small. Generated iterations have a third version, as text: `compiler.code.elimination`.
"""

import functools
import typing
from typing import Any

import warp as wp

from ik_service.kernels.typed_warp import reference_to
from ik_service.linear_solve.islands import Islands, zeroed


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


EquationsRef: Any = reference_to(Equations)


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


ActiveDofsRef: Any = reference_to(ActiveDofs)
IslandsRef: Any = reference_to(Islands)


@wp.func_native("""
const float* lower = wp::address(equations.hessian, i, block);
const int* held = wp::address(equations.at_bound, i, first);
const float* right = wp::address(equations.gradient, i, first);
float* factors = wp::address(equations.factor, t, block);
float* solved = wp::address(equations.step, t, first);
for (int a = 0; a < dofs; ++a) {
    float* row = factors + a * dofs;
    for (int b = 0; b <= a; ++b) row[b] = held[a] || held[b] ? 0.0f : lower[a * dofs + b];
    row[a] += damping;
    solved[a] = held[a] ? 0.0f : -right[a];
}
for (int k = dofs - 1; k >= 0; --k) {
    float* __restrict__ row = factors + k * dofs;
    const float inverse = 1.0f / (row[k] > least ? row[k] : least);
    const float value = solved[k];
    for (int a = k - 1; a >= 0; --a) {
        if (row[a] == 0.0f) continue;
        const float share = row[a] * inverse;
        float* __restrict__ above = factors + a * dofs;
        for (int b = 0; b <= a; ++b) above[b] -= share * row[b];
        solved[a] -= share * value;
        row[a] = share;
    }
    solved[k] = value * inverse;
    row[k] = inverse;
}
""")
@typing.no_type_check
def _factor_and_solve(
    equations: EquationsRef, i: int, t: int, first: int, dofs: int, block: int, damping: float, least: float
):
    """Run `eliminate` from the last DOF to the first: no fill-in between limbs, zeros skipped."""


@wp.func
@typing.no_type_check
def eliminate(equations: Equations, i: int, t: int, first: int, dofs: int, block: int, damping: float, floor: float):
    """Factor an island's J'J + damping I = L' D L, solve L' y = -J'r, leave D^-1 y in line t; return y' D^-1 y.

    The result, g' (J'J + damping I)^-1 g, is the decrease of |r|^2 by the step if the rows are linear.
    """
    _factor_and_solve(equations, i, t, first, dofs, block, damping, floor)
    gain = float(0.0)
    for a in range(dofs):
        value = equations.step[t, first + a]
        gain += value * value / equations.factor[t, block + a * dofs + a]
    return gain


@wp.func_native("""
const float* factors = wp::address(equations.factor, t, block);
float* solved = wp::address(equations.step, t, first);
for (int a = 0; a < dofs; ++a) {
    float value = solved[a];
    for (int b = 0; b < a; ++b) value -= factors[a * dofs + b] * solved[b];
    solved[a] = value;
}
for (int a = 0; a < dofs; ++a) solved[a] *= scale;
""")
@typing.no_type_check
def finish_step(equations: EquationsRef, t: int, first: int, dofs: int, block: int, scale: float):
    """Solve L d = D^-1 y in place after `eliminate`, and scale d."""


@functools.cache
def elimination_in_registers(size: int) -> Any:
    """Return the elimination of `size` DOFs in registers, as a Warp function.

    Arguments: lower triangle of J'J, diagonal of J'J + damping I, right-hand side, floor of pivots. Results: factor
    below the diagonal, inverse pivots, solution. A DOF left out has a row of the unit matrix.
    """
    Vector: Any = wp.types.vector(size, float)
    Matrix: Any = wp.types.matrix((size, size), float)

    @wp.func
    @typing.no_type_check
    def eliminate_in_registers(lower: Matrix, diagonal: Vector, right: Vector, floor: float):
        factor = Matrix()
        inverse = Vector()
        solved = Vector()
        for a in range(size):
            pivot = diagonal[a]
            value = right[a]
            for b in range(a):
                entry = lower[a, b]
                for c in range(b):
                    entry -= factor[a, c] * factor[b, c]
                entry *= inverse[b]
                factor[a, b] = entry
                pivot -= entry * entry
                value -= entry * solved[b]
            inverse[a] = 1.0 / wp.sqrt(wp.max(pivot, floor))
            solved[a] = value * inverse[a]
        return factor, inverse, solved

    return eliminate_in_registers


@wp.func_native("""
const float* __restrict__ lower = wp::address(equations.hessian, i, block);
const float* __restrict__ slope = wp::address(equations.gradient, i, first);
const float* __restrict__ moved = wp::address(equations.step, t, first);
float decrease = 0.0f;
for (int a = 0; a < dofs; ++a) {
    const float* __restrict__ row = lower + a * dofs;
    float sums[4] = {0.5f * row[a] * moved[a] + slope[a], 0.0f, 0.0f, 0.0f};  // four chains of sums side by side
    for (int b = 0; b < a; ++b) sums[b % 4] += row[b] * moved[b];
    decrease -= ((sums[0] + sums[1]) + (sums[2] + sums[3])) * moved[a];
}
*wp::address(equations.predicted, t, island) = decrease;
""")
@typing.no_type_check
def predict_decrease(equations: EquationsRef, i: int, t: int, island: int, first: int, dofs: int, block: int):
    """Write the decrease of an island's cost by a step, predicted by the linear model."""


@wp.func_native("""
const int first = *wp::address(islands.dofadr, p, island), first_row = *wp::address(islands.rowadr, p, island);
const int dofs = *wp::address(islands.dofadr, p, island + 1) - first;
const int count = *wp::address(islands.rowadr, p, island + 1) - first_row;
const int* __restrict__ member = wp::address(islands.dof, p, first);
const int* __restrict__ full = wp::address(active.dof, 0);
const int* __restrict__ list = wp::address(islands.row, p, first_row);
float* __restrict__ products = wp::address(equations.hessian, i, *wp::address(islands.hessian_adr, p, island));
float* __restrict__ sums = wp::address(equations.gradient, i, first);
float* __restrict__ rows = wp::address(equations.jacobian, i, *wp::address(islands.jacobian_adr, p, island));
float* __restrict__ right = wp::address(equations.residuals, i, first_row);
for (int a = 0; a < dofs; ++a) sums[a] = 0.0f;
for (int a = 0; a < dofs; ++a)
    for (int b = 0; b <= a; ++b) products[a * dofs + b] = 0.0f;
for (int a = 0, length = 1; a < dofs; a += length) {  // DOFs that are neighbours are copied together
    const int from = full[member[a]];
    for (length = 1; a + length < dofs && full[member[a + length]] == from + length;) ++length;
    for (int r = 0; r < count; ++r) {
        const float* __restrict__ given = wp::address(jacobian, i, list[r], from);
        for (int b = 0; b < length; ++b) rows[r * dofs + a + b] = given[b];
    }
}
for (int a = 0; a < dofs && active.follower_dof.shape[0] > 0; ++a)
    for (int m = *wp::address(active.follower_start, member[a]); m < *wp::address(active.follower_start, member[a] + 1);
         ++m) {
        const float share = *wp::address(active.follower_multiplier, m);
        const int from = *wp::address(active.follower_dof, m);
        for (int r = 0; r < count; ++r) rows[r * dofs + a] += share * *wp::address(jacobian, i, list[r], from);
    }
for (int r = 0; r < count; ++r) right[r] = *wp::address(residuals, i, list[r]);
for (int r = 0; r < count; r += r + 3 <= count ? 3 : 1) {
    const float* __restrict__ x = rows + r * dofs;
    const bool is_triple = r + 3 <= count;
    for (int a = 0; a < dofs; ++a) {
        float* __restrict__ out = products + a * dofs;
        if (is_triple) {
            const float* __restrict__ y = x + dofs;
            const float* __restrict__ z = y + dofs;
            const float by_x = x[a], by_y = y[a], by_z = z[a];
            if (by_x == 0.0f && by_y == 0.0f && by_z == 0.0f) continue;
            for (int b = 0; b <= a; ++b) out[b] += by_x * x[b] + by_y * y[b] + by_z * z[b];
            sums[a] += by_x * right[r] + by_y * right[r + 1] + by_z * right[r + 2];
        } else if (x[a] != 0.0f) {
            const float entry = x[a];
            for (int b = 0; b <= a; ++b) out[b] += entry * x[b];
            sums[a] += entry * right[r];
        }
    }
}
""")
@typing.no_type_check
def form_products(
    islands: IslandsRef,
    active: ActiveDofsRef,
    residuals: wp.array2d[float],
    jacobian: wp.array3d[float],
    equations: EquationsRef,
    i: int,
    p: int,
    island: int,
):
    """Copy the rows of an island, reduced to active DOFs, and sum up J'J and J'r.

    Three rows are added at a time: three rows of a link depend on the same DOFs.
    """
