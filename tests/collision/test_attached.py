"""Objects that links carry: their distances from links and obstacles by poses of links, and what is refused."""

import pickle

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.mechanism.transforms import quaternion_rotate
from ik_service.robots import AttachedObject, RobotModel, Sphere, World
from objectives import InputError, UnknownNameError

HAND, FINGERS = "panda_hand", ("panda_leftfinger", "panda_rightfinger")
ROD = [[0.0, 0.02 * k, 0.1 + 0.05 * k, 0.02] for k in range(8)]
CAMERA = AttachedObject("panda_link4", [[0, 0, 0.1, 0.05]])
BALLS = {"near": Sphere(0.3, (0.4, 0.2, 0.3)), "far": Sphere(0.1, (-0.5, 0.1, 0.9))}


@pytest.fixture(scope="module")
def panda() -> RobotModel:
    return load_robot("panda_gripper")


def centers_of(robot, joint_q, link, spheres):
    """Centres of spheres on a link by its pose, [spheres, n, 3]."""
    (positions,), (turns,) = (part.swapaxes(0, 1) for part in robot.forward_kinematics(joint_q, [link]))
    return np.stack([positions + quaternion_rotate(turns, np.asarray(own)[:3]) for own in spheres])


def least(robot, joint_q, one, other):
    """Least distance of the spheres of two parts, each a link and spheres in its frame, [n]."""
    a, b = centers_of(robot, joint_q, *one), centers_of(robot, joint_q, *other)
    radii = np.add.outer(np.asarray(one[1])[:, 3], np.asarray(other[1])[:, 3])
    return (np.linalg.norm(a[:, None] - b[None], axis=-1) - radii[..., None]).min(axis=(0, 1))


def expected_of(robot, joint_q, held, shapes):
    """Clearance of a configuration by poses of links: of the robot itself, then of each attached object."""
    model, clearance = robot.collision_model, robot.collision(joint_q, World(shapes)).clearance
    body = {link: robot.link_frame(link)[0] for link in robot.link_names}
    for name, one in held.items():
        parts = {link: (link, own) for link, own in model.spheres.items() if body[link] != body[one.link]}
        parts |= {other: (its.link, its.spheres) for other, its in held.items() if body[its.link] != body[one.link]}
        for other, part in parts.items():
            if other not in one.touches and (other not in held or name not in held[other].touches):
                clearance = np.minimum(clearance, least(robot, joint_q, (one.link, one.spheres), part))
        own = centers_of(robot, joint_q, one.link, one.spheres)
        for other, shape in shapes.items():
            if other not in one.touches:
                clearance = np.minimum(clearance, (shape.signed_distance(own).T - one.spheres[:, 3]).min(axis=1))
    return clearance


@pytest.mark.parametrize(
    "held",
    [
        {"rod": AttachedObject(HAND, ROD)},
        {"rod": AttachedObject(HAND, ROD, [*FINGERS, "near"]), "camera": CAMERA},
        {"rod": AttachedObject(HAND, ROD, ["camera"]), "camera": CAMERA},
    ],
)
def test_clearance_is_that_of_the_poses_of_links(panda, held):
    joint_q = panda.random_joint_q(np.random.default_rng(0), 300)
    check = panda.collision(joint_q, World(BALLS), attached=held)
    np.testing.assert_allclose(check.clearance, expected_of(panda, joint_q, held, BALLS), atol=1e-12)
    assert check.names == (*panda.body_spheres.links, *held, *BALLS)
    named = {name for pair in check.closest_pairs for name in pair}
    assert {*held, *BALLS} <= named
    assert ("rod", "near") in check.closest_pairs or "near" in held["rod"].touches


def test_without_what_is_attached_or_may_be_touched_nothing_changes(panda):
    joint_q = panda.random_joint_q(np.random.default_rng(0), 50)
    plain, none = panda.collision(joint_q, World(BALLS)), panda.collision(joint_q, World(BALLS), attached={})
    np.testing.assert_array_equal(none.clearance, plain.clearance)
    np.testing.assert_array_equal(none.closest, plain.closest)
    helds = ({"rod": AttachedObject(HAND, ROD, touches)} for touches in ([], ["table", "cup"]))
    np.testing.assert_array_equal(*(panda.collision(joint_q, World(BALLS), attached=one).clearance for one in helds))


def test_an_object_cannot_be_changed():
    one = AttachedObject(HAND, ROD, ["near"])
    with pytest.raises(ValueError, match="read-only"):
        one.spheres[0, 0] = 1.0
    copied = pickle.loads(pickle.dumps(one))
    assert copied.content == one.content
    assert not copied.spheres.flags.writeable
    assert repr(one) == "<AttachedObject: 8 spheres on panda_hand>"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: AttachedObject(HAND, []), "has 1 to 64 spheres, got 0"),
        (lambda: AttachedObject(HAND, np.ones((65, 4))), "has 1 to 64 spheres, got 65"),
        (lambda: AttachedObject(HAND, [[0, 0, 0, -1]]), "must have finite centres and radii above 0"),
        (lambda: AttachedObject(HAND, [[0, 0, 0]]), r"must have the shape \[k, 4\]"),
        (lambda: AttachedObject(7, ROD), "needs the name of a link, got 7"),
        (lambda: AttachedObject(HAND, [[10**400, 0, 0, 1]]), r"must have the shape \[k, 4\]"),
        (lambda: AttachedObject(HAND, ROD, touches=None), "must be a list of names, got None"),
        (lambda: AttachedObject(HAND, ROD, touches=1), "must be a list of names, got 1"),
        (lambda: AttachedObject(HAND, ROD, touches=[1]), r"must be a list of names, got \[1\]"),
        (lambda: AttachedObject(HAND, ROD, "near"), "must be a list of names, got 'near'"),
    ],
)
def test_what_is_no_object_is_refused(make, reason):
    with pytest.raises(InputError, match=reason):
        make()


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        ([AttachedObject(HAND, ROD)], "attached must be a mapping"),
        ({"rod": ROD}, "attached must be a mapping of names to AttachedObject, got 'rod'"),
        ({HAND: AttachedObject(HAND, ROD)}, "cannot have the name 'panda_hand'"),
        ({"near": AttachedObject(HAND, ROD)}, "cannot have the name 'near'"),
        ({"": AttachedObject(HAND, ROD)}, "cannot have the name ''"),
        ({"rod": AttachedObject("hand", ROD)}, "'hand'"),
        ({f"rod {k}": AttachedObject(HAND, ROD) for k in range(5)}, "5 objects with 40 spheres are attached"),
        ({f"rod {k}": AttachedObject(HAND, ROD * 4) for k in range(3)}, "3 objects with 96 spheres are attached"),
    ],
)
def test_what_cannot_be_attached_is_refused(panda, held, reason):
    with pytest.raises(UnknownNameError if reason == "'hand'" else InputError, match=reason):
        panda.collision(panda.mid_joint_q, World(BALLS), attached=held)
