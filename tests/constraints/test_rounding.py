"""Loops from files with rounded numbers: what would move with exact numbers moves, and what is rigid stays so."""

import dataclasses
import re

import numpy as np
import pytest

from ik_service.constraints import rounding
from ik_service.robots import LoopConstraint, RobotModel, load_robot, load_urdf
from objectives import IKObjectiveLoop, InputError
from tests.constraints import rounded
from tests.constraints.mechanisms import at
from tests.constraints.mechanisms import four_bar as planar_four_bar

CLOSED = 1e-10
DIGITS = (9, 7, 6, 5, 4)
TOLD = 4e-4  # [m and rad] of the largest slack of these mechanisms
SAME_RATE = 1e-3  # of velocities; angles are off by up to 5e-5
LOOSE = {"gripper": {"pz", "zx", "zy"}, "pins": {"zx", "zy"}}  # of others: pz, zx and zy


def started(robot: RobotModel, count: int = 20) -> np.ndarray:
    return robot.random_joint_q(np.random.default_rng(1), count)


@pytest.mark.parametrize("digits", DIGITS)
@pytest.mark.parametrize("name", rounded.MECHANISMS)
def test_a_mechanism_with_rounded_angles_moves_as_with_all_digits(name: str, digits: int) -> None:
    exact, robot = (load_urdf(rounded.MECHANISMS[name](one)) for one in (None, digits))
    assert not exact.warnings
    found, wanted = robot.constraints.close(started(robot)), exact.constraints.close(started(exact))
    assert found.closed.tolist() == wanted.closed.tolist()
    assert wanted.closed.all()
    freedoms = exact.constraints.partition(wanted.joint_q[:3]).independent
    partition = robot.constraints.partition(found.joint_q[:3])
    assert partition.independent == freedoms
    assert len(freedoms) >= 1
    assert not partition.conflicting.any()
    for loop in robot.loops:
        slack = dict(loop.slack)
        assert slack.keys() <= LOOSE.get(name, {"pz", "zx", "zy"})
        assert max(slack.values()) <= TOLD
        (warning,) = (one for one in robot.warnings if f"'{loop.name}'" in one)
        assert all(f"{row} {most:.1e}" in warning for row, most in slack.items())
        off = np.abs(robot.constraints.error(found.joint_q)[:, robot.constraints.error_rows(loop.name)]).max()
        assert CLOSED < off <= 2.0 * max(slack.values())  # by another packing, the two tilts together


@pytest.mark.parametrize("digits", [4, 7])
@pytest.mark.parametrize("limit", [0.05, 0.005])
def test_a_narrow_range_does_not_hide_that_a_mechanism_moves(limit: float, digits: int) -> None:
    robot = load_urdf(rounded.pins(digits, limit))
    assert dict(robot.loops[0].slack).keys() == LOOSE["pins"]
    assert "rounded numbers" in robot.warnings[0]
    found = robot.constraints.close(started(robot))
    assert found.closed.all()
    assert np.ptp(found.joint_q[:, 0]) > limit


@pytest.mark.parametrize(("off", "row"), [({"off": 1e-5}, "px"), ({"tilt": 1e-5}, "zy"), ({"tilt": 1e-6}, "zy")])
def test_a_door_turns_on_two_hinges_that_are_off_by_rounding(off: dict[str, float], row: str) -> None:
    robot = load_urdf(rounded.door(**off))
    assert dict(robot.loops[0].slack) == {row: pytest.approx(4.0 * max(off.values()))}
    assert "rounded numbers" in robot.warnings[0]
    found = robot.constraints.close(started(robot))
    assert found.closed.all()
    assert np.ptp(found.joint_q) > 1.0


@pytest.mark.parametrize("off", [{"off": 5e-3}, {"tilt": 1e-3}])
def test_a_door_on_two_hinges_that_are_truly_off_stays_shut(off: dict[str, float]) -> None:
    robot = load_urdf(rounded.door(**off))
    assert robot.loops[0].slack is None
    assert not robot.warnings
    assert not robot.constraints.close(started(robot)).closed.any()


@pytest.mark.parametrize("name", ["four-bar", "five-bar", "gripper"])
def test_velocities_and_sweeps_of_a_rounded_mechanism_are_those_of_the_exact_one(name: str) -> None:
    exact, robot = (load_urdf(rounded.MECHANISMS[name](one)) for one in (None, 4))
    pin, coordinates = robot.loops[0].name, robot.joint_coord_count
    rates, paths = [], []
    for one in (exact, robot):
        joint_q = one.constraints.close(one.mid_joint_q).joint_q[0]
        rates.append(one.constraints.velocity(joint_q, np.ones(one.joint_dof_count)).joint_qd)
        angle = one.constraints.with_closing_joints(joint_q)[0][coordinates]
        paths.append(one.constraints.sweep(pin, (angle, angle + 0.2), 0.05, joint_q=joint_q))
    assert rates[1] == pytest.approx(rates[0], abs=SAME_RATE)
    assert np.abs(rates[0]).max() > 0.1
    for path in paths:
        assert not path.status.any()
        assert path.constraint_error.max() <= CLOSED


