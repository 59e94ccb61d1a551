"""Mimic couplings, locks, active subsets: which DOFs a solver may move, and what the others do."""

from typing import Any

import numpy as np
import pytest

from ik_service.robots import RobotModel, load_robot, load_urdf
from objectives.errors import InputError, UnknownNameError
from tests.robots.urdf_text import joint, urdf


def _chain(*joints: tuple[str, str, str]) -> RobotModel:
    """Give a chain of joints, each a name, a type and what stands inside it."""
    places = [(f"l{i}", f"l{i + 1}", "0.1 0 0.2", "0.3 0 0") for i in range(len(joints))]
    own = (joint(*one[:2], *place, inside=one[2]) for one, place in zip(joints, places, strict=True))
    return load_urdf(urdf("chain", "l0", *own))


@pytest.fixture
def gripper() -> RobotModel:
    """Give a robot whose followers stand before their leader, one of them in a chain."""
    return _chain(
        ("tip", "revolute", '<limit lower="-1" upper="3"/><mimic joint="finger" multiplier="-2" offset="0.5"/>'),
        ("finger", "revolute", '<mimic joint="motor" multiplier="0.5" offset="0.25"/>'),
        ("wrist", "continuous", ""),
        ("motor", "revolute", '<limit lower="-4" upper="2"/>'),
    )


def test_chains_of_followers_are_resolved(gripper: RobotModel) -> None:
    # tip = -2 (0.5 motor + 0.25) + 0.5 = -motor
    assert gripper.dof_leader.tolist() == [3, 3, 2, 3]
    assert gripper.dof_multiplier.tolist() == [-1.0, 0.5, 1.0, 1.0]
    assert (gripper.dof_offset.tolist(), gripper.active_dof.tolist()) == ([0.0, 0.25, 0.0, 0.0], [2, 3])
    assert gripper.dof_active.tolist() == [1, 1, 0, 1]


def test_limits_of_followers_narrow_their_leader(gripper: RobotModel) -> None:
    # -1 <= -motor <= 3 and -4 <= motor <= 2; the finger has no limits of its own
    assert gripper.active_limit_lower.tolist() == [-np.inf, -3.0]
    assert gripper.active_limit_upper.tolist() == [np.inf, 1.0]
    assert gripper.joint_limit_lower.tolist() == [-1.0, -np.inf, -np.inf, -4.0]
    assert gripper.mid_joint_q.tolist() == [1.0, -0.25, 0.0, -1.0]


