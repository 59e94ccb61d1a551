"""How many iterations attempts take and which succeed, by the CPU engine; and how a card's threads work through them.

The rounds of all threads are taken to be in step: each warp refills what has ended, then runs its iterations.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import ik_service
from benchmarks.gpu_model.cards import WARP
from benchmarks.problems.many_arms import HandProblems
from ik_service.solver.compiled.waves import WAVE_ATTEMPTS_MAX

STARTS = 6  # random ones of each problem
OTHERS = 389  # problems further on: whose attempts stand for those of later seeds


@dataclass(frozen=True)
class Attempts:
    """Attempts of one island.

    Attributes:
        evaluations: Iterations that the attempt takes, [problems, seeds].
        succeeds: Whether it meets its targets, alike.
    """

    evaluations: NDArray[np.int64]
    succeeds: NDArray[np.bool_]

    def per_target(self) -> tuple[float, float]:
        """Return attempts and iterations per target, one seed after the other until one succeeds."""
        before = np.cumsum(self.succeeds, axis=1) - self.succeeds
        made = before == 0
        return float(made.sum(axis=1).mean()), float((made * self.evaluations).sum(axis=1).mean())


@dataclass(frozen=True)
class Rounds:
    """What the warps of a launch did.

    Attributes:
        warps: Warps at work, round by round.
        refilled: How many of them took attempts.
    """

    warps: NDArray[np.int64]
    refilled: NDArray[np.int64]


def measured(problems: HandProblems, island_count: int, **options: bool) -> list[Attempts]:
    """Return the attempts of every island: of the middle of the ranges, and of random starts.

    Args:
        problems: The problems.
        island_count: How many islands a problem has.
        options: Of the solver.
    """
    chosen = ik_service.SolverOptions(seeds=1)
    solver = ik_service.IKSolver(
        problems.robot, problems.links, device="cpu", engine="compiled", options=chosen, **options
    )
    given = problems.positions, problems.orientations_xyzw
    random = np.random.default_rng(1)
    starts = [problems.robot.random_joint_q(random, len(given[0])) for _ in range(STARTS)]
    results = [solver.solve(*given), *(solver.solve(*given, initial_joint_q=start) for start in starts)]
    return [
        Attempts(
            np.stack([result.islands.iterations[:, k] + 1 for result in results], axis=1).astype(np.int64),
            np.stack([result.islands.success[:, k] for result in results], axis=1),
        )
        for k in range(island_count)
    ]


class WaveSimulation:
    """Waves of attempts of one island.

    Args:
        attempts: Of the island. Problems repeat them; later seeds have those of other problems.
        problems: How many.
        seeds: At most, per problem.
        threads: That the solver takes the device to run.
        resident: Threads that it does run.
        steps: Iterations from refill to refill.
    """

    def __init__(
        self, attempts: Attempts, problems: int, seeds: int, threads: int, *, resident: int, steps: int
    ) -> None:
        self._attempts, self._seeds, self._threads = attempts, seeds, threads
        self._resident, self._steps = resident, steps
        self._end = np.full(problems, seeds)
        self.launches: list[Rounds] = []

    def run(self) -> list[Rounds]:
        """Return what each launch did that had something to do."""
        first, unsolved = 0, np.arange(len(self._end))
        while first < self._seeds and len(unsolved):
            room = max(WAVE_ATTEMPTS_MAX // len(unsolved), 1)
            count = min(max(self._threads // len(unsolved), first, 1), room, self._seeds - first)
            self.launches.append(self._launch(unsolved, first, np.arange(len(unsolved) * count)))
            first += count
            unsolved = np.flatnonzero(self._end >= self._seeds)
            if len(unsolved) * 1000 < len(self._end):  # what no seed solves ends by other rules
                break
        return self.launches

    def _launch(self, listed: NDArray[np.int64], first: int, rows: NDArray[np.int64]) -> Rounds:
        problem, seed = listed[rows % len(listed)], first + rows // len(listed)
        known, drawn = self._attempts.evaluations.shape
        turn, column = np.divmod(np.maximum(seed - 1, 0), drawn - 1)
        place = (problem + OTHERS * turn) % known, np.where(seed == 0, 0, 1 + column)
        left, succeeds = self._attempts.evaluations[place], self._attempts.succeeds[place]
        count = min(self._resident, len(rows))
        row = np.full(count, -1)
        todo = np.zeros(count, np.int64)
        next_row, warps, refilled = 0, list[int](), list[int]()
        warp = np.arange(count) // WARP
        while True:
            busy = row >= 0
            over = busy & (todo <= 0)
            won = row[over & succeeds[np.maximum(row, 0)]]
            np.minimum.at(self._end, problem[won], seed[won] + 1)
            beaten = busy & ~over
            beaten[beaten] = seed[row[beaten]] >= self._end[problem[row[beaten]]]
            free = np.flatnonzero(~busy | over | beaten)
            row[free] = -1
            while len(free) and next_row < len(rows):
                taken = np.arange(next_row, min(next_row + len(free), len(rows)))
                next_row += len(taken)
                taken = taken[seed[taken] < self._end[problem[taken]]]
                row[free[: len(taken)]], todo[free[: len(taken)]] = taken, left[taken]
                free = free[len(taken) :]
            if not (row >= 0).any():
                return Rounds(np.array(warps), np.array(refilled))
            warps.append(len(np.unique(warp[row >= 0])))
            refilled.append(len(np.unique(warp[over | beaten | ~busy])))
            todo -= self._steps


def wall_cycles(launch: Rounds, sub_partitions: int, cost: Callable[[int], float]) -> float:
    """Return the cycles of rounds, where `cost` gives those of so many warps on a sub-partition.

    Args:
        launch: The rounds.
        sub_partitions: Of the card.
        cost: Wall time of a round of so many warps.
    """
    each = launch.warps / sub_partitions
    low = np.maximum(np.floor(each), 1).astype(int)
    high = np.maximum(np.ceil(each), 1).astype(int)
    table = {k: cost(k) for k in {*low.tolist(), *high.tolist()}}
    a, b = (np.array([table[k] for k in side.tolist()]) for side in (low, high))
    return float((a + (b - a) * np.clip(each - low, 0.0, 1.0)).sum())