@pytest.mark.parametrize("angle", [0.01, 0.003, 0.001])
@pytest.mark.parametrize("joint", ["drive", "elbow", "pin"])
def test_an_axis_that_is_truly_inclined_leaves_a_mechanism_rigid(joint: str, angle: float) -> None:
    text = rounded.inclined(joint, angle)
    for robot in map(load_urdf, (text, shrunk(text)) if angle == 0.003 else (text,)):
        assert not robot.warnings
        assert robot.loops[0].slack is None
        assert not robot.constraints.close(started(robot)).closed.any()


def shrunk(text: str) -> str:
    """A mechanism of a finger's size."""

    def smaller(found: re.Match) -> str:
        return f'xyz="{" ".join(repr(float(one) * 0.05) for one in found[1].split())}"'

    return re.sub('xyz="([^"]*)"(?=[^>]* rpy)', smaller, text)


@pytest.mark.parametrize("digits", [4, 5, 6])
@pytest.mark.parametrize("name", ["four-bar", "five-bar", "gripper"])
def test_small_mechanisms_move_as_large_ones(name: str, digits: int) -> None:
    large, small = load_urdf(rounded.MECHANISMS[name](digits)), load_urdf(shrunk(rounded.MECHANISMS[name](digits)))
    for loop, same in zip(large.loops, small.loops, strict=True):
        assert dict(loop.slack).keys() == dict(same.slack).keys()
    assert small.constraints.close(started(small)).closed.all()


def test_bars_that_just_meet_stay_rigid() -> None:
    """Stretched, they can move by a little to first order, and by nothing else."""
    robot = load_urdf(rounded.bars(ground=1.1))
    assert not robot.warnings
    joint_q = robot.constraints.close(np.array([0.3, -0.2, 0.1])).joint_q
    ends = robot.forward_kinematics(joint_q, ["coupler"]).positions[0, 0]
    assert ends == pytest.approx([0.2, 0.0, 0.0], abs=1e-4)
    assert not load_urdf(rounded.bars(ground=1.10001)).constraints.close(started(robot)).closed.any()


def test_a_crank_that_is_off_its_plane_by_rounding_turns_and_by_more_does_not() -> None:
    near, far = (load_urdf(rounded.bars(height=height)) for height in (5e-5, 1e-3))
    assert dict(near.loops[0].slack) == {"pz": 2e-4}
    assert near.constraints.close(started(near)).closed.all()
    assert not far.warnings
    assert not far.constraints.close(started(far)).closed.any()


@pytest.mark.parametrize("name", ["four_bar", "five_bar", "delta", "stewart"])
def test_built_in_robots_have_no_slack(name: str) -> None:
    robot = load_robot(name)
    assert not robot.warnings
    assert all(loop.slack is None for loop in robot.loops)


def test_slack_that_is_given_is_kept() -> None:
    found = load_urdf(rounded.pins(4))
    (loop,) = found.loops
    for slack in ((), (("zx", 0.1),)):
        robot = found.with_loops([dataclasses.replace(loop, slack=slack)])
        assert robot.loops[0].slack == slack
        assert robot.content_hash != found.content_hash
    given = LoopConstraint("pin", "revolute", "a", "b", slack={"zy": 1})
    assert given.slack == (("zy", 1.0),)
    assert "slack=(('zy', 1.0),)" in repr(given)


def test_a_row_counts_from_the_end_of_its_slack() -> None:
    exact = planar_four_bar()
    loose = exact.with_loops([dataclasses.replace(exact.loops[0], slack={"px": 0.05, "py": 0.2})])
    joint_q = started(exact, 50)
    rows, counted = exact.constraints.residual(joint_q), loose.constraints.residual(joint_q)
    slack = np.array([0.05, 0.2, 0.0, 0.0, 0.0])
    assert counted == pytest.approx(rows - np.clip(rows, -slack, slack), abs=1e-15)
    within = np.abs(rows[:, 1]) < 0.2
    assert 0 < within.sum() < 50
    jacobian = loose.constraints.residual_jacobian(joint_q)
    assert not jacobian[within, 1].any()
    assert jacobian[~within, 1] == pytest.approx(exact.constraints.residual_jacobian(joint_q)[~within, 1])


@pytest.mark.parametrize("slack", [{"ex": 0.1}, {"zx": 0.0}, {"zx": -1.0}, {"zx": np.inf}, {"zx": "much"}, 0.1, "zx"])
def test_slack_that_makes_no_sense_is_refused(slack: object) -> None:
    with pytest.raises(InputError, match=r"slack of joint 'revolute' is .* names of rows: px, py, pz, zx, zy"):
        IKObjectiveLoop("a", "b", "revolute", slack=slack)
    with pytest.raises(InputError, match=r"Loop .pin.: .*slack"):
        LoopConstraint("pin", "revolute", "a", "b", slack=slack)


def test_too_many_loops_are_taken_as_they_are_written() -> None:
    robot = load_urdf(rounded.pins(4)).with_loops([])
    count = rounding.WORK_MOST // robot.joint_count + 1
    loops = [LoopConstraint(f"loop{k}", "spherical", "coupler", "rocker", at(0.001 * k)) for k in range(count)]
    crowded = robot.with_loops(loops)
    assert crowded.loops == tuple(loops)
    assert "Too many loops" in crowded.warnings[-1]
