"""Data of the kernel of an island: one struct of device arrays, most of them shared by all islands of a solve."""

import typing
from typing import Any

import numpy as np
import warp as wp

from ik_service.collision.arrays import CollisionSpheres, CollisionWorlds
from ik_service.compiler import IslandProgram, Precision, coordinate_names
from ik_service.kernels import typed_warp
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.robots import DeviceModel
from ik_service.solver.arrays.problem_arrays import BestAttempts, Searches
from ik_service.solver.lm.codes import KEEP_ALL, SEEDS, STOP, TRIES_ALL
from ik_service.solver.lm.coordinates import follower_dofs, follower_table
from ik_service.solver.lm.ranking import (
    FAILED,
    IMPRECISE,
    IN_CONTACT,
    attempt_count,
    contact_search_ends,
    count_cost,
    is_round_end,
    search_ends,
)
from ik_service.solver.lm.seeds import SeedRanges


@wp.struct
class IslandTask:
    """Data of the kernel of an island; int32 and float32 unless said."""

    iterate: wp.uint64  # address of a called iteration
    # problems
    fault: wp.array[wp.int32]  # [parts]: 1 if the part must not be solved
    count: wp.array[wp.int32]  # number of problems, in entry 0
    problem: wp.array[wp.int32]  # [count]: problems in ascending order
    island: int  # the island's number in each
    settings: wp.array[wp.int32]
    tolerances: wp.array[wp.float32]
    precise_position: wp.float32  # [m]: an attempt as near as this is final
    equal_minima: int  # attempts at the least cost that end a search, where each counts in full
    lightest2: wp.array2d[wp.float32]  # [1 or problems, trees]
    heaviest2: wp.array2d[wp.float32]
    # island
    length_stride: int  # stride of column lengths in a state: 0 for one common length
    dof: wp.array[wp.int32]  # active DOF of each of its DOFs
    coordinate: wp.array[wp.int32]  # column in joint_q of each of its coordinates
    follower: wp.array[wp.int32]  # columns of followers (mimic joints)
    follower_place: wp.array[wp.int32]  # place of the leader
    follower_number: wp.array2d[wp.float64]  # [followers, 4]: multiplier, offset, lower and upper limit
    # data
    source: wp.array[wp.uint64]  # [inputs]: address of the first number
    source_lines: wp.array[wp.int32]  # [inputs]: 1 or one per problem
    source_stride: wp.array[wp.int32]  # [inputs]: numbers from line to line
    source_is_float64: wp.array[wp.int32]  # [inputs]: 1 for float64
    limit_lower: wp.array2d[wp.float64]  # [1 or problems, active_dof_count]; numbers of the kernel's precision
    limit_upper: wp.array2d[wp.float64]
    mid_joint_q: wp.array[wp.float32]
    start_joint_q: wp.array2d[wp.float32]  # [problems, joint_coord_count]
    # draws
    ranges: SeedRanges
    tree_hash: wp.array2d[wp.uint32]
    # answers
    best: BestAttempts  # of every problem, or every attempt
    searches: Searches
    best_joint_q_float64: wp.array2d[wp.float64]  # also written by kernels in float64
    # collision, if checked
    spheres: CollisionSpheres
    worlds: CollisionWorlds
    clearance: wp.array[wp.float32]  # [2]: least clearance of a success [m]; more wins up to this, or 0


TaskRef: Any = typed_warp.reference_to(IslandTask)


# Addresses of data instead of arrays: the number of inputs depends on the program.
@typed_warp.func_native("return wide ? ((const double*)address)[index] : (double)((const float*)address)[index];")
def load_number(address: wp.uint64, index: int, wide: int) -> wp.float64:  # type: ignore[empty-body]  # the C++ above is the body; Warp takes no 'raise' here, and no types under 'no_type_check'
    """Return a number of an array in float64, or in float32 if not `wide`."""


@wp.func
@typing.no_type_check
def read_input(task: TaskRef, p: int, k: int):
    """Return an input of the program."""
    line = wp.min(p, task.source_lines[k] - 1)
    return load_number(task.source[k], line * task.source_stride[k], task.source_is_float64[k])


@wp.func
@typing.no_type_check
def attempt_line(task: TaskRef, p: int, s: int):
    """Return the line of the answers in which seed s of problem p competes."""
    if task.settings[KEEP_ALL] == 1:
        return wp.max(p * task.settings[SEEDS] + s, 0)
    return p


