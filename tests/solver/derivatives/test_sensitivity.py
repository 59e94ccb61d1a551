"""The option `sensitivity` of a solve: the derivatives of `linearise`, by coordinates."""

import numpy as np
import pytest

from ik_service import SolverOptions, load_robot
from objectives import IKObjectivePosture, InputError
from tests.solver.conftest import cpu_solver

COUNT = 20
HAND = "panda_hand"
DERIVED = {"sensitivity": "target"}


@pytest.fixture(scope="module")
def poses():
    robot = load_robot("panda")
    found = robot.forward_kinematics(robot.random_free_joint_q(np.random.default_rng(0), COUNT), [HAND])
    return found.positions[:, 0], found.orientations_xyzw[:, 0]


@pytest.mark.parametrize("given", [{}, {"wxyz": True}, {"joint_order": [f"panda_joint{k}" for k in range(7, 0, -1)]}])
def test_a_solve_gives_what_linearise_gives(poses, given):
    solver = cpu_solver(load_robot("panda"), [HAND], **given)
    positions, orientations = poses[0], np.roll(poses[1], 1, axis=1) if "wxyz" in given else poses[1]
    plain = solver.solve(positions, orientations)
    result = solver.solve(positions, orientations, options=DERIVED)
    found = solver.linearise(plain, positions, orientations)
    assert (plain.joint_q_by_targets, plain.is_differentiable) == (None, None)
    assert result.joint_q.tobytes() == plain.joint_q.tobytes()
    assert result.joint_q_by_targets.shape == (COUNT, 7, 1, 6)
    assert result.joint_q_by_targets.tobytes() == found.by_targets.tobytes()
    assert result.is_differentiable.tolist() == found.is_differentiable.tolist()
    assert result.is_differentiable.mean() > 0.8


def test_answers_follow_their_targets():
    """Beside another solve with the target a tenth of a millimetre farther, of a robot with as many joints as rows."""
    robot = load_robot("ur5e")
    drawn = robot.random_free_joint_q(np.random.default_rng(1), COUNT)
    given = robot.forward_kinematics(drawn, ["tool0"])
    solver = cpu_solver(robot, ["tool0"], options=SolverOptions(precision="float64"))
    positions, orientations = given.positions[:, 0], given.orientations_xyzw[:, 0]
    result = solver.solve(positions, orientations, initial_joint_q=drawn, options=DERIVED)
    for axis in range(3):
        ends = [
            solver.solve(positions + by * np.eye(3)[axis], orientations, initial_joint_q=drawn).joint_q
            for by in (1e-4, -1e-4)
        ]
        change, expected = (ends[0] - ends[1]) / 2e-4, result.joint_q_by_targets[:, :, 0, axis]
        near = result.is_differentiable & (np.abs(expected).max(axis=1) < 20.0)
        assert near.sum() > COUNT // 2
        np.testing.assert_allclose(expected[near], change[near], atol=1e-3)


def test_targets_that_are_not_met_have_zeros_and_only_targets_are_allowed(poses):
    robot = load_robot("panda")
    solver = cpu_solver(robot, [HAND], objectives=[IKObjectivePosture(robot.mid_joint_q)])
    result = solver.solve(poses[0] + [5.0, 0.0, 0.0], poses[1], options=DERIVED)
    assert not result.is_differentiable.any()
    assert not result.joint_q_by_targets.any()
    with pytest.raises(InputError, match="sensitivity is 'weights'"):
        SolverOptions(sensitivity="weights")
