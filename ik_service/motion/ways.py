"""Clearance on paths between configurations.

A path is straight in joint space. The largest motions of the spheres and the clearances at both ends bound the least
clearance on the path; if the bound is too loose, the path is bisected, recursively.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.collision.body_spheres import BodySpheres, with_attached
from ik_service.collision.check import check_collision
from ik_service.collision.distance_grid import DistanceGrid
from ik_service.collision.levers import levers
from ik_service.motion.metric import FloatArray, JointMetric
from ik_service.robots import RobotModel
from ik_service.solver.given.worlds import CheckedWorlds

RESOLUTION = 2e-5  # paths with smaller motions of all spheres are not divided [m]; half of this is added to the margin
SEEN_SHARE = 0.9  # lower bound of the least clearance on a path, relative to the least clearance seen


class WayCheck(NamedTuple):
    """Spheres and clearances for the check of paths."""

    spheres: BodySpheres  # of the robot and of its attached objects
    clearance: Callable[[FloatArray], NDArray[np.float64]]  # clearances [m], [n], of configurations [n, coordinates]
    steepness: float  # largest change of a clearance per motion of a sphere: 1 or more

    @classmethod
    def of(cls, robot: RobotModel, worlds: CheckedWorlds) -> "WayCheck":
        """Return the check of a robot in one world, or in none."""
        own = robot.body_spheres
        assert own is not None  # the check of the worlds requires spheres
        spheres = with_attached(robot, own, worlds.attached) if worlds.attached else own
        world = worlds.worlds[0] if worlds.worlds else None
        objects = () if world is None else world.objects.values()
        steepness = max([1.0, *(one.steepness for one in objects if isinstance(one, DistanceGrid))])
        return cls(spheres, lambda joint_q: check_collision(robot, spheres, joint_q, world).clearance, steepness)


def least_on_ways(
    robot: RobotModel, check: WayCheck, metric: JointMetric, points: FloatArray, margin: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the least clearance on the path between consecutive points [m], and whether the margin is kept.

    The clearance is a value seen, at most a ninth above the least if the margin is kept. Points are [paths + 1,
    coordinates]; the metric has all DOFs of the robot. InputError if a joint rotates a sliding joint without a limit.
    """
    least = margin + 0.5 * RESOLUTION
    change, at_points = metric.straight(points[:-1], points[1:]), check.clearance(points)
    most = levers(robot, check.spheres, points).max(axis=0, initial=0.0)
    travel = check.steepness * (np.abs(change) @ most)
    found = np.minimum(at_points[:-1], at_points[1:])
    ways, first, length = np.arange(len(change)), np.zeros(len(change)), 1.0
    ends = np.stack([at_points[:-1], at_points[1:]])
    while True:
        moved = length * travel[ways]
        bound = 0.5 * (ends.sum(axis=0) - moved)
        is_open = (bound < least) | (bound < SEEN_SHARE * found[ways])
        open_ways = is_open & (moved > RESOLUTION) & (found[ways] >= least)
        if not open_ways.any():
            return found, found >= least
        ways, first, ends, length = ways[open_ways], first[open_ways], ends[:, open_ways], 0.5 * length
        middle = first + length
        between = check.clearance(metric.moved(points[ways], middle[:, None] * change[ways]))
        np.minimum.at(found, ways, between)
        ways, first = np.concatenate([ways, ways]), np.concatenate([first, middle])
        ends = np.concatenate([np.stack([ends[0], between]), np.stack([between, ends[1]])], axis=1)
