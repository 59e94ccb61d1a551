"""Solids of links: distances from the union of their shapes and meshes, and surface points.

Warp computes the distances from meshes, signed by the winding number: a mesh may have holes, and overlapping parts
count as one solid.
"""

import typing
from collections.abc import Sequence

import numpy as np
import warp as wp

from ik_service.collision.covered_cells import SignedDistance
from ik_service.collision.covering import Solid, shape_solid
from ik_service.collision.shapes import BoundedShape
from ik_service.mechanism.transforms import Float64Array
from ik_service.robots.readers.mesh_file import Mesh
from ik_service.warp_start import start_warp

SURFACE_POINTS = 20_000  # surface points per mesh, about
FAR_RADII = 2.0  # of the winding number: mesh parts further away than this many of their radii are lumped together


def link_solid(shapes: Sequence[BoundedShape], meshes: Sequence[Mesh]) -> Solid:
    """Give the union of the shapes and meshes of a link, at least one, in the link's frame."""
    solids = [*map(shape_solid, shapes), *map(mesh_solid, meshes)]

    def signed_distance(points: Float64Array) -> Float64Array:
        return np.asarray(np.min([solid.signed_distance(points) for solid in solids], axis=0))

    outer = [_outside_of(solid.surface, [other for other in solids if other is not solid]) for solid in solids]
    lower, upper = ([getattr(solid, name) for solid in solids] for name in ("lower", "upper"))
    return Solid(signed_distance, np.concatenate(outer), np.min(lower, axis=0), np.max(upper, axis=0))


def mesh_solid(mesh: Mesh) -> Solid:
    """Give a mesh as a solid."""
    surface = np.concatenate([mesh.vertices[np.unique(mesh.faces)], _surface_points(mesh)])
    return Solid(_signed_distance(mesh), surface, surface.min(axis=0), surface.max(axis=0))


def _outside_of(points: Float64Array, solids: Sequence[Solid]) -> Float64Array:
    for solid in solids:
        points = points[solid.signed_distance(points) >= 0.0]
    return points


def _surface_points(mesh: Mesh) -> Float64Array:
    """Give surface points, uniform over the area of the triangles; deterministic."""
    corners = mesh.vertices[mesh.faces]
    areas = 0.5 * np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    rng = np.random.default_rng(0)
    chosen = np.searchsorted(np.cumsum(areas), (np.arange(SURFACE_POINTS) + 0.5) / SURFACE_POINTS * areas.sum())
    a, b = rng.random((2, SURFACE_POINTS, 1))
    beyond = a + b > 1.0
    a, b = np.where(beyond, 1.0 - a, a), np.where(beyond, 1.0 - b, b)
    first, second, third = np.moveaxis(corners[np.minimum(chosen, len(corners) - 1)], 1, 0)
    return np.asarray(first + a * (second - first) + b * (third - first))


def _signed_distance(mesh: Mesh) -> SignedDistance:
    middle = 0.5 * (mesh.vertices.min(axis=0) + mesh.vertices.max(axis=0))
    start_warp()
    with wp.ScopedDevice("cpu"):
        own = wp.Mesh(
            wp.array((mesh.vertices - middle).astype(np.float32), dtype=wp.vec3),
            wp.array(mesh.faces.reshape(-1), dtype=wp.int32),
            support_winding_number=True,
        )

    def signed_distance(points: Float64Array) -> Float64Array:
        local = (points.reshape(-1, 3) - middle).astype(np.float32)
        reach = 2.0 * float(np.abs(local).max(initial=0.0) + np.ptp(mesh.vertices, axis=0).max())
        with wp.ScopedDevice("cpu"):
            found = wp.empty(len(local), dtype=wp.float32)
            wp.launch(_distances, len(local), [own.id, wp.array(local, dtype=wp.vec3), reach, FAR_RADII], [found])
        return np.asarray(found.numpy().astype(np.float64).reshape(points.shape[:-1]))

    return signed_distance


@wp.kernel(enable_backward=False)
@typing.no_type_check
def _distances(
    mesh: wp.uint64, points: wp.array[wp.vec3], reach: float, accuracy: float, distance_out: wp.array[wp.float32]
):
    k = wp.tid()
    query = wp.mesh_query_point_sign_winding_number(mesh, points[k], reach, accuracy)
    nearest = wp.mesh_eval_position(mesh, query.face, query.u, query.v)
    distance_out[k] = query.sign * wp.length(points[k] - nearest)
