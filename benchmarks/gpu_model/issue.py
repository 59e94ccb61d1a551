"""How long a sub-partition takes for warps that run the same sequence of instructions, each from another place on.

Every cycle one of its warps issues one instruction: the one that has waited longest of those whose stall is over, whose
barriers are down and whose part of the sub-partition is free.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.gpu_model.cards import STORE_READ, Card, interval, latency, pipe
from benchmarks.gpu_model.flow import is_far
from benchmarks.gpu_model.sass import Instruction


@dataclass(frozen=True)
class Step:
    """What the issue of an instruction depends on and leads to, in cycles.

    Attributes:
        stall: Until the warp may issue again.
        waits: Barriers that have to be down.
        raised: Barriers that it raises, and until when after its issue.
        kind: Part of the sub-partition that it keeps.
        kept: For how long.
    """

    stall: int
    waits: tuple[int, ...]
    raised: tuple[tuple[int, int], ...]
    kind: str
    kept: float


def steps_of(code: Sequence[Instruction], card: Card) -> list[Step]:
    """Return the steps of a sequence on a card."""
    found = []
    for one in code:
        kind = pipe(one.name, one.operation)
        raised = []
        if one.write_barrier is not None:
            raised.append((one.write_barrier, latency(card, one.name, one.operation, is_far=is_far(one))))
        if one.read_barrier is not None:
            raised.append((one.read_barrier, STORE_READ))
        found.append(Step(max(one.stall, 1), one.waits, tuple(raised), kind, interval(card, kind)))
    return found


def wall_time(steps: Sequence[Step], warps: int, passes: int) -> float:
    """Return the cycles in which so many warps run through a sequence so often, begun at even distances in it."""
    count = len(steps)
    place = [warp * count // warps for warp in range(warps)]
    left = [count * passes] * warps
    ready = [0.0] * warps
    down = [[0.0] * 8 for _ in range(warps)]
    free: dict[str, float] = {}
    last = [0.0] * warps
    now = 0.0
    running = list(range(warps))
    while running:
        best, chosen = float("inf"), -1
        for warp in running:
            step = steps[place[warp]]
            at = max(ready[warp], free.get(step.kind, 0.0), now)
            for barrier in step.waits:
                at = max(at, down[warp][barrier])
            if at < best or (at == best and last[warp] < last[chosen]):
                best, chosen = at, warp
        step = steps[place[chosen]]
        for barrier, cycles in step.raised:
            down[chosen][barrier] = max(down[chosen][barrier], best + cycles)
        ready[chosen], last[chosen], free[step.kind] = best + step.stall, best, best + step.kept
        now = best + 1.0
        place[chosen] = (place[chosen] + 1) % count
        left[chosen] -= 1
        if left[chosen] == 0:
            running.remove(chosen)
    return now
