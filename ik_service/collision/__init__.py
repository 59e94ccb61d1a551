"""Collision checks on devices: spheres of a robot and worlds as arrays, and the clearance of one configuration."""

from ik_service.collision.clearance import ClearanceSize, clearance_function
from ik_service.collision.sphere_arrays import CollisionSpheres, collision_spheres
from ik_service.collision.world_arrays import CollisionWorlds, ObjectKind, world_lines

__all__ = [
    "ClearanceSize",
    "CollisionSpheres",
    "CollisionWorlds",
    "ObjectKind",
    "clearance_function",
    "collision_spheres",
    "world_lines",
]
