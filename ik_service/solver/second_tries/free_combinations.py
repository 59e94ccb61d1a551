"""Islands in contact with each other: search for the first combination of their solutions free of contact.

        each island's solutions, best first -> combinations, by the sum of their ranks -> clearance -> the first free
        one

The rows of an island hold its self-collision, static links and the world, but nothing of other islands.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.kernels.device_lock import DEVICE_LOCK
from ik_service.kernels.kernel_loading import KernelsFor
from ik_service.robots import RobotModel
from ik_service.solver.arrays.problem_arrays import Problems
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.worlds import CheckedWorlds
from ik_service.solver.lm.status import IKStatus
from ik_service.solver.recorded_launches import PreparedSolve
from ik_service.solver.result import IKResult
from ik_service.solver.second_tries.target_solves import FoundAnswers, TimeLeft
from ik_service.solver.solve import SolverCore
from ik_service.solver.verdict.collision_verdict import ClearanceCheck

SOLUTIONS_TRIED = (8, 16)
"""Solutions requested from each island; the second number if no combination of the first ones is free."""
COMBINATIONS_MAX = 256
"""Largest number of combinations tried for a problem."""
FIRST_COMBINATIONS = 4
"""Combinations in the first round; each further round has four times as many."""


class IslandSolutions(NamedTuple):
    """Solutions of the islands of some problems."""

    # line k of a problem holds solution k of each island, [problems, solutions, joint_coord_count]
    joint_q: NDArray[np.float64]
    found: NDArray[np.int32]  # number of solutions of each island, [problems, islands]
    island: NDArray[np.int32]  # island of each coordinate, -1 for none, [problems, joint_coord_count]

    @classmethod
    def read(
        cls, robot: RobotModel, problems: Problems, prepared: PreparedSolve, count: int, wanted: int
    ) -> "IslandSolutions":
        """Read the solutions of a solve from the arrays of its problems."""
        selection, partition = prepared.selection, prepared.partition
        assert selection is not None  # several solutions are requested
        joint_q = np.empty((count, wanted, robot.joint_coord_count))
        for k in range(wanted):
            with DEVICE_LOCK:
                selection.take(partition, np.full(count, k, np.int32))
            joint_q[:, k] = problems.best.joint_q[:count].numpy()
        islands = int(partition.nisland.max())
        trees = robot.trees.coordinate_treeid
        tree_island = np.broadcast_to(partition.tree_island, (count, partition.tree_island.shape[1]))
        island = np.where(trees >= 0, tree_island[:, np.maximum(trees, 0)], -1)
        own = np.arange(islands) < partition.nisland[:, np.newaxis]  # later entries are of other solves
        return cls(joint_q, np.where(own, selection.found(count)[:, :islands], 1), island)

    def combined(
        self, problems: NDArray[np.intp], first: int, size: int
    ) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Return combinations [n, joint_coord_count], `size` at most per problem, and the problem of each."""
        # In order, from number `first` on
        found, alike = np.unique(np.maximum(self.found[problems], 1), axis=0, return_inverse=True)
        orders = np.full((len(found), size, found.shape[1]), -1)
        for order, own in zip(orders, found.tolist(), strict=True):
            some = _combinations(tuple(own))[first : first + size]
            order[: len(some)] = some
        places = orders[alike.reshape(-1)]
        row, combination = np.nonzero(places[:, :, 0] >= 0)
        owners, island = problems[row], self.island[problems[row]]
        place = np.take_along_axis(places[row, combination], np.maximum(island, 0), axis=1)
        line = np.where(island >= 0, place, 0)
        return self.joint_q[owners[:, np.newaxis], line, np.arange(island.shape[1])], owners


class FreeCombinations:
    """Search of free combinations for one solver's problems."""

    statuses: tuple[IKStatus, ...] = (IKStatus.BLOCKED_BY_COLLISION,)

    def __init__(self, core: SolverCore) -> None:
        self._core = core

    @cached_property
    def _check(self) -> ClearanceCheck:
        return ClearanceCheck(self._core.model)  # apart from the core's, whose solves run in between

    def can_help(self, result: IKResult, batch: Batch) -> NDArray[np.bool_]:
        """Select problems of several islands; only the compiled engine keeps several solutions of an island."""
        may_touch = batch.worlds is not None and self._core.engine.name == "compiled"
        several: NDArray[np.bool_] = (result.islands.nisland > 1) & may_touch
        return several

    def search(self, batch: Batch, time_left: TimeLeft, joint_q: NDArray[Any]) -> FoundAnswers:
        """Return the first free combination of each problem."""
        chosen = np.zeros((batch.problem_count, self._core.robot.joint_coord_count))
        is_free = np.zeros(batch.problem_count, dtype=bool)
        for wanted in SOLUTIONS_TRIED:
            left = np.flatnonzero(~is_free)
            if not len(left):
                break
            part, options = batch.part(left), time_left()
            assert part.worlds is not None  # else nothing is in contact
            solutions = self._solutions(part, options, wanted)
            with DEVICE_LOCK, KernelsFor():
                chosen[left], is_free[left] = self._first_free(solutions, part.worlds, options.margin)
        return chosen, is_free

    def judging(self, batch: Batch, chosen: NDArray[Any], options: SolverOptions) -> tuple[Batch, SolverOptions]:
        """Return the verifying solve, with the given start as reference for whole turns of joints."""
        return batch, options

    def _solutions(self, batch: Batch, options: SolverOptions, wanted: int) -> IslandSolutions:
        """Return this number of solutions of each island, free of self-collision and of contact with the world."""
        core = self._core
        many = replace(options, solutions=wanted, best_of=None, precision="float32", repair=False)
        with core.data_of(batch):
            done = core.run(batch, many, verdict=False)
        assert done is not None  # the numbers were checked in the first solve
        return IslandSolutions.read(core.robot, core.work.problems, done[0], batch.problem_count, wanted)

    def _first_free(self, solutions: IslandSolutions, worlds: CheckedWorlds, margin: float) -> FoundAnswers:
        count, coordinates = len(solutions.found), solutions.joint_q.shape[2]
        chosen, is_free = np.zeros((count, coordinates)), np.zeros(count, dtype=bool)
        first, size = 0, FIRST_COMBINATIONS
        while first < COMBINATIONS_MAX:
            candidates, owners = solutions.combined(np.flatnonzero(~is_free), first, size)
            if not len(owners):
                break
            self._check.use(worlds.part(owners))
            clearance = self._check.check(candidates)["clearance"]
            good = np.flatnonzero((clearance > 0.0) & (clearance >= margin))
            solved, best = np.unique(owners[good], return_index=True)
            chosen[solved], is_free[solved] = candidates[good[best]], True
            first, size = first + size, 4 * size
        return chosen, is_free


@lru_cache(64)
def _combinations(found: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the rank of each island's solution, by the sum of ranks and then in order, [n, islands]."""
    most = sum(found) - len(found)
    ordered = (places for total in range(most + 1) for places in _places(found, total))
    return np.array([*islice(ordered, COMBINATIONS_MAX)], dtype=np.int64).reshape(-1, len(found))


def _places(found: tuple[int, ...], total: int) -> Iterator[tuple[int, ...]]:
    """Return the ranks of all islands with a given sum, in order."""
    if not found:
        yield from [()] if total == 0 else []
        return
    rest = sum(found[1:]) - len(found[1:])
    for place in range(max(0, total - rest), min(found[0] - 1, total) + 1):
        yield from ((place, *others) for others in _places(found[1:], total - place))
