"""Coverings of shapes by few spheres of small protrusion, and their quality; coverage is exact up to rounding.

A capsule has spheres along its axis, a box on a lattice. Any other solid starts with spheres around inner points,
chosen to cover surface points; spheres are added and grow until they cover all cells around the solid.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ik_service.collision.covered_cells import MOST, SignedDistance, Spheres, cover_box, cover_cells, fewest
from ik_service.collision.shapes import IDENTITY_POSE, BoundedShape, Box, Capsule, Cylinder, Sphere
from ik_service.mechanism.transforms import Float64Array, quaternion_rotate
from objectives.errors import InputError

STANDS_OUT = 0.15  # default protrusion of spheres, as a share of the least width of a shape
STANDS_OUT_LEAST = 0.005  # least default protrusion [m], for thin shapes
THINNEST = 1e-6  # least thickness of a box or cylinder [m]: thinner shapes are covered as if they had this thickness
CANDIDATES = 1200  # candidate centres of spheres in a solid, about
SURFACE_STEPS = 49  # points along the longest edge of a box
COVER_POINTS = 1500  # points for the choice of spheres, about
STANDS_OUT_MORE = 0.5  # largest protrusion of the spheres of a box beyond the bound, as a share of the bound
GROWTH = 0.1  # growth of spheres before spheres are added, as a share of the bound
FILE_STEP = 1e-4  # numbers of a file are whole multiples of it [m]; radii are rounded up, by as much as centres moved
SMALLEST_CELL = 0.04  # half diagonal of the smallest cells of a solid, as a share of the bound


class Solid(NamedTuple):
    """A solid to cover."""

    # function from points [m, shape ..., 3] to distances, negative inside [m, shape ...]
    signed_distance: SignedDistance
    surface: Float64Array  # points of the surface [m], shape [k, 3]
    lower: Float64Array  # least coordinates [m], shape [3]
    upper: Float64Array  # largest coordinates [m], shape [3]


def cover_shape(shape: BoundedShape, stands_out: float | None = None) -> Float64Array:
    """Give spheres that cover a shape: centres in its owner's frame [m] and radii [m], shape [k, 4].

    Every point of the shape is in a sphere, up to rounding.

    Args:
        shape: The shape.
        stands_out: Largest protrusion of a sphere [m]; None for 15 % of the shape's width, at least 5 mm. The width is
            the shortest edge of a box, or the diameter of round shapes. Spheres of boxes and cylinders may protrude by
            half as much again, or further if thousands of spheres would be needed: 5 mm plates from about 0.5 m on.

    Raises:
        InputError: The bound is not positive.
    """
    bound, shape = _bound(shape, stands_out), _with_volume(shape)
    if isinstance(shape, Sphere):
        return np.array([[*shape.position, shape.radius]])
    if isinstance(shape, Capsule):
        return _in_owner(shape, _cover_capsule(shape, bound))
    if isinstance(shape, Box):
        return _in_owner(shape, cover_box(0.5 * np.array(shape.size), (1.0 + STANDS_OUT_MORE) * bound))
    return _in_owner(shape, cover_solid(shape_solid(replace(shape, pose=IDENTITY_POSE)), bound))


def shape_solid(shape: BoundedShape) -> Solid:
    """Give a shape as a solid in its owner's frame."""
    shape = _with_volume(shape)
    if isinstance(shape, Box):
        half, surface = 0.5 * np.array(shape.size), _box_surface(0.5 * np.array(shape.size))
    elif isinstance(shape, Cylinder):
        half = np.array([shape.radius, shape.radius, 0.5 * shape.length])
        surface = _cylinder_surface(half)
    else:
        length = shape.length if isinstance(shape, Capsule) else 0.0
        half = np.array([shape.radius, shape.radius, 0.5 * length + shape.radius])
        ball = _ball_surface(shape.radius)
        ball[:, 2] += 0.5 * length * np.sign(ball[:, 2])
        side = _cylinder_surface(np.array([shape.radius, shape.radius, 0.5 * length]))
        surface = np.concatenate([ball, side[np.hypot(side[:, 0], side[:, 1]) > 0.999 * shape.radius]])
    corners = np.stack(np.meshgrid(*[[-1.0, 1.0]] * 3), axis=-1).reshape(-1, 3) * half
    placed = _in_owner(shape, np.column_stack([corners, np.zeros(8)]))[:, :3]
    on_surface = _in_owner(shape, np.column_stack([surface, np.zeros(len(surface))]))[:, :3]
    return Solid(shape.signed_distance, on_surface, placed.min(axis=0), placed.max(axis=0))


