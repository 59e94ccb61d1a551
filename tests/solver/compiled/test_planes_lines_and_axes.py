"""Partial constraints: an axis along a direction, a point in a plane or on a line, by both engines."""

import numpy as np
import pytest

from ik_service.mechanism.transforms import quaternion_rotate
from objectives import (
    IKObjectiveAxisAlign,
    IKObjectiveLine,
    IKObjectiveLookAt,
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
    """Directions and points of one pose of each problem: five conditions, the roll is free."""
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
def test_the_opposite_direction_is_no_solution(problems, engine):
    """Started from the antipode, where the gradient vanishes, other seeds find the way."""
    robot = problems.robot
    opposite = -along(robot.forward_kinematics(robot.mid_joint_q, ["panda_hand"]).orientations_xyzw[0])
    result = solve(robot, [IKObjectiveAxisAlign("panda_hand", APPROACH, opposite)], engine)
    assert np.abs(along(hand(robot, result)[1]) - opposite).max() < NEAR
    assert (result.cost < 1e-9).all()


@STAGED_QUICK
@pytest.mark.parametrize("kind", [IKObjectivePlane, IKObjectiveLine], ids=["plane", "line"])
def test_a_point_stays_in_its_plane_or_on_its_line_and_is_free_there(problems, directions, engine, kind):
    """Weighed against the posture, which draws it towards the middle."""
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
def test_a_plane_and_a_line_meet_where_they_cross(problems, directions, engine):
    """Three conditions determine the point; the axis aside, since it is another two."""
    points = problems.positions[:, 0]
    normals = unit(np.cross(directions, [0.2, 0.7, -0.4]) + 0.8 * directions)
    shifted = points + 0.3 * directions  # another point of the same line
    both = [IKObjectivePlane("panda_hand", points, normals), IKObjectiveLine("panda_hand", shifted, directions)]
    result = solve(problems.robot, both, engine)
    distance = np.linalg.norm(hand(problems.robot, result)[0] - points, axis=1)
    assert (distance < 1e-3).mean() >= 0.95
    assert result.success.all()


@STAGED_QUICK
def test_a_row_weight_of_zero_frees_the_rows_of_a_problem(problems, engine):
    """Half of the problems are told to point down and to hold a height; the others are told nothing."""
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
    """Line and axis in the frame of a link that moves itself, and a tool that stands off the hand."""
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


@pytest.mark.evidence
def test_a_camera_may_be_mounted_anew_between_solves(problems):
    camera = IKObjectiveLookAt("panda_hand", [0.8, 0.0, 0.2], offset=[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    solver = cpu_solver(problems.robot, objectives=[camera])
    solver.solve(problem_count=1)
    camera.set_offset([0.1, 0.0, 0.05, 0.0, np.sqrt(0.5), 0.0, np.sqrt(0.5)])  # looks along x of the hand
    position, turn = hand(problems.robot, solver.solve(problem_count=1))
    arm = np.array([0.8, 0.0, 0.2]) - position[0] - along(turn, [0.1, 0.0, 0.05])[0]
    assert np.abs(along(turn, [1.0, 0.0, 0.0])[0] - unit(arm)).max() < 1e-3
