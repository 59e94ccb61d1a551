"""Loops that other programs name in a URDF or beside it: each closes the mechanism that it was written for."""

import json
import re

import numpy as np
import pytest

import ik_service
from ik_service.mechanism.transforms import quaternion_from_rpy, quaternion_rotate
from ik_service.robots import load_robot, load_urdf
from ik_service.robots.readers.description import MAX_CONSTRAINTS
from tests.constraints.mechanisms import closed_four_bar
from tests.robots.urdf_text import joint, urdf
from tests.solver.test_loops import CLOSED, COUPLER, CRANK, FOUR_BAR, GROUND, ROCKER, gaps

DRIVES, TURNED = np.linspace(-2.5, 2.5, 12), 'rpy="0.4 -0.3 0.7"'
PIN = f"""<constraint name="pin" type="revolute">
    <parent link="rocker"/><parent_origin xyz="{ROCKER} 0 0" {TURNED}/><parent_axis xyz="{{axis}}"/>
    <child link="coupler"/><child_origin xyz="{COUPLER} 0 0" {TURNED}/>
  </constraint>"""
FRAMES = f"""<link name="closing_pin_1"/><link name="closing_pin_2"/>
  <joint name="f1" type="fixed"><origin xyz="{ROCKER} 0 0"/><parent link="rocker"/><child link="closing_pin_1"/></joint>
  <joint name="f2" type="fixed"><origin xyz="{COUPLER} 0 0"/><parent link="coupler"/><child link="closing_pin_2"/>
  </joint>"""


def named(text, robot=FOUR_BAR):
    return robot.replace("</robot>", f"{text}</robot>")


def pin(**changes):
    """A constraint between coupler and rocker, its parts replaced."""
    parts = {
        "name": 'name="pin"',
        "type": 'type="revolute"',
        "parent": '<parent link="rocker"/>',
        "child": '<child link="coupler"/>',
        "rest": "",
    } | changes
    return "<constraint {name} {type}>{parent}{child}{rest}</constraint>".format(**parts)


def z_in_turned():
    turn = quaternion_from_rpy(0.4, -0.3, 0.7)
    return quaternion_rotate(turn * [-1, -1, -1, 1], np.array([0.0, 0.0, 1.0]))


@pytest.mark.evidence
@pytest.mark.parametrize(
    "text",
    [PIN.format(axis=" ".join(map(str, z_in_turned()))), FRAMES],
    ids=["a constraint of urdfdom", "frames of onshape-to-robot"],
)
def test_a_loop_in_a_urdf_closes_it(text):
    robot = load_urdf(named(text))
    assert robot.warnings == ()
    assert len(robot.loops) == 1
    closed = closed_four_bar(robot.joint_names, DRIVES)
    assert gaps(robot, closed).max() < 1e-12
    assert gaps(robot, closed + 0.1).min() > 1e-3
    target = robot.forward_kinematics(closed, ["coupler"])
    result = ik_service.IKSolver(robot, ["coupler"], device="cpu").solve(target.positions[:, 0])
    assert result.success.all()
    assert gaps(robot, result.joint_q).max() <= CLOSED
    assert load_urdf(named(text), constraints="ignore").loops == ()


def axis_of(offset, own):
    return quaternion_rotate(np.array(offset[3:]), np.eye(3)[own])


def test_axes_of_constraints_are_those_of_the_frames():
    axes = '<parent_axis xyz="0 2 0"/><child_axis xyz="0 1 1"/>'
    for kind, own, parent, child in (
        ("revolute", 2, [0, 1, 0], [0, 1, 1]),
        ("cylindrical", 2, [0, 1, 0], [0, 1, 1]),
        ("prismatic", 2, [0, 1, 0], [0, 1, 0]),
        ("universal", 0, [0, 1, 0], [0, 1, 1]),
    ):
        (loop,) = load_urdf(named(pin(type=f'type="{kind}"', rest=axes))).loops
        assert loop.joint == kind
        np.testing.assert_allclose(axis_of(loop.reference_offset, 2), parent, atol=1e-12)
        np.testing.assert_allclose(axis_of(loop.offset, own), child / np.linalg.norm(child), atol=1e-12)
    (default,) = load_urdf(named(pin(type='type="continuous"'))).loops
    assert default.joint == "revolute"
    for offset in (default.offset, default.reference_offset):
        np.testing.assert_allclose(axis_of(offset, 2), [1, 0, 0], atol=1e-12)  # as of joints


