"""Spheres that cover shapes: every point of a shape is in one, and none stands out by much."""

import numpy as np
import pytest

from ik_service.robots.collision.covering import cover_shape, shape_solid
from ik_service.robots.collision.shapes import Box, Capsule, Cylinder, Sphere
from objectives import InputError

POSE = (0.3, -0.2, 0.5, 0.0, 0.6, 0.0, 0.8)
SHAPES = [
    Sphere(0.1, (0.1, 0.2, 0.3)),
    Capsule(0.05, 0.4, POSE),
    Capsule(0.05, 0.0, POSE),
    Cylinder(0.06, 0.3, POSE),
    Cylinder(0.2, 0.03, POSE),
    Box((0.1, 0.1, 0.1), POSE),
    Box((0.4, 0.2, 0.02), POSE),
]


@pytest.mark.parametrize("shape", SHAPES, ids=repr)
def test_spheres_cover_a_shape(shape):
    spheres = cover_shape(shape)
    solid = shape_solid(shape)
    points = np.random.default_rng(1).uniform(solid.lower, solid.upper, (20_000, 3))
    inside = points[shape.signed_distance(points) <= 0.0]
    assert len(inside) > 1000
    beyond = (np.linalg.norm(inside[:, None] - spheres[:, :3], axis=-1) - spheres[:, 3]).min(axis=1)
    assert beyond.max() <= 5e-3


@pytest.mark.parametrize("shape", SHAPES[1:], ids=repr)
def test_spheres_stand_out_by_little(shape):
    bound = 0.012
    spheres = cover_shape(shape, bound)
    assert (shape.signed_distance(spheres[:, :3]) + spheres[:, 3]).max() <= 2.5 * bound
    assert len(spheres) <= len(cover_shape(shape, 0.5 * bound))


def test_a_sphere_covers_itself():
    np.testing.assert_array_equal(cover_shape(SHAPES[0]), [[0.1, 0.2, 0.3, 0.1]])


def test_a_bound_of_nothing_is_refused():
    with pytest.raises(InputError, match="stands_out must be above 0 m"):
        cover_shape(SHAPES[3], 0.0)


FLAT = [Box((0.06, 0.03, 0.0)), Box((0.06, 0.03, 0.0), POSE), Cylinder(0.1, 0.0, POSE), Cylinder(0.0, 0.2, POSE)]


@pytest.mark.parametrize("shape", FLAT, ids=repr)
def test_what_is_flat_is_covered(shape):
    spheres, surface = cover_shape(shape, 0.01), shape_solid(shape).surface
    beyond = (np.linalg.norm(surface[:, None] - spheres[:, :3], axis=-1) - spheres[:, 3]).min(axis=1)
    assert len(surface) > 1000
    assert beyond.max() <= 1e-9
