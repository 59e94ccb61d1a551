"""Robots: descriptions in, immutable models out, with float64 kinematics on the host and a view for each device."""

from typing import TYPE_CHECKING, Any

from ik_service.robots.catalog import builtin_robot_names, builtin_urdf, load_robot, load_urdf
from ik_service.robots.collision.attached import AttachedObject
from ik_service.robots.collision.distance_grid import DistanceGrid
from ik_service.robots.collision.model import CollisionModel
from ik_service.robots.collision.shapes import Box, Capsule, Cylinder, HalfSpace, Sphere
from ik_service.robots.collision.world import World
from ik_service.robots.collision_checks.check import CollisionCheck
from ik_service.robots.collision_checks.link_pairs import choose_pairs, without_contacts
from ik_service.robots.constraint_kinematics.constraint_set import ConstraintSet
from ik_service.robots.constraint_kinematics.results import ClosureStatus
from ik_service.robots.constraints.coordinates import CoordinateConstraint
from ik_service.robots.constraints.loops import LoopConstraint
from ik_service.robots.constraints.velocities import VelocityConstraint
from ik_service.robots.files.geometry.grid_file import read_grid, write_grid
from ik_service.robots.files.geometry.world_file import load_world
from ik_service.robots.host_kinematics.forward import LinkPoses
from ik_service.robots.joint_type import JointType
from ik_service.robots.kinematic_robot import KinematicTrees
from ik_service.robots.model import RobotModel
from ik_service.robots.srdf.groups import JointGroup, load_groups
from ik_service.robots.structure.names import DofInfo

if TYPE_CHECKING:
    from ik_service.robots.device_model import DeviceModel

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
    """Import the device view on first use: reading a robot alone should not wait for Warp."""
    if name == "DeviceModel":
        from ik_service.robots.device_model import DeviceModel

        return DeviceModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
