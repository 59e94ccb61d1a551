"""Objectives of inverse kinematics: what a configuration should achieve."""

from objectives.model import IKModel
from objectives.objective import IKJacobianType, IKObjective
from objectives.pose import (
    IKObjectivePose,
    IKObjectivePosition,
    IKObjectiveRelativePose,
    IKObjectiveRotation,
)

__all__ = [
    "IKJacobianType",
    "IKModel",
    "IKObjective",
    "IKObjectivePose",
    "IKObjectivePosition",
    "IKObjectiveRelativePose",
    "IKObjectiveRotation",
]
