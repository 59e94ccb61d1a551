"""Stages with decreasing weight of lower-priority rows, until higher-priority rows are met; and Lagrange multipliers.

    minimise |c|^2 + |stage r|^2, c the higher-priority rows, r the lower-priority rows; the next stage starts there

The first stages have heavy r, because then steps along the nonlinear c may be long. Constraints are met exactly, by
Lagrange multipliers m (augmented Lagrangian: Nocedal and Wright 2006, chapter 17):

    minimise |c + m|^2 + |stage r|^2
    at the end of a stage: m <- (c + m) (next stage / stage)^2, the pull of r in the next stage

Without m, only a very light r would let c be met, and steps along c would be too short. In float64 a last stage follows
with nearly weightless r, to remove the rest of c.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ik_service.compiler.code.lanes import Lanes, Precision
from ik_service.compiler.code.state import NOT_EVALUATED, LaneState
from ik_service.compiler.island_program import IslandProgram, multiplier, own_multiplier

SECONDARY_STAGE: Mapping[Precision, float] = {"float32": 2.0**-12, "float64": 2.0**-22}
"""Factor of lower-priority rows in the last stage; with three priorities, the ratio from stage to stage."""
SECONDARY_RATIO = 2.0**-4  # ratio of factors from stage to stage, with two priorities and no constraints
SECONDARY_GAIN = 1e-5
"""Relative decrease of |r|^2 predicted for the next step; below, a stage ends (two priorities, no constraints)."""
SECONDARY_STAGE_STEPS = 10  # iterations reserved for the last stage
YIELDING_TIMES = 4.0
"""Factor on the largest number of iterations of an attempt with lower-priority rows, near the targets."""
NEAR_FLOORS = 1e8  # largest |r|^2 of near targets, as multiple of the floor: within 1 to 3 cm
YIELDING_FLOOR2 = 2.0**-12  # floor of |r|^2 of lower-priority rows in the first stage, as share of the floor of targets
EXACT_GAIN: Mapping[Precision, float] = {"float32": 1e-3, "float64": 1e-9}
"""Predicted relative decrease of |r|^2 at which a stage ends, with constraints or three priorities."""
REST_GAIN: Mapping[Precision, float] = {"float32": 1e-3, "float64": 1e-8}
"""Predicted relative decrease of |r|^2 at which the last stage ends, with targets."""
MULTIPLIER_STAGES: Mapping[Precision, tuple[float, ...]] = {
    "float32": (1.0, 2.0**-3, 2.0**-6, 2.0**-9),
    "float64": (2.0**-3, 2.0**-9, 2.0**-15, 2.0**-21),
}
"""Factors of lower-priority rows beside constraints, stage by stage, with a constant ratio."""
CLOSING_STAGE = 2.0**-41  # factor of a further stage in float64: only c is solved, without multipliers
CLOSING_STEPS = 2.0  # iterations reserved for this stage


def stage_range(program: IslandProgram, precision: Precision) -> tuple[float, float]:
    """Return the factors of the first and the last stage; in float64 only the last stage, to refine answers."""
    if program.multiplied:
        return MULTIPLIER_STAGES[precision][0], MULTIPLIER_STAGES[precision][-1]
    return 1.0 if precision == "float32" else SECONDARY_STAGE[precision], SECONDARY_STAGE[precision]


def _ratio(lanes: Lanes) -> float:
    return MULTIPLIER_STAGES[lanes.precision][1] / MULTIPLIER_STAGES[lanes.precision][0]


def plain(row: int) -> str:
    """Name the packet of a row without Lagrange multiplier; for a limit, with its current multiplier."""
    return f"plain{row}"


def own_multiplier_lines(program: IslandProgram, state: LaneState) -> list[str]:
    """Write the statements that load the current Lagrange multipliers of limits."""
    places = {r: state.multipliers + k for k, r in enumerate(program.multiplied)}
    return [f"const F {own_multiplier(r)} = s[{places[r]}];" for r in program.one_sided]


def multiplier_lines(program: IslandProgram, lanes: Lanes, state: LaneState) -> list[str]:
    """Write the statements of the Lagrange multipliers at the trial; the first trial of a stage updates them."""
    number, ratio, stages = lanes.number, _ratio(lanes), MULTIPLIER_STAGES[lanes.precision]
    begins = lanes.both(f"stage < {number(stages[0])}", f"old_norm2 >= {number(NOT_EVALUATED)}")
    lines = [f"const auto begins = {begins};"]
    share = lanes.everywhere(number(ratio * ratio))
    if lanes.precision == "float64":
        share = lanes.choose(f"stage <= {number(CLOSING_STAGE)}", lanes.everywhere(number(0.0)), share)
    lines.append(f"const F borne = {share};")
    for k, r in enumerate(program.multiplied):
        held = f"s[{state.multipliers + k}]"
        whole = plain(r) if r in program.one_sided else f"({held} + {plain(r)})"
        pull = f"{whole} * borne"
        lines.append(f"const F {multiplier(r)} = {lanes.choose('begins', pull, held)};")
    return lines


def iterations_texts(program: IslandProgram, lanes: Lanes, target_error: str, goes_on: str) -> tuple[str, str]:
    """Write the largest numbers of iterations of an attempt: until the last stage begins, and in total.

    `target_error` is |r|^2 of the targets, `goes_on` whether stages are left. Near the targets there are more
    iterations: the minimum of lower-priority rows along nonlinear targets takes many steps. Targets still far away are
    seldom reachable. Refining in float64 has more iterations anyway.
    """
    own = lanes.everywhere("iterations")
    if not program.errors or program.multiplied or program.has_tertiary or lanes.precision == "float64":
        return own, own
    near = f"{target_error} <= floor2 * {lanes.number(NEAR_FLOORS)}"
    more = lanes.everywhere(f"{lanes.number(YIELDING_TIMES)} * iterations")
    return lanes.choose(near, more, own), lanes.choose(lanes.either(near, goes_on), more, own)


@dataclass(frozen=True)
class StageTexts:
    """C++ conditions and numbers of a SIMD lane's stage."""

    goes_on: str  # whether a next stage exists
    lighter: str  # factor of lower-priority rows in the next stage
    steps: str  # iterations reserved for the next stage
    gain: float  # predicted relative decrease of |r|^2 at which the stage ends
    is_light: str  # whether lower-priority rows are light enough to meet higher-priority rows
    is_last: str | None = None  # whether attempts end at the minimum of this stage; None: at no minimum

    @staticmethod
    def of(program: IslandProgram, lanes: Lanes) -> "StageTexts":
        """Write the texts of a program with priorities; their variable `late` is true near the last iteration."""
        number, first, last = lanes.number, lanes.number(1.0), lanes.number(SECONDARY_STAGE[lanes.precision])
        gain = EXACT_GAIN[lanes.precision]
        few, many = (lanes.everywhere(number(times * SECONDARY_STAGE_STEPS)) for times in (1.0, 2.0))
        if program.multiplied:
            lighter = f"(stage * {number(_ratio(lanes))})"
            last = number(MULTIPLIER_STAGES[lanes.precision][-1])
            steps = lanes.choose(f"{lighter} > {last}", many, few)
            if lanes.precision == "float64":
                begins, last = f"stage > {last}", number(CLOSING_STAGE)
                lighter = lanes.choose(begins, lighter, lanes.everywhere(last))
                steps = lanes.choose(begins, steps, lanes.everywhere(number(CLOSING_STEPS)))
            return StageTexts(f"stage > {last}", lighter, steps, gain, f"stage < {first}", f"stage <= {last}")
        if program.has_tertiary:
            steps = lanes.choose(f"stage == {first}", many, few)
            is_last = f"stage < {last}" if program.errors else None
            return StageTexts(f"stage >= {last}", f"(stage * {last})", steps, gain, f"stage < {first}", is_last)
        lighter = lanes.choose("late", lanes.everywhere(last), f"(stage * {number(SECONDARY_RATIO)})")
        is_last = f"stage <= {last}"
        rests = is_last if program.errors else None
        return StageTexts(f"stage > {last}", lighter, few, SECONDARY_GAIN, is_last, rests)
