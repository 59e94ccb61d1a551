"""Start configurations of the attempts just taken by slots."""

import typing

import warp as wp

from ik_service.kinematics.integrate import turned
from ik_service.linear_solve import Islands
from ik_service.solver.lm.codes import GAUSS, SAMPLER
from ik_service.solver.lm.coordinates import Coordinates, follow
from ik_service.solver.lm.seeds import ASIDE, SeedRanges, seed_value
from ik_service.solver.staged.attempts import STEPS_ASIDE, Slots


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
