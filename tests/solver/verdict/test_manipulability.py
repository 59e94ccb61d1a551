"""Manipulability of answers: the least over the targets, by the rows that each has."""

import numpy as np

from ik_service import Target
from ik_service.solver.result import join_results
from tests.solver.conftest import bare_robot, cpu_solver, poses_of

HANDS, COUNT = ["left_panda_hand", "right_panda_hand"], 6
TOOLS = np.random.default_rng(3).uniform(-0.2, 0.2, (COUNT, 7))


def test_the_least_over_the_targets_by_their_rows():
    robot = bare_robot("dual_panda")
    joint_q = robot.random_joint_q(np.random.default_rng(0), COUNT)
    positions, orientations = poses_of(robot, joint_q, HANDS)
    solver = cpu_solver(robot, HANDS, joint_order=robot.joint_names[::-1])
    result = solver.solve([positions[:, 0], positions[:, 1]], [orientations[:, 0], None])
    answers = np.array(result.joint_q[:, ::-1], float)
    each = robot.manipulability(answers, HANDS[0]), robot.manipulability(answers, HANDS[1], "position")
    np.testing.assert_array_equal(result.manipulability, np.minimum(*each))
    assert (each[0] < each[1]).any()
    turns = solver.solve([None, None], [None, orientations[:, 1]])
    answers = np.array(turns.joint_q[:, ::-1], float)
    np.testing.assert_array_equal(turns.manipulability, robot.manipulability(answers, HANDS[1], "orientation"))


def test_free_rows_and_links_that_nothing_moves_have_none():
    robot = bare_robot("panda")
    base = cpu_solver(robot, ["panda_link0"]).solve(np.zeros((2, 3)))
    assert np.isnan(base.manipulability).all()
    free = Target("panda_hand", row_weights=[[1.0] * 6, [0.0] * 6, [1.0] * 3 + [0.0] * 3])
    position, orientation = poses_of(robot, robot.random_joint_q(np.random.default_rng(0), 3), "panda_hand")
    result = cpu_solver(robot, [free]).solve(position, orientation)
    expected = robot.manipulability(result.joint_q, "panda_hand")
    expected[1:] = np.nan, robot.manipulability(result.joint_q[2], "panda_hand", "position")[0]
    np.testing.assert_array_equal(result.manipulability, expected)


def test_each_problem_has_its_own_tool_in_a_part_and_in_a_joined_result_too():
    robot = bare_robot("panda")
    tools = np.hstack([TOOLS[:, :3], np.tile([0.0, 0.0, 0.0, 1.0], (COUNT, 1))])
    solver = cpu_solver(robot, [Target("panda_hand", offset=tools)])
    positions, _ = poses_of(robot, robot.random_joint_q(np.random.default_rng(1), COUNT), "panda_hand")
    result = solver.solve(positions)
    expected = robot.manipulability(result.joint_q, "panda_hand", "position", tools)
    np.testing.assert_array_equal(result.manipulability, expected)
    assert (expected != robot.manipulability(result.joint_q, "panda_hand", "position")).all()
    solver.set_target_data(0, offset=tools[0])
    one = solver.solve(positions)
    joined = join_results([(result, slice(2, 4)), (one, slice(0, 3))])
    np.testing.assert_array_equal(joined.manipulability, np.concatenate([expected[2:4], one.manipulability[:3]]))
    np.testing.assert_array_equal(result.manipulability, expected)
