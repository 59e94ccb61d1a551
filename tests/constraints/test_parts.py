"""Parts of robots with constraints: which they inherit, which they drop by name, and the smallest part of some."""

import pickle

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.errors import InputError
from ik_service.robots import LoopConstraint, load_urdf
from objectives.errors import UnknownNameError
from tests.constraints.mechanisms import at, branches, four_bar


def joint(name, kind, parent, child, xyz="0 0 0", axis="0 1 0"):
    return (
        f'<link name="{child}"/><joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{xyz}"/><axis xyz="{axis}"/></joint>'
    )


def leg(side, y):
    """A leg whose ankle is moved by two push-rods from cranks on the shin."""
    parts = [
        joint(f"{side}_hip", "continuous", "torso", f"{side}_thigh", f"0 {y} 0"),
        joint(f"{side}_knee", "continuous", f"{side}_thigh", f"{side}_shin", "0 0 -0.4"),
        joint(f"{side}_ankle", "continuous", f"{side}_shin", f"{side}_cross", "0 0 -0.4"),
        joint(f"{side}_roll", "continuous", f"{side}_cross", f"{side}_foot", axis="1 0 0"),
        joint(f"{side}_toe", "continuous", f"{side}_foot", f"{side}_toes", "0.15 0 -0.05"),
    ]
    loops = []
    for way, place in (("in", -0.04), ("out", 0.04)):
        parts.append(joint(f"{side}_{way}", "continuous", f"{side}_shin", f"{side}_crank_{way}", f"0 {place} -0.15"))
        parts.append(joint(f"{side}_{way}_rod", "ball", f"{side}_crank_{way}", f"{side}_rod_{way}", "-0.06 0 0"))
        loops.append(
            LoopConstraint(
                f"{side}_{way}", "spherical", f"{side}_rod_{way}", f"{side}_foot", at(z=-0.25), at(-0.06, place)
            )
        )
    return "".join(parts), loops


def humanoid(*more):
    parts = [leg("left", 0.1), leg("right", -0.1)]
    arm = joint("shoulder", "continuous", "torso", "arm", "0 0.2 0.4") + joint("elbow", "continuous", "arm", "hand")
    robot = load_urdf(f'<robot name="humanoid"><link name="torso"/>{parts[0][0]}{parts[1][0]}{arm}</robot>')
    return robot.with_loops([*parts[0][1], *parts[1][1], *more])


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


def test_both_legs_are_one_part_with_what_is_between():
    part = humanoid().aggregate(["left_in", "right_out"])
    assert part.link_names[0] == "torso"
    assert {"left_thigh", "right_thigh"} <= set(part.link_names)
    assert not {"arm", "left_toes"} & set(part.link_names)
    assert part.dropped_constraints == ()


def test_a_constraint_that_nothing_moves_is_about_its_link():
    robot = humanoid(LoopConstraint("stand", "point_in_plane", "torso"))
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
    with pytest.raises(InputError, match="Constraint 'right_in' cannot be in the part"):
        robot.subrobot("left_shin", constraints=["right_in"])
    with pytest.raises(UnknownNameError, match="Did you mean 'left_out'"):
        robot.subrobot("left_shin", constraints=["left_ou"])
    with pytest.raises(UnknownNameError, match="Did you mean 'left_out'"):
        robot.aggregate(["left_ou"])
    for wrong in ("left_out", []):
        with pytest.raises(InputError, match="must be a list of names"):
            robot.aggregate(wrong)


def test_a_loop_to_the_world_stays_where_the_root_stands_still():
    robot = branches(["revolute"], world=True)
    whole = robot.subrobot("base")
    joint_q = robot.random_joint_q(np.random.default_rng(1), 4)
    np.testing.assert_array_equal(whole.constraints.residual(joint_q), robot.constraints.residual(joint_q))
    assert robot.subrobot("carriage").dropped_constraints == ("revolute_loop",)
    stand = '<link name="stand"/><joint name="foot" type="fixed"><parent link="ground"/><child link="stand"/>'
    text = f'<robot name="r"><link name="ground"/>{stand}<origin xyz="1 2 3" rpy="0.1 0.2 0.3"/></joint>'
    text += joint("turn", "continuous", "stand", "arm") + joint("bend", "continuous", "arm", "hand", "0.3 0 0")
    held = load_urdf(text + "</robot>").with_loops(
        [LoopConstraint("held", "spherical", "hand", None, at(0.2), at(1.2, 2.3, 3.1))]
    )
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
