"""Jumps of a redundant arm between two branches are spread over many waypoints."""

import numpy as np
import pytest

import ik_service
from ik_service.motion import follow as following

LINK = "panda_hand"
DT = 0.02
LINES = (3, 24, 27)  # of those drawn, some that cannot be followed from their start without leaving its branch


@pytest.fixture(scope="module")
def solver():
    return ik_service.IKSolver(ik_service.load_robot("panda", collision="ignore"), [LINK], device="cpu")


def line(robot, number):
    """A straight line of the hand from one random configuration to another: start, positions, orientations."""
    rng = np.random.default_rng(0)
    for _ in range(number + 1):
        start, end = robot.random_joint_q(rng, 1)[0], robot.random_joint_q(rng, 1)[0]
    poses = robot.forward_kinematics(np.stack([start, end]), links=[LINK])
    s = np.linspace(0.0, 1.0, 600)[:, None]
    share = s * s * (3.0 - 2.0 * s)
    positions = (1.0 - share) * poses.positions[0] + share * poses.positions[1]
    first, last = poses.orientations_xyzw[:, 0]
    last = last * np.sign(first @ last)
    angle = np.arccos(first @ last)
    return start, positions, (np.sin((1.0 - share) * angle) * first + np.sin(share * angle) * last) / np.sin(angle)


def followed(solver):
    """How many waypoints of all lines are over the speeds."""
    over = []
    for number in LINES:
        start, positions, orientations = line(solver.robot, number)
        result = solver.follow(positions, orientations, DT, start_joint_q=start)
        assert result.success.all()
        np.testing.assert_allclose(result.joint_q[0], start, atol=1e-5)
        over.append(int((~result.within_limits).sum()))
    return over


def test_jumps_are_spread_until_the_speeds_are_kept(solver, monkeypatch):
    spread = followed(solver)
    monkeypatch.setattr(following.Bridges, "spread", lambda own: None)
    as_chosen = followed(solver)
    assert min(as_chosen) > 0
    assert spread == [0, 0, 0]
