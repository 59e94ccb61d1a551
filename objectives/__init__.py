"""Objectives of inverse kinematics: residual rows that a configuration should minimise."""

from objectives.checking.jacobian_check import check
from objectives.errors import IKError, InputError, ObjectiveError, UnknownNameError
from objectives.model import IKJointType, IKModel
from objectives.objective import IKJacobianType, IKObjective
from objectives.tasks.geometry import (
    IKObjectiveAxisAlign,
    IKObjectiveCenterOfMass,
    IKObjectiveLine,
    IKObjectiveLookAt,
    IKObjectivePlane,
)
from objectives.tasks.joints import (
    IKObjectiveDamping,
    IKObjectiveJointCentering,
    IKObjectiveJointLimit,
    IKObjectivePosture,
)
from objectives.tasks.loop import IKObjectiveCoupling, IKObjectiveLoop
from objectives.tasks.manipulability import IKObjectiveManipulability
from objectives.tasks.pose import (
    IKObjectiveNearPose,
    IKObjectivePose,
    IKObjectivePosition,
    IKObjectiveRelativePose,
    IKObjectiveRotation,
)

__all__ = [
    "IKError",
    "IKJacobianType",
    "IKJointType",
    "IKModel",
    "IKObjective",
    "IKObjectiveAxisAlign",
    "IKObjectiveCenterOfMass",
    "IKObjectiveCoupling",
    "IKObjectiveDamping",
    "IKObjectiveJointCentering",
    "IKObjectiveJointLimit",
    "IKObjectiveLine",
    "IKObjectiveLookAt",
    "IKObjectiveLoop",
    "IKObjectiveManipulability",
    "IKObjectiveNearPose",
    "IKObjectivePlane",
    "IKObjectivePose",
    "IKObjectivePosition",
    "IKObjectivePosture",
    "IKObjectiveRelativePose",
    "IKObjectiveRotation",
    "InputError",
    "ObjectiveError",
    "UnknownNameError",
    "check",
]
