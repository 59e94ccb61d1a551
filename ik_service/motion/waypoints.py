"""Waypoints of a path, and solves of waypoints from given starts."""

from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ik_service.motion.metric import FloatArray, JointMetric
from ik_service.motion.ways import WayCheck
from ik_service.robots import RobotModel
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.result import IKResult


class Solve(Protocol):
    """Solver of problems in the robot's own order."""

    def __call__(self, batch: Batch, options: SolverOptions, judged: FloatArray | None = None) -> IKResult | None:
        """Solve problems, or judge configurations [n, coordinates]; None for faulty numbers."""


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

    def solved(self, which: NDArray[np.intp], start: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Solve waypoints, each from its own start only; give configurations and successful groups, [n, groups]."""
        result = self.solve(self.problems.part(which)._replace(start=start), self.options)
        assert result is not None  # the numbers are checked before
        return result.joint_q, self.successes(result)

    def finished(self, start: FloatArray, judged: FloatArray | None = None) -> IKResult:
        """Solve all waypoints from starts, in the precision of the finish; `judged` configurations are the answers."""
        result = self.solve(self.problems._replace(start=start), replace(self.options, precision=self.finish), judged)
        assert result is not None
        return result

    def successes(self, result: IKResult) -> NDArray[np.bool_]:
        """Return the successful groups of joints, bool [n, groups]; all fail if links are in contact."""
        of_tree = tree_success(result)
        if result.clearance is not None:
            least = self.options.margin
            of_tree = of_tree & ((result.clearance > 0.0) & (result.clearance >= least))[:, np.newaxis]
        return np.stack([of_tree[:, group.trees].all(axis=1) for group in self.groups], axis=1)

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


def tree_success(result: IKResult) -> NDArray[np.bool_]:
    """Return the success of each tree's island, bool [n, trees]; True for trees without rows."""
    island = result.islands.tree_island
    found = np.take_along_axis(result.islands.success, np.maximum(island, 0), axis=1)
    return np.asarray(found | (island < 0))
