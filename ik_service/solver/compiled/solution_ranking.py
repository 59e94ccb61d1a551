"""Which attempt of an island is the best, and which are distinct solutions."""

import math
import typing

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.robots import DeviceModel, JointType
from ik_service.solver.lm.codes import NO_TARGET
from ik_service.solver.lm.ranking import IMPRECISE, IN_CONTACT, UNRANKED
from ik_service.solver.lm.termination import is_minimum
from ik_service.solver.problems.best_attempts import BestAttempts

# What a coordinate is, for distances.
LENGTH, ANGLE, QUATERNION, QUATERNION_REST = (wp.constant(k) for k in range(4))
BY_SEED, BY_COST, BY_DISTANCE, BY_RANK = (wp.constant(k) for k in range(4))
ORDERS = {None: 0, "cost": 1, "nearest": 2, "clearance": 3}
FULL_TURN = wp.constant(2.0 * math.pi)
FARTHEST_APART = wp.constant(1.0e30)
NO_SEED = wp.constant(-1)


@wp.func
@typing.no_type_check
def wrapped(angle: float):
    """Return an angle on the turn around zero."""
    return angle - FULL_TURN * wp.round(angle / FULL_TURN)


@wp.struct
class AttemptArrays:
    """All attempts, attempt s of problem p in line p * seeds + s, and what it takes to compare them."""

    has_targets: bool
    kind: wp.array[wp.int32]  # [joint_coord_count]
    coordinate_tree: wp.array[wp.int32]  # [joint_coord_count]
    tree_island: wp.array2d[wp.int32]  # [1 or problems, trees]
    attempts: BestAttempts  # lines [problems x seeds]
    start_joint_q: wp.array2d[float]  # [problems, joint_coord_count]
    made: wp.array[wp.int32]  # [problems]: how many have been made, of its first seeds
    chosen: wp.array3d[wp.int32]  # [problems, trees, solutions]: seeds that have been chosen


@wp.func
@typing.no_type_check
def island_distance(
    tries: AttemptArrays, a: wp.array2d[float], i: int, b: wp.array2d[float], j: int, line: int, island: int, wrap: bool
):
    """Return the largest change of any joint of an island between two configurations [m or rad], or up to turns."""
    largest = float(0.0)
    for c in range(tries.kind.shape[0]):
        tree = tries.coordinate_tree[c]
        if tree >= 0 and tries.kind[c] != QUATERNION_REST:
            if tries.tree_island[line, tree] == island:
                gap = a[i, c] - b[j, c]
                if wrap and tries.kind[c] == ANGLE:
                    gap = wrapped(gap)
                if tries.kind[c] == QUATERNION:
                    dot = float(0.0)
                    for m in range(4):
                        dot += a[i, c + m] * b[j, c + m]
                    gap = 2.0 * wp.acos(wp.min(wp.abs(dot), 1.0))
                largest = wp.max(largest, wp.abs(gap))
    return largest


@wp.func
@typing.no_type_check
def is_distinct(
    tries: AttemptArrays, p: int, line: int, island: int, seeds: int, s: int, count: int, difference: float
):
    """Return whether the attempt of a seed differs from the `count` chosen so far."""
    joint_q = tries.attempts.joint_q
    distinct = bool(True)
    for k in range(count):
        other = p * seeds + tries.chosen[p, island, k]
        gap = island_distance(tries, joint_q, p * seeds + s, joint_q, other, line, island, True)
        distinct = distinct and gap > difference
    return distinct


@wp.func
@typing.no_type_check
def next_best(
    tries: AttemptArrays,
    p: int,
    line: int,
    island: int,
    seeds: int,
    least: int,  # seed of the least rank
    order: int,
    count: int,
    difference: float,
):
    """Return the best seed that succeeds and differs from the `count` chosen so far, or NO_SEED.

    Without targets less cost is better, unless the nearest or the clearest is asked for; where no attempt comes to a
    cost of zero, those at a minimum succeed.
    """
    joint_q = tries.attempts.joint_q
    best = int(NO_SEED)
    best_value = float(FARTHEST_APART)
    for s in range(tries.made[p]):
        row = p * seeds + s
        no_target = tries.attempts.met[row, island] == NO_TARGET
        minimal = no_target and is_minimum(tries.attempts.status[row, island], tries.has_targets)
        minimal = minimal and tries.attempts.rank[row, island] < UNRANKED  # the island's search may have ended before
        none_succeeds = tries.attempts.rank[p * seeds + least, island] >= IN_CONTACT
        if tries.attempts.rank[row, island] < IN_CONTACT or (minimal and none_succeeds):
            value = float(tries.attempts.rank[row, island])
            if order == BY_COST or (no_target and order == BY_SEED):
                value = tries.attempts.cost[row, island]
            elif order == BY_DISTANCE:
                value = island_distance(tries, joint_q, row, tries.start_joint_q, p, line, island, False)
            if value < best_value:
                if is_distinct(tries, p, line, island, seeds, s, count, difference):
                    best = s
                    best_value = value
    return best


@wp.func
@typing.no_type_check
def note_solutions(
    tries: AttemptArrays,
    p: int,
    line: int,
    island: int,
    seeds: int,
    first: int,
    end: int,
    order: wp.array[wp.int32],  # [2]: order, number of solutions
    difference: wp.array[float],  # [1]
    # in and out
    found: wp.array2d[wp.int32],  # [problems, trees]: solutions of each island
    newest: wp.array2d[wp.int32],  # [problems, trees]: seeds up to the last of them
):
    """Choose precise solutions among the seeds from `first` to before `end`, up to the number wanted.

    Others come after all precise ones, and so do not end a search.
    """
    count = found[p, island]
    for s in range(first, end):
        row = p * seeds + s
        if count < order[1] and tries.attempts.rank[row, island] < IMPRECISE:
            if is_distinct(tries, p, line, island, seeds, s, count, difference[0]):
                tries.chosen[p, island, count] = s
                count += 1
                newest[p, island] = s + 1
    found[p, island] = count


@wp.func
@typing.no_type_check
def least_rank(tries: AttemptArrays, p: int, island: int, seeds: int):
    """Return the seed of the least rank: of problems that none solves, the one of least cost."""
    best = int(0)
    for s in range(1, tries.made[p]):
        if tries.attempts.rank[p * seeds + s, island] < tries.attempts.rank[p * seeds + best, island]:
            best = s
    return best


def coordinate_kinds(model: DeviceModel) -> NDArray[np.int32]:
    """Return what every coordinate is for distances, int32 [joint_coord_count]."""
    robot, kinds = model.robot, np.zeros(model.joint_coord_count, np.int32)
    for joint, kind in enumerate(map(JointType, robot.joint_type)):
        first, end = int(robot.joint_q_start[joint]), int(robot.joint_q_start[joint + 1])
        if kind.quaternion_offset is not None:
            kinds[end - 4], kinds[end - 3 : end] = int(QUATERNION), int(QUATERNION_REST)
        elif kind.repeats_each_turn and end > first:
            kinds[end - 1] = int(ANGLE)
    return kinds
