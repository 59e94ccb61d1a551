"""J'J and J'r of one island, row by row, and the decrease that they predict: loops of C++ over neighbours in memory.

Entries of J that are zero are left out, as those of DOFs that do not move a row's link are.
"""

import typing

import warp as wp


@wp.func_native("""
float* __restrict__ products = wp::address(hessian, i, block);
float* __restrict__ sums = wp::address(gradient, i, first);
for (int a = 0; a < dofs; ++a) sums[a] = 0.0f;
for (int a = 0; a < dofs; ++a)
    for (int b = 0; b <= a; ++b) products[a * dofs + b] = 0.0f;
""")
@typing.no_type_check
def clear_products(hessian: wp.array2d[float], gradient: wp.array2d[float], i: int, first: int, dofs: int, block: int):
    """Zero J'J and J'r of an island."""


@wp.func_native("""
const float* __restrict__ lower = wp::address(hessian, i, block);
const float* __restrict__ slope = wp::address(gradient, i, first);
const float* __restrict__ moved = wp::address(step, t, first);
float decrease = 0.0f;
for (int a = 0; a < dofs; ++a) {
    const float* __restrict__ row = lower + a * dofs;
    float sums[4] = {0.5f * row[a] * moved[a] + slope[a], 0.0f, 0.0f, 0.0f};  // four chains of sums side by side
    for (int b = 0; b < a; ++b) sums[b % 4] += row[b] * moved[b];
    decrease -= ((sums[0] + sums[1]) + (sums[2] + sums[3])) * moved[a];
}
*wp::address(predicted, t, island) = decrease;
""")
@typing.no_type_check
def predict_decrease(
    hessian: wp.array2d[float],
    gradient: wp.array2d[float],
    step: wp.array2d[float],
    predicted: wp.array2d[float],
    i: int,
    t: int,
    island: int,
    first: int,
    dofs: int,
    block: int,
):
    """Write by how much a step lowers an island's cost, if rows are straight."""


@wp.func_native("""
const float* __restrict__ given = wp::address(jacobian, i, row, 0);
const int* __restrict__ member = wp::address(dof, p, first);
const int* __restrict__ full = wp::address(active_dof, 0);
const int* __restrict__ start = wp::address(follower_start, 0);
float* __restrict__ out = wp::address(rows, i, place);
for (int a = 0; a < dofs; ++a) out[a] = given[full[member[a]]];
if (follower_dof.shape[0] == 0) return;
for (int a = 0; a < dofs; ++a)
    for (int m = start[member[a]]; m < start[member[a] + 1]; ++m)
        out[a] += *wp::address(follower_multiplier, m) * given[*wp::address(follower_dof, m)];
""")
@typing.no_type_check
def gather_row(
    jacobian: wp.array3d[float],
    dof: wp.array2d[wp.int32],
    active_dof: wp.array[wp.int32],
    follower_start: wp.array[wp.int32],
    follower_dof: wp.array[wp.int32],
    follower_multiplier: wp.array[float],
    rows: wp.array2d[float],
    i: int,
    p: int,
    row: int,
    first: int,
    dofs: int,
    place: int,
):
    """Write a row of J over the active DOFs of an island to a place of its rows."""


@wp.func_native("""
const float* __restrict__ row = wp::address(jacobian, i, place);
float* __restrict__ products = wp::address(hessian, i, block);
float* __restrict__ sums = wp::address(gradient, i, first);
for (int a = 0; a < dofs; ++a) {
    if (row[a] == 0.0f) continue;
    const float entry = row[a];
    float* __restrict__ out = products + a * dofs;
    for (int b = 0; b <= a; ++b) out[b] += entry * row[b];
    sums[a] += entry * residual;
}
""")
@typing.no_type_check
def add_row(
    jacobian: wp.array2d[float],
    hessian: wp.array2d[float],
    gradient: wp.array2d[float],
    i: int,
    first: int,
    dofs: int,
    block: int,
    place: int,
    residual: float,
):
    """Add a row of J, at a place of its line, to J'J and J'r of its island."""
