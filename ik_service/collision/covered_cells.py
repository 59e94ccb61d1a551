"""Proof that spheres cover a solid: cells around the whole solid, each in one sphere or outside the solid.

Undecided cells are cut, level by level. The centre of a cell outside all spheres is an uncovered point of the solid:
spheres are added or grow to cover such points. For the smallest cells, spheres grow until each cell is covered.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array

FIRST_CELLS, MOST_CELLS = 4000, 100_000  # first and largest number of cells, about; beyond, spheres grow instead
SPHERES_ASKED = 8  # spheres tested per cell: the spheres nearest to the parent cell
MESH_ROUNDING = 1e-6  # error of a solid's distances, relative to its largest extent: meshes compute in float32
DISTANCES_PER_BLOCK = 1 << 22  # distances computed at once
SignedDistance = Callable[[Float64Array], Float64Array]


class Spheres:
    """Spheres at chosen `centers` [m], [k, 3]; `radii` [m], [k], grow by `growth` [m] before spheres are added."""

    def __init__(self, centers: Float64Array, radii: Float64Array, growth: float, chosen: list[int]) -> None:
        self._centers, self._radii, self._growth = centers, radii, growth
        self.chosen = np.array(chosen, dtype=np.intp)
        self.radii = radii[self.chosen]

    @property
    def centers(self) -> Float64Array:
        """Centres of the spheres [m], shape [spheres, 3]."""
        return self._centers[self.chosen]

    def take_in(self, points: Float64Array) -> bool:
        """Cover points [m], shape [n, 3]; return whether spheres were added."""
        gaps, _ = nearest_gaps(points, self.centers, self.radii, 1)
        points = points[gaps[:, 0] > 0.0]
        if not len(points):
            return False
        limit = self._radii[self.chosen] + self._growth
        beyond, _ = nearest_gaps(points, self.centers, limit, 1)
        added = fewest(self._centers, self._radii, points[beyond[:, 0] > 0.0])
        self.chosen = np.append(self.chosen, np.array(added, dtype=np.intp))
        self.radii = np.append(self.radii, self._radii[np.array(added, dtype=np.intp)])
        gaps, nearest = nearest_gaps(points, self.centers, self.radii, 1)
        self.grow(nearest[:, 0], gaps[:, 0])
        return bool(added)

    def grow(self, numbers: NDArray[np.intp], by: Float64Array) -> None:
        """Grow each sphere by the largest of its given lengths [m]; negative lengths change nothing."""
        grown = self.radii.copy()
        np.maximum.at(grown, numbers, self.radii[numbers] + by)
        self.radii = grown


def cover_cells(
    spheres: Spheres, signed_distance: SignedDistance, lower: Float64Array, upper: Float64Array, smallest: float
) -> None:
    """Add and grow spheres until every point of a solid is covered.

    `signed_distance` changes no faster than a point moves. `lower` and `upper` are the corners of the solid's bounding
    box [m], [3], `smallest` is half the diagonal of the smallest cells [m]: about the final growth of spheres.
    """
    cells, half = _first_cells(lower, upper)
    rounding = MESH_ROUNDING * float((upper - lower).max())
    nearest: NDArray[np.intp] | None = None
    while True:
        distances = signed_distance(cells)
        kept = distances <= np.linalg.norm(half) + rounding
        cells, inside = cells[kept], distances[kept] <= 0.0
        nearest = _nearest(cells, spheres) if nearest is None else nearest[kept]
        if spheres.take_in(cells[inside & (_beyond(cells, np.zeros(3), spheres, nearest).min(axis=1) > 0.0)]):
            nearest = _nearest(cells, spheres)
        left = _beyond(cells, half, spheres, nearest).min(axis=1) > 0.0
        cells, nearest = cells[left], nearest[left]
        axes = half > 0.6 * half.max()
        if np.linalg.norm(half) <= smallest or len(cells) << int(axes.sum()) > MOST_CELLS:
            break
        cells, nearest, half = _cut(cells, nearest, half, axes)
    _grow_around(spheres, _beyond(cells, half, spheres, nearest), nearest, 1e-3 * rounding)


def fewest(centers: Float64Array, radii: Float64Array, points: Float64Array) -> list[int]:
    """Choose spheres that cover all coverable points, greedily: the sphere with most uncovered points comes next."""
    gaps2 = (centers**2).sum(axis=1)[:, np.newaxis] + (points**2).sum(axis=1) - 2.0 * centers @ points.T
    covered = np.ascontiguousarray((gaps2 <= (radii * np.abs(radii))[:, np.newaxis]).T)  # [points, spheres]
    covered = covered[covered.any(axis=1)]
    counts = covered.sum(axis=0)
    chosen: list[int] = []
    while len(covered):
        best = int(np.argmax(counts))
        chosen.append(best)
        taken = covered[:, best]
        counts -= covered[taken].sum(axis=0)
        covered = covered[~taken]
    return chosen


def nearest_gaps(
    points: Float64Array, centers: Float64Array, radii: Float64Array, count: int
) -> tuple[Float64Array, NDArray[np.intp]]:
    """Give the distances of points from the nearest spheres [m] and these spheres, both of shape [n, count]."""
    count = min(count, len(centers))
    gaps, numbers = np.empty((len(points), count)), np.empty((len(points), count), dtype=np.intp)
    step = max(1, DISTANCES_PER_BLOCK // len(centers))
    for start in range(0, len(points), step):
        block = slice(start, start + step)
        away2 = sum((points[block, axis, np.newaxis] - centers[:, axis]) ** 2 for axis in range(3))
        own = np.sqrt(away2) - radii
        numbers[block] = np.argpartition(own, count - 1, axis=1)[:, :count] if count > 1 else own.argmin(1)[:, None]
        gaps[block] = np.take_along_axis(own, numbers[block], axis=1)
    return gaps, numbers


def _first_cells(lower: Float64Array, upper: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Give the centres of cells around a solid, shape [n, 3], and half their edges, shape [3]."""
    size = upper - lower
    step = float(np.prod(np.maximum(size, 1e-3 * size.max())) / FIRST_CELLS) ** (1.0 / 3.0)
    counts = np.ceil(size / step).astype(int).clip(1)
    half = 0.5 * size / counts
    axes = [low + (2.0 * np.arange(count) + 1.0) * own for low, count, own in zip(lower, counts, half, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3), half


def _nearest(cells: Float64Array, spheres: Spheres) -> NDArray[np.intp]:
    return nearest_gaps(cells, spheres.centers, spheres.radii, SPHERES_ASKED)[1]


def _beyond(cells: Float64Array, half: Float64Array, spheres: Spheres, nearest: NDArray[np.intp]) -> Float64Array:
    """Give the distance of each cell's farthest point beyond each tested sphere [m], [n, SPHERES_ASKED]."""
    farthest = np.abs(cells[:, np.newaxis] - spheres.centers[nearest]) + half
    return np.asarray(np.linalg.norm(farthest, axis=-1) - spheres.radii[nearest])


def _grow_around(spheres: Spheres, beyond: Float64Array, nearest: NDArray[np.intp], spare: float) -> None:
    """Grow spheres until all cells are covered, the farthest cell first: its sphere covers most of the others."""
    least = beyond.min(axis=1)
    while len(least) and least.max() > 0.0:
        worst = int(least.argmax())
        number, by = nearest[worst, beyond[worst].argmin()], least[worst] + spare
        spheres.grow(np.array([number]), np.array([by]))
        beyond[nearest == number] -= by
        least = beyond.min(axis=1)
        beyond, nearest, least = beyond[least > 0.0], nearest[least > 0.0], least[least > 0.0]


def _cut(
    cells: Float64Array, nearest: NDArray[np.intp], half: Float64Array, axes: NDArray[np.bool_]
) -> tuple[Float64Array, NDArray[np.intp], Float64Array]:
    half = np.where(axes, 0.5 * half, half)
    sides = np.stack(np.meshgrid(*[[-1.0, 1.0] if own else [0.0] for own in axes]), axis=-1).reshape(-1, 3)
    return (cells[:, np.newaxis] + sides * half).reshape(-1, 3), np.repeat(nearest, len(sides), axis=0), half


MOST = 2048  # most spheres of a box; with a bound that needs more, spheres protrude further
BOUND_STEP = 1.05  # factor of the bound per step in this case


def cover_box(half: Float64Array, bound: float) -> Float64Array:
    """Give spheres [k, 4] [m] that cover a box at the origin, half edges `half`, [3], and protrude by `bound`."""
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
    """Give the number of cells along each axis with the fewest cells at a face; None if there are too many.

    A cell's sphere goes through its corners and protrudes from a face by its radius less half an edge. The two shorter
    sides are tried with 1 to 64 cells; the third edge of the cells is as long as the bound allows.
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
