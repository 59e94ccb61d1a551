"""Arrays of spheres: those of all trees share what does not depend on the trees, and pairs are those of some trees."""

import numpy as np
import pytest

import ik_service
from ik_service.collision.body_spheres import with_attached
from ik_service.collision.sphere_arrays import ABSENT_RADIUS, SphereArrays
from ik_service.robots import AttachedObject

WIDTH = 4
SHARED = ("frame", "link_body", "link_count", "link_block", "bound", "sphere")


@pytest.fixture(scope="module")
def robot():
    return ik_service.load_robot("dual_panda")


def test_trees_share_what_does_not_depend_on_them(robot):
    arrays = SphereArrays(robot.on_device("cpu"), robot.body_spheres, WIDTH)
    left, right = arrays.of_trees([0]), arrays.of_trees([1])
    assert all(getattr(left, name).ptr == getattr(right, name).ptr for name in SHARED)
    assert left.frame.ptr == arrays.with_spheres(robot.body_spheres).of_trees([0]).frame.ptr


@pytest.mark.parametrize("trees", [(), (0,), (1,), (0, 1)])
def test_pairs_are_those_that_the_trees_move(robot, trees):
    held = {"box": AttachedObject("left_panda_hand", [[0.0, 0.0, 0.1, 0.05]])}
    spheres = with_attached(robot, robot.body_spheres, held)
    arrays = SphereArrays(robot.on_device("cpu"), spheres, WIDTH).of_trees(trees)
    tree = [-1 if body < 0 else int(robot.trees.body_treeid[body]) for body in spheres.link_body]
    pairs = [
        pair
        for pair in spheres.pairs.tolist()
        if {tree[k] for k in pair} <= {-1, *trees} and any(tree[k] in trees for k in pair)
    ]
    assert arrays.pair.numpy().tolist() == pairs
    assert (len(pairs) > 10) == bool(trees)
    bits = arrays.in_world.numpy()
    assert bits.tolist() == [(1 + (k == len(tree) - 1)) * (own in trees and own >= 0) for k, own in enumerate(tree)]


def test_blocks_have_the_spheres_of_each_link_and_nothing_else(robot):
    spheres = robot.body_spheres
    arrays = SphereArrays(robot.on_device("cpu"), spheres, WIDTH).of_trees([0, 1])
    block, starts = arrays.sphere.numpy(), arrays.link_block.numpy()
    assert len(set(np.diff(starts))) > 1
    for place, count in enumerate(arrays.link_count.numpy()):
        own = block[starts[place] : starts[place + 1]].transpose(0, 2, 1).reshape(-1, 4)
        given = spheres.of_link(place)
        np.testing.assert_array_equal(own[:count, 3], spheres.radii[given].astype(np.float32))
        lengths = np.linalg.norm(spheres.centers[given], axis=1)  # which a turn of the frame keeps
        np.testing.assert_allclose(np.linalg.norm(own[:count, :3], axis=1), lengths, atol=1e-6)
        assert (own[count:, 3] == np.float32(ABSENT_RADIUS)).all()
        assert len(own) - count < WIDTH
