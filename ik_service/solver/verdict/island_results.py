"""Results of every island of every problem: arrays over problems and islands, named on request."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from ik_service.robots import RobotModel
from ik_service.solver.lm.status import IKStatus


@dataclass(frozen=True)
class IslandResult:
    """One island of one problem."""

    joints: tuple[str, ...]  # joints of the island
    rows: tuple[str, ...]  # rows coupling them: "target LINK" or the class of an objective, each once
    # whether its targets are met (judged in float64), or, without targets, whether the island is at a minimum
    success: bool
    status: IKStatus  # reason for the end of its solve
    seed_index: int  # seed of its winning attempt
    iterations: int  # steps of the winning attempt
    cost: float  # 1/2 |r|^2 of its rows


@dataclass(frozen=True, eq=False)
class IslandResults(Sequence[tuple[IslandResult, ...]]):
    """The islands of a batch; `islands[problem]` lists the islands of one problem."""

    nisland: NDArray[np.int32]  # number of islands, int32 [n]
    tree_island: NDArray[np.int32]  # island of every kinematic tree, -1 for a tree without rows, int32 [n, trees]
    row_island: NDArray[np.int32]  # island of every row, -1 for a row that is off or without a tree, int32 [n, rows]
    success: NDArray[np.bool_]  # bool [n, trees]; here and below, entries past the last island mean nothing
    status: NDArray[np.int32]  # IKStatus codes, int32 [n, trees]
    seed_index: NDArray[np.int32]  # int32 [n, trees]
    iterations: NDArray[np.int32]  # int32 [n, trees]
    cost: NDArray[np.float32]  # float32 [n, trees]
    robot: RobotModel
    row_labels: tuple[str, ...]

    def __repr__(self) -> str:
        counts = ", ".join(map(str, np.unique(self.nisland)))
        return f"<IslandResults: {len(self)} problems of {counts} islands>"

    @property
    def present(self) -> NDArray[np.bool_]:
        """Return the entries of existing islands, bool [n, trees]."""
        return np.asarray(np.arange(self.tree_island.shape[1]) < self.nisland[:, None])

    @property
    def dof_island(self) -> NDArray[np.int32]:
        """Island of every DOF, -1 for locked DOFs and for trees without rows, int32 [n, joint_dof_count]."""
        treeid = self.robot.trees.dof_treeid
        return np.where(treeid >= 0, self.tree_island[:, treeid], -1).astype(np.int32)

    def __len__(self) -> int:
        return len(self.nisland)

    @overload
    def __getitem__(self, problem: int) -> tuple[IslandResult, ...]: ...

    @overload
    def __getitem__(self, problem: slice) -> list[tuple[IslandResult, ...]]: ...

    def __getitem__(self, problem: int | slice) -> tuple[IslandResult, ...] | list[tuple[IslandResult, ...]]:
        """Return the islands of one problem, in order of their first tree; of several for a slice, as a list."""
        if isinstance(problem, slice):
            return [self[k] for k in range(*problem.indices(len(self)))]
        if not -len(self) <= problem < len(self):
            raise IndexError(f"There is no problem {problem} among {len(self)}.")
        return tuple(self._named(int(problem), island) for island in range(int(self.nisland[problem])))

    def __iter__(self) -> Iterator[tuple[IslandResult, ...]]:
        return (self[problem] for problem in range(len(self)))

    def _named(self, problem: int, island: int) -> IslandResult:
        labels = (self.row_labels[row] for row in np.flatnonzero(self.row_island[problem] == island))
        return IslandResult(
            joints=joints_of(self.robot, self.tree_island[problem] == island),
            rows=tuple(dict.fromkeys(labels)),
            success=bool(self.success[problem, island]),
            status=IKStatus(int(self.status[problem, island])),
            seed_index=int(self.seed_index[problem, island]),
            iterations=int(self.iterations[problem, island]),
            cost=float(self.cost[problem, island]),
        )


def joints_of(robot: RobotModel, chosen: NDArray[np.bool_]) -> tuple[str, ...]:
    """Return the joints of the chosen trees, bool [trees], followers included."""
    treeid = robot.trees.dof_treeid[robot.joint_qd_start[:-1]]
    return tuple(name for name, tree in zip(robot.joint_names, treeid, strict=True) if tree >= 0 and chosen[tree])
