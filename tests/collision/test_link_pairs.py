"""Which links are checked against each other: by structure, by random configurations, and by free ones."""

import numpy as np
import pytest

from ik_service.collision.body_spheres import slides_between
from ik_service.collision.link_pairs import (
    ADJACENT,
    ALWAYS,
    NEVER,
    SAME_BODY,
    choose_pairs,
    pair_contacts,
    without_contacts,
)
from ik_service.robots import load_urdf
from tests.robots.urdf_text import joint, urdf

# Four links of 0.3 m in a plane; a tool welded to the last, a camera welded to the base, and a frame without spheres.
Z, WIDE = "0 0 1", (-3, 3)
CHAIN = urdf(
    "chain",
    "base",
    joint("camera_mount", "fixed", "base", "camera", "0 0 0.02"),
    joint("first", "revolute", "base", "one", axis=Z, limit=WIDE),
    joint("second", "revolute", "one", "two", "0.3 0 0", axis=Z, limit=WIDE),
    joint("third", "revolute", "two", "three", "0.3 0 0", axis=Z, limit=WIDE),
    joint("flange_mount", "fixed", "three", "flange", "0.3 0 0"),
    joint("tool_mount", "fixed", "flange", "tool"),
)
BAR = [[0.05 + 0.05 * k, 0.0, 0.0, 0.03] for k in range(5)]
SPHERES = {"base": [[0.0, 0.0, 0.0, 0.04]], "camera": [[-0.4, 0.0, 0.0, 0.03]], "tool": [[0.0, 0.0, 0.0, 0.03]]}
SPHERES |= {"one": BAR, "two": BAR, "three": BAR}


@pytest.fixture(scope="module")
def chain():
    return load_urdf(CHAIN)


def test_each_pair_is_checked_or_left_out_with_a_reason(chain):
    model = choose_pairs(chain, SPHERES, 2000)
    assert dict(model.left_out) == {
        SAME_BODY: (("base", "camera"), ("three", "tool")),
        ADJACENT: (("base", "one"), ("one", "two"), ("three", "two")),
        ALWAYS: (),
        NEVER: (("camera", "one"),),
    }
    reasons = [pair for own in model.left_out.values() for pair in own]
    assert len(model.pairs) + len(reasons) == 15  # of six links
    assert model.pairs == tuple(sorted({*model.pairs} - {*reasons}))
    assert choose_pairs(chain, SPHERES, 2000).content_hash == model.content_hash  # in every run
    few = choose_pairs(chain, {"base": SPHERES["base"], "two": BAR}, 100)
    assert few.left_out[ADJACENT] == (("base", "two"),)  # a link without spheres does not part its neighbours


def test_spheres_that_always_overlap_are_not_checked(chain):
    wide = {**SPHERES, "two": [[0.0, 0.0, 0.0, 0.7]]}
    assert ("three", "tool") not in choose_pairs(chain, wide, 500).pairs
    assert set(choose_pairs(chain, wide, 500).left_out[ALWAYS]) == {("base", "two"), ("camera", "two"), ("tool", "two")}


def test_what_touches_in_a_free_configuration_is_not_checked(chain):
    model = choose_pairs(chain, SPHERES, 2000)
    folded = np.array([0.0, 2.9, 2.9])
    least, share, is_free = pair_contacts(chain, model, folded)
    touching = {pair for pair, own in zip(model.pairs, least, strict=True) if own <= 0}
    np.testing.assert_array_equal(share, least <= 0)
    assert is_free.tolist() == [False]
    assert touching
    freed = without_contacts(chain, model, folded)
    assert set(freed.pairs) == set(model.pairs) - touching
    assert set(freed.left_out["in contact in a free configuration"]) == touching


def test_contacts_of_pairs_say_which_configurations_are_free(chain):
    model = choose_pairs(chain, SPHERES, 2000)
    drawn = chain.random_joint_q(np.random.default_rng(1), 700)  # more than one block
    is_free = pair_contacts(chain, model, drawn)[2]
    assert 0 < is_free.sum() < len(drawn)
    np.testing.assert_array_equal(is_free, chain.with_collision_model(model).collision(drawn).is_free)


FAR, RAIL = (-1000, 1000), {"kind": "prismatic", "xyz": "0 1 0", "axis": "1 0 0"}


def wagon(**drive):
    """A column 5 m away, and what slides there."""
    column = joint("mount", "fixed", "base", "column", "5 1 0")
    return load_urdf(urdf("wagon", "base", column, joint("drive", parent="base", child="wagon", **drive)))


def test_links_that_slide_far_are_checked_though_random_configurations_do_not_show_that_they_meet():
    spheres = {"column": [[0.0, 0.0, 0.0, 0.2]], "wagon": [[0.0, 0.0, 0.0, 0.2]]}
    floor = wagon(kind="planar", axis="0 0 1")
    for robot, there in ((floor, [5.0, 1.0, 0.0]), (wagon(**RAIL, limit=FAR), [5.0])):
        model = choose_pairs(robot, spheres)
        assert model.pairs == (("column", "wagon"),)
        assert robot.with_collision_model(model).collision(there).clearance[0] < 0.0
    assert choose_pairs(wagon(**RAIL, limit=(-1, 1)), spheres).left_out[NEVER] == (("column", "wagon"),)
    above = {"base": [[0.0, 1.0, 0.0, 0.1]], "wagon": [[0.0, 0.0, 0.0, 0.1]]}
    assert choose_pairs(wagon(**RAIL, limit=FAR), above).pairs == (("base", "wagon"),)
    assert choose_pairs(wagon(**RAIL, limit=(-1, 1)), above).left_out[ADJACENT] == (("base", "wagon"),)


def test_slides_between_bodies_are_those_of_the_joints_between_them():
    joints = [joint("ja", "prismatic", "base", "a", limit=(-1, 2)), joint("jb", "prismatic", "a", "b", limit=(0, 0.5))]
    joints += [joint("jc", "revolute", "a", "c", limit=(-1, 1)), joint("jd", "planar", "c", "d")]
    robot = load_urdf(urdf("tree", "base", *joints))
    slides = slides_between(robot)
    of = {link: robot.link_frame(link)[0] for link in robot.link_names}
    expected = {("base", "a"): 3.0, ("base", "b"): 3.5, ("a", "c"): 0.0, ("b", "c"): 0.5, ("base", "c"): 3.0}
    assert {pair: slides[of[pair[0]], of[pair[1]]] for pair in expected} == expected
    assert slides[of["c"], of["d"]] == slides[of["a"], of["d"]] > 1e6
    np.testing.assert_array_equal(slides, slides.T)
