"""Moves the base of an arm to where its joints stay near a posture, over 1000 targets at once.

python examples/place_base.py    (needs PyTorch)
"""

import numpy as np
import torch

from ik_service import IKSolver, load_robot
from ik_service.torch import TorchSolver

TARGETS, STEPS = 1000, 40

robot = load_robot("ur5e")
solve = TorchSolver(IKSolver(robot, ["tool0"], device="cpu"))
posture = torch.tensor([0.0, -1.6, 1.6, -1.6, -1.6, 0.0])

# Things on a table, to be grasped from above.
places = np.random.default_rng(0).uniform([0.4, -0.2, 0.1], [0.7, 0.2, 0.3], size=(TARGETS, 3))
things, down = torch.tensor(places, dtype=torch.float32), torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(TARGETS, 4)

base = torch.tensor([0.1, 0.3], requires_grad=True)  # x and y [m]
descent = torch.optim.Adam([base], lr=0.02)
for step in range(STEPS):
    x, y = base.tolist()
    answer = solve(things - torch.cat([base, torch.zeros(1)]), down, initial_joint_q=posture)
    cost = (answer.joint_q - posture)[answer.is_differentiable].square().sum(dim=1).mean()
    descent.zero_grad()
    cost.backward()
    descent.step()
    if step in (0, STEPS - 1):
        print(f"base at {x:.3f}, {y:.3f} m: {answer.success.sum()} targets reached, {cost.item():.4f} rad^2")
