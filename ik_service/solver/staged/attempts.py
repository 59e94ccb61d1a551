"""The queue of attempts: the (problem, seed) of each slot of the batch, and the choice of answers to keep.

A batch has a fixed number of slots. A slot with a finished attempt takes the next one: first every problem's first
seed, then the second seed of unsolved problems, and so on. So seeds are tried one after another while the slots stay
full, and any number of problems runs in the memory of one batch.

Every island of a problem has its own attempts: an attempt starts only if no lower seed has solved the island, ends
independently, and the best one is kept: the lowest seed that succeeds, or else the least cost, then the lowest index.
An attempt is cancelled only when a lower seed has succeeded, so the answer does not depend on the number of slots, on
the order of their finishing, on the other islands, or on the other problems of the batch.
"""

import math
import typing
from typing import Any

import warp as wp

from ik_service.kinematics.device_kinematics import turned
from ik_service.linear_solve.islands import Islands, zeroed
from ik_service.solver.arrays.problem_arrays import BestAttempts, mark_deadline
from ik_service.solver.lm.codes import (
    CONVERGED,
    FIRST_FAILURE,
    GAUSS,
    IDLE,
    INVALID,
    ITERATIONS,
    NO_TARGET,
    PROBLEM_COUNT,
    RUNNING,
    SAMPLER,
    SEEDS,
    STOP,
)
from ik_service.solver.lm.coordinates import Coordinates, follow
from ik_service.solver.lm.damping import FACTOR_MAX_STAGED, FACTOR_UP
from ik_service.solver.lm.ranking import attempt_rank, contact_rank, may_still_win
from ik_service.solver.lm.seeds import ASIDE, SeedRanges, seed_value
from ik_service.solver.rows.weights import STAGE, STAGE_STEPS

STEPS_ASIDE = wp.constant(2)  # value of `fresh` for an attempt to continue from a point beside


@wp.struct
class Slots:
    """The attempt of each slot."""

    problem_idx: wp.array[wp.int32]  # [n_batch]: its problem; of an idle slot, some valid problem
    seed: wp.array[wp.int32]  # [n_batch]: its seed
    stale: wp.array[wp.int32]  # [n_batch]: 1 if the poses of bodies are out of date
    # Of each island, [n_batch, trees]:
    phase: wp.array2d[wp.int32]  # RUNNING, CANCELLED, IDLE or the status with which its attempt has just ended
    running: wp.array2d[wp.int32]  # 1 while phase is RUNNING
    fresh: wp.array2d[wp.int32]  # 1 if the start configuration must be written, or STEPS_ASIDE; else 0
    iterations: wp.array2d[wp.int32]  # steps tried in this attempt
    ended: wp.array2d[wp.int32]  # status that the last step ended the attempt with, or RUNNING
    # Once the attempt has ended: 1 where every target is met, 0 where one is missed, NO_TARGET without any.
    met: wp.array2d[wp.int32]
    cost: wp.array2d[wp.float32]  # 1/2 |r|^2 of the accepted configuration
    unscaled_cost: wp.array2d[wp.float32]  # the same without the factor of lower-priority rows
    stage: wp.array2d[wp.float32]  # multiplier of the factor of lower-priority rows: 1, then STAGE
    damping_factor: wp.array2d[wp.float32]  # factor on the damping, raised by rejected steps
    damping: wp.array2d[wp.float32]  # damping of the next step
    depth: wp.array2d[wp.float32]  # shortfall of clearance, in or near contact [m]; 0 for none
    rank: wp.array2d[wp.int64]  # rank of the ended attempt at its problem and island


def idle_slots(slot_count: int, tree_count: int, device: wp.Device) -> Any:
    """Return idle `Slots`."""
    return zeroed(Slots, device, (slot_count, tree_count), problem_idx=slot_count, seed=slot_count, stale=slot_count)


