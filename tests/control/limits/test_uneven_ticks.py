"""Limits where a loop is not as it should be: uneven ticks, readings that are no numbers, joints without a range."""

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.control import ControlLimits
from ik_service.solver.lm.status import IKStatus
from tests.control.conftest import LINK, begun, last_of, pose_of
from tests.robots.urdf_text import joint, urdf

ROBOTS, TICKS, DT = 4, 600, 1e-3
ROUNDING = 1e-12  # rad: many times what float64 rounds of positions of a few radians
FIXED = 0.677750143761  # rad: no float32 number
CHAIN = [
    joint("turn", "revolute", "base", "a", axis="0 0 1", limit=(-2, 2, 3)),
    joint("fixed", "revolute", "a", "b", "0.3 0 0", axis="0 1 0", limit=(FIXED, FIXED, 3)),
    joint("slide", "prismatic", "b", "c", "0.3 0 0", axis="1 0 0", limit=(-0.2, 0.2, 3)),
]


def run(robot, acceleration, lengths, faults, random):
    """Starts, commands [ticks, robots, joints] and their speeds; targets jump, within reach and out of it."""
    starts = robot.random_joint_q(random, ROBOTS)
    controller = begun(robot, [LINK], starts, robots=ROBOTS, limits=ControlLimits(acceleration=acceleration))
    commands, speeds, last = [], [], starts
    for tick, dt in enumerate(lengths):
        if tick % 150 == 0:
            poses = robot.forward_kinematics(robot.random_joint_q(random, ROBOTS), [LINK])
            targets = np.concatenate([poses.positions, poses.orientations_xyzw], axis=-1)
            targets[::2, :, :3] *= 1.5
        given, reading, speed = targets.copy(), None, None
        lost = random.random(ROBOTS) < faults
        if lost.any():
            number = random.choice([np.nan, np.inf, -np.inf])
            if tick % 3 == 0:
                given[lost, 0, random.integers(7)] = number
            elif tick % 3 == 1:
                reading = last.copy()
                reading[lost, random.integers(7)] = number
            else:
                speed = np.zeros_like(last) if not speeds else speeds[-1].copy()
                speed[lost, random.integers(7)] = number
        result = controller.step(given, reading, dt, joint_qd=speed)
        np.testing.assert_array_equal(result.status == IKStatus.INVALID, lost)
        last = result.joint_q.copy()
        commands.append(last)
        speeds.append(result.joint_qd.copy())
    return starts, np.array(commands), np.array(speeds)


@pytest.mark.evidence
@pytest.mark.parametrize("acceleration", [None, 5.0])
@pytest.mark.parametrize("faults", [0.0, 0.1])
@pytest.mark.parametrize("unevenness", [0.05, 100.0])
def test_positions_and_speeds_hold_whatever_the_ticks(panda, acceleration, faults, unevenness):
    random = np.random.default_rng(11)
    lengths = DT * (1.0 + unevenness) ** random.uniform(-1.0, 1.0, TICKS)
    starts, commands, speeds = run(panda, acceleration, lengths, faults, random)
    assert ((commands >= panda.joint_limit_lower) & (commands <= panda.joint_limit_upper)).all()
    moves = np.diff(commands, axis=0, prepend=starts[None])
    assert (np.abs(moves) <= panda.joint_velocity_limit * lengths[:, None, None] + ROUNDING).all()
    np.testing.assert_allclose(speeds * lengths[:, None, None], moves, atol=ROUNDING)
    assert np.abs(moves).max() > 0.0
    if acceleration and unevenness < 1.0:  # the documented price: braking is counted in ticks of one length
        changes = np.diff(speeds, axis=0, prepend=np.zeros((1, *speeds.shape[1:]))) / lengths[:, None, None]
        assert np.abs(changes).max() <= acceleration * (1.0 + 4.0 * unevenness)
        assert np.abs(changes).max() > 0.9 * acceleration


@pytest.mark.parametrize("acceleration", [None, 5.0])
def test_a_joint_without_a_range_stays_exactly_where_it_is(acceleration):
    robot, goal = load_robot(urdf("chain", "base", *CHAIN)), np.array([-0.5, FIXED, 0.1])
    controller = begun(robot, ["c"], np.array([0.1, FIXED, 0.0]), limits=ControlLimits(acceleration=acceleration))
    target = pose_of(robot, goal, "c")
    for tick in range(1500):
        result = controller.step(target + (tick % 50 == 7) * 0.1 * np.array([1, 1, 1, 0, 0, 0, 0]), dt=DT)
        assert (result.joint_q[0, 1], result.joint_qd[0, 1]) == (FIXED, 0.0)
    near = np.nextafter(np.float32(FIXED), np.float32(1.0))  # as float32 has it: a little outside
    assert near > FIXED
    assert controller.step(target, [0.0, near, 0.0], DT).joint_q[0, 1] <= near
    controller.reset(result.joint_q[0])
    result = last_of(controller, 1500, target, dt=DT)
    np.testing.assert_allclose(result.joint_q[0], goal, atol=1e-6)
    assert result.success.all()
