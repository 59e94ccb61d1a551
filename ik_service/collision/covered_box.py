"""Spheres that cover a box: one around each cell of a lattice, larger ones where they cannot stand out."""

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array

MOST = 2048
"""Most spheres of a box; where a bound would ask for more, they stand out by more."""
BOUND_STEP = 1.05
"""By what factor the bound is then raised, step by step."""


def cover_box(half: Float64Array, bound: float) -> Float64Array:
    """Give spheres that cover a box around the origin, centres [m] and radii [m], shape [k, 4].

    Args:
        half: Half of its edges [m], shape [3].
        bound: By how much spheres stand out of it [m].
    """
    counts = _cells(half, bound)
    while counts is None:
        bound *= BOUND_STEP
        counts = _cells(half, bound)
    cell = half / counts
    numbers = np.stack(np.meshgrid(*map(np.arange, counts), indexing="ij"), axis=-1).reshape(-1, 3)
    is_inner = ((numbers > 0) & (numbers < counts - 1)).all(axis=1)
    centers = (2.0 * numbers[~is_inner] + 1.0) * cell - half
    outer = np.column_stack([centers, np.full(len(centers), np.linalg.norm(cell))])
    if not is_inner.any():
        return outer
    return np.concatenate([outer, cover_box(half - 2.0 * cell, bound + 2.0 * float(cell.min()))])


def _cells(half: Float64Array, bound: float) -> NDArray[np.intp] | None:
    """Give along each axis the number of cells, so that few of them touch a face; None where there are too many.

    A cell's sphere goes through its corners, so it stands out of a face by its radius less half of an edge. Edges of
    cells along the two shorter sides are tried, and the third is as long as the bound allows.
    """
    order = np.argsort(half, kind="stable")
    tried = np.arange(1, 65)
    a, b = (grid.ravel() for grid in np.meshgrid(tried, tried, indexing="ij"))
    first, second = half[order[0]] / a, half[order[1]] / b
    shorter = np.minimum(first, second)
    square = (bound + shorter) ** 2 - first**2 - second**2
    third = np.sqrt(np.maximum(square, shorter**2)).clip(1e-9 * half.max())
    c = np.ceil(half[order[2]] / third * (1.0 - 1e-12)).clip(1.0, MOST).astype(np.intp)
    cell = np.stack([first, second, half[order[2]] / c])
    out = np.linalg.norm(cell, axis=0) - cell.min(axis=0)
    outer = a * b * c - np.maximum(a - 2, 0) * np.maximum(b - 2, 0) * np.maximum(c - 2, 0)
    allowed = np.flatnonzero((out <= bound * (1.0 + 1e-12)) & (outer <= MOST))
    if not len(allowed):
        return None
    best = allowed[np.lexsort((out[allowed], outer[allowed]))[0]]
    counts = np.empty(3, dtype=np.intp)
    counts[order] = a[best], b[best], c[best]
    return counts
