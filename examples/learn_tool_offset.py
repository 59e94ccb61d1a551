"""Learns where the tip of a tool is on its flange, from poses of the tip and the joints with which it was there.

python examples/learn_tool_offset.py    (needs PyTorch)
"""

import numpy as np
import torch

from ik_service import IKSolver, SolverOptions, Target, load_robot
from ik_service.mechanism.transforms import transform_multiply
from ik_service.torch import TorchSolver

TRUE_TOOL, POSES, STEPS = np.array([0.03, -0.02, 0.15, 0.0, 0.0, 0.0, 1.0]), 64, 150
LOW, HIGH = [-3, -2, 0.8, -2, -2, -3], [3, -1, 1.8, -1, -1, 3]

robot = load_robot("ur5e", collision="ignore")
target = Target("tool0", offset=[0, 0, 0, 0, 0, 0, 1])
solve = TorchSolver(IKSolver(robot, [target], device="cpu", options=SolverOptions(precision="float64")))

# What was measured: joints, and poses of the tip.
joint_q = np.random.default_rng(0).uniform(LOW, HIGH, size=(POSES, 6))
flange = robot.forward_kinematics(joint_q, ["tool0"])
poses = np.hstack([flange.positions[:, 0], flange.orientations_xyzw[:, 0]])
tip, measured = torch.tensor(transform_multiply(poses, np.tile(TRUE_TOOL, (POSES, 1)))), torch.tensor(joint_q)

position = torch.zeros(3, dtype=torch.float64, requires_grad=True)
upright = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64)
descent = torch.optim.Adam([position], lr=0.03)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(descent, STEPS)
for _ in range(STEPS):
    answer = solve(tip[:, :3], tip[:, 3:], initial_joint_q=measured, offsets=torch.cat([position, upright]))
    loss = (answer.joint_q - measured)[answer.is_differentiable].square().mean()
    descent.zero_grad()
    loss.backward()
    descent.step()
    schedule.step()
print("the tip is off by", 1e3 * np.linalg.norm(position.detach().numpy() - TRUE_TOOL[:3]), "mm")