def _with_volume(shape: BoundedShape) -> BoundedShape:
    """Give a box or cylinder the least thickness; a flat shape has no points inside."""
    if isinstance(shape, Box) and min(shape.size) < THINNEST:
        return replace(shape, size=tuple(max(edge, THINNEST) for edge in shape.size))
    if isinstance(shape, Cylinder) and min(shape.radius, shape.length) < THINNEST:
        return replace(shape, radius=max(shape.radius, THINNEST), length=max(shape.length, THINNEST))
    return shape


def cover_solid(solid: Solid, stands_out: float | None = None, looks_out: float = 0.0) -> Float64Array:
    """Give spheres that cover a solid, centres [m] and radii [m], shape [k, 4].

    Every point with a distance <= 0 is covered if the distance changes no faster than the point moves. Closed meshes,
    shapes and their unions meet this condition, up to rounding. Of a mesh with holes, the surface points and the
    neighbouring points inside by winding number are covered. `stands_out` is explained in ``cover_shape``; the width is
    twice the depth of the deepest point. `looks_out` is the allowed distance of points of the solid from the spheres
    [m], to reduce the number of spheres.
    """
    bound = stands_out
    if bound is None:
        depths = -solid.signed_distance(grid_inside(solid)[0])
        bound = max(STANDS_OUT_LEAST, STANDS_OUT * 2.0 * float(depths.max()))
    spheres = cover_points(solid, bound, looks_out, GROWTH * bound)
    cover_cells(spheres, solid.signed_distance, solid.lower, solid.upper, SMALLEST_CELL * bound)
    return np.column_stack([spheres.centers, spheres.radii - looks_out])


