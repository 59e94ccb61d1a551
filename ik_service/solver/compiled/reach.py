"""The kernel that proves a target out of reach of any chain with a fixed base: further away than the chain is long."""

import typing
from typing import Any

import numpy as np
import warp as wp

from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import identity_transform, transform_multiply
from ik_service.mechanism.trees import joints_to
from ik_service.solver.arrays.parts import SOLVE_IO, first_place
from ik_service.solver.arrays.problem_arrays import mark_proven
from ik_service.solver.compiled.proof_task import FirstPhase, ProofTask
from ik_service.solver.lm.codes import KEEP_ALL, PROOF_BY_SHELL

REACH_SLACK = wp.constant(wp.float64(1e-5))  # rounding of a float32 target, per metre of target distance and chain


@wp.kernel(module=SOLVE_IO, enable_backward=False, grid_stride=False)
@typing.no_type_check
def _prove_reach(task: ProofTask, phase: int, part: int, parts: int):
    place = first_place(task.settings, task.count, task.problem, part, parts) + wp.tid()
    end = first_place(task.settings, task.count, task.problem, part + 1, parts)
    if task.in_threads == 1:  # a thread for each problem
        end = wp.min(end, place + 1)
    while place < end and task.fault[part] == 0:
        p = task.problem[place]
        place += 1
        position = wp.vec3d()
        origin = wp.vec3d()
        for k in range(3):
            position[k] = wp.float64(task.positions[p, k])
            origin[k] = task.chain[k]
        tool = wp.transform_get_translation(task.tool[wp.min(p, task.tool.shape[0] - 1)])
        length = task.chain[3] + wp.length(tool)
        allowed = length + task.tolerances[0] + REACH_SLACK * (length + wp.length(position) + wp.length(origin))
        if task.searches.proof[p, task.island] <= 0 and wp.length(position - origin) > allowed:
            seeds = mark_proven(task.best, task.searches, task.settings, p, task.island, PROOF_BY_SHELL)
            if task.settings[KEEP_ALL] == 0:
                task.searches.end_seed[p, task.island] = seeds


REACH_KERNEL = FirstPhase(_prove_reach)


def reach_task(robot: KinematicRobot, link: str | int, device: wp.Device, *, hard_limits: bool) -> Any:
    """Return a task with first joint and length of the chain to a link; None if unbounded or without a joint."""
    body, T_body_link = (link, identity_transform()) if isinstance(link, int) else robot.link_frame(link)
    rigid, origin, length = identity_transform(), None, 0.0
    for joint in joints_to(robot, body):
        rigid = transform_multiply(rigid, robot.joint_X_p[joint])
        kind = JointType(robot.joint_type[joint])
        if kind is JointType.FIXED:
            continue
        origin, step = (rigid[:3], 0.0) if origin is None else (origin, float(np.linalg.norm(rigid[:3])))
        rigid, length = identity_transform(), length + step
        if kind is JointType.PRISMATIC and hard_limits:
            dof = int(robot.joint_qd_start[joint])
            length += float(max(abs(robot.joint_limit_lower[dof]), abs(robot.joint_limit_upper[dof])))
        elif kind in (JointType.PRISMATIC, JointType.PLANAR, JointType.FLOATING):
            return None
    length += float(np.linalg.norm(transform_multiply(rigid, T_body_link)[:3]))
    if origin is None or not length < np.inf:
        return None
    task: Any = ProofTask()
    task.chain = wp.array([*origin, length], dtype=wp.float64, device=device)
    return task
