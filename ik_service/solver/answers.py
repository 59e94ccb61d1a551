"""What an answer says beyond its configuration: status, seed, turns and limits, composed over islands."""

import math

import numpy as np
from numpy.typing import NDArray

from ik_service.robots import DeviceModel, RobotModel
from ik_service.solver.island_results import IslandResults
from ik_service.solver.status import IKStatus


def composed_status(islands: IslandResults, success: NDArray[np.bool_]) -> NDArray[np.int8]:
    """Status of every problem: that of its first island in trouble, or STALLED where no island can reach a target."""
    trouble = islands.present & ~islands.success
    first = islands.status[np.arange(len(islands)), trouble.argmax(axis=1)]
    status = np.where(trouble.any(axis=1), first, int(IKStatus.STALLED))
    return np.where(success, int(IKStatus.CONVERGED), status).astype(np.int8)


def common_seed(islands: IslandResults) -> NDArray[np.int32]:
    """Seed of every problem, -1 where its islands chose different ones, 0 where it has none."""
    lowest = np.where(islands.present, islands.seed_index, np.iinfo(np.int32).max).min(axis=1)
    highest = np.where(islands.present, islands.seed_index, 0).max(axis=1)
    return np.where(islands.nisland == 0, 0, np.where(lowest == highest, highest, -1)).astype(np.int32)


def nearest_turns(robot: RobotModel, joint_q: NDArray[np.float32], start: NDArray[np.float32]) -> NDArray[np.float32]:
    """Bring joints without limits to the turn nearest their start, in place.

    A joint that others follow stays as it is: a turn of the leader need not be a turn of its followers.

    Args:
        robot: The robot.
        joint_q: Configurations, shape [n, joint_coord_count].
        start: Configurations of seed 0, shape [n, joint_coord_count].
    """
    for joint in range(robot.joint_count):
        d = int(robot.joint_qd_start[joint + 1]) - 1  # a planar joint's rotation is its last DOF
        c = int(robot.dof_coordinate[d])
        alone = np.count_nonzero(robot.dof_active == robot.dof_active[d]) == 1
        endless = np.isinf(robot.joint_limit_lower[d]) and np.isinf(robot.joint_limit_upper[d])
        if c >= 0 and robot.joint_dof_dim[joint, 1] == 1 and robot.dof_active[d] >= 0 and alone and endless:
            turned = np.remainder(joint_q[:, c] - start[:, c].astype(np.float64) + math.pi, 2.0 * math.pi) - math.pi
            joint_q[:, c] = start[:, c] + turned
    return joint_q


def active_limits(model: DeviceModel, joint_q: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which DOFs sit at a limit, bool [n, joint_dof_count]; never one that is locked."""
    column = model.robot.dof_coordinate
    q = joint_q[:, np.maximum(column, 0)]
    at_limit = (q <= model.joint_limit_lower.numpy()) | (q >= model.joint_limit_upper.numpy())
    return np.asarray(at_limit & (column >= 0) & (model.robot.dof_active >= 0))
