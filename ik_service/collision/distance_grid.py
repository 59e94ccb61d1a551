"""Obstacles of any form: signed distance at the nodes of a grid."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ik_service.collision.shapes import IDENTITY_POSE, Numbers, local_points
from ik_service.mechanism.transforms import MAX_POSITION, Float64Array, checked_transform, transform_multiply
from objectives.errors import InputError

MAX_NODES = 1 << 24  # most nodes of a grid: 64 MiB of distances
LEAST_SPACING = 1e-6  # least distance between nodes [m]


@dataclass(frozen=True, eq=False)
class DistanceGrid:
    """Signed distance at the nodes of a grid, trilinear between nodes, read-only.

    Outside the grid, obstacles are assumed to lie inside the grid. With ``b`` the distance of a point from the grid and
    ``d`` the value at the grid's nearest point, the distance is ``sqrt(b^2 + d^2)``, or ``b + d`` for negative ``d``,
    as if the obstacle continued.

    Attributes:
        values: Distance at the nodes [m], negative inside an obstacle, float32, shape [x, y, z] with at least 2 nodes
            along each axis.
        spacing: Distance between neighbouring nodes [m].
        pose: Frame of node [0, 0, 0], axes along the node indices, in the owner's frame: position [m] and quaternion
            xyzw.
    """

    values: NDArray[np.float32]
    spacing: float
    pose: Numbers = IDENTITY_POSE

    def __init__(self, values: ArrayLike, spacing: float, pose: ArrayLike = IDENTITY_POSE) -> None:
        """Copy the arguments; InputError for distances of another shape, too many or too large, or a small spacing."""
        object.__setattr__(self, "values", _checked_values(values))
        is_number = isinstance(spacing, Real) and not isinstance(spacing, bool)
        if not is_number or not LEAST_SPACING <= spacing <= MAX_POSITION / max(self.values.shape):
            raise InputError(
                f"The spacing of a grid must be at least {LEAST_SPACING:g} m, and all of it {MAX_POSITION:g} m at "
                f"most, got {spacing!r}."
            )
        object.__setattr__(self, "spacing", float(spacing))
        object.__setattr__(self, "pose", tuple(checked_transform(pose, "The pose of a grid").tolist()))

    def __reduce__(self) -> tuple[type["DistanceGrid"], tuple[object, ...]]:
        return type(self), (self.values, self.spacing, self.pose)

    def __repr__(self) -> str:
        nodes = " x ".join(map(str, self.values.shape))
        return f"<DistanceGrid: {nodes} nodes, {1e3 * self.spacing:g} mm apart>"

    @classmethod
    def sampled(
        cls,
        signed_distance: Callable[[Float64Array], ArrayLike],
        lower: ArrayLike,
        upper: ArrayLike,
        spacing: float,
    ) -> "DistanceGrid":
        """Sample a distance function at the nodes of a grid that covers a box, axes parallel to the owner's.

        Args:
            signed_distance: Function from points [m], [n, 3], to distances [m], [n].
            lower: Corner of the box [m], shape [3]: node [0, 0, 0].
            upper: The opposite corner [m], shape [3].
            spacing: Distance between neighbouring nodes [m].

        Raises:
            InputError: The box has no width, or there would be too many nodes.
        """
        if not callable(signed_distance):
            raise InputError(f"A grid is sampled from a function of points, got {type(signed_distance).__name__}.")
        try:
            corner = np.asarray(lower, np.float64)
            width = np.asarray(upper, np.float64) - corner
        except (TypeError, ValueError, OverflowError):
            corner = width = np.empty(0)
        is_box = corner.shape == width.shape == (3,) and (width >= 0.0).all()
        if not is_box or not isinstance(spacing, Real) or not 0.0 < spacing <= MAX_POSITION:
            raise InputError(f"A grid needs two corners and a spacing, got {lower!r}, {upper!r} and {spacing!r}.")
        counts = np.ceil(np.minimum(width / spacing, MAX_NODES) - 1e-9).astype(int) + 1
        counts = np.maximum(counts, 2)
        if counts.prod(dtype=float) > MAX_NODES:
            raise InputError(f"{counts.prod(dtype=float):g} nodes are too many for a grid. Allowed: {MAX_NODES}.")
        plane = np.indices((1, *counts[1:]), dtype=np.float64).reshape(3, -1).T
        of_planes = [signed_distance(corner + spacing * np.add(plane, [k, 0, 0])) for k in range(counts[0])]
        values = np.array(of_planes, dtype=np.float32).reshape(tuple(counts))
        return cls(values, spacing, (*corner, *IDENTITY_POSE[3:]))

    def placed(self, pose: ArrayLike) -> "DistanceGrid":
        """Return the same obstacles with their owner's frame at a pose: position [m] and quaternion xyzw."""
        owner = checked_transform(pose, "The pose of the frame of a grid")
        return DistanceGrid(self.values, self.spacing, transform_multiply(owner, np.array(self.pose)))

    @cached_property
    def steepness(self) -> float:
        """Largest change of the distance per length of a path in free space: 1 or more.

        About 1 for true distances. At least 1.4 if obstacles reach the outermost nodes: outside, the distance changes
        along and across the path.
        """
        inside, outside = 0.0, 0.0
        for plane in range(self.values.shape[0] - 1):
            slope, is_free = _slopes(self.values[plane : plane + 2])
            inside, outside = max(inside, float(slope.max())), max(outside, float((slope * is_free).max()))
        return float(np.hypot(1.0, inside / self.spacing)) if self.depth else max(1.0, outside / self.spacing)

    @cached_property
    def depth(self) -> float:
        """Depth of obstacles at the outermost nodes [m]: the bound of their continuation outside."""
        faces = [np.take(self.values, side, axis=axis).min() for axis in range(3) for side in (0, -1)]
        return max(0.0, -float(min(faces)))

    def signed_distance(self, points: Float64Array) -> Float64Array:
        """Give the distance of points in the owner's frame from obstacles [m], shape [...]."""
        at = local_points(self.pose, points) / self.spacing
        last = np.array(self.values.shape) - 1
        inside = np.clip(at, 0.0, last)
        node = np.minimum(inside.astype(np.int64), last - 1)
        share = inside - node
        distance = np.zeros(at.shape[:-1])
        for corner in np.ndindex(2, 2, 2):
            weight = np.where(np.array(corner) == 1, share, 1.0 - share).prod(axis=-1)
            distance += weight * self.values[tuple(np.moveaxis(node + corner, -1, 0))]
        beyond = self.spacing * np.linalg.norm(at - inside, axis=-1)
        return np.asarray(np.where(distance < 0.0, beyond + distance, np.hypot(beyond, distance)))