@typed_warp.func_native("return *(volatile const wp::int32*)&wp::index(settings, place);")
def setting_now(settings: wp.array[wp.int32], place: int) -> int:  # type: ignore[empty-body]  # the C++ above is the body; Warp takes no 'raise' here, and no types under 'no_type_check'
    """Return a setting that a host thread may change meanwhile."""


@wp.func
@typing.no_type_check
def needs_attempt(task: TaskRef, p: int, island: int):
    """Return whether a problem may begin another seed that could still win."""
    if task.searches.next_seed[p, island] >= task.searches.end_seed[p, island]:
        return False
    return setting_now(task.settings, STOP) == 0


@wp.func
@typing.no_type_check
def counts(rank: wp.int64):
    """Return whether an attempt without precise success counts towards the end of a search, by its rank.

    If targets are met in contact, other seeds may meet them free of contact.
    """
    return rank >= IMPRECISE and (rank < IN_CONTACT or rank >= FAILED)


@wp.func
@typing.no_type_check
def count_attempt(task: TaskRef, p: int, island: int, s: int, rank: wp.int64, cost: float, status: int, met: int):
    """Count a finished attempt in the search of its problem, unless every seed is run.

    Args:
        task: The task.
        p: The problem.
        island: Island of the problem.
        s: Seed of the attempt.
        rank: Rank of the attempt.
        cost: Cost for comparison of attempts.
        status: Status of the attempt.
        met: Whether the targets are met.
    """
    if task.settings[KEEP_ALL] == 1:
        return
    if rank < IMPRECISE:
        task.searches.end_seed[p, island] = wp.min(task.searches.end_seed[p, island], s + 1)
    elif counts(rank):
        count = attempt_count(status, met)
        task.searches.counted[p, island] = count_cost(task.searches.counted[p, island], cost, count)


@wp.func
@typing.no_type_check
def suffices(task: TaskRef, counted: int, rank: wp.int64, seeds: int, has_targets: bool):
    """Return whether a search without precise success ends after a round.

    Args:
        task: The task.
        counted: Costs of all attempts so far.
        rank: Best rank so far.
        seeds: Seeds of all rounds.
        has_targets: Whether the island has targets.
    """
    if task.settings[TRIES_ALL] == 1 and rank >= IN_CONTACT:
        return False
    in_contact = rank >= IN_CONTACT and rank < FAILED and contact_search_ends(seeds, task.settings[SEEDS])
    is_good = not has_targets or rank < IN_CONTACT
    return in_contact or search_ends(counted, task.equal_minima, is_good, seeds)


@wp.func
@typing.no_type_check
def end_round(task: TaskRef, p: int, island: int, seeds: int, has_targets: bool):
    """End the search of a problem at the end of a round, if all attempts have ended and suffice."""
    if task.settings[KEEP_ALL] == 1:
        return
    if is_round_end(seeds) and seeds < task.searches.end_seed[p, island]:
        if suffices(task, task.searches.counted[p, island], task.best.rank[p, island], seeds, has_targets):
            task.searches.end_seed[p, island] = seeds


def coordinate_columns(program: IslandProgram, robot: KinematicRobot) -> list[int]:
    """Return the column in joint_q of each coordinate of an island."""
    found = []
    for a, component in coordinate_names(program):
        joint = int(np.searchsorted(robot.joint_qd_start, robot.active_dof[a], side="right")) - 1
        first = int(robot.joint_q_start[joint + 1]) - 4 + "xyzw".find(component)
        found.append(first if component else int(robot.dof_coordinate[robot.active_dof[a]]))
    return found


def island_constants(
    program: IslandProgram, model: DeviceModel, *, precision: Precision = "float32", hard_limits: bool = True
) -> dict[str, wp.array[Any]]:
    """Return the arrays of an IslandTask for the DOFs and coordinates of the island."""
    # Only with `hard_limits` followers keep their limits
    robot, device = model.robot, model.device
    place = {a: k for k, (a, component) in reversed(list(enumerate(coordinate_names(program))))}
    followers = [dof for dof in follower_dofs(model) if int(robot.dof_active[dof]) in place]
    numbers = follower_table(model, followers, exact=precision == "float64", hard_limits=hard_limits)

    def integers(values: list[int]) -> wp.array[Any]:
        return wp.array(values, dtype=wp.int32, device=device)

    return {
        "dof": integers(list(program.dofs)),
        "coordinate": integers(coordinate_columns(program, robot)),
        "follower": integers([int(robot.dof_coordinate[d]) for d in followers]),
        "follower_place": integers([place[int(robot.dof_active[d])] for d in followers]),
        "follower_number": wp.array(numbers, dtype=wp.float64, device=device),
    }
