"""Partial constraints: an axis along a direction, a point in a plane or on a line, by both engines."""

import numpy as np
import pytest

from ik_service.mechanism.transforms import quaternion_rotate
from objectives import (
    IKObjectiveAxisAlign,
    IKObjectiveLine,
    IKObjectivePlane,
    IKObjectivePosition,
    IKObjectivePosture,
)
from tests.solver.conftest import STAGED_QUICK, Reachable, bare_robot, cpu_solver, poses_of

COUNT = 60
NEAR = 1e-4  # [m or rad] of answers with nothing to weigh against: their residual is at the floor of float32
DOWN = np.array([0.0, 0.0, -1.0])
APPROACH = np.array([0.0, 0.0, 1.0])


def unit(values):
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def problems():
    return Reachable.draw(bare_robot("panda"), ["panda_hand"], COUNT, random_seed=11)


@pytest.fixture(scope="module")
def directions():
    return unit(np.random.default_rng(3).normal(size=(COUNT, 3)))


def solve(robot, objectives, engine, **arguments):
    solver = cpu_solver(robot, objectives=objectives, engine=engine)
    assert solver.engine == engine
    return solver.solve(problem_count=COUNT, **arguments)


def hand(robot, result):
    return poses_of(robot, result.joint_q, "panda_hand")


def along(turn, axis=(0.0, 0.0, 1.0)):
    """An axis of the hand in the world, [n, 3]."""
    return quaternion_rotate(turn, np.tile(axis, (len(turn), 1)))


@STAGED_QUICK
def test_an_axis_points_along_its_direction_at_a_point(problems, engine):
    wanted, points = along(problems.orientations_xyzw[:, 0]), problems.positions[:, 0]
    both = [IKObjectiveAxisAlign("panda_hand", APPROACH, 5.0 * wanted), IKObjectivePosition("panda_hand", points)]
    result = solve(problems.robot, both, engine)
    position, turn = hand(problems.robot, result)
    good = np.linalg.norm(along(turn) - wanted, axis=1) < NEAR
    good &= np.linalg.norm(position - points, axis=1) < NEAR
    assert result.success.all()
    assert good.mean() >= 0.95
    roll = np.abs((turn * problems.orientations_xyzw[:, 0]).sum(axis=1))
    assert (roll[good] < 0.999).any()  # it is not the pose that the problem was drawn from


@STAGED_QUICK
@pytest.mark.parametrize("kind", [IKObjectivePlane, IKObjectiveLine], ids=["plane", "line"])
def test_a_point_stays_in_its_plane_or_on_its_line_and_is_free_there(problems, directions, engine, kind):
    robot, points = problems.robot, problems.positions[:, 0]
    rows = kind("panda_hand", points, directions, weight=10.0)
    posture = IKObjectivePosture(robot.mid_joint_q, weight=1e-3)
    arm = hand(robot, solve(robot, [rows, posture], engine, initial_joint_q=problems.joint_q))[0] - points
    across = (arm * directions).sum(axis=1)
    within = arm - across[:, None] * directions
    off, free = (across, within) if kind is IKObjectivePlane else (np.linalg.norm(within, axis=1), across[:, None])
    assert np.abs(off).max() < 1e-3
    assert (np.linalg.norm(free, axis=1) > 0.01).mean() > 0.9


@STAGED_QUICK
def test_a_row_weight_of_zero_frees_the_rows_of_a_problem(problems, engine):
    on = (np.arange(COUNT) % 2 == 0).astype(float)[:, None]
    robot, start = problems.robot, problems.robot.clamp_joint_q(problems.joint_q).astype(np.float32)
    rows = [
        IKObjectiveAxisAlign("panda_hand", APPROACH, DOWN, row_weights=on * np.ones(3)),
        IKObjectivePlane("panda_hand", [0.0, 0.0, 0.4], APPROACH, row_weights=on),
        IKObjectiveLine("panda_hand", [0.4, 0.0, 0.0], APPROACH, row_weights=on * np.ones(2)),
    ]
    result = solve(robot, rows, engine, initial_joint_q=start)
    told = on[:, 0] > 0.0
    np.testing.assert_array_equal(result.joint_q[~told], start[~told])
    position, turn = hand(robot, result)
    good = np.linalg.norm(position - [0.4, 0.0, 0.4], axis=1) < NEAR
    good &= np.linalg.norm(along(turn) - DOWN, axis=1) < NEAR
    assert good[told].mean() >= 0.9
    assert not good[~told].any()


@STAGED_QUICK
def test_a_tool_on_the_humanoid_follows_a_line_of_its_other_hand(humanoid, engine):
    tool = np.array([0.05, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0])
    options = {"offset": tool, "reference_link": "right_grasp"}
    both = [
        IKObjectiveLine("left_grasp", [0.0, 0.1, 0.05], [0.0, 1.0, 0.2], **options),
        IKObjectiveAxisAlign("left_grasp", [1.0, 0.0, 0.0], [0.0, -1.0, 0.0], **options),
    ]
    result = solve(humanoid, both, engine)
    poses = humanoid.forward_kinematics(result.joint_q, ["left_grasp", "right_grasp"])
    left, right = poses.orientations_xyzw[:, 0], poses.orientations_xyzw[:, 1]
    tip = poses.positions[:, 0] + along(left, tool[:3])
    back = right * [-1.0, -1.0, -1.0, 1.0]
    seen = quaternion_rotate(back, tip - poses.positions[:, 1]) - [0.0, 0.1, 0.05]
    axis = quaternion_rotate(back, along(left, [1.0, 0.0, 0.0]))
    good = np.linalg.norm(np.cross(seen, unit(np.array([0.0, 1.0, 0.2]))), axis=1) < NEAR
    good &= np.linalg.norm(axis - [0.0, -1.0, 0.0], axis=1) < NEAR
    assert good.mean() >= 0.9
    assert result.islands.nisland.max() == 1
