"""Targets met by a finished attempt, and its depth in contact: they decide if its island needs another seed.

Computed in float32, targets from the residual rows. Success of the answer is judged later, in float64.
"""

import typing
from functools import lru_cache
from typing import Any

import warp as wp

from ik_service.collision.arrays import CollisionSpheres, CollisionWorlds
from ik_service.collision.clearance import ClearanceSize, clearance_function
from ik_service.compiler import cpu_target
from ik_service.linear_solve.islands import Islands
from ik_service.solver.lm.codes import CONVERGED, NO_TARGET
from ik_service.solver.lm.ranking import chord_angle, is_within
from ik_service.solver.rows.weights import Priorities, row_scale, scale_in_slot
from ik_service.solver.staged.attempts import Slots


@wp.func
@typing.no_type_check
def mark_met(slots: Slots, i: int, island: int, within: bool):
    """Note whether an ended island is within a tolerance; one miss outweighs all successes."""
    if island >= 0:
        if slots.phase[i, island] >= 0:
            if not within:
                slots.met[i, island] = 0
            elif slots.met[i, island] == NO_TARGET:
                slots.met[i, island] = 1


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def meet_target(
    # target
    start_idx: int,
    row_weights: wp.array2d[float],  # [problem_capacity, 6]
    tolerances: wp.array[float],  # [2]: position [m], orientation [rad]
    islands: Islands,
    priorities: Priorities,
    residuals: wp.array2d[float],  # [n_batch, total_residuals]
    # in and out
    slots: Slots,
):
    """Mark the ended attempts as meeting or missing a target."""
    i = wp.tid()
    ended = int(0)
    for island in range(slots.phase.shape[1]):
        if slots.phase[i, island] >= 0:
            ended = 1
    if ended == 0:
        return
    p = slots.problem_idx[i]
    position = float(0.0)
    chord = float(0.0)  # squared length of 2 sin(angle / 2) axis
    for k in range(6):
        weight = row_weights[p, k]
        if weight > 0.0:
            scale = scale_in_slot(priorities, islands, slots.stage, i, p, start_idx + k)
            error = residuals[i, start_idx + k] / (scale * weight)
            if k < 3:
                position += error * error
            else:
                chord += error * error
    near = is_within(wp.sqrt(position), tolerances[0])
    turned = is_within(chord_angle(wp.sqrt(chord)), tolerances[1])
    for k in range(3):
        mark_met(slots, i, islands.row_island[p, start_idx + k], near)
        mark_met(slots, i, islands.row_island[p, start_idx + 3 + k], turned)


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def meet_rows(
    # rows
    start_idx: int,
    weight: float,
    row_weights: wp.array2d[float],  # [1 or problems, rows of the objective]
    row_tolerances: wp.array2d[float],  # [1 or problems, rows of the objective]
    slack: float,  # multiple of the tolerances
    islands: Islands,
    priorities: Priorities,
    residuals: wp.array2d[float],  # [n_batch, total_residuals]
    # in and out
    slots: Slots,
):
    """Withdraw `met` from attempts with a row of an objective outside its tolerance; after all targets."""
    i = wp.tid()
    ended = int(0)
    for island in range(slots.phase.shape[1]):
        if slots.phase[i, island] >= 0 and slots.met[i, island] == 1:
            ended = 1
    if ended == 0:
        return
    p = slots.problem_idx[i]
    for r in range(row_weights.shape[1]):
        island = islands.row_island[p, start_idx + r]
        if island >= 0:
            scale = weight * row_weights[wp.min(p, row_weights.shape[0] - 1), r]
            scale *= row_scale(priorities, p, island, start_idx + r, slots.stage[i, island])
            tolerance = slack * row_tolerances[wp.min(p, row_tolerances.shape[0] - 1), r]
            if slots.met[i, island] == 1 and not is_within(wp.abs(residuals[i, start_idx + r]), scale * tolerance):
                slots.met[i, island] = 0


@lru_cache
@typing.no_type_check
def contact_kernel(size: ClearanceSize) -> Any:
    """Return the kernel for the depths of attempts just ended; launched for each slot."""
    # If several islands are solved independently, slots hold attempts of different seeds side by side: then only the
    # answer is checked
    clearance, Configuration, COUNT = (
        clearance_function(size),
        wp.types.vector(size.coordinates, wp.float32),
        size.coordinates,
    )

    @wp.kernel(module="unique", enable_backward=False, module_options={"cpu_compiler_flags": cpu_target().flags})
    def find_contacts(
        islands: Islands,
        joint_q: wp.array2d[float],  # [n_batch, joint_coord_count]
        spheres: CollisionSpheres,
        worlds: CollisionWorlds,
        least: wp.array[float],  # [1]: least clearance of a success [m]
        # in and out
        slots: Slots,
    ):
        i = wp.tid()
        p = slots.problem_idx[i]
        slots.depth[i, 0] = 0.0
        met, status = slots.met[i, 0], slots.phase[i, 0]
        if islands.nisland[p] == 1 and ((met == 1 and status >= 0) or (met == NO_TARGET and status == CONVERGED)):
            q = Configuration()
            for c in range(COUNT):
                q[c] = joint_q[i, c]
            found = clearance(p, q, spheres, worlds, least[0])
            if found < least[0]:
                slots.depth[i, 0] = least[0] - found

    return find_contacts
