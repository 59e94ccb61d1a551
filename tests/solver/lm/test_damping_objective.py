"""Damping in a loop: the configuration of the tick before holds the robot back, and lets it arrive."""

import numpy as np
import pytest
import warp as wp

from ik_service import SolverOptions
from objectives import IKObjectiveDamping, IKObjectivePosition
from tests.solver.conftest import STAGED_QUICK, Reachable, bare_robot, cpu_solver

COUNT = 20
TICKS = 150
ARRIVED = 1e-4  # [m]
SINGLE = 2e-4  # of a float32 optimum, where the gradient is a difference of numbers of about 1


@pytest.fixture(scope="module")
def problems():
    return Reachable.draw(bare_robot("panda"), ["panda_hand"], COUNT, random_seed=12)


@pytest.fixture(scope="module")
def start(problems):
    robot, rng = problems.robot, np.random.default_rng(4)
    return robot.clamp_joint_q(problems.joint_q + rng.normal(0.0, 0.1, problems.joint_q.shape)).astype(np.float32)


def loop(problems, start, engine, weight, ticks):
    """Configurations of every tick, the first before any; the array of the start is the reference too."""
    previous = wp.array(start, dtype=float, device="cpu")
    reach = IKObjectivePosition("panda_hand", problems.positions[:, 0])
    solver = cpu_solver(
        problems.robot,
        objectives=[reach, IKObjectiveDamping(previous, weight=weight)],
        engine=engine,
        options=SolverOptions(seeds=1),
    )
    passed = [start]
    for _ in range(ticks):
        result = solver.solve(problem_count=COUNT, initial_joint_q=previous)
        previous.assign(result.joint_q)
        passed.append(result.joint_q)
    return np.array(passed)


@STAGED_QUICK
def test_every_step_is_the_damped_one_and_the_loop_arrives(problems, start, engine):
    robot, weight = problems.robot, 0.2
    passed = loop(problems, start, engine, weight, TICKS).astype(np.float64)
    far = np.linalg.norm(np.diff(passed, axis=0), axis=2)
    distance = [problems.errors(q)[0][:, 0] for q in passed]
    assert (far[0] > 0.02).mean() > 0.9
    assert (distance[1] < distance[0]).all()
    assert (distance[1] > 0.01 * distance[0]).mean() > 0.5  # and not there at once
    assert distance[-1].max() < ARRIVED
    # The gradient of 1/2 |p - p_target|^2 + 1/2 weight^2 |q - q_previous|^2 vanishes inside the limits.
    for k in (1, 2):
        poses = robot.forward_kinematics(passed[k], ["panda_hand"])
        twists = robot.motion_subspace(passed[k])
        columns = twists[..., :3] + np.cross(twists[..., 3:], poses.positions[:, :1])
        error = poses.positions[:, 0] - problems.positions[:, 0]
        gradient = np.einsum("ndi,ni->nd", columns, error) + weight**2 * (passed[k] - passed[k - 1])
        inside = (passed[k] > robot.joint_limit_lower + 1e-3) & (passed[k] < robot.joint_limit_upper - 1e-3)
        assert inside.mean() > 0.9
        assert np.abs(gradient[inside]).max() < SINGLE
