"""Stages in which rows that yield weigh less and less, until those to which they yield are met; and multipliers.

    minimum of |c|^2 + |stage r|^2, c the rows that come first; the next stage begins from there

At first r weighs so much that steps along c, which curves, may be long. Constraints are met exactly, by multipliers:

    minimum of |c + m|^2 + |stage r|^2
    where a stage ends: m <- (c + m) (next stage / stage)^2, the pull of the others that the next one has to bear

Without m the rows that yield have to be so light that c is met beside them, and steps along c so short that they lead
nowhere. With m the stages may be heavy (augmented Lagrangian: Nocedal and Wright 2006, chapter 17). In float64 a last
stage follows in which r weighs nothing: what is left of c, by steps that curve or an m that is not quite right, goes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ik_service.compiler.code.lanes import Lanes, Precision
from ik_service.compiler.code.state import NOT_EVALUATED, LaneState
from ik_service.compiler.island_program import IslandProgram, multiplier, own_multiplier

SECONDARY_STAGE: Mapping[Precision, float] = {"float32": 2.0**-12, "float64": 2.0**-22}
"""Factor of the rows that yield in the last stage; where others yield to these again, that from stage to stage."""
SECONDARY_RATIO = 2.0**-4
"""That from stage to stage, but for these and constraints."""
SECONDARY_GAIN = 1e-5
"""Share of |r|^2 by which a step can lower it where such a stage is over."""
SECONDARY_STAGE_STEPS = 10
"""Iterations that are left for the last stage."""
YIELDING_TIMES = 4.0
"""Iterations of such an attempt over those of others, where it has come near the targets."""
NEAR_FLOORS = 1e8
"""|r|^2 of targets that are near, in floors: within 1 to 3 cm."""
YIELDING_FLOOR2 = 2.0**-12
"""Floor of |r|^2 of rows that yield in the first stage, of that of others: they have that share of its weight."""
EXACT_GAIN: Mapping[Precision, float] = {"float32": 1e-3, "float64": 1e-9}
"""Share of |r|^2 by which a step can lower it where a stage is over, of constraints and of three levels."""
REST_GAIN: Mapping[Precision, float] = {"float32": 1e-3, "float64": 1e-8}
"""The same where the last stage is, beside targets: its minimum is found, as far as they tell it."""
MULTIPLIER_STAGES: Mapping[Precision, tuple[float, ...]] = {
    "float32": (1.0, 2.0**-3, 2.0**-6, 2.0**-9),
    "float64": (2.0**-3, 2.0**-9, 2.0**-15, 2.0**-21),
}
"""Factors of the rows that yield, one after another, each the same share of the one before."""
CLOSING_STAGE = 2.0**-41
"""That of a further stage in float64, so light that nothing but c is solved for, without multipliers."""
CLOSING_STEPS = 2.0
"""Iterations that are left for it."""


def stage_range(program: IslandProgram, precision: Precision) -> tuple[float, float]:
    """Return the factors of the first stage and the last; in float64 answers are improved, whose targets stay met."""
    if program.multiplied:
        return MULTIPLIER_STAGES[precision][0], MULTIPLIER_STAGES[precision][-1]
    return 1.0 if precision == "float32" else SECONDARY_STAGE[precision], SECONDARY_STAGE[precision]


def _ratio(lanes: Lanes) -> float:
    return MULTIPLIER_STAGES[lanes.precision][1] / MULTIPLIER_STAGES[lanes.precision][0]


def plain(row: int) -> str:
    """Name the packet of a row without its multiplier; of a limit, beyond which its multiplier holds it, with it."""
    return f"plain{row}"


def own_multiplier_lines(program: IslandProgram, state: LaneState) -> list[str]:
    """Statements for the multipliers of limits until now."""
    places = {r: state.multipliers + k for k, r in enumerate(program.multiplied)}
    return [f"const F {own_multiplier(r)} = s[{places[r]}];" for r in program.one_sided]


def multiplier_lines(program: IslandProgram, lanes: Lanes, state: LaneState) -> list[str]:
    """Statements for the multipliers at the trial, from the rows: new ones where a stage has just begun."""
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
    """Return in C++ how many iterations an attempt has, and how many where stages are left: one of the last follows."""
    # There are more where rows yield to targets that are near. Such rows are lowered along targets, which curve, by
    # many steps; a target that is not near by then is seldom within reach. In float64 answers are improved, with more
    # iterations in any case. `target_error` is |r|^2 of the targets, `goes_on` whether stages are left.
    own = lanes.everywhere("iterations")
    if not program.errors or program.multiplied or program.has_tertiary or lanes.precision == "float64":
        return own, own
    near = f"{target_error} <= floor2 * {lanes.number(NEAR_FLOORS)}"
    more = lanes.everywhere(f"{lanes.number(YIELDING_TIMES)} * iterations")
    return lanes.choose(near, more, own), lanes.choose(lanes.either(near, goes_on), more, own)


@dataclass(frozen=True)
class StageTexts:
    """C++ about the stage of a lane and the next one."""

    goes_on: str  # whether there is a next one
    lighter: str  # what the factor of the rows that yield is in it
    steps: str  # how many iterations are left at least when it begins
    gain: float  # share of |r|^2 by which a step can lower it where the stage is over
    is_light: str  # whether rows that yield weigh so little that the others can be met
    # whether the stage is the last one, at whose minimum attempts end; None where they do not
    is_last: str | None = None

    @staticmethod
    def of(program: IslandProgram, lanes: Lanes) -> "StageTexts":
        """Return those of a program with rows that yield; `late` says in them that time is running out."""
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