def cover_points(solid: Solid, stands_out: float, looks_out: float, growth: float) -> Spheres:
    """Choose spheres that cover the surface points of a solid and the points of a grid inside.

    Spheres protrude by `stands_out` [m] at first; their radii include `looks_out` [m], subtracted at the end.
    """
    inside, half = grid_inside(solid)
    radii = stands_out - solid.signed_distance(inside) + looks_out
    if radii.max() < np.linalg.norm(half):  # in a thin solid no sphere would cover its own cell of the grid
        radii[:] = np.linalg.norm(half)
    points = np.concatenate([solid.surface, inside])
    chosen = fewest(inside, radii, points[:: max(1, len(points) // COVER_POINTS)])
    spheres = Spheres(inside, radii, growth, chosen)
    spheres.take_in(points)
    return spheres


def _bound(shape: BoundedShape, stands_out: float | None) -> float:
    width = min(shape.size) if isinstance(shape, Box) else 2.0 * shape.radius
    bound = max(STANDS_OUT_LEAST, STANDS_OUT * width) if stands_out is None else stands_out
    if not bound > 0.0:
        raise InputError(f"stands_out must be above 0 m, got {bound:g}.")
    return bound


def _in_owner(shape: BoundedShape, spheres: Float64Array) -> Float64Array:
    pose = np.array(shape.pose)
    return np.column_stack([pose[:3] + quaternion_rotate(pose[3:], spheres[:, :3]), spheres[:, 3]])


def _cover_capsule(shape: Capsule, bound: float) -> Float64Array:
    """Give spheres along the axis, dense enough to cover the cylinder between them."""
    apart = 2.0 * np.sqrt((shape.radius + bound) ** 2 - shape.radius**2)
    count = int(min(np.ceil(shape.length / apart), MOST - 1)) + 1
    along = np.linspace(-0.5, 0.5, count) * shape.length if count > 1 else np.zeros(1)
    radius = np.hypot(shape.radius, 0.5 * shape.length / (count - 1)) if count > 1 else shape.radius
    return np.column_stack([np.zeros((count, 2)), along, np.full(count, radius)])


def grid_inside(solid: Solid) -> tuple[Float64Array, Float64Array]:
    """Give grid points inside a solid, or its centre if there are none, and half the edges of a cell."""
    size = np.maximum(solid.upper - solid.lower, 1e-6)
    step = (float(np.prod(size)) / CANDIDATES) ** (1.0 / 3.0)
    counts = 2 * np.ceil(0.5 * size / step).astype(int) - 1  # odd: a layer in the middle
    while np.prod(counts) > 2 * CANDIDATES:  # a thin solid has one layer, with the points of several by volume
        step *= 1.1
        counts = 2 * np.ceil(0.5 * size / step).astype(int) - 1
    axes = [
        lower + (np.arange(count) + 0.5) * (upper - lower) / count
        for lower, upper, count in zip(solid.lower, solid.upper, counts, strict=True)
    ]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    inside = grid[solid.signed_distance(grid) < 0.0]
    inside = inside if len(inside) else 0.5 * (solid.lower + solid.upper)[np.newaxis]
    return inside, 0.5 * size / counts


def _box_surface(half: Float64Array) -> Float64Array:
    """Give points on the faces of a box, including edges and corners, shape [k, 3]."""
    steps = [np.linspace(-reach, reach, max(5, int(SURFACE_STEPS * reach / half.max()))) for reach in half]
    faces = []
    for axis, reach in enumerate(half):
        first, second = (k for k in range(3) if k != axis)
        u, v = (grid.ravel() for grid in np.meshgrid(steps[first], steps[second]))
        for side in (-reach, reach):
            face = np.empty((len(u), 3))
            face[:, axis], face[:, first], face[:, second] = side, u, v
            faces.append(face)
    return np.concatenate(faces)


def _cylinder_surface(half: Float64Array) -> Float64Array:
    """Give points on the side and both ends of a cylinder along z, shape [k, 3]."""
    angles = np.linspace(0.0, 2.0 * np.pi, 48, endpoint=False)
    rim = half[0] * np.column_stack([np.cos(angles), np.sin(angles)])
    side = [np.column_stack([rim, np.full(len(rim), z)]) for z in np.linspace(-half[2], half[2], 33)]
    ends = [
        np.column_stack([share * rim, np.full(len(rim), z)])
        for share in np.linspace(0.0, 0.95, 12)
        for z in (-half[2], half[2])
    ]
    return np.concatenate([*side, *ends])


def _ball_surface(radius: float, count: int = 800) -> Float64Array:
    """Give points on a sphere's surface, shape [count, 3]."""
    number = np.arange(count)
    turns, heights = number * (np.pi * (1.0 + np.sqrt(5.0))), 1.0 - (2.0 * number + 1.0) / count
    across = np.sqrt(1.0 - heights**2)
    return radius * np.column_stack([across * np.cos(turns), across * np.sin(turns), heights])


def rounded(spheres: Float64Array) -> Float64Array:
    """Return spheres rounded as in files; the covered volume never shrinks."""
    centers = np.round(spheres[:, :3] / FILE_STEP) * FILE_STEP
    moved = np.linalg.norm(centers - spheres[:, :3], axis=1)
    return np.column_stack([centers, np.ceil((spheres[:, 3] + moved) / FILE_STEP) * FILE_STEP])


POINTS_OF_A_SPHERE = 400


class CoveringFigures(NamedTuple):
    """Quality of a covering of a solid by spheres."""

    coverage: float  # share of surface points inside a sphere
    protrusion: float  # largest distance of a sphere's surface from the solid [m]
    gap_95: float  # 95 % quantile of the distances from the solid to the outside of the spheres [m]


def covering_figures(solid: Solid, spheres: Float64Array) -> CoveringFigures:
    """Measure the covering of a solid by spheres, centres [m] and radii [m], shape [k, 4]."""
    centers, radii = spheres[:, :3], spheres[:, 3]
    beyond = np.linalg.norm(solid.surface[:, np.newaxis] - centers, axis=-1) - radii
    outside = _outer_points(centers, radii)
    gaps = solid.signed_distance(outside)
    return CoveringFigures(
        float((beyond.min(axis=1) <= 1e-9).mean()), float(gaps.max()), float(np.quantile(np.maximum(gaps, 0.0), 0.95))
    )


def _outer_points(centers: Float64Array, radii: Float64Array) -> Float64Array:
    """Give points on the outside of the union of spheres, uniform by area, shape [k, 3]."""
    unit, kept = _ball_surface(1.0, POINTS_OF_A_SPHERE), []
    for k, (center, radius) in enumerate(zip(centers, radii, strict=True)):
        points = center + radius * unit[:: max(1, int((radii.max() / radius) ** 2))]  # as many per area
        others = np.delete(np.arange(len(radii)), k)
        inside = (np.linalg.norm(points[:, np.newaxis] - centers[others], axis=-1) < radii[others]).any(axis=1)
        kept.append(points[~inside])
    return np.concatenate(kept)
