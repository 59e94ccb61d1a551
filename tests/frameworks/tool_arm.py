"""Solvers that the checks of PyTorch and JAX share, with poses far from where derivatives end."""

import numpy as np

from ik_service import IKSolver, SolverOptions, Target, load_robot
from ik_service.mechanism.transforms import transform_multiply
from objectives import IKObjectivePosture

TOOL = np.array([0.1, 0.0, 0.2, 0.5, -0.5, 0.5, 0.5])
HANDS = ["left_panda_hand", "right_panda_hand"]
PRECISE = SolverOptions(precision="float64")


def tool_solver(robot, **given):
    return IKSolver(robot, [Target("tool0", offset=TOOL)], device="cpu", options=PRECISE, **given)


def tool_arm():
    """A solver for a tool of an arm, configurations far from singular, and the poses of the tool there."""
    robot = load_robot("ur5e", collision="ignore")
    joint_q = robot.random_joint_q(np.random.default_rng(3), 4)
    joint_q[:, 2], joint_q[:, 4] = 1.2, -1.1
    found = robot.forward_kinematics(joint_q, ["tool0"])
    poses = np.concatenate([found.positions[:, 0], found.orientations_xyzw[:, 0]], axis=1)
    return tool_solver(robot), joint_q, transform_multiply(poses, np.tile(TOOL, (4, 1)))


def arms_with_a_posture():
    """A solver for two hands with a posture beside them, and poses of the hands."""
    robot = load_robot("dual_panda", collision="ignore")
    posture = IKObjectivePosture(robot.mid_joint_q, weight=0.05)
    found = robot.forward_kinematics(robot.random_joint_q(np.random.default_rng(1), 3), HANDS)
    return IKSolver(robot, HANDS, device="cpu", objectives=[posture]), found.positions, found.orientations_xyzw
