"""Parts of robots with constraints: which they inherit, which they drop by name, and the smallest part of some."""

import pickle

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.errors import InputError
from ik_service.robots import LoopConstraint, load_urdf
from objectives.errors import UnknownNameError
from tests.constraints.mechanisms import at, branches, four_bar
from tests.robots.urdf_text import joint, urdf


def turn(name, parent, child, xyz="", axis="0 1 0"):
    return joint(name, "continuous", parent, child, xyz, axis=axis)


def leg(side, y):
    """A leg whose ankle is moved by two push-rods from cranks on the shin."""
    parts = [
        turn(f"{side}_hip", "torso", f"{side}_thigh", f"0 {y} 0"),
        turn(f"{side}_knee", f"{side}_thigh", f"{side}_shin", "0 0 -0.4"),
        turn(f"{side}_ankle", f"{side}_shin", f"{side}_cross", "0 0 -0.4"),
        turn(f"{side}_roll", f"{side}_cross", f"{side}_foot", axis="1 0 0"),
        turn(f"{side}_toe", f"{side}_foot", f"{side}_toes", "0.15 0 -0.05"),
    ]
    loops = []
    for way, place in (("in", -0.04), ("out", 0.04)):
        ends = f"{side}_rod_{way}", f"{side}_foot", at(z=-0.25), at(-0.06, place)
        parts.append(turn(f"{side}_{way}", f"{side}_shin", f"{side}_crank_{way}", f"0 {place} -0.15"))
        parts.append(joint(f"{side}_{way}_rod", "ball", f"{side}_crank_{way}", f"{side}_rod_{way}", "-0.06 0 0"))
        loops.append(LoopConstraint(f"{side}_{way}", "spherical", *ends))
    return parts, loops


def humanoid(*more):
    (left, left_loops), (right, right_loops) = leg("left", 0.1), leg("right", -0.1)
    arm = turn("shoulder", "torso", "arm", "0 0.2 0.4"), turn("elbow", "arm", "hand")
    return load_urdf(urdf("humanoid", "torso", *left, *right, *arm)).with_loops([*left_loops, *right_loops, *more])


def test_the_rods_of_an_ankle_are_about_shin_and_foot():
    robot = humanoid()
    part = robot.aggregate(["left_in", "left_out"])
    rods = {f"left_{what}_{way}" for what in ("crank", "rod") for way in ("in", "out")}
    assert set(part.link_names) == {"left_shin", "left_cross", "left_foot"} | rods
    assert part.link_names[0] == "left_shin"
    assert part.constraints.names() == ("left_in", "left_out")
    assert part.dropped_constraints == ("right_in", "right_out")
    found = part.constraints.close(part.random_joint_q(np.random.default_rng(0), 5))
    assert found.closed.all()
    assert part.active_dof_count - part.constraints.partition(found.joint_q).rank[0] == 4  # two, and two rods that spin
    both = robot.aggregate(["left_in", "right_out"])
    assert both.link_names[0] == "torso"
    assert {"left_thigh", "right_thigh"} <= set(both.link_names)
    assert not {"arm", "left_toes"} & set(both.link_names)
    assert both.dropped_constraints == ()


def test_a_loop_that_shares_links_with_another_brings_it_along():
    part = humanoid().aggregate(["left_in"])
    assert part.constraints.names() == ("left_in", "left_out")
    hold = LoopConstraint("hold", "weld", "hand", "left_toes")
    assert "arm" not in humanoid(hold).aggregate(["right_in"]).link_names
    whole = humanoid(hold).aggregate(["left_in", "hold"])
    assert {"torso", "arm", "hand", "left_thigh", "left_toes"} <= set(whole.link_names)
    assert "right_thigh" not in whole.link_names
    assert whole.constraints.names() == ("left_in", "left_out", "hold")