REFUSED = wp.constant(math.ceil(math.log(FACTOR_MAX_STAGED, FACTOR_UP)))  # rejected steps of a stalled attempt


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def rank_ended(settings: wp.array[wp.int32], slots: Slots, best: BestAttempts):
    """Rank the attempts just ended and keep the best rank of every problem and island."""
    i, island = wp.tid()
    status = slots.phase[i, island]
    if status < 0:
        return
    success = slots.met[i, island] == 1 and status != INVALID
    if slots.met[i, island] == NO_TARGET:
        success = status == CONVERGED  # a stationary point need not be a minimum: the seeds compete by cost
    rank = attempt_rank(success, True, slots.seed[i], slots.cost[i, island], settings[FIRST_FAILURE])
    if success and slots.depth[i, island] > 0.0:
        rank = contact_rank(slots.seed[i], slots.depth[i, island])
    slots.rank[i, island] = rank
    wp.atomic_min(best.rank, slots.problem_idx[i], island, rank)


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def collect(
    islands: Islands,
    joint_q: wp.array2d[float],  # [n_batch, joint_coord_count]
    # in and out
    slots: Slots,
    best: BestAttempts,
):
    """Keep the answers of ended attempts if best of their problem and island; these islands become idle.

    An attempt that has not moved and misses its targets may stand at a saddle: such an attempt continues from a point
    beside.
    """
    i, island = wp.tid()
    status = slots.phase[i, island]
    if status == RUNNING or status == IDLE:
        return
    p = slots.problem_idx[i]
    if status >= 0 and best.rank[p, island] == slots.rank[i, island]:
        for m in range(islands.coordadr[p, island], islands.coordadr[p, island + 1]):
            c = islands.coord[p, m]
            best.joint_q[p, c] = joint_q[i, c]
        best.cost[p, island] = slots.unscaled_cost[i, island]
        best.seed[p, island] = slots.seed[i]
        best.iterations[p, island] = slots.iterations[i, island]
        best.status[p, island] = status
        best.met[p, island] = slots.met[i, island]
    slots.phase[i, island] = IDLE
    steps, refused = slots.iterations[i, island], slots.damping_factor[i, island] > FACTOR_MAX_STAGED
    unmoved = steps == 0 or (refused and steps <= REFUSED)
    misses = slots.met[i, island] == 0 or (slots.met[i, island] == NO_TARGET and slots.cost[i, island] > 0.0)
    if status >= 0 and status != INVALID and misses and unmoved:
        slots.phase[i, island] = RUNNING
        slots.running[i, island] = 1
        slots.fresh[i, island] = STEPS_ASIDE
        slots.iterations[i, island] = steps + 1
        slots.ended[i, island] = RUNNING
        slots.damping_factor[i, island] = 1.0


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def refill(
    # solve
    settings: wp.array[wp.int32],
    islands: Islands,
    best: BestAttempts,
    start_joint_q: wp.array2d[float],  # [problem_capacity, joint_coord_count]
    # in and out
    slots: Slots,
    joint_q_out: wp.array2d[float],  # [n_batch, joint_coord_count]
    joint_q_trial_out: wp.array2d[float],  # [n_batch x candidates, joint_coord_count]
    next_attempt_out: wp.array[wp.int32],  # [1]: the next attempt to hand out
    running_count_out: wp.array[wp.int32],  # [1]: slots that run afterwards; zeroed by the caller
):
    """Give the next attempts to the slots without a running island, at the start configurations of their problems."""
    i = wp.tid()
    candidates = joint_q_trial_out.shape[0] / joint_q_out.shape[0]
    started = int(0)
    aside = int(0)
    for island in range(slots.running.shape[1]):
        if slots.running[i, island] != 0:
            started = 1
        if slots.fresh[i, island] == STEPS_ASIDE:
            aside = 1
    slots.stale[i] = wp.max(aside, 1 - started)
    problem_count = settings[PROBLEM_COUNT]
    total = problem_count * settings[SEEDS]
    searching = int(1 - started)
    while searching == 1:
        attempt = int(total)
        # Read first, so that idle slots do not increase the count for ever.
        if settings[STOP] == 0 and next_attempt_out[0] < total:
            attempt = wp.atomic_add(next_attempt_out, 0, 1)
        if attempt >= total:
            searching = 0
        else:
            p = attempt % problem_count
            s = attempt / problem_count
            for island in range(islands.nisland[p]):
                if may_still_win(best.rank[p, island], s):
                    slots.phase[i, island] = RUNNING
                    slots.running[i, island] = 1
                    slots.fresh[i, island] = 1
                    slots.iterations[i, island] = 0
                    slots.ended[i, island] = RUNNING
                    slots.damping_factor[i, island] = 1.0
                    slots.stage[i, island] = wp.where(settings[ITERATIONS] > STAGE_STEPS, 1.0, STAGE)
                    started = 1
            if started == 1:
                slots.problem_idx[i] = p
                slots.seed[i] = s
                for c in range(joint_q_out.shape[1]):
                    joint_q_out[i, c] = start_joint_q[p, c]
                    for k in range(candidates):  # steps move only coordinates of an island
                        joint_q_trial_out[i * candidates + k, c] = start_joint_q[p, c]
                searching = 0
    wp.atomic_add(running_count_out, 0, started)


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def mark_stopped(
    settings: wp.array[wp.int32],
    islands: Islands,
    next_attempt: wp.array[wp.int32],  # [1]: the next attempt to hand out
    best: BestAttempts,
):
    """Mark the problems with a search ended by the deadline; one per thread."""
    p = wp.tid()
    count = settings[PROBLEM_COUNT]
    handed = (next_attempt[0] + count - 1 - p) / count  # attempts at this problem
    if settings[STOP] != 0 and handed < settings[SEEDS]:
        for island in range(islands.nisland[p]):
            mark_deadline(best, p, island)


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def write_seeds(
    coordinates: Coordinates,
    # draws
    settings: wp.array[wp.int32],
    ranges: SeedRanges,
    tree_hash: wp.array2d[wp.uint32],  # [problem_capacity, trees]
    islands: Islands,
    # in and out
    slots: Slots,
    tangent: wp.array2d[float],  # scratch, [n_batch, active_dof_count]
    joint_q: wp.array2d[float],  # [n_batch, joint_coord_count]; on input: of seed 0
):
    """Write the start configurations of the islands with a new attempt, and clear their `fresh` marks."""
    i, island = wp.tid()
    if slots.fresh[i, island] == 0:
        return
    aside = slots.fresh[i, island] == STEPS_ASIDE
    slots.fresh[i, island] = 0
    p = slots.problem_idx[i]
    s = slots.seed[i]
    if s == 0 and not aside:
        return
    own = wp.min(p, coordinates.limit_lower.shape[0] - 1)
    for m in range(islands.dofadr[p, island], islands.dofadr[p, island + 1]):
        a = islands.dof[p, m]
        c = coordinates.active_coordinate[a]
        start = float(0.0)
        middle = float(0.0)
        if c >= 0:
            start = joint_q[i, c]
            middle = coordinates.mid_joint_q[c]
        value = seed_value(p, s, a, start, middle, settings, ranges, tree_hash)
        if aside:
            way = ASIDE * float(500 + 309 * m % 500)
            value = wp.where(start + way > float(coordinates.limit_upper[own, a]), start - way, start + way)
        if c >= 0:
            value = wp.clamp(value, float(coordinates.limit_lower[own, a]), float(coordinates.limit_upper[own, a]))
            joint_q[i, c] = value
        tangent[i, a] = value
    for m in range(islands.dofadr[p, island], islands.dofadr[p, island + 1]):
        a = islands.dof[p, m]
        c = coordinates.active_quaternion[a]
        if c >= 0 and ranges.drawn[a] != 0 and not aside:
            q = coordinates.mid_joint_q
            about = wp.quat(q[c], q[c + 1], q[c + 2], q[c + 3])
            if settings[SAMPLER] == GAUSS:
                for k in range(4):
                    about[k] = joint_q[i, c + k]
            new = turned(about, wp.vec3(tangent[i, a], tangent[i, a + 1], tangent[i, a + 2]))
            for k in range(4):
                joint_q[i, c + k] = new[k]
    for m in range(islands.coordadr[p, island], islands.coordadr[p, island + 1]):
        c = islands.coord[p, m]
        leader = coordinates.leader[c]
        if leader >= 0:
            joint_q[i, c] = follow(coordinates.follower_number, c, joint_q[i, leader])
