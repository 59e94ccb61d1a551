"""How well spheres cover a solid."""

from typing import NamedTuple

import numpy as np

from ik_service.collision.covering import Solid
from ik_service.mechanism.transforms import Float64Array

POINTS_OF_A_SPHERE = 400


class CoveringFigures(NamedTuple):
    """How well spheres cover a solid.

    Attributes:
        coverage: Share of the points of its surface that are in a sphere.
        protrusion: By how much a sphere stands out at most [m].
        gap_95: What 95 % of the points on the outside of the spheres are nearer to the solid than [m].
    """

    coverage: float
    protrusion: float
    gap_95: float


def covering_figures(solid: Solid, spheres: Float64Array) -> CoveringFigures:
    """Measure how well spheres, centres [m] and radii [m], shape [k, 4], cover a solid."""
    centers, radii = spheres[:, :3], spheres[:, 3]
    beyond = np.linalg.norm(solid.surface[:, np.newaxis] - centers, axis=-1) - radii
    outside = _outer_points(centers, radii)
    gaps = solid.signed_distance(outside)
    return CoveringFigures(
        float((beyond.min(axis=1) <= 1e-9).mean()), float(gaps.max()), float(np.quantile(np.maximum(gaps, 0.0), 0.95))
    )


def _outer_points(centers: Float64Array, radii: Float64Array) -> Float64Array:
    """Give points of the spheres' surfaces that are in no other sphere, by area, shape [k, 3]."""
    number = np.arange(POINTS_OF_A_SPHERE)
    heights, turns = 1.0 - (2.0 * number + 1.0) / POINTS_OF_A_SPHERE, number * (np.pi * (1.0 + np.sqrt(5.0)))
    across = np.sqrt(1.0 - heights**2)
    unit = np.column_stack([across * np.cos(turns), across * np.sin(turns), heights])
    kept = []
    for k, (center, radius) in enumerate(zip(centers, radii, strict=True)):
        points = center + radius * unit[:: max(1, int((radii.max() / radius) ** 2))]  # as many per area
        others = np.delete(np.arange(len(radii)), k)
        inside = (np.linalg.norm(points[:, np.newaxis] - centers[others], axis=-1) < radii[others]).any(axis=1)
        kept.append(points[~inside])
    return np.concatenate(kept)
