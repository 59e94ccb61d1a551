"""State of a SIMD lane between iterations, and the damping rule."""

from dataclasses import dataclass, fields

from ik_service.compiler.island_program import IslandProgram
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
        counts += [1 if program.levels else 0, len(program.multiplied), dofs if with_pressure else 0]
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
    return [*found, *(("level", norm2) for norm2 in program.levels)]


def error_places(program: IslandProgram, *, padded: bool) -> list[int]:
    """List the place of each of `error_outputs` among the errors of a state; padded: two places per target."""
    if not padded:
        return list(range(len(error_outputs(program))))
    kinds = [kind for error in program.errors for kind in (error.position2, error.chord2)]
    return [k for k, kind in enumerate(kinds) if kind is not None]
