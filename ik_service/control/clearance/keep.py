"""Clearance of a tick: the move that tasks lead to, made one that is free of contact and can be stopped in time.

1. Find what is near where the tick starts.
2. Take the move that the tasks lead to. If a pair would come too near there, take the move that serves the tasks best
   within what pairs and joints may do.
3. Check the way of the move, and the way on which the joints come to rest after it. If they are not free, try half and
   a quarter of the move, from the one that brakes as hard as the joints may.
4. If none is free, brake: that is the way which was found free in the tick before, if that was as long.

Whether a way is free is seen from few configurations on it: no two links come nearer to each other than by the sum over
the joints between them of move times lever, so that they stay clear for as long as that is less than their distance.
"""

import typing
from functools import lru_cache
from typing import Any

import warp as wp

from ik_service.collision.clearance import ClearanceSize, clearance_function, time_to_contact_function
from ik_service.collision.sphere_arrays import CollisionSpheres
from ik_service.collision.world_arrays import CollisionWorlds
from ik_service.compiler import cpu_target
from ik_service.control.clearance.look import look_function
from ik_service.control.clearance.moves import (
    ONE,
    ZERO,
    bound_moves,
    bound_ways,
    brake,
    take_proposal,
    take_stopping,
    ticks_to_rest,
    way_function,
)
from ik_service.control.clearance.planning import planning_function
from ik_service.control.clearance.task import FARTHEST, HARD, KEPT, ClearanceTask, ClearanceTaskRef
from ik_service.control.tick.task import BRAKES

CHECKS = wp.constant(16)
"""Configurations that are looked at on one way at most."""
MOVES_TRIED = wp.constant(3)
"""Moves that are tried before the one that brakes."""
CLEARANCE_ROUNDING = wp.constant(wp.float64(2.0e-7))
"""By how much clearance may shrink that is less than what is kept: rounding alone changes it so much [m]."""
ACTIVE = wp.constant(wp.float64(1.0e-7))
"""Way that is left to a pair that holds joints back [m]."""


@wp.func
@typing.no_type_check
def left_after(task: ClearanceTaskRef, r: int, row: int, end: wp.array2d[wp.float64]):
    """Return how far a pair may still come nearer at other coordinates [m], by its slopes."""
    left = task.room[r, row]
    for c in range(task.leader.shape[0]):
        slope = wp.float64(task.slopes[r, row, c])
        if slope != ZERO:
            left += slope * (end[r, c] - task.joint_q[r, c])
    return left


@wp.func
@typing.no_type_check
def _is_near(task: ClearanceTaskRef, r: int):
    """Return whether a pair would come too near where the tasks lead: in this tick, or in the end if joints brake."""
    for row in range(task.count[r]):
        if left_after(task, r, row, task.proposal) < ZERO:
            return True
        if task.settings[BRAKES] == 1 and left_after(task, r, row, task.reference) < ZERO:
            return True
    return False


@wp.func
@typing.no_type_check
def _mix(task: ClearanceTaskRef, r: int, share: wp.float64):
    """Take a share of the way from the move that brakes to the one that is made now."""
    for c in range(task.leader.shape[0]):
        if task.leader[c] == c:
            task.move[r, c] = share * task.move[r, c] + (ONE - share) * task.stopping[r, c]


@wp.func
@typing.no_type_check
def _is_known(task: ClearanceTaskRef, r: int):
    """Return whether it is known where all of a robot is."""
    is_known = wp.bool(True)
    for island in range(task.faulty.shape[1]):
        is_known = is_known and task.faulty[r, island] == 0
    for c in range(task.joint_q.shape[1]):
        is_known = is_known and wp.isfinite(task.joint_q[r, c])
    return is_known


@wp.func
@typing.no_type_check
def _tell(task: ClearanceTaskRef, r: int):
    """Write where to go, and which DOFs clearance holds back."""
    for c in range(task.leader.shape[0]):
        if task.leader[c] == c:
            wanted = task.proposal[r, c] - task.joint_q[r, c]
            if wp.abs(wanted - task.move[r, c]) > ACTIVE:
                task.near_contact[r, task.dof[c]] = 1
            if wanted != task.move[r, c] and wp.isfinite(task.joint_q[r, c]):
                task.proposal[r, c] = task.joint_q[r, c] + task.move[r, c]
    for row in range(task.count[r]):
        if left_after(task, r, row, task.proposal) <= ACTIVE:
            for c in range(task.leader.shape[0]):
                if task.slopes[r, row, c] != wp.float32(0.0):
                    task.near_contact[r, task.dof[c]] = 1


