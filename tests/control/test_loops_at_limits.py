"""Robots that close loops, at their limits: targets that jump, many of them out of reach; every tick is judged.

As evidence each case makes LOOP_TICKS ticks (a million, of all robots together) from LOOP_SEED (0).
"""

import os
import sys
from dataclasses import dataclass, field

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


@dataclass(frozen=True)
class Case:
    """A robot that closes loops, the link that follows poses, limits, lengths of ticks, spread of targets [m]."""

    robot: object
    target: Target
    limits: ControlLimits
    velocity: np.ndarray
    acceleration: float
    ticks_s: tuple
    spread: float


def case_of(name, kind):
    """Return a robot with limits of speed, or of speed and acceleration."""
    if name == "palletizer":
        robot, target = palletizer(), Target("tool", row_weights=[1, 1, 1, 0, 0, 0])
        velocity, acceleration = (3.0, np.inf) if kind == "speed" else (1.5, 8.0)
        chosen, ticks_s = {"velocity": velocity}, (0.01, 0.03, 0.1) if kind == "speed" else (0.001, 0.004, 0.01)
    else:
        arms = load_robot("dual_panda", collision="ignore")
        robot = arms.with_loops([LoopConstraint("object", "weld", RIGHT, LEFT, reference_offset=HELD)])
        target, chosen, ticks_s = Target(LEFT), {}, (0.001, 0.004, 0.01, 0.03)
        velocity, acceleration = robot.joint_velocity_limit, np.inf if kind == "speed" else 10.0
    if np.isfinite(acceleration):
        chosen["acceleration"] = acceleration
    fast = np.broadcast_to(velocity, robot.joint_dof_count)
    return Case(robot, target, ControlLimits(**chosen), fast, acceleration, ticks_s, 0.3 if kind == "speed" else 0.0)


@dataclass
class Tally:
    """What rides have shown: ticks of single robots, those that opened a closed loop and how far, limits broken."""

    ticks: int = 0
    at_limits: int = 0
    moved: int = 0
    untold: int = 0
    broken: int = 0
    opened: list = field(default_factory=list)

    def row(self):
        worst = max(self.opened, default=0.0)
        return (
            f"{self.ticks} ticks, {self.moved} of which move and {self.at_limits} of which are at a limit of position, "
            f"{len(self.opened)} open a closed loop, the farthest by {worst:.1e}, {self.broken} break a limit"
        )


def ride(case, ticks, random_seed):
    """Let robots go from closed configurations at rest, after targets that jump."""
    robot, rng, tally = case.robot, np.random.default_rng(random_seed), Tally()
    controller = IKController(robot, [case.target], limits=case.limits, robots=ROBOTS)
    found = robot.constraints.close(robot.random_joint_q(rng, 200))
    closed = found.joint_q[found.closed]
    poses = np.concatenate(robot.forward_kinematics(closed, [case.target.link]), axis=2)
    while tally.ticks < ticks:
        joint_q, speeds = closed[rng.integers(len(closed), size=ROBOTS)], np.zeros((ROBOTS, robot.joint_dof_count))
        controller.reset(joint_q)
        dt, every, was_open = float(rng.choice(case.ticks_s)), int(rng.choice([5, 50])), np.zeros(ROBOTS, dtype=bool)
        for tick in range(RIDE):
            if tick % every == 0:
                targets = poses[rng.integers(len(poses), size=ROBOTS)]
                targets[..., :3] += case.spread * rng.normal(size=targets[..., :3].shape)
            result = controller.step(targets, dt=dt)
            joint_q, speeds, was_open = judge(case, tally, (joint_q, speeds, was_open), result, dt)
    return tally


def judge(case, tally, before, result, dt):
    """Count what a tick has broken; return where it leads, how fast, and which robots are open."""
    robot, (start, speeds, was_open) = case.robot, before
    joint_q, status = result.joint_q.copy(), result.status
    lower, upper = robot.joint_limit_lower, robot.joint_limit_upper
    found = (joint_q - start) / dt
    broken = (joint_q < lower - POSITION_SLACK) | (joint_q > upper + POSITION_SLACK)
    broken |= np.abs(found) > case.velocity * (1.0 + LIMIT_SLACK)
    broken |= np.abs(found - speeds) > case.acceleration * dt * (1.0 + LIMIT_SLACK) + POSITION_SLACK / dt
    gap, is_told = gaps(robot, joint_q), status == IKStatus.LOOP_OPEN
    is_open = gap > OPEN
    tally.ticks += ROBOTS
    tally.at_limits += int(((joint_q == lower) | (joint_q == upper)).any(axis=1).sum())
    tally.moved += int((found != 0.0).any(axis=1).sum())
    tally.untold += int((is_open & ~is_told).sum())
    tally.broken += int(broken.any(axis=1).sum())
    tally.opened += gap[is_open & ~was_open].tolist()
    return joint_q, found, is_open


CASES = [(name, kind) for name in ("palletizer", "two Pandas") for kind in ("speed", "speed and acceleration")]


@pytest.mark.evidence
@pytest.mark.parametrize(("ticks", "seed"), [(FEW_TICKS, SMALL_SEED), (TICKS, SEED)], ids=["few", "a million"])
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_ticks_at_limits_keep_loops_closed(name, kind, ticks, seed):
    """Each case opened loops when a tick that had not closed them had no way back."""
    tally = ride(case_of(name, kind), ticks, seed)
    sys.stdout.write(f"\n{name}, limits of {kind}: {tally.row()}\n")
    assert tally.at_limits > 0.02 * tally.ticks
    assert tally.moved > 0.5 * tally.ticks
    assert tally.broken == tally.untold == 0
    assert len(tally.opened) <= (0 if kind == "speed" or ticks == FEW_TICKS else MOST_OPENED * tally.ticks)
    assert max(tally.opened, default=0.0) < WIDEST_GAP
