"""Arms that touch each other: combinations of the islands' solutions, for robots with constraints, too."""

import numpy as np

from ik_service import load_robot
from ik_service.robots import LoopConstraint
from tests.solver.conftest import cpu_solver

HANDS = ["left_panda_hand", "right_panda_hand"]


def test_islands_of_a_robot_whose_loop_is_open_are_combined():
    robot = load_robot("dual_panda")
    held = LoopConstraint("object", "weld", *HANDS, reference_offset=(0, 0, 0.3, 1, 0, 0, 0))
    poses = robot.forward_kinematics(robot.random_free_joint_q(np.random.default_rng(0), 200), HANDS)
    given = poses.positions, poses.orientations_xyzw
    unchecked = cpu_solver(robot, HANDS).solve(*given, options={"collision": "off"})
    touching = np.flatnonzero(~robot.collision(unchecked.joint_q.astype(float)).is_free)[:6]
    assert len(touching) == 6
    given = [values[touching] for values in given]
    result = cpu_solver(robot.with_loops([held]), HANDS).solve(*given, constraint_enabled=[False])
    assert (result.islands.nisland == 2).all()
    assert result.success.any()
    assert robot.collision(result.joint_q.astype(float)).is_free[result.success].all()
