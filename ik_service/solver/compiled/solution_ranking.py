"""Ranking of the attempts of an island: the best one, and further distinct solutions."""

import math
import typing

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.robots import DeviceModel, JointType
from ik_service.solver.arrays.branch_starts import first_branch, sole_branches
from ik_service.solver.arrays.problem_arrays import BestAttempts, Searches
from ik_service.solver.lm.codes import NO_TARGET
from ik_service.solver.lm.ranking import FAILED, IMPRECISE, IN_CONTACT, SEED_BITS, UNRANKED
from ik_service.solver.lm.termination import is_minimum

# Kinds of coordinates in distances.
LENGTH, ANGLE, QUATERNION, QUATERNION_REST = (wp.constant(k) for k in range(4))
BY_SEED, BY_COST, BY_DISTANCE, BY_RANK = (wp.constant(k) for k in range(4))
ORDERS = {None: 0, "cost": 1, "nearest": 2, "clearance": 3}
FULL_TURN = wp.constant(2.0 * math.pi)
NO_SEED = wp.constant(-1)
CLEAR_DEPTH = wp.constant(1.0e-4)  # depth of contact above the rounding of the check [m]
TAKEN = wp.constant(1.0e30)  # value of an attempt without success, or too near to a chosen one


@wp.func
@typing.no_type_check
def wrapped(angle: float):
    """Return an angle on the turn around zero."""
    return angle - FULL_TURN * wp.rint(angle / FULL_TURN)


@wp.struct
class AttemptArrays:
    """All attempts, attempt s of problem p in line p * seeds + s, and data for their comparison."""

    has_targets: bool
    kind: wp.array[wp.int32]  # [joint_coord_count]
    coordinate_tree: wp.array[wp.int32]  # [joint_coord_count]
    tree_island: wp.array2d[wp.int32]  # [1 or problems, trees]
    arm_column: wp.array[wp.int32]  # [joints]: coordinates of the one arm with branches; empty for others
    sphere_reach: float  # bound of the distance of a sphere from each joint before the sphere [m]
    answers: BestAttempts  # lines [problems x seeds]
    start_joint_q: wp.array2d[float]  # [problems, joint_coord_count]: within the limits
    given_joint_q: wp.array2d[float]  # [problems, joint_coord_count]: as given
    made: wp.array[wp.int32]  # [problems]: number of attempts made, in the order of seeds
    least: wp.array2d[wp.int64]  # [problems, trees]: least rank
    value: wp.array2d[float]  # [problems x seeds, trees]: smaller is better; TAKEN if no further solution
    choice: wp.array3d[wp.int64]  # [problems, trees, solutions]: rank of each choice, from value and seed
    chosen: wp.array3d[wp.int32]  # [problems, trees, solutions]: chosen seeds


@wp.func
@typing.no_type_check
def island_distance(
    attempts: AttemptArrays,
    a: wp.array2d[float],
    i: int,
    b: wp.array2d[float],
    j: int,
    line: int,
    island: int,
    wrap: bool,
    enough: float,
):
    """Return the largest joint change of two configurations [m or rad], `wrap` modulo turns; end above `enough`."""
    largest = float(0.0)
    c = int(0)
    while c < attempts.kind.shape[0] and largest <= enough:
        tree = attempts.coordinate_tree[c]
        if tree >= 0 and attempts.kind[c] != QUATERNION_REST:
            if attempts.tree_island[line, tree] == island:
                gap = a[i, c] - b[j, c]
                if wrap and attempts.kind[c] == ANGLE:
                    gap = wrapped(gap)
                if attempts.kind[c] == QUATERNION:
                    dot = float(0.0)
                    for m in range(4):
                        dot += a[i, c + m] * b[j, c + m]
                    gap = 2.0 * wp.acos(wp.min(wp.abs(dot), 1.0))
                largest = wp.max(largest, wp.abs(gap))
        c += 1
    return largest


@wp.func
@typing.no_type_check
def is_distinct(
    attempts: AttemptArrays, p: int, line: int, island: int, seeds: int, s: int, count: int, difference: float
):
    """Return whether the attempt of a seed differs from the `count` chosen so far."""
    joint_q = attempts.answers.joint_q
    distinct = bool(True)
    k = int(0)
    while k < count and distinct:
        other = wp.max(p * seeds + attempts.chosen[p, island, k], 0)
        gap = island_distance(
            attempts, joint_q, wp.max(p * seeds + s, 0), joint_q, other, line, island, True, difference
        )
        distinct = gap > difference
        k += 1
    return distinct


@wp.func
@typing.no_type_check
def attempt_value(attempts: AttemptArrays, p: int, row: int, line: int, island: int, order: int):
    """Return the value to be minimised by the choice; TAKEN of an attempt without success.

    Without targets the cost is minimised, unless the nearest or the clearest is requested; if no attempt reaches cost
    zero, attempts at a minimum succeed.
    """
    rank = attempts.answers.rank[row, island]
    no_target = attempts.answers.met[row, island] == NO_TARGET
    minimal = no_target and is_minimum(attempts.answers.status[row, island], attempts.has_targets)
    minimal = minimal and rank < UNRANKED  # the island's search may have ended before
    value = float(TAKEN)
    if rank < IN_CONTACT or (minimal and attempts.least[p, island] >= IN_CONTACT):
        value = float(rank)
        if order == BY_COST or (no_target and order == BY_SEED):
            value = attempts.answers.cost[row, island]
        elif order == BY_DISTANCE:
            joint_q, given = attempts.answers.joint_q, attempts.given_joint_q
            value = island_distance(attempts, joint_q, row, given, p, line, island, False, TAKEN)
    return value


