"""Cholesky factors of J'J + damping I of one island, and the first of the two triangular solves with them.

Twice: over device arrays, for islands of any size, and in registers, with loops unrolled, for few DOFs. DOFs at their
bounds take no part. The diagonal of a factor holds inverse pivots. A pivot below the floor is one that rounding has
made too small. The third factorisation, that of generated iterations, is text: `compiler.code.steps.elimination`.
"""

import functools
import typing
from typing import Any

import warp as wp

from ik_service.linear_solve.equations import Equations


@wp.func
@typing.no_type_check
def eliminate(equations: Equations, i: int, t: int, first: int, dofs: int, block: int, damping: float, floor: float):
    """Factor an island's J'J + damping I = L L' and solve L y = -J'r in line t, in place; return |y|^2.

    That is what the step lowers |r|^2 by if rows are straight: g' (J'J + damping I)^-1 g.
    """
    gain = float(0.0)
    for a in range(dofs):
        if equations.at_bound[i, first + a] != 0:
            continue
        row = block + a * dofs
        pivot = equations.hessian[i, row + a] + damping
        value = -equations.gradient[i, first + a]
        for b in range(a):
            if equations.at_bound[i, first + b] == 0:
                above = block + b * dofs
                entry = equations.hessian[i, row + b]
                for c in range(b):
                    if equations.at_bound[i, first + c] == 0:
                        entry -= equations.factor[t, row + c] * equations.factor[t, above + c]
                entry *= equations.factor[t, above + b]
                equations.factor[t, row + b] = entry
                pivot -= entry * entry
                value -= entry * equations.step[t, first + b]
        inverse = 1.0 / wp.sqrt(wp.max(pivot, floor))
        equations.factor[t, row + a] = inverse
        equations.step[t, first + a] = value * inverse
        gain += value * inverse * value * inverse
    return gain


@functools.cache
def elimination_in_registers(size: int) -> Any:
    """Return the function that does the same for `size` DOFs.

    It takes the lower triangle of J'J, the diagonal of J'J + damping I, the right-hand side and the floor of a pivot,
    and returns the factor below its diagonal, its inverse pivots and the solution. The row of a DOF that takes no part
    is that of a unit matrix.
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
