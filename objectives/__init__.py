"""Objectives of inverse kinematics: what a configuration should achieve."""

from objectives.checking.jacobian_check import check
from objectives.errors import IKError, InputError, ObjectiveError, UnknownNameError
from objectives.model import IKJointType, IKModel
from objectives.objective import IKJacobianType, IKObjective
from objectives.tasks.center_of_mass import IKObjectiveCenterOfMass
from objectives.tasks.frames.look_at import IKObjectiveAxisAlign, IKObjectiveLookAt
from objectives.tasks.frames.loop import IKObjectiveLoop
from objectives.tasks.frames.near_pose import IKObjectiveNearPose
from objectives.tasks.frames.plane_and_line import IKObjectiveLine, IKObjectivePlane
from objectives.tasks.frames.pose import (
    IKObjectivePose,
    IKObjectivePosition,
    IKObjectiveRelativePose,
    IKObjectiveRotation,
)
from objectives.tasks.joints.coupling import IKObjectiveCoupling
from objectives.tasks.joints.joint_centering import IKObjectiveJointCentering
from objectives.tasks.joints.joint_limit import IKObjectiveJointLimit
from objectives.tasks.joints.posture import IKObjectiveDamping, IKObjectivePosture
from objectives.tasks.manipulability import IKObjectiveManipulability

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