@wp.func
@typing.no_type_check
def value_left(attempts: AttemptArrays, row: int, line: int, island: int, chosen: int, difference: float):
    """Return an attempt's value; TAKEN if the attempt is not distinct from the last choice, in line `chosen`."""
    joint_q = attempts.answers.joint_q
    value = attempts.value[row, island]
    if value < TAKEN:
        if not island_distance(attempts, joint_q, row, joint_q, chosen, line, island, True, difference) > difference:
            value = TAKEN
    return value


@wp.func
@typing.no_type_check
def branch_gap(attempts: AttemptArrays, searches: Searches, p: int, island: int, k: int, row: int, enough: float):
    """Return the largest joint change from the start of branch k to an attempt, modulo turns; stop above `enough`."""
    joints = attempts.arm_column.shape[0]
    largest = float(0.0)
    j = int(0)
    while j < joints and largest <= enough:
        start = searches.branch_joint_q[p, island, k * joints + j]
        gap = wp.abs(attempts.answers.joint_q[row, wp.max(attempts.arm_column[j], 0)] - start)
        if not gap < 3.0:  # most are small: no division
            gap = wp.abs(wrapped(gap))
        largest = wp.max(largest, gap)
        j += 1
    return largest


@wp.func
@typing.no_type_check
def is_blocked(attempts: AttemptArrays, searches: Searches, p: int, island: int, k: int, row: int):
    """Return whether the exact solution of branch k is in contact, too, by its attempt.

    The depth of contact is above the largest motion of any sphere from the attempt to the solution.
    """
    rank = attempts.answers.rank[row, island]
    if rank < IN_CONTACT or rank >= FAILED or attempts.arm_column.shape[0] == 0:
        return False
    depth = wp.cast(wp.int32((rank - IN_CONTACT) >> SEED_BITS), wp.float32)
    gap = branch_gap(attempts, searches, p, island, k, row, TAKEN) + searches.branch_radius[p, island]
    return depth > gap * float(attempts.arm_column.shape[0]) * attempts.sphere_reach + CLEAR_DEPTH


@wp.func
@typing.no_type_check
def has_all_branches(attempts: AttemptArrays, searches: Searches, p: int, island: int, seeds: int):
    """Return whether each branch has led to a solution or is blocked, and no other exists."""
    count = sole_branches(searches, p, island)
    found = count > 0
    k = int(0)
    while k < count and found:
        row = p * seeds + first_branch(searches, p, island) + k
        found = attempts.answers.rank[row, island] < IMPRECISE or is_blocked(attempts, searches, p, island, k, row)
        k += 1
    return found


@wp.func
@typing.no_type_check
def has_all_solutions(attempts: AttemptArrays, searches: Searches, p: int, seeds: int, chosen: int, difference: float):
    """Return whether each exact solution of a single island is within `difference` of a chosen one, or blocked.

    A solution is within `branch_radius` of the start of its branch; joints are compared modulo turns.
    """
    found = attempts.arm_column.shape[0] > 0 and has_all_branches(attempts, searches, p, 0, seeds)
    most = difference - searches.branch_radius[p, 0]
    k = int(0)
    while k < sole_branches(searches, p, 0) and found:
        if attempts.answers.rank[p * seeds + first_branch(searches, p, 0) + k, 0] < IMPRECISE:
            found = bool(False)
            m = int(-1)
            while m < chosen and not found:
                solution = wp.where(m < 0, wp.min(k, chosen - 1), m)  # most often that of branch k
                row = p * seeds + attempts.chosen[p, 0, wp.max(solution, 0)]
                found = branch_gap(attempts, searches, p, 0, k, row, most) <= most
                m += 1
        k += 1
    return found


@wp.func
@typing.no_type_check
def note_solutions(
    attempts: AttemptArrays,
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
    newest: wp.array2d[wp.int32],  # [problems, trees]: number of seeds up to the last solution
):
    """Choose precise solutions among the seeds from `first` to before `end`, up to the requested number.

    Imprecise solutions rank after all precise ones, and do not end a search.
    """
    count = found[p, island]
    for s in range(first, end):
        row = p * seeds + s
        if count < order[1] and attempts.answers.rank[row, island] < IMPRECISE:
            if is_distinct(attempts, p, line, island, seeds, s, count, difference[0]):
                attempts.chosen[p, island, count] = s
                count += 1
                newest[p, island] = s + 1
    found[p, island] = count


def coordinate_kinds(model: DeviceModel) -> NDArray[np.int32]:
    """Return the kind of every coordinate in distances, int32 [joint_coord_count]."""
    robot, kinds = model.robot, np.zeros(model.joint_coord_count, np.int32)
    for joint, kind in enumerate(map(JointType, robot.joint_type)):
        first, end = int(robot.joint_q_start[joint]), int(robot.joint_q_start[joint + 1])
        if kind.quaternion_offset is not None:
            kinds[end - 4], kinds[end - 3 : end] = int(QUATERNION), int(QUATERNION_REST)
        elif kind.repeats_each_turn and end > first:
            kinds[end - 1] = int(ANGLE)
    return kinds
