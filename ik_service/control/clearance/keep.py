"""Clearance of a tick: the move of the tasks is changed into a move free of contact that can stop in time.

1. Find the pairs near contact at the start of the tick.
2. Take the move of the tasks. If a pair would come too near, take the best move for the tasks within the bounds of
pairs
   and joints.
3. Check the path of the move, and the path of the braking joints after the move. If a path is not free, try half and
   a quarter of the move, measured from the move with the hardest braking.
4. If no path is free, brake: the last tick found this path free, if its tick was as long.

A path is checked at few configurations: two links approach each other by at most the sum, over the joints between them,
of move times lever. The links stay clear while this sum is less than their distance.
"""

import typing
from functools import lru_cache
from typing import Any

import warp as wp

from ik_service.collision.arrays import CollisionSpheres, CollisionWorlds
from ik_service.collision.clearance import ClearanceSize, clearance_function, time_to_contact_function
from ik_service.compiler import cpu_target
from ik_service.control.clearance.moves import (
    FARTHEST,
    HARD,
    KEPT,
    ONE,
    ZERO,
    ClearanceTask,
    ClearanceTaskRef,
    bound_moves,
    bound_ways,
    brake,
    look_function,
    planning_function,
    take_proposal,
    take_stopping,
    ticks_to_rest,
    way_function,
)
from ik_service.control.tick.arrays import BRAKES

CHECKS = wp.constant(16)  # most configurations checked on one path
MOVES_TRIED = wp.constant(3)  # moves tried before braking
CLEARANCE_ROUNDING = wp.constant(wp.float64(2.0e-7))  # decrease of a clearance by rounding alone [m]
ACTIVE = wp.constant(wp.float64(1.0e-7))  # remaining approach of a pair that counts as an active limit [m]


@wp.func
@typing.no_type_check
def left_after(task: ClearanceTaskRef, r: int, row: int, end: wp.array2d[wp.float64]):
    """Return the remaining approach of a pair at other coordinates [m], to first order."""
    left = task.room[r, row]
    for c in range(task.leader.shape[0]):
        slope = wp.float64(task.slopes[r, row, c])
        if slope != ZERO:
            left += slope * (end[r, c] - task.joint_q[r, c])
    return left


@wp.func
@typing.no_type_check
def _is_near(task: ClearanceTaskRef, r: int):
    """Return whether the tasks lead a pair too near contact, in this tick or, with braking joints, at the end."""
    for row in range(task.count[r]):
        if left_after(task, r, row, task.proposal) < ZERO:
            return True
        if task.settings[BRAKES] == 1 and left_after(task, r, row, task.reference) < ZERO:
            return True
    return False


@wp.func
@typing.no_type_check
def _mix(task: ClearanceTaskRef, r: int, share: wp.float64):
    """Interpolate from the braking move to the present move."""
    for c in range(task.leader.shape[0]):
        if task.leader[c] == c:
            task.move[r, c] = share * task.move[r, c] + (ONE - share) * task.stopping[r, c]


@wp.func
@typing.no_type_check
def _is_known(task: ClearanceTaskRef, r: int):
    """Return whether all coordinates of a robot are known."""
    is_known = wp.bool(True)
    for island in range(task.faulty.shape[1]):
        is_known = is_known and task.faulty[r, island] == 0
    for c in range(task.joint_q.shape[1]):
        is_known = is_known and wp.isfinite(task.joint_q[r, c])
    return is_known


@wp.func
@typing.no_type_check
def _tell(task: ClearanceTaskRef, r: int):
    """Write the command and the DOFs held back by clearance."""
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
    """Return the least clearance allowed until the joints rest, from the clearance at the start [m]."""
    hard = task.margins[HARD]
    spare = task.margins[KEPT] - hard
    least = wp.min(hard + wp.float64(0.5) * spare, start - wp.float64(0.25) * spare)
    return wp.where(start >= hard, wp.max(least, hard), least)


@lru_cache
@typing.no_type_check
def keep_kernel(size: ClearanceSize, leaders: int) -> wp.Kernel:
    """Return the kernel that makes commands free of contact: (limit, spheres, worlds), one thread per robot."""
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
        """Return whether a move and the path of the braking joints after the move are free."""
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
