"""Spheres that cover shapes: every point of a shape is in one, and none stands out by much."""

import numpy as np
import pytest

from ik_service.collision.covering import cover_shape, cover_solid, shape_solid
from ik_service.collision.shapes import Box, Capsule, Cylinder, Sphere, local_points
from ik_service.mechanism.transforms import quaternion_rotate
from objectives import InputError

POSE = (0.3, -0.2, 0.5, 0.0, 0.6, 0.0, 0.8)
TURNED = (0.3, -0.2, 0.5, *(np.array([0.2, -0.4, 0.4, 0.8]) / np.linalg.norm([0.2, -0.4, 0.4, 0.8])).tolist())
ROUNDING = 1e-9  # [m] of numbers of metres in float64
SHAPES = [
    Sphere(0.1, (0.1, 0.2, 0.3)),
    Capsule(0.05, 0.4, POSE),
    Capsule(0.05, 0.0, POSE),
    Cylinder(0.06, 0.3, POSE),
    Cylinder(0.2, 0.03, POSE),
    Box((0.1, 0.1, 0.1), POSE),
    Box((0.4, 0.2, 0.02), POSE),
]
PLATE, RAIL = Box((2.0, 1.0, 0.01), TURNED), Box((2.0, 0.02, 0.02), TURNED)  # half of the plate looked out, by 11 mm
BLOCK, ROD = Box((0.7, 0.5, 0.3), TURNED), Cylinder(0.02, 2.0, TURNED)
EXTREME = [PLATE, Box((1.0, 0.5, 0.005)), Box((0.5, 0.5, 0.001), TURNED), RAIL, Box((1.0, 0.05, 0.03)), BLOCK, ROD]
EXTREME += [Cylinder(0.005, 1.0), Cylinder(0.05, 1.0, TURNED), Cylinder(0.5, 0.005, TURNED), Cylinder(0.03, 0.06)]
EXTREME += [Capsule(0.005, 2.0, TURNED)]
FLAT = [Box((0.06, 0.03, 0.0)), Box((0.06, 0.03, 0.0), POSE), Cylinder(0.1, 0.0, POSE), Cylinder(0.0, 0.2, POSE)]


def points_of(shape, count=6000):
    """Random points of a shape, of its faces and edges, and its corners, in its owner's frame."""
    rng = np.random.default_rng(1)
    share = rng.uniform(-1.0, 1.0, (4 * count, 3))
    for part in (1, 2, 3):  # one number at its end, then two, then all three
        rows = np.arange(part * count, (part + 1) * count)
        for axis in rng.permuted(np.tile(np.arange(3), (count, 1)), axis=1)[:, :part].T:
            share[rows, axis] = np.sign(share[rows, axis])
    if isinstance(shape, Box):
        local = 0.5 * share * shape.size
    elif isinstance(shape, Cylinder):
        out, turn = np.sqrt(np.abs(share[:, 0])), np.pi * rng.uniform(-1.0, 1.0, len(share))
        local = np.column_stack([shape.radius * out * np.cos(turn), shape.radius * out * np.sin(turn), share[:, 2]])
        local[:, 2] *= 0.5 * shape.length
    else:
        length = shape.length if isinstance(shape, Capsule) else 0.0
        away = rng.normal(size=share.shape)
        away *= shape.radius * np.cbrt(np.abs(share[:, :1])) / np.linalg.norm(away, axis=1, keepdims=True)
        local = away + 0.5 * length * share[:, 2:] * [0.0, 0.0, 1.0]
    pose = np.array(shape.pose)
    return pose[:3] + quaternion_rotate(pose[3:], local)


