"""The centre of mass where it is wanted, by both engines, and what it couples."""

import dataclasses

import numpy as np
import pytest

from ik_service import Target
from objectives import IKObjectiveCenterOfMass, IKObjectivePosition, InputError
from tests.objectives.conftest import weighed
from tests.solver.conftest import STAGED_QUICK, Reachable, bare_robot, cpu_solver, inside_limits

COUNT = 60
NEAR = 1e-3  # [m]
SOLES = ["left_sole", "right_sole"]
HANDS = ["left_panda_hand", "right_panda_hand"]


@pytest.fixture(scope="module")
def dual():
    return weighed(bare_robot("dual_panda"))


def distance(robot, result, wanted, axes=(0, 1, 2)):
    return np.linalg.norm((robot.center_of_mass(result.joint_q) - wanted)[:, axes], axis=1)


@STAGED_QUICK
def test_a_humanoid_balances_over_its_feet(humanoid, engine):
    grasp = np.random.default_rng(2).uniform([0.25, 0.0, 0.7], [0.45, 0.35, 1.2], (COUNT, 1, 3))
    soles = np.broadcast_to([[0.0, 0.11, 0.0], [0.0, -0.11, 0.0]], (COUNT, 2, 3))
    given = np.concatenate([soles, grasp], axis=1), np.tile([0.0, 0.0, 0.0, 1.0], (COUNT, 3, 1))
    balance = IKObjectiveCenterOfMass([0.0, 0.0, 0.0], row_weights=[1.0, 1.0, 0.0])
    balance.priority = 0  # to be met with the targets
    targets = [*SOLES, Target("left_grasp", row_weights=[1, 1, 1, 0, 0, 0])]
    plain, result = (
        cpu_solver(humanoid, targets, objectives=objectives, engine=engine).solve(*given)
        for objectives in ([], [balance])
    )
    before, away = (distance(humanoid, one, np.zeros(3), axes=(0, 1)) for one in (plain, result))
    assert inside_limits(humanoid, result.joint_q).all()
    assert result.success.mean() >= 0.95
    assert (away[result.success] < NEAR).mean() >= 0.95
    assert (before > 0.02).mean() > 0.5  # by itself it is elsewhere
    assert np.ptp(humanoid.center_of_mass(result.joint_q)[:, 2]) > 0.01  # the height is free


@STAGED_QUICK
def test_hand_and_centre_of_mass_of_an_arm_are_brought_to_reachable_places(engine):
    robot = weighed(bare_robot("panda"))
    problems = Reachable.draw(robot, ["panda_hand"], COUNT, random_seed=13)
    wanted = robot.center_of_mass(problems.joint_q)
    both = [IKObjectivePosition("panda_hand", problems.positions[:, 0]), IKObjectiveCenterOfMass(wanted, weight=2.0)]
    solver = cpu_solver(robot, objectives=both, engine=engine)
    result = solver.solve(problem_count=COUNT)
    good = (distance(robot, result, wanted) < NEAR) & (problems.errors(result.joint_q)[0][:, 0] < NEAR)
    assert good.mean() >= 0.9


def test_an_arm_without_mass_is_left_to_itself(dual):
    right = np.array([name.startswith("right") for name in dual.link_names])
    light = dataclasses.replace(dual, link_mass=np.where(right, 0.0, dual.link_mass))
    solver = cpu_solver(light, HANDS, objectives=[IKObjectiveCenterOfMass([0.2, 0.2, 0.5])])
    problems = Reachable.draw(light, HANDS, 4, random_seed=15)
    result = solver.solve(problems.positions, problems.orientations_xyzw)
    assert (result.islands.nisland == 2).all()
    named = [island.rows for island in result.islands[0]]
    assert sorted(named) == [("target left_panda_hand", "IKObjectiveCenterOfMass"), ("target right_panda_hand",)]


def test_a_robot_without_masses_is_refused(panda):
    with pytest.raises(InputError, match="IKObjectiveCenterOfMass: the robot has no masses"):
        cpu_solver(panda, objectives=[IKObjectiveCenterOfMass([0.0, 0.0, 0.5])])