def test_words_and_sizes_of_joints_are_understood():
    for word, kind in (("link", "weld"), ("fixed", "weld"), ("SPHERICAL", "spherical"), ("ball", "spherical")):
        (loop,) = load_urdf(named(pin(type=f'type="{word}"', rest='<child_origin xyz="1 2 3" rpy="0 0 0.8"/>'))).loops
        assert (loop.name, loop.joint, loop.link, loop.reference_link) == ("pin", kind, "coupler", "rocker")
        np.testing.assert_allclose(loop.offset, [1, 2, 3, 0, 0, np.sin(0.4), np.cos(0.4)], atol=1e-15)
        assert loop.reference_offset == (0, 0, 0, 0, 0, 0, 1)
    (screw,) = load_urdf(named(pin(type='type="helical" pitch="0.01"'))).loops
    (rod,) = load_urdf(named(pin(type='type="distance" distance="0.2"'))).loops
    assert (screw.pitch, screw.distance, rod.pitch, rod.distance) == (0.01, None, None, 0.2)


BAD = {
    "no type": (pin(type=""), "constraint 'pin': attribute 'type' is missing"),
    "another type": (pin(type='type="rope"'), "line 8, constraint 'pin': .*joint is 'rope'. Allowed"),
    "no name": (pin(name=""), "attribute 'name' is missing"),
    "no parent": (pin(parent=""), "<parent> is missing"),
    "no such link": (pin(child='<child link="lever"/>'), "'pin' .*link 'lever', which the robot does not have"),
    "an axis of length 0": (pin(rest='<parent_axis xyz="0 0 0"/>'), "<parent_axis> of constraint 'pin': the axis must"),
    "a far origin": (pin(rest='<child_origin xyz="1e9 0 0"/>'), "<child_origin> of constraint 'pin': numbers of an"),
    "no distance": (pin(type='type="distance"'), "needs distance"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_constraint_that_is_no_loop_is_left_out_and_named(case):
    text, words = BAD[case]
    robot = load_urdf(named(text + pin(name='name="good"')))
    assert [loop.name for loop in robot.loops] == ["good"]
    (warning,) = robot.warnings
    assert warning.startswith(("A loop is left out: line ", "Loop 'pin' is left out: "))
    assert re.search(words, warning)


def test_more_loops_than_a_document_may_have_and_half_a_pair_of_frames_are_left_out():
    places = (f'<child_origin xyz="{k} 0 0"/>' for k in range(MAX_CONSTRAINTS + 2))
    many = "".join(pin(name=f'name="p{k}"', rest=place) for k, place in enumerate(places))
    robot = load_urdf(named(many))
    assert len(robot.loops) == MAX_CONSTRAINTS
    assert "Loops after the first 256 are left out; more are not read." in robot.warnings
    robot = load_urdf(named(FRAMES.replace("closing_pin_2", "tip")))
    assert robot.loops == ()
    assert robot.warnings == ("Link 'closing_pin_1' closes no loop: the other one of its pair is missing.",)


DRIVE, ELBOW, SWING = closed_four_bar(("drive", "elbow", "swing"), DRIVES[3])
END = CRANK * np.array([np.cos(DRIVE), np.sin(DRIVE)])
END += COUPLER * np.array([np.cos(DRIVE + ELBOW), np.sin(DRIVE + ELBOW)])
UPRIGHT = urdf(
    "four_bar",
    "base_link",
    joint("stand", "fixed", "base_link", "ground", "0 0 1", f"{np.pi / 2} 0 0"),
    joint("drive", "continuous", "ground", "crank", "", f"0 0 {DRIVE}", "0 0 1"),
    joint("elbow", "continuous", "crank", "coupler", f"{CRANK} 0 0", f"0 0 {ELBOW}", "0 0 1", mimic=("drive", -0.4)),
    joint("swing", "continuous", "ground", "rocker", f"{GROUND} 0 0", f"0 0 {SWING}", "0 0 1", mimic=("drive", 0.2)),
)
CLOSURE = {"link_a": "coupler", "link_b": "rocker", "point": [END[0], 0.0, 1.0 + END[1]], "axis": [0.0, -2.0, 0.0]}
CLOSURES = {"closures": [CLOSURE], "dependent": ["elbow", "swing"], "independent": ["drive"]}


PLACES = {
    "bar.urdf": "loop_closures.yaml",
    "urdf/bar.urdf": "config/loop_closures.yaml",
    "urdf/b.urdf": "loop_closures.yaml",
}


@pytest.mark.parametrize(("place", "beside"), PLACES.items())
@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "floating"])
def test_hinges_that_were_cut_close_the_mechanism(tmp_path, place, beside, floating):
    for name, text in ((place, UPRIGHT), (beside, json.dumps(CLOSURES))):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    robot = load_robot(tmp_path / place, floating_base=floating)
    assert robot.warnings == ()
    assert [loop.joint for loop in robot.loops] == ["revolute"]
    assert len(robot.follower_dofs) == 0  # mimics came near, the loop is exact
    joint_q = np.tile(robot.mid_joint_q, (12, 1))
    joint_q[:, -3:] = closed_four_bar(robot.joint_names[-3:], DRIVES) - closed_four_bar(robot.joint_names[-3:], DRIVE)
    assert gaps(robot, joint_q).max() < 1e-12
    assert gaps(robot, joint_q + np.eye(robot.joint_coord_count)[-1] * 0.1).min() > 1e-3
    without = load_robot(tmp_path / place, constraints="ignore")
    assert without.loops == ()
    assert len(without.follower_dofs) == 2


