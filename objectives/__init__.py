"""Objectives of inverse kinematics: what a configuration should achieve."""

from objectives.joint_limit import IKObjectiveJointLimit
from objectives.look_at import IKObjectiveLookAt
from objectives.model import IKModel
from objectives.objective import IKJacobianType, IKObjective
from objectives.pose import (
    IKObjectivePose,
    IKObjectivePosition,
    IKObjectiveRelativePose,
    IKObjectiveRotation,
)
from objectives.posture import IKObjectivePosture

__all__ = [
    "IKJacobianType",
    "IKModel",
    "IKObjective",
    "IKObjectiveJointLimit",
    "IKObjectiveLookAt",
    "IKObjectivePose",
    "IKObjectivePosition",
    "IKObjectivePosture",
    "IKObjectiveRelativePose",
    "IKObjectiveRotation",
]
