"""Attempts with targets met in contact: their depth, so that other seeds are tried."""

import typing
from functools import lru_cache
from typing import Any

import warp as wp

from ik_service.collision.clearance import ClearanceSize, clearance_function
from ik_service.collision.sphere_arrays import CollisionSpheres
from ik_service.collision.world_arrays import CollisionWorlds
from ik_service.compiler import cpu_target
from ik_service.linear_solve import Islands
from ik_service.solver.lm.codes import CONVERGED, NO_TARGET
from ik_service.solver.staged.attempts import Slots


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
