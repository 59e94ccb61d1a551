"""Clearance of configurations, against link poses and distances sphere by sphere."""

import tracemalloc
from itertools import product

import numpy as np
import pytest

import ik_service
from ik_service.collision import colliding_robot
from ik_service.collision.body_spheres import body_spheres
from ik_service.collision.check import pair_distance, sphere_centers
from ik_service.collision.shapes import Box, Capsule, Sphere
from ik_service.collision.world import World
from ik_service.mechanism.collision_model import CollisionModel
from ik_service.mechanism.transforms import quaternion_rotate
from objectives import InputError, UnknownNameError

PAIRS = [("panda_hand", "panda_link0"), ("panda_hand", "panda_link2"), ("panda_link1", "panda_link6")]
WORLD = World(
    {
        "table": Box((2.0, 2.0, 0.1), (0.0, 0.0, -0.2, 0.0, 0.0, 0.0, 1.0)),
        "post": Capsule(0.05, 1.0, (0.4, 0.3, 0.3, 0.0, 0.0, 0.0, 1.0)),
        "ball": Sphere(0.15, (-0.3, 0.4, 0.7)),
    }
)


@pytest.fixture(scope="module")
def robot():
    rng = np.random.default_rng(3)
    links = sorted({link for pair in PAIRS for link in pair})
    spheres = {
        link: np.column_stack([rng.normal(0, 0.05, (k + 2, 3)), rng.uniform(0.03, 0.09, k + 2)])
        for k, link in enumerate(links)
    }
    return ik_service.load_robot("panda").with_collision_model(CollisionModel(spheres, PAIRS))


def brute_force(robot, joint_q, world):
    """Give the clearance and the names of the closest two of one configuration."""
    spheres = robot.collision_model.spheres
    poses = robot.forward_kinematics(joint_q, list(spheres))
    found = {}
    for k, (link, own) in enumerate(spheres.items()):
        centers = poses.positions[0, k] + quaternion_rotate(poses.orientations_xyzw[0, k], own[:, :3])
        found[link] = list(zip(centers, own[:, 3], strict=True))
    distances = [
        (np.linalg.norm(p - q) - r - s, (a, b))
        for a, b in robot.collision_model.pairs
        for (p, r), (q, s) in product(found[a], found[b])
    ]
    distances += [
        (float(shape.signed_distance(p)) - r, (link, name))
        for name, shape in world.objects.items()
        for link, own in found.items()
        for p, r in own
        if link != "panda_link0"  # which no joint moves
    ]
    return min(distances)


def test_clearance_is_the_least_distance(robot):
    joint_q = robot.random_joint_q(np.random.default_rng(0), 700)
    check = robot.collision(joint_q, WORLD)
    expected = [brute_force(robot, q, WORLD) for q in joint_q]
    np.testing.assert_allclose(check.clearance, [one[0] for one in expected], atol=1e-12)
    assert [set(pair) for pair in check.closest_pairs] == [set(one[1]) for one in expected]
    np.testing.assert_array_equal(check.is_free, check.clearance > 0.0)
    assert 0 < check.is_free.sum() < len(joint_q)
    expected = [brute_force(robot, q, World({}))[0] for q in joint_q[:50]]  # without a world only links count
    np.testing.assert_allclose(robot.collision(joint_q[:50]).clearance, expected, atol=1e-12)


def test_objects_are_there_or_not_by_problem(robot):
    joint_q = robot.random_joint_q(np.random.default_rng(1), 60)
    enabled = np.random.default_rng(2).random((60, 3)) < 0.5
    check = robot.collision(joint_q, WORLD, enabled)
    for k, q in enumerate(joint_q):
        present = World({name: WORLD.objects[name] for name, on in zip(WORLD.names, enabled[k], strict=True) if on})
        assert check.clearance[k] == robot.collision(q, present).clearance[0]
    alike = robot.collision(joint_q, WORLD, enabled[0])
    np.testing.assert_array_equal(alike.clearance[:1], check.clearance[:1])


def test_parts_and_locked_robots_keep_their_spheres(robot):
    joint_q = robot.random_joint_q(np.random.default_rng(4), 5)
    locked = robot.lock({"panda_joint4": -1.5})
    np.testing.assert_array_equal(locked.collision(joint_q).clearance, robot.collision(joint_q).clearance)
    part = robot.subrobot("panda_link1")
    assert list(part.collision_model.spheres) == [x for x in robot.collision_model.spheres if x != "panda_link0"]
    assert part.collision_model.pairs == (("panda_hand", "panda_link2"), ("panda_link1", "panda_link6"))


