"""State of a SIMD lane between iterations, the damping rule, and stages with decreasing weight of lower-priority rows.

In the last stage higher-priority rows are met:

    minimise |c|^2 + |stage r|^2, c the higher-priority rows, r the lower-priority rows; the next stage starts there

The first stages have heavy r, because then steps along the nonlinear c may be long. Constraints are met exactly, by
Lagrange multipliers m (augmented Lagrangian: Nocedal and Wright 2006, chapter 17):

    minimise |c + m|^2 + |stage r|^2
    at the end of a stage: m <- (c + m) (next stage / stage)^2, the pull of r in the next stage

Without m, only a very light r would let c be met, and steps along c would be too short. In float64 a last stage follows
with nearly weightless r, to remove the rest of c.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from ik_service.compiler.code.lanes import Lanes, Precision
from ik_service.compiler.island_program import IslandProgram, multiplier, own_multiplier
from objectives.expression import Expression

NOT_EVALUATED = 1.0e30  # |r|^2 before the first evaluation: any trial is better
COMPONENTS = "xyzw"
INPUT_ROOM = 48  # padded states have a multiple of this number of inputs; 40 and 64 measured slower


@dataclass(frozen=True)
class Damping:
    """Damping of a diagonal entry d: factor * (min(share |r|^2 + bend |g|, most h) + floor).

    h is the largest diagonal entry; floor = least (d + smallest h), or least h for smallest = 1.
    """

    share: float  # coefficient of |r|^2 (damping proportional to the error: Chan and Lawrence 1988)
    most: float  # coefficient of h: bounds the damping far from targets
    least: float  # coefficient of the floor, in roundings; with less, rounding moves redundant DOFs
    progress: float  # relative decrease of the least |r|^2 that counts as progress
    up: float  # ratio of damping factors after a trial without progress
    down: float  # ratio of damping factors after progress; the damping factor is at least 1
    factor_max: float  # a lane without progress and with a larger damping factor ends
    smallest: float = 1.0  # share of h in the floor, for zero entries; 1: equal floor for all entries
    # coefficient of |g| [m], g the rows with goals: as large as their second derivatives, so that steps do not
    # oscillate near singularities with remaining residuals
    bend: float = 0.0
    # whether a lane ends, too, when |r|^2 changes by less than `progress`, or will with the next step: the linear model
    # bounds the decrease of |r|^2 by 2 s'J'r for a step s
    settles: bool = False


@dataclass(frozen=True)
class LaneState:
    """Layout of a SIMD lane's state: first places of the groups.

    Read-only numbers, from the limits on, take no places if they have an array of their own.
    """

    q: int  # best configuration so far: a number per active DOF, four for a quaternion
    trial: int  # configuration to evaluate next, laid out as q
    gradient: int  # J'r at q, per DOF
    lengths2: int  # squared lengths of the columns of J at q, per DOF, or one for all
    errors: int  # squared errors of the targets, and of rows with tolerances, at q
    norm2: int  # |r|^2 at q
    damping_factor: int
    steps: int  # steps tried
    stage: int  # factor of lower-priority rows, with several priorities; see `stages`
    multipliers: int  # Lagrange multipliers, 0 at first; see `stages`
    pressure: int  # gradient at the trial predicted by the step before, per DOF; optional
    hessian: int  # J'J at q below the diagonal, an entry per coupled pair of DOFs; optional
    lower: int  # lower limits, per DOF
    upper: int  # upper limits, per DOF
    inputs: int  # data of the problem, in the order of the program's inputs
    floor2: int  # |r|^2 at which the attempt ends
    size: int  # number of places

    @classmethod
    def of(
        cls,
        program: IslandProgram,
        length_count: int,
        data_apart: bool = False,
        *,
        with_hessian: bool = False,
        with_pressure: bool = False,
        padded: bool = False,
    ) -> "LaneState":
        """Lay out the state of a program; with `padded`, kinds of targets share a layout and so a kernel."""
        dofs, coordinates = len(program.dofs), len(coordinate_names(program))
        errors, inputs = len(error_outputs(program)), len(program.inputs)
        if padded:
            errors, length_count = 2 * len(program.errors), dofs
            inputs = -(-inputs // INPUT_ROOM) * INPUT_ROOM
        counts = [coordinates, coordinates, dofs, length_count, errors, 1, 1, 1]
        counts += [1 if program.level_norms2 else 0, len(program.multiplied), dofs if with_pressure else 0]
        counts += [len(program.coupled) if with_hessian else 0]
        counts += [0, 0, 0, 0] if data_apart else [dofs, dofs, inputs, 1]
        return cls(*(sum(counts[:k]) for k in range(len(fields(cls)))))


def coordinate_names(program: IslandProgram) -> tuple[tuple[int, str], ...]:
    """List active DOF and component ("" or one of xyzw) of the island's coordinates, in the order of the state."""
    names: list[tuple[int, str]] = []
    inner = {a + k for a in program.quaternions for k in (1, 2)}
    for a in program.dofs:
        if a in program.quaternions:
            names += [(a, component) for component in COMPONENTS]
        elif a not in inner:
            names.append((a, ""))
    return tuple(names)


