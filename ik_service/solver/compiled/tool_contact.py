"""The kernel that proves a target blocked: what is rigid to its link touches an object in any configuration.

The spheres rigid to the link stand at the target, as one floating body. Their clearance there is below the margin by
more than the largest motion of a sphere within the tolerances. Distance grids are left out: their distances are
interpolated.
"""

import typing
from dataclasses import replace
from functools import lru_cache
from typing import Any

import warp as wp

from ik_service.collision.arrays import CollisionSpheres, CollisionWorlds
from ik_service.collision.clearance import ClearanceSize, clearance_function
from ik_service.collision.collision_data import VERDICT_ROUNDING, CollisionData
from ik_service.kernels.kernel_loading import unload_with
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import identity_transform, transform_inverse
from ik_service.solver.arrays.parts import first_place
from ik_service.solver.arrays.problem_arrays import BestAttempts, Searches, mark_proven
from ik_service.solver.compiled.iteration import cpu_options
from ik_service.solver.compiled.proof_task import FirstPhase
from ik_service.solver.lm.codes import KEEP_ALL, PROOF_BY_CONTACT

POSE = 7  # numbers of a floating body
SLACK = wp.constant(2.0e-5)  # rounding of a clearance in float32 [m]
SLACK_OF_SIZE = wp.constant(1.0e-6)  # the same per coordinate of the target


@wp.struct
class ContactTask:
    """Data of the kernel; int32 unless said."""

    fault: wp.array[wp.int32]  # [parts]: 1 if the part must not be solved
    count: wp.array[wp.int32]  # number of problems, in entry 0
    problem: wp.array[wp.int32]  # [count]: problems in ascending order
    island: int  # the island's number in each
    settings: wp.array[wp.int32]
    tolerances: wp.array[wp.float64]  # [2]: of the verdict
    positions: wp.array2d[wp.float32]  # [problems, 3]: target
    orientations_xyzw: wp.array2d[wp.float32]  # [problems, 4]
    tool: wp.array[wp.transformd]  # [1 or problems]: T_link_tool
    T_link_body: wp.array[wp.transformd]  # [1]
    reach: wp.float32  # largest distance of a point of a sphere from the body's origin [m]
    spheres: CollisionSpheres
    worlds: CollisionWorlds
    clearance: wp.array[wp.float32]  # [2]: least clearance of a success [m], with room for rounding
    searches: Searches
    best: BestAttempts


@lru_cache
@typing.no_type_check
def contact_kernel(size: ClearanceSize) -> FirstPhase:
    """Return the kernel for robots of a size."""
    clearance, Pose = (
        clearance_function(replace(size, coordinates=POSE, bodies=1, with_grids=False)),
        wp.types.vector(POSE, wp.float32),
    )
    W = size.lanes.width
    options = {"grid_stride": False} if W == 1 else {"module_options": cpu_options()}

    @wp.func
    def touches(task: ContactTask, p: int):
        """Return whether the spheres touch an object in each configuration within the tolerances."""
        position = wp.vec3d()
        q = wp.quatd()
        most = float(0.0)
        for k in range(3):
            position[k] = wp.float64(task.positions[p, k])
            most = wp.max(most, wp.abs(task.positions[p, k]))
        for k in range(4):
            q[k] = wp.float64(task.orientations_xyzw[p, k])
        tool = task.tool[wp.min(p, task.tool.shape[0] - 1)]
        T_world_link = wp.transformd(position, wp.normalize(q)) * wp.transform_inverse(tool)
        T_world_body = T_world_link * task.T_link_body[0]
        pose = Pose()
        for k in range(7):
            pose[k] = float(T_world_body[k])
        lever = task.reach + float(wp.length(wp.transform_get_translation(task.T_link_body[0])))
        lever += float(wp.length(wp.transform_get_translation(tool)))
        moved = float(task.tolerances[0]) + float(task.tolerances[1]) * lever
        allowed = task.clearance[0] - VERDICT_ROUNDING - moved - SLACK - SLACK_OF_SIZE * (most + lever)
        return clearance(p, pose, task.spheres, task.worlds, allowed) < allowed

    @wp.kernel(module="unique", enable_backward=False, **options)
    def prove_contact(task: ContactTask, phase: int, part: int, parts: int):
        place = first_place(task.settings, task.count, task.problem, part, parts)
        end = first_place(task.settings, task.count, task.problem, part + 1, parts)
        if wp.static(W == 1):  # a thread for each problem
            place += wp.tid()
            end = wp.min(end, place + 1)
        if task.fault[part] != 0:
            end = place
        while place < end:
            p = task.problem[place]
            place += 1
            if task.searches.proof[p, task.island] <= 0:
                if touches(task, p):
                    seeds = mark_proven(task.best, task.searches, task.settings, p, task.island, PROOF_BY_CONTACT)
                    if task.settings[KEEP_ALL] == 0:
                        task.searches.end_seed[p, task.island] = seeds

    found = FirstPhase(prove_contact)
    unload_with(found, prove_contact.module)
    return found


def contact_task(collision: CollisionData, robot: KinematicRobot, link: str | int) -> Any:
    """Return a task with the spheres rigid to a link; None if there are none."""
    body, T_body_link = (link, identity_transform()) if isinstance(link, int) else robot.link_frame(link)
    task: Any = ContactTask()
    task.spheres, task.reach = collision.rigid(body)
    if body < 0 or task.spheres.link_body.shape[0] == 0:
        return None
    frame, device = transform_inverse(T_body_link)[None], task.spheres.link_body.device
    task.T_link_body = wp.array(frame, dtype=wp.transformd, device=device)
    task.worlds, task.clearance = collision.worlds, collision.clearance
    return task