def test_links_on_a_way_through_another_constraint_are_members():
    """Thigh and foot are joined by a rod too: between shin and foot a way leads through it."""
    rod = LoopConstraint("rod", "distance", "left_foot", "left_thigh", distance=0.6)
    part = humanoid(rod).aggregate(["left_in"])
    assert part.link_names[0] == "left_thigh"
    assert set(part.constraints.names()) == {"left_in", "left_out", "rod"}
    robot = humanoid(LoopConstraint("stand", "point_in_plane", "torso"))  # nothing moves it: it is about its link
    assert robot.aggregate(["stand"]).link_names == ("torso",)
    assert "left_rod_in" in robot.aggregate(["stand", "left_in"]).link_names


def test_a_part_that_cuts_a_loop_drops_it_and_names_it():
    robot = humanoid()
    leg_alone = robot.subrobot("left_shin")
    assert leg_alone.constraints.names() == ("left_in", "left_out")
    assert leg_alone.dropped_constraints == ("right_in", "right_out")
    cut = robot.subrobot("left_shin", branches=["left_foot"])
    assert cut.constraints.names() == ()
    assert cut.dropped_constraints == ("left_in", "left_out", "right_in", "right_out")
    assert pickle.loads(pickle.dumps(cut)).dropped_constraints == cut.dropped_constraints
    assert cut.content_hash == robot.with_loops([]).subrobot("left_shin", branches=["left_foot"]).content_hash


def test_a_part_takes_the_constraints_that_are_asked_for():
    robot = humanoid()
    part = robot.subrobot("left_shin", constraints=["left_out"])
    assert part.constraints.names() == ("left_out",)
    assert part.dropped_constraints == ("left_in", "right_in", "right_out")
    assert robot.subrobot("torso", constraints=[]).constraints.names() == ()
    for call, error, words in (
        (
            lambda: robot.subrobot("left_shin", constraints=["right_in"]),
            InputError,
            "Constraint 'right_in' cannot be in",
        ),
        (lambda: robot.subrobot("left_shin", constraints=["left_ou"]), UnknownNameError, "Did you mean 'left_out'"),
        (lambda: robot.aggregate(["left_ou"]), UnknownNameError, "Did you mean 'left_out'"),
        (lambda: robot.aggregate("left_out"), InputError, "must be a list of names"),
        (lambda: robot.aggregate([]), InputError, "must be a list of names"),
    ):
        with pytest.raises(error, match=words):
            call()


def test_a_loop_to_the_world_stays_where_the_root_stands_still():
    robot = branches(["revolute"], world=True)
    whole = robot.subrobot("base")
    joint_q = robot.random_joint_q(np.random.default_rng(1), 4)
    np.testing.assert_array_equal(whole.constraints.residual(joint_q), robot.constraints.residual(joint_q))
    assert robot.subrobot("carriage").dropped_constraints == ("revolute_loop",)
    stand = joint("foot", "fixed", "ground", "stand", "1 2 3", "0.1 0.2 0.3")
    text = urdf("r", "ground", stand, turn("turn", "stand", "arm"), turn("bend", "arm", "hand", "0.3 0 0"))
    loop = LoopConstraint("held", "spherical", "hand", None, at(0.2), at(1.2, 2.3, 3.1))
    held = load_urdf(text).with_loops([loop])
    part = held.subrobot("stand")
    joint_q = held.random_joint_q(np.random.default_rng(1), 4)
    lengths = [np.linalg.norm(one.constraints.residual(joint_q), axis=1) for one in (held, part)]
    np.testing.assert_allclose(*lengths, atol=1e-12)
    assert part.dropped_constraints == ()


def test_a_locked_robot_keeps_its_constraints_and_judges_them():
    robot = load_robot("stewart")
    locked = robot.activate([])
    assert locked.constraints.names() == robot.constraints.names()
    found = locked.constraints.close(locked.mid_joint_q)
    assert found.status_names == ["open"]
    np.testing.assert_array_equal(found.joint_q[0], locked.mid_joint_q)
    assert found.constraint_error.max() > 0.01
    bar = four_bar()
    closed = bar.constraints.close(bar.mid_joint_q).joint_q[0]
    still = bar.lock(dict(zip(bar.joint_names, closed.tolist(), strict=True)))
    assert still.constraints.close(still.mid_joint_q).closed.all()
    assert still.constraints.partition(closed).rank[0] == 0