def error_outputs(program: IslandProgram) -> list[tuple[str, Expression]]:
    """List squared errors of pose targets ("position" or "chord") and of rows with tolerances ("rows"), by expression.

    With several priorities, the last two are |r|^2 of higher and of lowest priority ("level").
    """
    found = []
    for error in program.errors:
        found += [("position", error.position2)] if error.position2 is not None else []
        found += [("chord", error.chord2)] if error.chord2 is not None else []
    found += [("rows", program.row_error2)] if program.row_error2 is not None else []
    return [*found, *(("level", norm2) for norm2 in program.level_norms2)]


def error_places(program: IslandProgram, *, padded: bool) -> list[int]:
    """List the place of each of `error_outputs` among the errors of a state; padded: two places per target."""
    if not padded:
        return list(range(len(error_outputs(program))))
    kinds = [kind for error in program.errors for kind in (error.position2, error.chord2)]
    return [k for k, kind in enumerate(kinds) if kind is not None]


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
MULTIPLIER_STAGES: Mapping[Precision, tuple[float, float, float]] = {
    "float32": (1.0, 2.0**-3, 2.0**-9),
    "float64": (2.0**-3, 2.0**-6, 2.0**-21),
}
"""Factors of lower-priority rows beside constraints: first, ratio, last."""
CLOSING_STAGE = 2.0**-41  # factor of a further stage in float64: only c is solved, without multipliers
CLOSING_STEPS = 2.0  # iterations reserved for this stage


def _stages(program: IslandProgram, precision: Precision) -> tuple[float, float, float]:
    """Return factors of lower-priority rows: first, ratio from stage to stage, last; float64 only refines answers."""
    if program.multiplied:
        return MULTIPLIER_STAGES[precision]
    light = SECONDARY_STAGE[precision]
    first = 1.0 if precision == "float32" else light
    return (first, SECONDARY_RATIO, light) if len(program.levels) < 3 else (first, light, light * light)


def stage_range(program: IslandProgram, precision: Precision) -> tuple[float, float]:
    """Return the factors of the first stage, and of the first stage of attempts with few iterations."""
    first, ratio, last = _stages(program, precision)
    return first, last if len(program.levels) < 3 else last / ratio


def plain(row: int) -> str:
    """Name the packet of a row without Lagrange multiplier; for a limit, with its current multiplier."""
    return f"plain{row}"


def own_multiplier_lines(program: IslandProgram, state: LaneState) -> list[str]:
    """Write the statements that load the current Lagrange multipliers of limits."""
    places = {r: state.multipliers + k for k, r in enumerate(program.multiplied)}
    return [f"const F {own_multiplier(r)} = s[{places[r]}];" for r in program.one_sided]


def multiplier_lines(program: IslandProgram, lanes: Lanes, state: LaneState) -> list[str]:
    """Write the statements of the Lagrange multipliers at the trial; the first trial of a stage updates them."""
    number, (first, ratio, _) = lanes.number, _stages(program, lanes.precision)
    begins = lanes.both(f"stage < {number(first)}", f"old_norm2 >= {number(NOT_EVALUATED)}")
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
    if not program.errors or program.multiplied or len(program.levels) > 2 or lanes.precision == "float64":
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
    is_last: str | None  # whether attempts end at the minimum of this stage; None: at no minimum

    @staticmethod
    def of(program: IslandProgram, lanes: Lanes) -> "StageTexts":
        """Write the texts of a program with priorities; their variable `late` is true near the last iteration."""
        number, (_, ratio, least) = lanes.number, _stages(program, lanes.precision)
        is_exact, last = bool(program.multiplied) or len(program.levels) > 2, number(least)
        few, many = (lanes.everywhere(number(times * SECONDARY_STAGE_STEPS)) for times in (1.0, 2.0))
        next_stage = f"(stage * {number(ratio)})"
        lighter = next_stage if is_exact else lanes.choose("late", lanes.everywhere(last), next_stage)
        steps = lanes.choose(f"{lighter} > {last}", many, few) if is_exact else few
        if program.multiplied and lanes.precision == "float64":
            begins, last = f"stage > {last}", number(CLOSING_STAGE)
            lighter = lanes.choose(begins, lighter, lanes.everywhere(last))
            steps = lanes.choose(begins, steps, lanes.everywhere(number(CLOSING_STEPS)))
        return StageTexts(
            goes_on=f"stage > {last}",
            lighter=lighter,
            steps=steps,
            gain=EXACT_GAIN[lanes.precision] if is_exact else SECONDARY_GAIN,
            is_light=f"stage < {number(1.0)}" if is_exact else f"stage <= {last}",
            is_last=f"stage <= {last}" if program.errors or program.multiplied else None,
        )
