"""Robots that close loops, at their limits: targets that jump, many of them out of reach; every tick is judged.

As evidence each case makes LOOP_TICKS ticks (a million, of all robots together) from LOOP_SEED (0).
"""

import os
import sys
from collections import Counter

import numpy as np
import pytest

from ik_service import IKStatus, Target, load_robot
from ik_service.control import ControlLimits, IKController
from ik_service.robots import LoopConstraint
from tests.constraints.mechanisms import palletizer
from tests.solver.test_loops import HELD, LEFT, RIGHT, gaps

TICKS = int(float(os.environ.get("LOOP_TICKS", "1e6")))
SEED = int(os.environ.get("LOOP_SEED", "0"))
ROBOTS, RIDE = 64, 150  # ticks of a ride
FEW_TICKS, SMALL_SEED = 2 * ROBOTS * RIDE, 0  # of the default run
OPEN = 1e-6  # [m and rad] from which a loop counts as open, as in statuses
LIMIT_SLACK, POSITION_SLACK = 1e-6, 1e-12  # relative and [m or rad]: differences of float64 positions between ticks
MOST_OPENED = 1e-5  # share of ticks with limits of acceleration; 0 to 4e-6 is measured, by the seed
WIDEST_GAP = 1e-3  # [m and rad] of such a tick


def case_of(name, kind):
    """Return a robot, its target, limits of speed and acceleration of all DOFs, lengths of ticks, spread of targets."""
    if name == "palletizer":
        robot, target = palletizer(), Target("tool", row_weights=[1, 1, 1, 0, 0, 0])
        velocity, acceleration = (3.0, np.inf) if kind == "speed" else (1.5, 8.0)
        ticks_s = (0.01, 0.03, 0.1) if kind == "speed" else (0.001, 0.004, 0.01)
    else:
        arms = load_robot("dual_panda", collision="ignore")
        robot = arms.with_loops([LoopConstraint("object", "weld", RIGHT, LEFT, reference_offset=HELD)])
        target, ticks_s = Target(LEFT), (0.001, 0.004, 0.01, 0.03)
        velocity, acceleration = robot.joint_velocity_limit, np.inf if kind == "speed" else 10.0
    return robot, target, velocity, acceleration, ticks_s, 0.3 if kind == "speed" else 0.0


def ride(name, kind, ticks, random_seed):
    """Move robots from closed configurations at rest towards jumping targets.

    Returns:
        Ticks of single robots, those at a limit, those that move, open loops that are not told, limits that are broken,
        and the gaps of loops that a tick opened.
    """
    robot, target, velocity, acceleration, lengths_s, spread = case_of(name, kind)
    rng, tally, opened = np.random.default_rng(random_seed), Counter(), []
    limits = ControlLimits(velocity=velocity, acceleration=None if np.isinf(acceleration) else acceleration)
    controller = IKController(robot, [target], limits=limits, robots=ROBOTS)
    found = robot.constraints.close(robot.random_joint_q(rng, 200))
    closed = found.joint_q[found.closed]
    poses = np.concatenate(robot.forward_kinematics(closed, [target.link]), axis=2)
    lower, upper = robot.joint_limit_lower, robot.joint_limit_upper
    while tally["ticks"] < ticks:
        before, speeds = closed[rng.integers(len(closed), size=ROBOTS)], np.zeros((ROBOTS, robot.joint_dof_count))
        controller.reset(before)
        dt, every, was_open = float(rng.choice(lengths_s)), int(rng.choice([5, 50])), np.zeros(ROBOTS, dtype=bool)
        for tick in range(RIDE):
            if tick % every == 0:
                targets = poses[rng.integers(len(poses), size=ROBOTS)]
                targets[..., :3] += spread * rng.normal(size=targets[..., :3].shape)
            result = controller.step(targets, dt=dt)
            joint_q = result.joint_q.copy()
            moves = (joint_q - before) / dt
            broken = (joint_q < lower - POSITION_SLACK) | (joint_q > upper + POSITION_SLACK)
            broken |= np.abs(moves) > velocity * (1.0 + LIMIT_SLACK)
            broken |= np.abs(moves - speeds) > acceleration * dt * (1.0 + LIMIT_SLACK) + POSITION_SLACK / dt
            gap = gaps(robot, joint_q)
            is_open = gap > OPEN
            tally["ticks"] += ROBOTS
            tally["at limits"] += int(((joint_q == lower) | (joint_q == upper)).any(axis=1).sum())
            tally["moved"] += int((moves != 0.0).any(axis=1).sum())
            tally["untold"] += int((is_open & (result.status != IKStatus.LOOP_OPEN)).sum())
            tally["broken"] += int(broken.any(axis=1).sum())
            opened += gap[is_open & ~was_open].tolist()
            before, speeds, was_open = joint_q, moves, is_open
    return tally, opened


CASES = [(name, kind) for name in ("palletizer", "two Pandas") for kind in ("speed", "speed and acceleration")]


@pytest.mark.evidence
@pytest.mark.parametrize(("ticks", "seed"), [(FEW_TICKS, SMALL_SEED), (TICKS, SEED)], ids=["few", "a million"])
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_ticks_at_limits_keep_loops_closed(name, kind, ticks, seed):
    """Each case opened loops when a tick that had not closed them had no way back."""
    tally, opened = ride(name, kind, ticks, seed)
    sys.stdout.write(
        f"\n{name}, limits of {kind}: {dict(tally)}, {len(opened)} opened, {max(opened, default=0.0):.1e}\n"
    )
    assert tally["at limits"] > 0.02 * tally["ticks"]
    assert tally["moved"] > 0.5 * tally["ticks"]
    assert tally["broken"] == tally["untold"] == 0
    assert len(opened) <= (0 if kind == "speed" or ticks == FEW_TICKS else MOST_OPENED * tally["ticks"])
    assert max(opened, default=0.0) < WIDEST_GAP
