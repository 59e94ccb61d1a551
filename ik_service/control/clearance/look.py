"""Pairs near contact at the start of a tick, and their allowed approach.

nearest pairs, their distances and slopes by every coordinate -> slopes by the leading coordinates
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

ROWS = 16  # most pairs of spheres, or of a sphere and an object, with a limit in a tick: the nearest ones
FLAT = wp.constant(wp.float64(1.0e-4))  # slope below which joints do not change a distance [m per rad or m]
FREE = wp.constant(wp.float64(1.0e3))  # allowed approach of a pair with constant distance [m]
FAST = wp.constant(wp.float64(1.0))  # cap of a joint's move in a tick [m or rad]
PARTING_SHARE = wp.constant(wp.float64(0.75))  # largest share of the joints' capability demanded to part a pair


@wp.func
@typing.no_type_check
def _fold(task: ClearanceTaskRef, r: int, row: int):
    """Convert slopes by all coordinates into slopes by the leading coordinates."""
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
    """Return the allowed approach of a pair in this tick, or in total if joints brake [m].

    The approach decays exponentially over the ticks, so that joints slow down; braking joints are already slowed by
    their acceleration. A negative value is the separation demanded of the pair, at most a share of the joints'
    capability.
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
    """Return the Warp function that finds the pairs near contact at the start of a tick: (task, spheres, worlds, r)."""
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
