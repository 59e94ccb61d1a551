"""Solves and forward kinematics as operations of PyTorch, with gradients; needs PyTorch 2.6 or newer."""

from ik_service.extras import needs

with needs("torch", "ik_service.torch"):
    from ik_service.torch.kinematics import TorchKinematics, TorchPoses
    from ik_service.torch.solving import TorchAnswer, TorchSolver

__all__ = ["TorchAnswer", "TorchKinematics", "TorchPoses", "TorchSolver"]