def test_a_model_is_part_of_what_a_robot_is(robot):
    plain = robot.with_collision_model(None)
    assert plain.content_hash == ik_service.load_robot("panda", collision="ignore").content_hash
    assert plain.content_hash != robot.content_hash
    with pytest.raises(InputError, match="Robot 'panda' has no collision model"):
        plain.collision(plain.mid_joint_q)
    with pytest.raises(UnknownNameError, match="arm"):
        robot.with_collision_model(CollisionModel({"arm": [[0.0, 0.0, 0.0, 0.1]]}, []))
    alone = robot.with_collision_model(CollisionModel(robot.collision_model.spheres, []))
    check = alone.collision(robot.mid_joint_q)  # nothing can touch
    assert (check.clearance.tolist(), check.closest_pairs) == ([np.inf], [None])


@pytest.mark.parametrize("enabled", [[True, False], [1, 0, 1], [[True] * 3] * 2])
def test_objects_need_truth_values_of_the_right_shape(robot, enabled):
    with pytest.raises(InputError, match="enabled must be truth values of the shape"):
        robot.collision(robot.mid_joint_q, WORLD, enabled)


def test_free_configurations_are_the_first_free_ones_that_are_drawn(robot):
    count = 1300  # more than two blocks of a check
    drawn = robot.random_joint_q(np.random.default_rng(5), count)
    free = drawn[robot.collision(drawn, WORLD).is_free]
    assert 0 < len(free) < count
    found = robot.random_free_joint_q(np.random.default_rng(5), count, WORLD)
    assert len(found) == count
    assert found[: len(free)].tobytes() == free.tobytes()
    assert robot.collision(found, WORLD).is_free.all()
    assert robot.random_free_joint_q(np.random.default_rng(5), 0, WORLD).shape == (0, 7)


def test_a_draw_goes_on_while_enough_is_free_and_ends_otherwise_and_names_what_touches(monkeypatch, robot):
    expected = robot.random_free_joint_q(np.random.default_rng(6), 600)
    monkeypatch.setattr(colliding_robot, "DISTANCES_MOST", 1)
    assert robot.random_free_joint_q(np.random.default_rng(6), 600).tobytes() == expected.tobytes()
    monkeypatch.setattr(colliding_robot, "DISTANCES_MOST", 512)
    wide = {link: [[0.0, 0.0, 0.0, 2.0]] for link in ("panda_link0", "panda_hand")}
    stuck = robot.with_collision_model(CollisionModel(wide, [("panda_hand", "panda_link0")]))
    tried = "Of 512 random configurations of 'panda', 0 are free of contact; 1000 are wanted."
    for world, other in ((None, "panda_link0"), (World({"shell": Sphere(9.0, (0.0, 0.0, 0.0))}), "shell")):
        told = f"{tried} Deepest in contact: 'panda_hand' and '{other}' in 512. .*ik-service spheres --free"
        with pytest.raises(InputError, match=told):
            stuck.random_free_joint_q(np.random.default_rng(0), 1000, world)


MANY, MOST_BYTES = 250, 20_000_000


def test_links_of_many_spheres_take_little_memory_and_give_the_same_bytes():
    robot, rng = ik_service.load_robot("panda"), np.random.default_rng(4)
    given = {
        link: np.column_stack([rng.normal(0, 0.05, (MANY, 3)), rng.uniform(0.01, 0.02, MANY)]) for link in PAIRS[0]
    }
    spheres = body_spheres(robot, CollisionModel(given, PAIRS[:1]))
    centers = sphere_centers(robot, spheres, robot.random_joint_q(rng, 512))
    tracemalloc.start()
    found = pair_distance(spheres, centers, 0, 1)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < MOST_BYTES
    one_by_one = [pair_distance(spheres, centers[:, [k]], 0, 1) for k in range(5)]
    assert np.concatenate(one_by_one).tobytes() == found[:5].tobytes()
    a, b = (centers[spheres.of_link(place), 7] for place in (0, 1))
    reach = spheres.radii[:MANY, None] + spheres.radii[MANY:]
    assert found[7] == (np.linalg.norm(a[:, None] - b, axis=-1) - reach).min()
