"""Distances from grids: at nodes, between and beyond them, how steep they are, and what grids refuse."""

import pickle

import numpy as np
import pytest

from ik_service.collision.shapes import local_points
from ik_service.robots import Box, DistanceGrid, Sphere, World
from objectives import InputError

TURNED = (0.3, -0.2, 0.5, *np.array([0.1, -0.4, 0.3, 0.8]) / np.linalg.norm([0.1, -0.4, 0.3, 0.8]))
BALL = Sphere(0.2, (0.1, 0.0, -0.1))
LOWER, UPPER = (-0.2, -0.3, -0.4), (0.4, 0.3, 0.2)


def rough(shape=(5, 4, 6), spacing=0.1, pose=TURNED):
    return DistanceGrid(np.random.default_rng(0).normal(0.05, 0.1, shape), spacing, pose)


def test_between_nodes_distances_are_trilinear():
    grid = rough()
    axes = [grid.spacing * np.arange(count) for count in grid.values.shape]
    rng = np.random.default_rng(1)
    local = rng.uniform(0.0, [axis[-1] for axis in axes], (500, 3))
    local[:50] = np.round(local[:50] / grid.spacing) * grid.spacing  # nodes, those at the faces too
    local = np.minimum(local, [axis[-1] for axis in axes])
    points = np.linalg.inv(rotation(grid.pose)) @ local.T + np.array(grid.pose[:3])[:, None]
    np.testing.assert_allclose(local_points(grid.pose, points.T), local, atol=1e-12)
    distances = grid.signed_distance(points.T)
    np.testing.assert_allclose(distances, [interpolated(grid.values, axes, point) for point in local], atol=1e-9)
    assert grid.signed_distance(points.T.reshape(5, 100, 3)).shape == (5, 100)


def interpolated(values, axes, point):
    for axis, at in zip(axes, point, strict=True):
        values = np.apply_along_axis(lambda line, axis=axis, at=at: np.interp(at, axis, line), 0, values)
    return values


def rotation(pose):
    """The matrix by which differences of points become differences in the frame of a pose."""
    return np.stack([local_points((0.0, 0.0, 0.0, *pose[3:]), axis) for axis in np.eye(3)], axis=1)


def test_a_sampled_shape_has_its_distances_and_beyond_the_nodes_is_no_nearer_than_it_is():
    grid = DistanceGrid.sampled(BALL.signed_distance, LOWER, UPPER, 0.02)
    assert grid.values.shape == (31, 31, 31)
    assert grid.values[0, 0, 0] == pytest.approx(BALL.signed_distance(np.array(LOWER)), abs=1e-7)
    points = np.random.default_rng(0).uniform(LOWER, UPPER, (2000, 3))
    off = np.abs(grid.signed_distance(points) - BALL.signed_distance(points))
    assert off[BALL.signed_distance(points) > -0.1].max() < 2e-3
    assert grid.steepness < 1.1
    points = np.random.default_rng(0).uniform(-2.0, 2.0, (2000, 3))
    found, real = grid.signed_distance(points), BALL.signed_distance(points)
    assert (found <= real + 2e-3).all()
    assert (found > 0.5 * real - 2e-3)[real > 0.0].all()


def test_what_reaches_the_outermost_nodes_goes_on_as_far_as_it_is_deep():
    post = Box((0.2, 0.2, 4.0))
    grid = DistanceGrid.sampled(post.signed_distance, (-0.3, -0.3, 0.0), (0.3, 0.3, 0.5), 0.05)
    assert grid.depth == pytest.approx(0.1)
    above = np.array([[0.0, 0.0, 0.55], [0.0, 0.0, 0.6], [0.0, 0.0, 0.8], [0.4, 0.0, 0.2]])
    np.testing.assert_allclose(grid.signed_distance(above), [-0.05, 0.0, 0.2, np.hypot(0.1, 0.2)], atol=1e-6)


@pytest.mark.parametrize("grid", [rough(), rough((2, 2, 2)), rough((3, 2, 7), 0.02)])
def test_nothing_is_steeper_than_the_steepness(grid):
    rng = np.random.default_rng(2)
    points = np.array(grid.pose[:3]) + rng.uniform(-1.0, 1.0, (40_000, 3))
    way = rng.normal(0.0, 1.0, points.shape)
    way *= 1e-5 / np.linalg.norm(way, axis=1, keepdims=True)
    slope = np.abs(grid.signed_distance(points + way) - grid.signed_distance(points)) / 1e-5
    assert slope.max() <= grid.steepness * (1.0 + 1e-6)
    steps = [np.abs(np.diff(grid.values, axis=axis)).max() / grid.spacing for axis in range(3)]
    assert max(1.0, *steps) <= grid.steepness <= np.linalg.norm([1.0, *steps])