CONTRADICTIONS = {
    "a wrong sign": ('multiplier="-1"', (0.0, 0.8757), (0.0, 0.8)),
    "a wrong sign, and no value in common": ('multiplier="-1"', (0.1, 0.8757), (0.0, 0.8)),
    "one value in common but for a rounding": ('multiplier="3"', (2.4000000001, 9.0), (0.0, 0.8)),
    "no range": ('multiplier="0.5" offset="0.1"', (0.2, 0.2), (0.0, 0.8)),
    "no range, and a leader without limits": ('multiplier="2"', (0.0, 0.0), None),
    "a follower that stands still elsewhere": ('multiplier="0" offset="1.5"', (0.0, 1.0), (0.0, 0.8)),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_limits_of_followers_that_take_their_leader_away_are_left_out(case: str) -> None:
    coupling, limits, kept = CONTRADICTIONS[case]
    inside = f'<limit lower="{limits[0]}" upper="{limits[1]}"/><mimic joint="motor" {coupling}/>'
    motor = ("continuous", "") if kept is None else ("revolute", f'<limit lower="0" upper="{kept[1]}"/>')
    robot = _chain(("motor", *motor), ("tip", "revolute", inside))
    lower, upper = (-np.inf, np.inf) if kept is None else kept
    assert (robot.active_limit_lower.tolist(), robot.active_limit_upper.tolist()) == ([lower], [upper])
    assert (robot.joint_limit_lower.tolist(), robot.joint_limit_upper.tolist()) == ([lower, -np.inf], [upper, np.inf])
    (warning,) = robot.warnings
    for word in ("'tip'", "'motor'", f"[{limits[0]:g}, {limits[1]:g}]", f"within [{lower:g}, {upper:g}]"):
        assert word in warning


def test_limits_that_leave_some_range_hold_beside_ones_that_are_left_out() -> None:
    robot = _chain(
        ("motor", "revolute", '<limit lower="0" upper="0.8"/>'),
        ("wrong", "revolute", '<limit lower="0" upper="0.8"/><mimic joint="motor" multiplier="-1"/>'),
        ("narrow", "revolute", '<limit lower="0.1" upper="0.5"/><mimic joint="motor"/>'),
    )
    assert (robot.active_limit_lower.tolist(), robot.active_limit_upper.tolist()) == ([0.1], [0.5])
    (warning,) = robot.warnings
    assert "'wrong'" in warning
    assert "within [0.1, 0.5]" in warning
    assert robot.joint_limit_lower.tolist() == [0.0, -np.inf, 0.1]


def test_a_held_leader_stays_held_and_a_follower_that_stands_still_leaves_its_leader_alone() -> None:
    robot = _chain(
        ("motor", "revolute", '<limit lower="0.333333333333" upper="0.333333333333"/>'),
        ("tip", "revolute", '<limit lower="1" upper="2"/><mimic joint="motor" multiplier="3"/>'),
    )
    assert not robot.warnings
    assert robot.active_limit_lower == robot.active_limit_upper == pytest.approx(1 / 3)
    assert robot.random_joint_q(np.random.default_rng(0), 3) == pytest.approx(np.tile([1 / 3, 1.0], (3, 1)))
    inside = '<limit lower="0" upper="1"/><mimic joint="motor" multiplier="0" offset="0.5"/>'
    robot = _chain(("motor", "revolute", '<limit lower="-1" upper="1"/>'), ("tip", "revolute", inside))
    assert robot.active_limit_lower.tolist() == [-1.0]
    assert robot.complete_joint_q([0.7, 0.0]).tolist() == [[0.7, 0.5]]


def test_completion_sets_followers_and_keeps_the_rest(gripper: RobotModel) -> None:
    given = np.array([[9.0, 9.0, 7.0, -2.0], [9.0, 9.0, -7.0, 5.0]])
    completed = gripper.complete_joint_q(given)
    assert completed.tolist() == [[2.0, -0.75, 7.0, -2.0], [-5.0, 2.75, -7.0, 5.0]]
    assert given[0, 0] == 9.0
    clamped = gripper.clamp_joint_q(given)
    assert clamped.tolist() == [[2.0, -0.75, 7.0, -2.0], [-1.0, 0.75, -7.0, 1.0]]


def test_a_locked_leader_holds_its_followers(gripper: RobotModel) -> None:
    locked = gripper.lock({"motor": 0.5})
    assert (locked.dof_active.tolist(), locked.active_dof.tolist()) == ([-1, -1, 0, -1], [2])
    assert locked.mid_joint_q.tolist() == [-0.5, 0.5, 0.0, 0.5]
    assert locked.complete_joint_q(np.ones(4)).tolist() == [[-1.0, 0.75, 1.0, 1.0]], "held where it is given"
    assert locked.clamp_joint_q(np.full(4, -9.0)).tolist() == [[3.0, -1.25, -9.0, -3.0]], "and inside the limits"
    assert dict(locked.locked) == {"motor": (0.5,)}
    assert locked.joint_dof_count == gripper.joint_dof_count == 4
    assert not locked.dof_at(0).active
    assert gripper.dof_at(0).active, "the model that was asked stays as it was"


def test_a_lock_in_the_middle_of_the_tree_moves_nothing_but_its_joint() -> None:
    robot = load_robot("panda")
    locked = robot.lock({"panda_joint4": -1.0, "panda_joint2": 0.3})
    q = locked.random_joint_q(np.random.default_rng(0), 20)
    assert (q[:, 3] == -1.0).all()
    assert (q[:, 1] == 0.3).all()
    assert locked.dof_active.tolist() == [0, -1, 1, -1, 2, 3, 4]
    ours, theirs = locked.forward_kinematics(q, ["panda_hand"]), robot.forward_kinematics(q, ["panda_hand"])
    assert np.array_equal(ours.positions, theirs.positions)
    assert np.ptp(q, axis=0)[[0, 2, 4, 5, 6]].min() > 0.1
    again = locked.lock({"panda_joint1": 0.2}).lock({"panda_joint2": -0.5})  # locks add up, and the last value holds
    assert dict(again.locked) == {"panda_joint4": (-1.0,), "panda_joint2": (-0.5,), "panda_joint1": (0.2,)}
    assert again.active_dof_count == 4


def test_joints_with_several_coordinates_are_locked_at_all_of_them() -> None:
    robot = _chain(("base", "planar", ""), ("neck", "ball", ""))
    half = float(np.sqrt(0.5))
    locked = robot.lock({"base": [1.0, 2.0, 3.0], "neck": (0.0, half, 0.0, half)})
    assert locked.mid_joint_q == pytest.approx([1, 2, 3, 0, half, 0, half])
    assert locked.active_dof_count == 0
    with pytest.raises(InputError, match="must be 3 finite"):
        robot.lock({"base": 1.0})
    with pytest.raises(InputError, match="has length 2; it must be 1"):
        robot.lock({"neck": [0, 2, 0, 0]})


FOLLOWS = "follows 'panda_finger_joint1' and "
BAD_CHOICES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {  # what is locked and active
    "unknown": (
        {"locked": {"panda_joint": 0.0}},
        UnknownNameError,
        r"Joint 'panda_joint' is not in robot .*\. Did you",
    ),
    "fixed": ({"locked": {"panda_hand_joint": 0.0}}, UnknownNameError, "Joint 'panda_hand_joint' is not in robot"),
    "follower": ({"locked": {"panda_finger_joint2": 0.01}}, InputError, f"{FOLLOWS}cannot be locked alone"),
    "outside": ({"locked": {"panda_joint4": 0.5}}, InputError, r"cannot be locked at 0.5: limits \[-3.0718, -0.0698\]"),
    "nan": ({"locked": {"panda_joint1": float("nan")}}, InputError, "must be 1 finite"),
    "words": ({"locked": {"panda_joint1": "half"}}, InputError, "must be numbers, got 'half'"),
    "too many": ({"locked": {"panda_joint1": [0.0, 0.0]}}, InputError, "must be 1 finite"),
    "active follower": ({"active": ["panda_finger_joint2"]}, InputError, f"{FOLLOWS}moves only with it"),
    "active unknown": ({"active": ["elbow"]}, UnknownNameError, "Joint 'elbow' is not in robot"),
    "active text": ({"active": "panda_joint1"}, InputError, "must be a list of names"),
    "both": ({"locked": {"panda_joint1": 0.0}, "active": ["panda_joint1"]}, InputError, "in 'locked' and in 'active'"),
}


@pytest.mark.parametrize("case", BAD_CHOICES)
def test_bad_locks_and_active_subsets_are_refused(case: str) -> None:
    given, kind, words = BAD_CHOICES[case]
    with pytest.raises(kind, match=words):
        load_robot("panda_gripper", **given)


def test_an_active_subset_holds_all_others() -> None:
    robot = load_robot("panda_gripper", locked={"panda_joint1": 0.4}, active=["panda_joint2", "panda_finger_joint1"])
    assert [robot.dof_names[dof] for dof in robot.active_dof] == ["panda_joint2", "panda_finger_joint1"]
    assert (robot.dof_active.tolist(), robot.mid_joint_q[0]) == ([-1, 0, -1, -1, -1, -1, -1, 1, 1], 0.4)
    assert robot.mid_joint_q[3] == pytest.approx(-1.5708)
    again = robot.activate(["panda_joint1"])
    assert [again.dof_names[dof] for dof in again.active_dof] == ["panda_joint1"]
    assert robot.activate([]).active_dof_count == 0
