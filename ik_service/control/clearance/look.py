"""Nearest pairs where a tick starts, and how far each may come nearer.

nearest pairs, their distances and slopes by every coordinate -> slopes by the coordinates that lead
"""

import typing
from functools import lru_cache
from typing import Any

import warp as wp

from ik_service.collision.clearance import ClearanceSize, approaches_function
from ik_service.collision.sphere_arrays import CollisionSpheres
from ik_service.collision.world_arrays import CollisionWorlds
from ik_service.control.clearance.task import FARTHEST, PARTING, SETTLING, SLOWED, ClearanceTaskRef
from ik_service.control.tick.task import BRAKES, DT

ROWS = 16
"""Most pairs of spheres, or of a sphere and an object, that are kept apart in a tick: the nearest."""
FLAT = wp.constant(wp.float64(1.0e-4))
"""Slope below which no joint counts as changing a distance [m per rad or m]."""
FREE = wp.constant(wp.float64(1.0e3))
"""Way that is left to a pair that nothing brings nearer [m]."""
FAST = wp.constant(wp.float64(1.0))
"""Most that a joint counts as moving in a tick [m or rad]."""
PARTING_SHARE = wp.constant(wp.float64(0.75))
"""Share of what the joints can do that a pair which has to part may ask for."""


@wp.func
@typing.no_type_check
def _fold(task: ClearanceTaskRef, r: int, row: int):
    """Turn slopes by all coordinates into those by the coordinates that lead."""
    for c in range(task.leader.shape[0]):
        leader = task.leader[c]
        if leader != c:
            if leader >= 0:
                factor = wp.float32(task.follower_number[c, 0])
                task.slopes[r, row, leader] = task.slopes[r, row, leader] + factor * task.slopes[r, row, c]
            task.slopes[r, row, c] = wp.float32(0.0)


@wp.func
@typing.no_type_check
def _room_of(task: ClearanceTaskRef, r: int, row: int):
    """Return how far a pair may come nearer in this tick, or in the end where joints brake [m].

    What is left of its way shrinks evenly from tick to tick, so that the joints slow down; joints that brake are slowed
    by their acceleration already. Below 0 it is by how much the pair has to part: no more than the joints can do.
    """
    room = wp.float64(task.gaps[r, row]) - task.margins[SLOWED]
    dt = task.numbers[DT]
    most = wp.float64(0.0)
    steepest = wp.float64(0.0)
    for c in range(task.leader.shape[0]):
        slope = wp.abs(wp.float64(task.slopes[r, row, c]))
        if slope > wp.float64(0.0):
            steepest = wp.max(steepest, slope)
            a = task.active[c]
            most += slope * wp.min(wp.min(task.velocity[a] * dt, task.joint_step[a]), FAST)
    if steepest < FLAT:
        return FREE
    if room < wp.float64(0.0):
        return wp.max(room * dt / (dt + task.margins[PARTING]), -PARTING_SHARE * most)
    if task.settings[BRAKES] == 1:
        return room
    return room * dt / (dt + task.margins[SETTLING])


@lru_cache
@typing.no_type_check
def look_function(size: ClearanceSize) -> Any:
    """Return the function of Warp that finds what is near where the tick starts: (task, spheres, worlds, r)."""
    approaches = approaches_function(size)
    Configuration: Any = wp.types.vector(size.coordinates, wp.float32)

    @wp.func
    def look(task: ClearanceTaskRef, spheres: CollisionSpheres, worlds: CollisionWorlds, r: int):
        joint_q = Configuration()
        for c in range(task.leader.shape[0]):
            joint_q[c] = wp.float32(task.joint_q[r, c])
        farthest = wp.float32(task.margins[FARTHEST])
        task.count[r] = approaches(r, joint_q, spheres, worlds, farthest, task.gaps, task.slopes)
        for row in range(task.count[r]):
            _fold(task, r, row)
            task.room[r, row] = _room_of(task, r, row)

    return look
