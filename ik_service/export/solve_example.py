"""Problems of the example program of an export."""

from typing import Any

import numpy as np

from ik_service.ik_solver import IKSolver
from ik_service.robots import World

EXAMPLE_SEED = 0


def example_problems(
    solver: IKSolver, count: int, *, orientations: bool, is_checked: bool, world: World | None
) -> bytes:
    """Return random reachable targets with the solver's answers, as the data file of the example.

    With `is_checked`, for solvers with collision checks, targets are poses of configurations free of contact.
    """
    robot, links = solver.robot, [target.link for target in solver.targets]
    rng = np.random.default_rng(EXAMPLE_SEED)
    joint_q = robot.random_free_joint_q(rng, count, world) if is_checked else robot.random_joint_q(rng, count)
    poses = robot.forward_kinematics(joint_q, links)
    positions, orientations_xyzw = poses.positions, poses.orientations_xyzw
    arrays: list[Any] = [np.array([count, len(links), robot.joint_coord_count], np.int32), positions, orientations_xyzw]
    result = solver.solve_as_recorded(positions, orientations_xyzw if orientations else None, world=world)
    return b"".join(np.ascontiguousarray(array).tobytes() for array in [*arrays, result.joint_q])
