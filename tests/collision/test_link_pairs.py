"""Which links are checked against each other: by structure, by random configurations, and by free ones."""

import numpy as np
import pytest

from ik_service.collision.levers import slides_between
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

# Four links of 0.3 m in a plane; a tool welded to the last, a camera welded to the base, and a frame without spheres.
CHAIN = """<robot name="chain">
  <link name="base"/><link name="camera"/><link name="one"/><link name="two"/><link name="three"/>
  <link name="flange"/><link name="tool"/>
  <joint name="camera_mount" type="fixed">
    <parent link="base"/><child link="camera"/>
    <origin xyz="0 0 0.02"/></joint>
  <joint name="first" type="revolute">
    <parent link="base"/><child link="one"/>
    <axis xyz="0 0 1"/><limit lower="-3" upper="3"/></joint>
  <joint name="second" type="revolute">
    <parent link="one"/><child link="two"/>
    <origin xyz="0.3 0 0"/><axis xyz="0 0 1"/><limit lower="-3" upper="3"/></joint>
  <joint name="third" type="revolute">
    <parent link="two"/><child link="three"/>
    <origin xyz="0.3 0 0"/><axis xyz="0 0 1"/><limit lower="-3" upper="3"/></joint>
  <joint name="flange_mount" type="fixed">
    <parent link="three"/><child link="flange"/>
    <origin xyz="0.3 0 0"/></joint>
  <joint name="tool_mount" type="fixed"><parent link="flange"/><child link="tool"/></joint>
</robot>"""
BAR = [[0.05 + 0.05 * k, 0.0, 0.0, 0.03] for k in range(5)]
SPHERES = {
    "base": [[0.0, 0.0, 0.0, 0.04]],
    "camera": [[-0.4, 0.0, 0.0, 0.03]],
    "one": BAR,
    "two": BAR,
    "three": BAR,
    "tool": [[0.0, 0.0, 0.0, 0.03]],
}


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


def test_a_link_without_spheres_does_not_part_its_neighbours(chain):
    model = choose_pairs(chain, {"base": SPHERES["base"], "two": BAR}, 100)
    assert model.left_out[ADJACENT] == (("base", "two"),)


def test_spheres_that_always_overlap_are_not_checked(chain):
    wide = {**SPHERES, "two": [[0.0, 0.0, 0.0, 0.7]]}
    assert ("three", "tool") not in choose_pairs(chain, wide, 500).pairs
    assert set(choose_pairs(chain, wide, 500).left_out[ALWAYS]) == {("base", "two"), ("camera", "two"), ("tool", "two")}


def test_the_choice_is_the_same_in_every_run(chain):
    assert choose_pairs(chain, SPHERES, 500).content_hash == choose_pairs(chain, SPHERES, 500).content_hash


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


def wagon(joint):
    """A column 5 m away, and what slides there."""
    return load_urdf(
        '<robot name="wagon"><link name="base"/><link name="column"/><link name="wagon"/>'
        '<joint name="mount" type="fixed"><parent link="base"/><child link="column"/><origin xyz="5 1 0"/></joint>'
        f'<joint name="drive" {joint}</joint></robot>'
    )


RAIL = 'type="prismatic"><parent link="base"/><child link="wagon"/><origin xyz="0 1 0"/><axis xyz="1 0 0"/>'
FLOOR = 'type="planar"><parent link="base"/><child link="wagon"/><axis xyz="0 0 1"/>'
LONG, SHORT = ('<limit lower="-1000" upper="1000"/>', '<limit lower="-1" upper="1"/>')


@pytest.mark.parametrize(("joint", "there"), [(FLOOR, [5.0, 1.0, 0.0]), (RAIL + LONG, [5.0])])
def test_links_that_slide_far_are_checked_though_random_configurations_do_not_show_that_they_meet(joint, there):
    robot = wagon(joint)
    model = choose_pairs(robot, {"column": [[0.0, 0.0, 0.0, 0.2]], "wagon": [[0.0, 0.0, 0.0, 0.2]]})
    assert model.pairs == (("column", "wagon"),)
    assert robot.with_collision_model(model).collision(there).clearance[0] < 0.0


def test_links_that_slide_a_little_are_left_out_where_they_never_meet():
    model = choose_pairs(wagon(RAIL + SHORT), {"column": [[0.0, 0.0, 0.0, 0.2]], "wagon": [[0.0, 0.0, 0.0, 0.2]]})
    assert model.left_out[NEVER] == (("column", "wagon"),)


def test_a_link_that_slides_far_from_the_one_above_it_is_checked():
    spheres = {"base": [[0.0, 1.0, 0.0, 0.1]], "wagon": [[0.0, 0.0, 0.0, 0.1]]}
    assert choose_pairs(wagon(RAIL + LONG), spheres).pairs == (("base", "wagon"),)
    assert choose_pairs(wagon(RAIL + SHORT), spheres).left_out[ADJACENT] == (("base", "wagon"),)


def test_slides_between_bodies_are_those_of_the_joints_between_them():
    robot = load_urdf(
        '<robot name="tree"><link name="base"/><link name="a"/><link name="b"/><link name="c"/><link name="d"/>'
        '<joint name="ja" type="prismatic"><parent link="base"/><child link="a"/><limit lower="-1" upper="2"/></joint>'
        '<joint name="jb" type="prismatic"><parent link="a"/><child link="b"/><limit lower="0" upper="0.5"/></joint>'
        '<joint name="jc" type="revolute"><parent link="a"/><child link="c"/><limit lower="-1" upper="1"/></joint>'
        '<joint name="jd" type="planar"><parent link="c"/><child link="d"/></joint></robot>'
    )
    slides = slides_between(robot)
    of = {link: robot.link_frame(link)[0] for link in robot.link_names}
    expected = {("base", "a"): 3.0, ("base", "b"): 3.5, ("a", "c"): 0.0, ("b", "c"): 0.5, ("base", "c"): 3.0}
    assert {pair: slides[of[pair[0]], of[pair[1]]] for pair in expected} == expected
    assert slides[of["c"], of["d"]] == slides[of["a"], of["d"]] > 1e6
    np.testing.assert_array_equal(slides, slides.T)
