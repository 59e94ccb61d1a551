"""A redundant arm leaves in time a motion that will end, and where none goes on, the path says where it breaks."""

import numpy as np
import pytest

import ik_service
from ik_service.motion import pieces

LINK = "panda_hand"
DT = 0.02
BROKEN = 8  # a line that no motion follows
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


def test_a_roadmap_finds_the_way_where_all_tracks_end(solver, monkeypatch):
    found = followed(solver)
    monkeypatch.setattr(pieces, "connected", lambda *given: None)
    alone = followed(solver)
    assert min(alone) > 0
    assert found == [0, 0, 0]


def test_breaks_are_where_the_arm_takes_another_configuration(solver):
    """A line that no motion follows: a graph of some hundred solutions of every eighth waypoint has none, either."""
    _, positions, orientations = line(solver.robot, BROKEN)
    result = solver.follow(positions, orientations, DT)
    assert result.success.all()
    step = solver.robot.joint_velocity_limit * DT
    change = np.abs(np.diff(result.joint_q, axis=0))
    far = np.flatnonzero((change > np.maximum(4.0 * step, 0.2)).any(axis=1)) + 1
    assert result.breaks.tolist() == far.tolist()
    assert result.reconfigurations == len(far) == 1
    assert result.within_limits.sum() == len(result) - 1
    places = np.arange(0, 600, 8)
    solved = solver.solve(positions[places], orientations[places], options={"solutions": 128})
    reached = np.ones(int(solved.solution_count[0]), bool)
    for k in range(1, len(places)):
        before, after = (solved.solutions[j][: solved.solution_count[j]] for j in (k - 1, k))
        near = (np.abs(after[:, None] - before[None]) <= 8.0 * step).all(axis=-1)
        reached = (near & reached).any(axis=1)
        if not reached.any():
            break
    assert abs(places[k] - result.breaks[0]) <= 24
