"""Solves and forward kinematics as operations of PyTorch, with gradients; needs PyTorch 2.6 or newer."""

from ik_service.extras import how_to_install

try:
    from ik_service.torch.kinematics import TorchKinematics, TorchPoses
    from ik_service.torch.solving import TorchAnswer, TorchSolver
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(f"ik_service.torch needs PyTorch. {how_to_install('torch')}", name="torch") from None

__all__ = ["TorchAnswer", "TorchKinematics", "TorchPoses", "TorchSolver"]
