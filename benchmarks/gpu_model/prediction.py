"""How long a solve takes on a card, by the code of its islands, the attempts that it makes, its launches and copies."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache

from benchmarks.gpu_model.attempts import Attempts, Rounds, WaveSimulation
from benchmarks.gpu_model.cards import SUB_PARTITIONS, WARP, Card
from benchmarks.gpu_model.issue import Step, steps_of, wall_time
from benchmarks.gpu_model.kernels import IslandCode, SolvePlan
from ik_service.solver.compiled.waves import THREADS_PER_SM

NODE_S = 2.0e-6  # of a graph that hardly works: a launch or a copy
CALL_S = 10.0e-6  # launch of a graph, and waiting for it
TURN_S = 15.0e-6  # of a loop in a graph, which makes two waves of attempts; seen on an H100
PASSES = 2  # through the rounds, to be averaged


@dataclass(frozen=True)
class Times:
    """Where the time of a solve goes [s].

    Attributes:
        issue: Iterations, if every cycle issued an instruction.
        latency: What iterations wait for results and for parts of the sub-partition.
        refill: From attempt to attempt.
        launches: Nodes of the graph that are kernels, reading and writing what problems have, and the call.
        copies: Between host and card.
    """

    issue: float
    latency: float
    refill: float
    launches: float
    copies: float

    @property
    def total(self) -> float:
        """All of it."""
        return sum(getattr(self, one.name) for one in fields(self))


class RoundCost:
    """Cycles of a round of one island's loop on a card: a refill, then iterations.

    Args:
        code: Of the island.
        card: The card.
        steps: Iterations from refill to refill.

    Attributes:
        steps: As given.
        warps: That a sub-partition holds at once.
        instructions: Of the iterations.
    """

    def __init__(self, code: IslandCode, card: Card, steps: int) -> None:
        self.steps, self.warps = steps, code.warps
        self._refill = steps_of(code.parts.refill, card)
        self._iterations = steps_of([*code.parts.iteration, *code.parts.rest] * steps, card)
        self.instructions = len(self._iterations)
        self._wall = cache(lambda warps, is_full: self._simulated(warps, is_full=is_full))

    def _simulated(self, warps: int, *, is_full: bool) -> float:
        code: Sequence[Step] = [*self._refill, *self._iterations] if is_full else self._iterations
        return wall_time(code, warps, PASSES) / PASSES

    def refill(self, warps: int) -> float:
        """Return what a refill takes each of so many warps that all refill at once, so that no iterations hide it."""
        return wall_time(self._refill, warps, PASSES) / (PASSES * warps)

    def of(self, warps: int) -> tuple[float, float, float]:
        """Return what so many warps of a sub-partition take: issue, latency and refill [cycles]."""
        iterations = self._wall(warps, False)
        issue = float(warps * self.instructions)
        return issue, iterations - issue, self._wall(warps, True) - iterations


def launch_times(launch: Rounds, costs: RoundCost, card: Card) -> tuple[float, float, float]:
    """Return what a launch takes: issue, latency and refill [s]."""
    found = [0.0, 0.0, 0.0]
    for warps, refilled in zip(launch.warps.tolist(), launch.refilled.tolist(), strict=True):
        each = warps / (card.multiprocessors * SUB_PARTITIONS)
        low, high = max(1, math.floor(each)), max(1, math.ceil(each))
        share = min(1.0, max(0.0, each - low))
        for k, (a, b) in enumerate(zip(costs.of(low), costs.of(high), strict=True)):
            cycles = a + (b - a) * share
            found[k] += cycles * (min(1.0, refilled / warps) if k == 2 else 1.0) / card.clock
    return found[0], found[1], found[2]


def predicted(
    card: Card,
    plan: SolvePlan,
    costs: Sequence[RoundCost],
    attempts: Sequence[Attempts],
    problems: int,
    seeds: int,
) -> Times:
    """Return how long a solve takes.

    Args:
        card: The card.
        plan: Of the solve.
        costs: Of the rounds of its islands.
        attempts: Of its islands.
        problems: How many.
        seeds: Per problem, at most.
    """
    threads = card.multiprocessors * THREADS_PER_SM
    loop = [0.0, 0.0, 0.0]
    turns = 0
    for cost, one in zip(costs, attempts, strict=True):
        resident = card.multiprocessors * min(cost.warps * SUB_PARTITIONS * WARP, THREADS_PER_SM)
        waves = WaveSimulation(one, problems, seeds, threads, resident=resident, steps=cost.steps).run()
        turns += -(-(len(waves) - 1) // 2)
        for launch in waves:
            for k, seconds in enumerate(launch_times(launch, cost, card)):
                loop[k] += seconds
    nodes = plan.launches + 3 * len(costs) + 4 * turns
    launches = CALL_S + nodes * NODE_S + turns * TURN_S + 2.0 * problems * plan.line_bytes / card.memory_rate
    copied = plan.copied(problems)
    copies = len(copied) * NODE_S + sum(copied) / card.copy_rate
    return Times(loop[0], loop[1], loop[2], launches, copies)
