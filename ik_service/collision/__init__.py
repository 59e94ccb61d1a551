"""Collision checks on devices: spheres of a robot and worlds as arrays, and the clearance of one configuration."""

from ik_service.collision.clearance import (
    ClearanceSize,
    approaches_function,
    clearance_function,
    time_to_contact_function,
)
from ik_service.collision.sphere_arrays import CollisionSpheres, SphereArrays, world_bits
from ik_service.collision.world_arrays import CollisionWorlds, ObjectKind, WorldLines, world_lines

__all__ = [
    "ClearanceSize",
    "CollisionSpheres",
    "CollisionWorlds",
    "ObjectKind",
    "SphereArrays",
    "WorldLines",
    "approaches_function",
    "clearance_function",
    "time_to_contact_function",
    "world_bits",
    "world_lines",
]
