"""Distances of points from shapes, against coal's distances of small balls, and what shapes refuse."""

import coal
import numpy as np
import pytest

from ik_service.collision.covering import shape_solid
from ik_service.collision.shapes import Box, Capsule, Cylinder, HalfSpace, Sphere
from ik_service.mechanism.transforms import quaternion_rotate
from objectives import InputError

TURNED = (0.3, -0.2, 0.5, *np.array([0.1, -0.4, 0.3, 0.8]) / np.linalg.norm([0.1, -0.4, 0.3, 0.8]))
BALL = 1e-3  # radius of coal's witness [m]


def coal_transform(pose):
    rotation = np.stack([quaternion_rotate(np.array(pose[3:]), axis) for axis in np.eye(3)], axis=1)
    return coal.Transform3s(rotation, np.array(pose[:3]))


@pytest.mark.parametrize(
    ("shape", "witness"),
    [
        (Sphere(0.2, (0.3, -0.2, 0.5)), coal.Sphere(0.2)),
        (Capsule(0.1, 0.4, TURNED), coal.Capsule(0.1, 0.4)),
        (Cylinder(0.15, 0.3, TURNED), coal.Cylinder(0.15, 0.3)),
        (Box((0.2, 0.5, 0.3), TURNED), coal.Box(0.2, 0.5, 0.3)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_distances_are_those_of_coal(shape, witness):
    points = np.random.default_rng(0).uniform(-0.6, 0.9, (400, 3))
    distances = shape.signed_distance(points)
    request, ball = coal.DistanceRequest(), coal.Sphere(BALL)
    request.enable_signed_distance = True
    where = coal_transform(shape.pose)
    expected = []
    for point in points:
        result = coal.DistanceResult()
        coal.distance(witness, where, ball, coal.Transform3s(np.eye(3), point), request, result)
        expected.append(result.min_distance + BALL)
    outside = np.array(expected) > BALL
    np.testing.assert_allclose(distances[outside], np.array(expected)[outside], atol=2e-5)
    assert (distances[~outside] <= 2.0 * BALL).all()
    assert 10 < outside.sum() < len(points)


@pytest.mark.parametrize(
    "shape", [Capsule(0.1, 0.4, TURNED), Cylinder(0.15, 0.3, TURNED), Box((0.2, 0.5, 0.3), TURNED)]
)
def test_inside_the_distance_is_that_of_the_nearest_point_of_the_surface(shape):
    rng = np.random.default_rng(0)
    solid = shape_solid(shape)
    points = rng.uniform(solid.lower, solid.upper, (200, 3))
    inside = points[shape.signed_distance(points) < 0.0]
    nearest = np.linalg.norm(inside[:, None] - solid.surface, axis=-1).min(axis=1)
    assert (-shape.signed_distance(inside) <= nearest + 1e-12).all()
    np.testing.assert_allclose(-shape.signed_distance(inside), nearest, atol=0.01)  # of points that lie apart


def test_a_half_space_is_all_below_its_plane_with_the_same_bytes_alone():
    shape = HalfSpace((0.0, 0.6, 0.8), 0.5)
    np.testing.assert_allclose(shape.signed_distance(np.array([[9.0, 0.6, 0.8], [1.0, 0.0, 0.0]])), [0.5, -0.5])
    plane, points = HalfSpace((0.36, 0.48, 0.8), 0.4), np.random.default_rng(0).normal(size=(300, 3))
    alone = [plane.signed_distance(points[k : k + 1]) for k in range(300)]
    assert np.concatenate(alone).tobytes() == plane.signed_distance(points).tobytes()
    for shape in (Sphere(1.0), Capsule(1.0, 1.0), Cylinder(1.0, 1.0), Box((1.0, 1.0, 1.0)), HalfSpace((0.0, 0.0, 1.0))):
        assert shape.signed_distance(np.zeros((2, 5, 3))).shape == (2, 5)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Sphere(-0.1), "The radius of a sphere must not be negative"),
        (lambda: Sphere(np.nan), "The radius of a sphere must not exceed"),
        (lambda: Sphere("wide"), "The radius of a sphere must be numbers"),
        (lambda: Sphere(10**400), "The radius of a sphere must be numbers"),
        (lambda: Box((1.0, 1.0, 1.0), [10**400] * 7), "The pose of a box must be 7 numbers"),
        (lambda: Sphere(0.1, (0.0, 1.0)), "The position of a sphere must be 3 numbers, got 2"),
        (lambda: Capsule(0.1, -1.0), "The length of a capsule must not be negative"),
        (lambda: Cylinder(0.1, 1.0, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0)), "its quaternion .* has length 2"),
        (lambda: Box((0.1, -0.1, 0.1)), "Edges of a box must not be negative"),
        (lambda: Box(0.1), "The size of a box must be 3 numbers"),
        (lambda: HalfSpace((0.0, 0.0, 2.0)), "The normal of a half-space must have length 1"),
    ],
)
def test_what_makes_no_shape_is_refused(make, reason):
    with pytest.raises(InputError, match=reason):
        make()
