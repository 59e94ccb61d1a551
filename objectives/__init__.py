"""Objectives of inverse kinematics: what a configuration should achieve."""

from objectives.model import IKModel
from objectives.objective import IKJacobianType, IKObjective

__all__ = ["IKJacobianType", "IKModel", "IKObjective"]