def test_no_way_outside_of_obstacles_is_steeper():
    """Slopes inside do not count, where all of the obstacle is in the grid."""
    values = np.random.default_rng(1).normal(-1.0, 0.5, (6, 6, 6))
    values[[0, -1]] = values[:, [0, -1]] = values[:, :, [0, -1]] = 0.2
    grid = DistanceGrid(values, 0.5)
    points, far = np.random.default_rng(2).uniform(-0.5, 3.0, (2, 40_000, 3))
    way = 1e-5 * (far - points) / np.linalg.norm(far - points, axis=1, keepdims=True)
    before, after = grid.signed_distance(points), grid.signed_distance(points + way)
    slope, is_free = np.abs(after - before) / 1e-5, np.minimum(before, after) > 0.0
    assert slope[is_free].max() <= grid.steepness * (1.0 + 1e-6)
    assert slope[is_free].max() > 0.5 * grid.steepness


def test_a_grid_is_placed_with_its_owner_also_by_rounded_numbers():
    grid, pose = DistanceGrid.sampled(BALL.signed_distance, LOWER, UPPER, 0.05), TURNED
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (100, 3))
    expected = grid.signed_distance(local_points(pose, points))
    np.testing.assert_allclose(grid.placed(pose).signed_distance(points), expected, atol=1e-12)
    far = DistanceGrid(np.ones((3, 3, 3)), 0.1, (2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0))
    placed = far.placed((0.0, 0.0, 0.0, 0.0, 0.0, 0.707, 0.707))
    np.testing.assert_allclose(placed.pose[:3], (0.0, 2.0, 0.0), atol=1e-12)


def test_a_grid_is_an_obstacle_that_cannot_be_changed():
    values = np.ones((2, 3, 4))
    grid = DistanceGrid(values, 0.1)
    values[:] = 0.0
    assert (grid.values == 1.0).all()
    with pytest.raises(ValueError, match="read-only"):
        grid.values[0, 0, 0] = 0.0
    copied, same = pickle.loads(pickle.dumps(World({"rock": rough()}))).objects["rock"], rough()
    assert copied.values.tobytes() == same.values.tobytes()
    assert (copied.spacing, copied.pose) == (same.spacing, same.pose)
    assert not copied.values.flags.writeable
    assert repr(grid) == "<DistanceGrid: 2 x 3 x 4 nodes, 100 mm apart>"


def sampled(distances=BALL.signed_distance, lower=LOWER, upper=UPPER, spacing=0.1):
    return DistanceGrid.sampled(distances, lower, upper, spacing)


CUBE, SPACING = np.ones((2, 2, 2)), "spacing of a grid must be at least 1e-06 m"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: DistanceGrid(np.ones((2, 2)), 0.1), r"the shape \[x, y, z\], .*got \[2, 2\]"),
        (lambda: DistanceGrid(np.ones((1, 2, 2)), 0.1), "at least 2 along each axis"),
        (lambda: DistanceGrid(np.nan * CUBE, 0.1), "must be finite"),
        (lambda: DistanceGrid([["a"]], 0.1), "must be numbers"),
        (lambda: DistanceGrid([[[10**400]]], 0.1), "must be numbers"),
        *((lambda spacing=spacing: DistanceGrid(CUBE, spacing), SPACING) for spacing in (0.0, 1e-100, "0.1", 10**400)),
        (lambda: rough().placed((0, 0, 0)), "pose of the frame of a grid"),
        (lambda: DistanceGrid(CUBE, 0.1, (0, 0, 0, 0, 0, 0, 2)), "pose of a grid"),
        (lambda: sampled(spacing=1e-4), "too many for a grid"),
        (lambda: sampled(lower=UPPER, upper=LOWER), "two corners and a spacing"),
        (lambda: sampled(lower=None), "two corners and a spacing"),
        (lambda: sampled(upper="far"), "two corners and a spacing"),
        (lambda: sampled(spacing=None), "two corners and a spacing"),
        (lambda: sampled(BALL), "sampled from a function of points, got Sphere"),
        (lambda: World({"rock": CUBE}), "must be a shape or a DistanceGrid"),
    ],
)
def test_what_is_no_grid_is_refused(make, reason):
    with pytest.raises(InputError, match=reason):
        make()
