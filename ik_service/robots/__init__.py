"""Robots: descriptions in, immutable models out, with float64 kinematics on the host and a view per device."""

from typing import TYPE_CHECKING, Any

from ik_service.collision.check import CollisionCheck
from ik_service.collision.distance_grid import DistanceGrid
from ik_service.collision.link_pairs import choose_pairs, without_contacts
from ik_service.collision.shapes import Box, Capsule, Cylinder, HalfSpace, Sphere
from ik_service.collision.world import AttachedObject, World
from ik_service.constraints.constraint_set import ConstraintSet
from ik_service.constraints.results import ClosureStatus
from ik_service.kinematics.host_poses import LinkPoses
from ik_service.mechanism.collision_model import CollisionModel
from ik_service.mechanism.coordinates import CoordinateConstraint
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import KinematicTrees
from ik_service.mechanism.loops import LoopConstraint
from ik_service.mechanism.names import DofInfo
from ik_service.mechanism.velocities import VelocityConstraint
from ik_service.robots.model import RobotModel
from ik_service.robots.readers.catalog import builtin_robot_names, builtin_urdf, load_robot, load_urdf
from ik_service.robots.readers.groups import JointGroup, load_groups
from ik_service.robots.readers.world_file import load_world, read_grid, write_grid

if TYPE_CHECKING:
    from ik_service.mechanism.device_model import DeviceModel

__all__ = [
    "AttachedObject",
    "Box",
    "Capsule",
    "ClosureStatus",
    "CollisionCheck",
    "CollisionModel",
    "ConstraintSet",
    "CoordinateConstraint",
    "Cylinder",
    "DeviceModel",
    "DistanceGrid",
    "DofInfo",
    "HalfSpace",
    "JointGroup",
    "JointType",
    "KinematicTrees",
    "LinkPoses",
    "LoopConstraint",
    "RobotModel",
    "Sphere",
    "VelocityConstraint",
    "World",
    "builtin_robot_names",
    "builtin_urdf",
    "choose_pairs",
    "load_groups",
    "load_robot",
    "load_urdf",
    "load_world",
    "read_grid",
    "without_contacts",
    "write_grid",
]


def __getattr__(name: str) -> Any:
    """Import the device view on first use: reading a robot should not wait for Warp."""
    if name == "DeviceModel":
        from ik_service.mechanism.device_model import DeviceModel

        return DeviceModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
