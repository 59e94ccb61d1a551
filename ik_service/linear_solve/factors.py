"""Factors of J'J + damping I of one island, and triangular solves.

Two versions: over device arrays for islands of any size (C++ loops over contiguous memory, vectorised by the compiler),
and in registers with unrolled loops for few DOFs. DOFs at a bound are left out. The diagonal of a factor holds inverse
pivots. Pivots have a floor, because rounding can make a pivot too small. Generated iterations have a third version, as
text: `compiler.code.elimination`.
"""

import functools
import typing
from typing import Any

import warp as wp

from ik_service.linear_solve.equations import Equations


@wp.func_native("""
const float* lower = wp::address(hessian, i, block);
const int* held = wp::address(at_bound, i, first);
const float* right = wp::address(gradient, i, first);
float* factors = wp::address(factor, t, block);
float* solved = wp::address(step, t, first);
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
    hessian: wp.array2d[float],
    gradient: wp.array2d[float],
    at_bound: wp.array2d[wp.int32],
    factor: wp.array2d[float],
    step: wp.array2d[float],
    i: int,
    t: int,
    first: int,
    dofs: int,
    block: int,
    damping: float,
    least: float,
):
    """Run `eliminate` from the last DOF to the first: no fill-in between limbs, zeros skipped."""


@wp.func
@typing.no_type_check
def eliminate(equations: Equations, i: int, t: int, first: int, dofs: int, block: int, damping: float, floor: float):
    """Factor an island's J'J + damping I = L' D L, solve L' y = -J'r, leave D^-1 y in line t; return y' D^-1 y.

    The result, g' (J'J + damping I)^-1 g, is the decrease of |r|^2 by the step if the rows are linear.
    """
    _factor_and_solve(
        equations.hessian,
        equations.gradient,
        equations.at_bound,
        equations.factor,
        equations.step,
        i,
        t,
        first,
        dofs,
        block,
        damping,
        floor,
    )
    gain = float(0.0)
    for a in range(dofs):
        value = equations.step[t, first + a]
        gain += value * value / equations.factor[t, block + a * dofs + a]
    return gain


@wp.func_native("""
const float* factors = wp::address(factor, t, block);
float* solved = wp::address(step, t, first);
for (int a = 0; a < dofs; ++a) {
    float value = solved[a];
    for (int b = 0; b < a; ++b) value -= factors[a * dofs + b] * solved[b];
    solved[a] = value;
}
for (int a = 0; a < dofs; ++a) solved[a] *= scale;
""")
@typing.no_type_check
def finish_step(
    factor: wp.array2d[float], step: wp.array2d[float], t: int, first: int, dofs: int, block: int, scale: float
):
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