BAD_CLOSURES = {
    "no list": ({"pins": []}, "loop_closures.yaml: It must be a mapping with a list 'closures'. Its constraints are"),
    "no mapping": ({"closures": [3]}, "loop_closures.yaml, closure 1 is left out: it must be a mapping of fields."),
    "no point": ({"closures": [CLOSURE | {"point": None}]}, "closure 1 is left out: 'point' must be a list of 3"),
    "no axis": ({"closures": [CLOSURE | {"axis": [0, 0, 0]}]}, "closure 1 is left out: its axis must not be zero."),
    "no link": ({"closures": [CLOSURE | {"link_a": ""}]}, "closure 1 is left out: 'link_a' must be a text"),
    "other link": ({"closures": [CLOSURE | {"link_b": "lever"}]}, "Loop 'closure_1' is left out: Link 'lever'"),
    "too many": (
        {"closures": [CLOSURE | {"point": [k, 0, 0]} for k in range(257)]},
        "after the first 256 are left out",
    ),
}


@pytest.mark.parametrize("case", BAD_CLOSURES)
def test_a_closure_that_is_no_hinge_is_left_out_and_named(tmp_path, case):
    document, words = BAD_CLOSURES[case]
    (tmp_path / "bar.urdf").write_text(UPRIGHT)
    (tmp_path / "loop_closures.yaml").write_text(json.dumps(document))
    robot = load_robot(tmp_path / "bar.urdf")
    told = [warning for warning in robot.warnings if not warning.startswith("Too many loops to look for rounded")]
    assert len(told) == 1
    assert words in told[0]
    assert len(robot.loops) == (MAX_CONSTRAINTS if case == "too many" else 0)
