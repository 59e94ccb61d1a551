"""J'J and J'r of one island, row by row, and the predicted decrease of the cost: C++ loops over contiguous memory.

Zero entries of J (DOFs that do not move the row's link) are skipped.
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
    """Write the decrease of an island's cost by a step, predicted by the linear model."""


@wp.func_native("""
const int* __restrict__ member = wp::address(dof, p, first);
const int* __restrict__ full = wp::address(active_dof, 0);
const int* __restrict__ list = wp::address(row, p, first_row);
float* __restrict__ out = wp::address(rows, i, place);
for (int a = 0, length = 1; a < dofs; a += length) {  // DOFs that are neighbours are copied together
    const int from = full[member[a]];
    for (length = 1; a + length < dofs && full[member[a + length]] == from + length;) ++length;
    for (int r = 0; r < count; ++r) {
        const float* __restrict__ given = wp::address(jacobian, i, list[r], from);
        for (int b = 0; b < length; ++b) out[r * dofs + a + b] = given[b];
    }
}
if (follower_dof.shape[0] == 0) return;
for (int a = 0; a < dofs; ++a)
    for (int m = *wp::address(follower_start, member[a]); m < *wp::address(follower_start, member[a] + 1); ++m) {
        const float share = *wp::address(follower_multiplier, m);
        const int from = *wp::address(follower_dof, m);
        for (int r = 0; r < count; ++r) out[r * dofs + a] += share * *wp::address(jacobian, i, list[r], from);
    }
""")
@typing.no_type_check
def gather_rows(
    jacobian: wp.array3d[float],
    # island
    dof: wp.array2d[wp.int32],
    row: wp.array2d[wp.int32],
    p: int,
    first: int,
    dofs: int,
    first_row: int,
    count: int,
    # map to active DOFs
    active_dof: wp.array[wp.int32],
    follower_start: wp.array[wp.int32],
    follower_dof: wp.array[wp.int32],
    follower_multiplier: wp.array[float],
    # out
    rows: wp.array2d[float],
    i: int,
    place: int,
):
    """Copy the Jacobian rows of an island, reduced to active DOFs, into line i from entry `place` on."""


@wp.func_native("""
float* __restrict__ products = wp::address(hessian, i, block);
float* __restrict__ sums = wp::address(gradient, i, first);
const float* __restrict__ right = wp::address(residuals, i, first_row);
for (int r = 0; r < count; r += r + 3 <= count ? 3 : 1) {
    const float* __restrict__ x = wp::address(jacobian, i, place + r * dofs);
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
def add_rows(
    jacobian: wp.array2d[float],
    residuals: wp.array2d[float],
    hessian: wp.array2d[float],
    gradient: wp.array2d[float],
    i: int,
    first: int,
    dofs: int,
    first_row: int,
    count: int,
    block: int,
    place: int,
):
    """Add the rows of an island to J'J and J'r, three at a time: three rows of a link depend on the same DOFs."""
