"""Starts at saddles and maxima lead away from there; advice on objectives alone."""

import numpy as np
import pytest

from ik_service import IKStatus
from ik_service.solver.verdict.advice import advice
from objectives import IKObjectiveLookAt, IKObjectivePosition, IKObjectivePosture
from tests.solver.conftest import EACH_ENGINE, bare_robot, cpu_solver

LINK, LINK_OF_IIWA = "panda_hand", "iiwa_link_ee"
COUNT = 60


def test_advice_without_targets_speaks_of_none(panda):
    hands = panda.forward_kinematics(panda.random_joint_q(np.random.default_rng(0), COUNT), [LINK]).positions[:, 0]
    posture = IKObjectivePosture(panda.mid_joint_q, weight=1e-2)
    solver = cpu_solver(panda, objectives=[IKObjectivePosition(LINK, hands), posture])
    result = solver.solve(problem_count=COUNT, options={"max_iterations": 2})
    said = {advice(panda, (), solver.options, result, result.islands, problem=k) for k in range(COUNT)}
    assert not result.success.all()
    for sentence in [*said, *(status.advice_without_targets for status in IKStatus if status is not IKStatus.INVALID)]:
        assert "target" not in sentence


# [rad] that a joint of an upright iiwa14 turns for its hand to sink by 0.05 m; other starts lead to 2.
UPRIGHT_REACH = 0.8


@pytest.fixture(scope="module")
def upright():
    """An upright iiwa14, its configuration, and where its hand is."""
    robot, start = bare_robot("iiwa14"), np.zeros((1, 7))
    pose = robot.forward_kinematics(start, [LINK_OF_IIWA])
    return robot, start, pose.positions[:, 0], pose.orientations_xyzw[:, 0]


@EACH_ENGINE
@pytest.mark.parametrize("seeds", [1, 16])
def test_a_start_at_a_saddle_leads_to_a_solution_beside_it(upright, seeds, engine):
    robot, start, hand, turn = upright
    solver, given = cpu_solver(robot, [LINK_OF_IIWA], engine=engine), (hand - [0.0, 0.0, 0.05], turn)
    answer = solver.solve(*given, initial_joint_q=start, options={"seeds": seeds})
    assert (answer.success[0], answer.seed_index[0]) == (True, 0)
    assert np.abs(answer.joint_q).max() < UPRIGHT_REACH
    repeated = [np.repeat(one, 20, axis=0) for one in (*given, start)]
    many = solver.solve(*repeated[:2], initial_joint_q=repeated[2], options={"seeds": seeds})
    np.testing.assert_array_equal(many.joint_q, np.repeat(answer.joint_q, 20, axis=0))
    stretched = solver.solve(hand + np.array([0.0, 0.0, 0.2]), turn, initial_joint_q=start, options={"seeds": 1})
    out_of_reach = IKStatus.UNREACHABLE if engine == "compiled" else IKStatus.STALLED
    assert stretched.status[0] == out_of_reach  # where it starts
    np.testing.assert_array_equal(stretched.joint_q, start)


FLAT = {  # of an upright iiwa14: its gradient is zero there, and it is no minimum
    "position": lambda hand: IKObjectivePosition(LINK_OF_IIWA, hand - [0.0, 0.0, 0.2]),
    "look at": lambda hand: IKObjectiveLookAt(LINK_OF_IIWA, hand - [0.0, 0.0, 1.0], axis=(0, 0, 1)),
}


@EACH_ENGINE
@pytest.mark.parametrize("name", FLAT)
def test_objectives_alone_leave_a_start_at_a_saddle_or_a_maximum(upright, name, engine):
    robot, start, hand, _ = upright
    solver = cpu_solver(robot, objectives=[FLAT[name](hand)], engine=engine)
    answer = solver.solve(problem_count=1, initial_joint_q=start, options={"seeds": 1})
    again = solver.solve(problem_count=1, initial_joint_q=answer.joint_q, options={"seeds": 1})
    assert (answer.success & again.success).all()
    assert again.cost[0] <= answer.cost[0] < 1e-6
