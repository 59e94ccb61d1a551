"""Multipliers of constraints: rows to which all others yield are met exactly while these are as low as they can get.

    stages in which the rows that yield weigh less and less: minimum of |c + m|^2 + |stage r|^2, c the constraints
    where a stage ends: m <- (c + m) (next stage / stage)^2, the pull of the others that the next one has to bear

Without m the rows that yield have to be so light that c is met beside them, and steps along c, which curves, so short
that they lead nowhere. With m the stages may be heavy (augmented Lagrangian: Nocedal and Wright 2006, chapter 17).
"""

from collections.abc import Mapping

from ik_service.compiler.code.lanes import Lanes, Precision
from ik_service.compiler.code.state import NOT_EVALUATED, SECONDARY_STAGE_STEPS, LaneState
from ik_service.compiler.program.island_program import IslandProgram, multiplier

MULTIPLIER_STAGES: Mapping[Precision, tuple[float, ...]] = {
    "float32": (1.0, 2.0**-3, 2.0**-6, 2.0**-9),
    "float64": (2.0**-3, 2.0**-9, 2.0**-15, 2.0**-21),
}
"""Factors of the rows that yield, one after another, each the same share of the one before."""


def _ratio(lanes: Lanes) -> float:
    return MULTIPLIER_STAGES[lanes.precision][1] / MULTIPLIER_STAGES[lanes.precision][0]


def plain(row: int) -> str:
    """Name the packet of a row without its multiplier."""
    return f"plain{row}"


def multiplier_lines(program: IslandProgram, lanes: Lanes, state: LaneState) -> list[str]:
    """Statements for the multipliers at the trial, from the rows: new ones where a stage has just begun."""
    number, ratio = lanes.number, _ratio(lanes)
    first = number(MULTIPLIER_STAGES[lanes.precision][0])
    begins = lanes.both(f"stage < {first}", f"old_norm2 >= {number(NOT_EVALUATED)}")
    lines = [f"const auto begins = {begins};"]
    for k, r in enumerate(program.multiplied):
        held = f"s[{state.multipliers + k}]"
        pull = f"({held} + {plain(r)}) * {number(ratio * ratio)}"
        lines.append(f"const F {multiplier(r)} = {lanes.choose('begins', pull, held)};")
    return lines


def next_stage(lanes: Lanes) -> tuple[str, str, str]:
    """Texts: whether there is a next stage, what it is, and how many steps are left for what follows."""
    number, last, ratio = (
        lanes.number,
        lanes.number(MULTIPLIER_STAGES[lanes.precision][-1]),
        lanes.number(_ratio(lanes)),
    )
    steps = (lanes.everywhere(number(times * SECONDARY_STAGE_STEPS)) for times in (2.0, 1.0))
    return f"stage > {last}", f"(stage * {ratio})", lanes.choose(f"stage * {ratio} > {last}", *steps)
