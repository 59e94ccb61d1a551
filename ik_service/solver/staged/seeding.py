"""Start configurations of the attempts that slots have just taken."""

import typing
from typing import Any

import warp as wp

from ik_service.kinematics import turned
from ik_service.solver.lm.coordinates import Coordinates
from ik_service.solver.lm.coupling import followed
from ik_service.solver.lm.seeds import SeedRanges, seed_value
from ik_service.solver.problems.arrays import Problems
from ik_service.solver.staged.slots import Slots


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _write_seeds(
    # model
    active_coordinate: wp.array[wp.int32],  # [active_dof_count]
    active_quaternion: wp.array[wp.int32],  # [active_dof_count]
    coordinate_leader: wp.array[wp.int32],  # [joint_coord_count]
    coordinate_multiplier: wp.array[float],  # [joint_coord_count]
    coordinate_offset: wp.array[float],  # [joint_coord_count]
    coordinate_lower: wp.array[float],  # [joint_coord_count]
    coordinate_upper: wp.array[float],  # [joint_coord_count]
    mid_joint_q: wp.array[float],  # [joint_coord_count]
    # draws
    settings: wp.array[wp.int32],
    lower: wp.array[float],  # [active_dof_count]
    upper: wp.array[float],  # [active_dof_count]
    drawn: wp.array[wp.int32],  # [active_dof_count]
    increment: wp.array[wp.uint32],  # [active_dof_count]
    tree: wp.array[wp.int32],  # [active_dof_count]
    place: wp.array[wp.uint32],  # [active_dof_count]
    tree_hash: wp.array2d[wp.uint32],  # [problem_capacity, trees]
    # islands
    island_dofadr: wp.array2d[wp.int32],
    island_dof: wp.array2d[wp.int32],
    island_coordadr: wp.array2d[wp.int32],
    island_coord: wp.array2d[wp.int32],
    # attempts
    problem_idx: wp.array[wp.int32],  # [n_batch]
    seed: wp.array[wp.int32],  # [n_batch]
    # in and out
    fresh: wp.array2d[wp.int32],  # [n_batch, trees]
    tangent: wp.array2d[float],  # scratch, [n_batch, active_dof_count]
    joint_q: wp.array2d[float],  # [n_batch, joint_coord_count]
):
    i, island = wp.tid()
    if fresh[i, island] == 0:
        return
    fresh[i, island] = 0
    p = problem_idx[i]
    s = seed[i]
    if s == 0:
        return
    for m in range(island_dofadr[p, island], island_dofadr[p, island + 1]):
        a = island_dof[p, m]
        c = active_coordinate[a]
        start = float(0.0)
        middle = float(0.0)
        if c >= 0:
            start = joint_q[i, c]
            middle = mid_joint_q[c]
        value = seed_value(p, s, a, start, middle, settings, lower, upper, drawn, increment, tree, place, tree_hash)
        tangent[i, a] = value
        if c >= 0:
            joint_q[i, c] = value
    for m in range(island_dofadr[p, island], island_dofadr[p, island + 1]):
        a = island_dof[p, m]
        c = active_quaternion[a]
        if c >= 0 and drawn[a] != 0:
            mid = wp.quat(mid_joint_q[c], mid_joint_q[c + 1], mid_joint_q[c + 2], mid_joint_q[c + 3])
            new = turned(mid, wp.vec3(tangent[i, a], tangent[i, a + 1], tangent[i, a + 2]))
            for k in range(4):
                joint_q[i, c + k] = new[k]
    for m in range(island_coordadr[p, island], island_coordadr[p, island + 1]):
        c = island_coord[p, m]
        leader = coordinate_leader[c]
        if leader >= 0:
            joint_q[i, c] = followed(
                joint_q[i, leader],
                coordinate_multiplier[c],
                coordinate_offset[c],
                coordinate_lower[c],
                coordinate_upper[c],
            )


def write_seeds(
    coordinates: Coordinates,
    ranges: SeedRanges,
    problems: Problems,
    slots: Slots,
    tangent: wp.array[Any],
    joint_q: wp.array[Any],
) -> None:
    """Write the start configurations of the islands that have just taken an attempt.

    Args:
        coordinates: How active DOFs move coordinates.
        ranges: Where to draw.
        problems: Arrays of the problems.
        slots: The slots; their `fresh` marks are cleared.
        tangent: Scratch, [n_batch, active_dof_count].
        joint_q: In and out: configurations, which are those of seed 0 before, [n_batch, joint_coord_count].
    """
    islands = problems.islands
    inputs = [coordinates.active_coordinate, coordinates.active_quaternion, *coordinates.followers]
    inputs += [coordinates.mid_joint_q, problems.settings, ranges.lower, ranges.upper, ranges.drawn]
    inputs += [ranges.increment, ranges.tree, ranges.place, problems.tree_hash, islands.island_dofadr]
    inputs += [islands.island_dof, islands.island_coordadr, islands.island_coord, slots.problem_idx, slots.seed]
    outputs = [slots.fresh, tangent, joint_q]
    wp.launch(_write_seeds, slots.fresh.shape, inputs, outputs, device=slots.fresh.device)