@wp.func
@typing.no_type_check
def _least_on_the_way(task: ClearanceTaskRef, start: wp.float64):
    """Return what clearance may shrink to until the joints stand, from what it is or what is kept at the start [m]."""
    hard = task.margins[HARD]
    spare = task.margins[KEPT] - hard
    least = wp.min(hard + wp.float64(0.5) * spare, start - wp.float64(0.25) * spare)
    return wp.where(start >= hard, wp.max(least, hard), least)


@lru_cache
@typing.no_type_check
def keep_kernel(size: ClearanceSize, leaders: int) -> wp.Kernel:
    """Return the kernel that changes where to go: (limit, spheres, worlds), one thread for each robot."""
    look, plan, way = look_function(size), planning_function(leaders), way_function(size.coordinates)
    clearance, time_to_contact = clearance_function(size), time_to_contact_function(size)
    Configuration: Any = wp.types.vector(size.coordinates, wp.float32)
    options = {"cpu_compiler_flags": cpu_target().flags, "max_unroll": 1}

    @wp.func
    def clearance_after(task: ClearanceTaskRef, spheres: CollisionSpheres, worlds: CollisionWorlds, r: int):
        """Return the clearance at the end of the tick."""
        joint_q = Configuration()
        speeds = Configuration()
        way(task, r, ONE, joint_q, speeds)
        return wp.float64(clearance(r, joint_q, spheres, worlds, wp.float32(task.margins[FARTHEST])))

    @wp.func
    def is_free(task: ClearanceTaskRef, spheres: CollisionSpheres, worlds: CollisionWorlds, r: int, start: wp.float64):
        """Return whether a move is free, and the way on which the joints come to rest after it."""
        task.clearance[r] = clearance_after(task, spheres, worlds, r)
        if not (task.clearance[r] >= start - CLEARANCE_ROUNDING):
            return False
        hard = wp.float32(_least_on_the_way(task, start))
        end = ticks_to_rest(task, r)
        ticks = wp.float64(0.0)
        checks = int(0)
        while ticks < end and checks < CHECKS:
            joint_q = Configuration()
            speeds = Configuration()
            way(task, r, ticks, joint_q, speeds)
            longest = wp.float32(end - ticks)
            ticks += wp.float64(
                time_to_contact(r, joint_q, spheres, worlds, task.levers, task.farthest, speeds, hard, longest)
            )
            checks += 1
        return ticks >= end

    @wp.kernel(module="unique", enable_backward=False, module_options=options)
    def keep(limit: ClearanceTask, spheres: CollisionSpheres, worlds: CollisionWorlds):
        r = wp.tid()
        limit.clearance[r] = wp.float64(wp.nan)
        for d in range(limit.near_contact.shape[1]):
            limit.near_contact[r, d] = 0
        if not _is_known(limit, r):
            bound_moves(limit, r)
            take_stopping(limit, r)
            limit.count[r] = 0
            _tell(limit, r)
        else:
            look(limit, spheres, worlds, r)
            if not _is_near(limit, r):
                bound_moves(limit, r)
                take_proposal(limit, r)
            elif limit.settings[BRAKES] == 0:
                bound_moves(limit, r)
                plan(limit, r, 0)
            else:
                bound_ways(limit, r)
                plan(limit, r, 0)
                bound_moves(limit, r)
                brake(limit, r)
                plan(limit, r, 1)
            start = limit.margins[KEPT]
            if limit.count[r] > 0:
                start = wp.min(start, wp.float64(limit.gaps[r, 0]))
            tries = int(0)
            while tries < MOVES_TRIED and not is_free(limit, spheres, worlds, r, start):
                tries += 1
                _mix(limit, r, wp.float64(0.5))
            if tries == MOVES_TRIED:
                take_stopping(limit, r)
                limit.clearance[r] = clearance_after(limit, spheres, worlds, r)
            _tell(limit, r)

    return keep