def looks_out(points, spheres):
    """By how much points are outside of all spheres at most [m]."""
    return max(
        (np.sqrt(sum((block[:, k, None] - spheres[:, k]) ** 2 for k in range(3))) - spheres[:, 3]).min(axis=1).max()
        for block in np.array_split(points, max(1, len(points) * len(spheres) // 200_000))
    )


@pytest.mark.evidence_cases(
    "Cylinder(radius=0.005, length=1.0, pose=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0))",
    "Cylinder(radius=0.02, length=2.0, pose=(0.3, -0.2, 0.5, 0.2, -0.4, 0.4, 0.8))",
    "Cylinder(radius=0.2, length=0.03, pose=(0.3, -0.2, 0.5, 0.0, 0.6, 0.0, 0.8))",
    "Cylinder(radius=0.5, length=0.005, pose=(0.3, -0.2, 0.5, 0.2, -0.4, 0.4, 0.8))",
)
@pytest.mark.parametrize("shape", [*SHAPES, *EXTREME, *FLAT], ids=repr)
def test_spheres_cover_a_shape(shape):
    points = points_of(shape)
    assert shape.signed_distance(points).max() <= ROUNDING
    assert looks_out(points, cover_shape(shape)) <= ROUNDING


@pytest.mark.evidence_cases(
    "0.002-Cylinder(radius=0.02, length=2.0, pose=(0.3, -0.2, 0.5, 0.2, -0.4, 0.4, 0.8))",
    "0.002-Cylinder(radius=0.2, length=0.03, pose=(0.3, -0.2, 0.5, 0.0, 0.6, 0.0, 0.8))",
)
@pytest.mark.parametrize("shape", [RAIL, ROD, SHAPES[4], SHAPES[6]], ids=repr)
@pytest.mark.parametrize("stands_out", [0.002, 0.02])
def test_spheres_cover_a_shape_by_any_bound(shape, stands_out):
    assert looks_out(points_of(shape), cover_shape(shape, stands_out)) <= ROUNDING


@pytest.mark.evidence_cases(
    "allowed0-Box(size=(0.4, 0.2, 0.02), pose=(0.3, -0.2, 0.5, 0.0, 0.6, 0.0, 0.8))",
    "allowed1-Box(size=(0.7, 0.5, 0.3), pose=(0.3, -0.2, 0.5, 0.2, -0.4, 0.4, 0.8))",
)
@pytest.mark.parametrize("shape", [SHAPES[3], SHAPES[6], BLOCK], ids=repr)
@pytest.mark.parametrize("allowed", [(None, 0.0), (0.02, 0.0), (0.02, 0.01)])
def test_solids_look_out_by_what_is_allowed(shape, allowed):
    found = looks_out(points_of(shape), cover_solid(shape_solid(shape), *allowed))
    assert found <= allowed[1] + ROUNDING
    assert allowed[1] == 0.0 or found > 0.0


@pytest.mark.evidence_cases("Cylinder(radius=0.2, length=0.03, pose=(0.3, -0.2, 0.5, 0.0, 0.6, 0.0, 0.8))")
@pytest.mark.parametrize("shape", SHAPES[1:], ids=repr)
def test_spheres_stand_out_by_little(shape):
    bound = 0.012
    spheres = cover_shape(shape, bound)
    assert (shape.signed_distance(spheres[:, :3]) + spheres[:, 3]).max() <= 1.5 * bound
    assert len(spheres) <= len(cover_shape(shape, 0.5 * bound))


def test_a_sphere_covers_itself_and_large_shapes_have_as_many_spheres_as_are_allowed():
    np.testing.assert_array_equal(cover_shape(SHAPES[0]), [[0.1, 0.2, 0.3, 0.1]])
    spheres = cover_shape(PLATE)
    assert 1500 < len(spheres) <= 2048
    assert (PLATE.signed_distance(spheres[:, :3]) + spheres[:, 3]).max() < 0.019
    long = Capsule(0.001, 1e6)
    assert len(cover_shape(long)) == 2048
    assert looks_out(points_of(long), cover_shape(long)) <= 1e6 * ROUNDING
    with pytest.raises(InputError, match="stands_out must be above 0 m"):
        cover_shape(SHAPES[3], 0.0)


@pytest.mark.parametrize("shape", [SHAPES[3], SHAPES[6]], ids=repr)
def test_where_a_shape_stands_changes_nothing(shape):
    here, there = cover_shape(type(shape)(**{**vars(shape), "pose": (0, 0, 0, 0, 0, 0, 1)})), cover_shape(shape)
    np.testing.assert_array_equal(there[:, 3], here[:, 3])
    np.testing.assert_allclose(local_points(shape.pose, there[:, :3]), here[:, :3], atol=1e-15)