def _checked_values(values: ArrayLike) -> NDArray[np.float32]:
    try:
        found = np.array(values, dtype=np.float32)
    except (TypeError, ValueError, OverflowError):
        raise InputError("The distances of a grid must be numbers of the shape [x, y, z].") from None
    if found.ndim != 3 or min(found.shape) < 2 or found.size > MAX_NODES:
        raise InputError(
            f"The distances of a grid must have the shape [x, y, z], at least 2 along each axis and {MAX_NODES} in "
            f"all, got {list(found.shape)}."
        )
    if not (np.abs(found) <= MAX_POSITION).all():
        raise InputError(f"The distances of a grid must be finite and at most {MAX_POSITION:g} m.")
    found.setflags(write=False)
    return found


def _slopes(values: NDArray[np.float32]) -> tuple[Float64Array, NDArray[np.bool_]]:
    """Give the steepest slope (at a corner) in each cell between two planes of nodes, and the mask of free cells."""
    along = [np.diff(values, axis=axis).astype(np.float64) for axis in range(3)]
    steepest = np.zeros(np.subtract(values.shape, 1))
    for corner in np.ndindex(2, 2, 2):
        edges = []
        for axis, own in enumerate(along):
            sides = [
                slice(None) if k == axis else slice(side, own.shape[k] - 1 + side) for k, side in enumerate(corner)
            ]
            edges.append(own[tuple(sides)])
        steepest = np.maximum(steepest, np.linalg.norm(edges, axis=0))
    corners = np.lib.stride_tricks.sliding_window_view(values, (2, 2, 2))
    return steepest, np.asarray(corners.max(axis=(3, 4, 5)) > 0.0)
