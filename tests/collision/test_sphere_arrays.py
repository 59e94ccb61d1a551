"""Arrays of spheres: those of all trees share what does not depend on the trees, and pairs are those of some trees."""

import pytest

import ik_service
from ik_service.collision.arrays import SphereArrays
from ik_service.collision.body_spheres import with_attached
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
