"""All constraints of a robot, and the two links between which each of them stands."""

from typing import TypeAlias

import numpy as np

from ik_service.mechanism.arrays import RobotArrays
from ik_service.mechanism.coordinates import CoordinateConstraint
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.loops import LoopConstraint
from ik_service.mechanism.velocities import VelocityConstraint

Constraint: TypeAlias = LoopConstraint | VelocityConstraint | CoordinateConstraint


def constraints_of(robot: RobotArrays) -> tuple[Constraint, ...]:
    """Give loops, then constraints on velocities, then those between coordinates."""
    return (*robot.loops, *robot.velocity_constraints, *robot.coordinate_constraints)


def constraint_ends(robot: KinematicRobot, constraint: Constraint) -> tuple[int, int]:
    """Give the links of both frames, the root for the world; or those that both joints move."""
    if isinstance(constraint, CoordinateConstraint):
        joint, reference_joint = map(robot.joint_index, constraint.joints)
        return moved_link(robot, joint), moved_link(robot, reference_joint)
    reference = constraint.reference_link
    return robot.link_index(constraint.link), 0 if reference is None else robot.link_index(reference)


def moved_link(robot: RobotArrays, joint: int) -> int:
    """Give the link whose frame is that of the body of a joint: the first that stands on the body."""
    return int(np.argmax(robot.link_body == joint))
