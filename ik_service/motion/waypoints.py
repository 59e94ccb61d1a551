"""Waypoints of a path, solves of waypoints from given starts, and clearance on the ways between configurations.

A way is straight in joint space. The largest motions of the spheres and the clearances at both ends bound the least
clearance on the way; if the bound is too loose, the way is bisected, recursively.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ik_service.collision.body_spheres import BodySpheres, levers, with_attached
from ik_service.collision.check import check_collision
from ik_service.collision.distance_grid import DistanceGrid
from ik_service.motion.metric import FloatArray, JointMetric
from ik_service.robots import RobotModel
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.requested_limits import RequestedLimits
from ik_service.solver.given.worlds import CheckedWorlds
from ik_service.solver.result import IKResult

RESOLUTION = 2e-5  # paths with smaller motions of all spheres are not divided [m]; half of this is added to the margin
WAY_MARGIN = 5e-4  # added to the margin at waypoints, for the ways between them [m]
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


Solve: TypeAlias = Callable[[Batch, SolverOptions, FloatArray | None], IKResult | None]
"""Solves problems in the robot's own order, or judges configurations [n, coordinates]; None for faulty numbers."""


@dataclass(frozen=True, eq=False)
class Group:
    """Joints chosen independently of others: trees joined into one island at some waypoint."""

    trees: NDArray[np.intp]
    coordinates: NDArray[np.intp]
    metric: JointMetric


@dataclass(frozen=True, eq=False)
class Waypoints:
    """A path to follow: its problems, options and solver."""

    robot: RobotModel
    problems: Batch  # one problem per waypoint, without starts
    options: SolverOptions  # options of every solve, of one seed
    finish: Literal["float32", "float64"]  # precision of the finish, an option of the solver
    solve: Solve
    check: WayCheck | None = None  # collision check of paths between waypoints; None for none
    groups: tuple[Group, ...] = ()  # the groups of joints, when known

    def __len__(self) -> int:
        return self.problems.problem_count

    def solve_from(
        self, which: NDArray[np.intp], start: FloatArray, limits: RequestedLimits | None = None, *, finish: bool = False
    ) -> IKResult:
        """Solve waypoints, each from its own start only; with `finish` in the precision of the finish."""
        options = replace(self.options, precision=self.finish) if finish else self.options
        if self.check is not None:
            options = replace(options, margin=options.margin + WAY_MARGIN)
        result = self.solve(self.problems.part(which)._replace(start=start, limits=limits), options, None)
        assert result is not None  # the numbers are checked before
        return result

    def judged(self, joint_q: FloatArray, options: SolverOptions) -> IKResult:
        """Return the verdict on the configurations of a path, [waypoints, coordinates]."""
        options = replace(options, seeds=1, precision=self.finish)
        result = self.solve(self.problems._replace(start=joint_q), options, joint_q)
        assert result is not None
        return result

    def successes(self, result: IKResult, group: Group) -> NDArray[np.bool_]:
        """Return where a group of joints meets its targets, bool [n]; nowhere where links are in contact."""
        island = result.islands.tree_island[:, group.trees]  # -1 for trees without rows, which succeed
        problems = np.arange(len(island))[:, np.newaxis]
        found = (result.islands.success[problems, np.maximum(island, 0)] | (island < 0)).all(axis=1)
        if result.clearance is not None:
            found &= (result.clearance > 0.0) & (result.clearance >= self.options.margin)
        return np.asarray(found)

    def grouped(self, result: IKResult) -> "Waypoints":
        """Return these waypoints with the groups of joints given by a result's islands."""
        trees, joined = self.robot.trees, np.arange(self.robot.trees.ntree)
        touched = np.zeros(trees.ntree, dtype=bool)
        for line in np.unique(result.islands.tree_island, axis=0):
            touched |= line >= 0
            for island in np.unique(line[line >= 0]):
                members = joined[line == island]
                joined[np.isin(joined, members)] = members.min()
        groups = []
        for group in np.unique(joined[touched]):
            chosen = np.flatnonzero(joined == group)
            coordinates = np.flatnonzero(np.isin(trees.coordinate_treeid, chosen))
            dofs = np.flatnonzero(np.isin(trees.dof_treeid, chosen))
            groups.append(Group(chosen, coordinates, JointMetric(self.robot, dofs.tolist())))
        return replace(self, groups=tuple(groups))
