"""Numbers that a lane of an iteration remembers, and the damping of its steps."""

from dataclasses import dataclass, fields

from ik_service.compiler.island_program import IslandProgram
from objectives.expression import Expression

NOT_EVALUATED = 1.0e30  # |r|^2 of a lane before its first evaluation: any trial is better
COMPONENTS = "xyzw"
INPUT_ROOM = 48  # inputs of a padded state are a multiple; 40 and 64 measured slower


@dataclass(frozen=True)
class Damping:
    """Damping of an entry d of a diagonal: factor * (min(share |r|^2 + bend |g|, most h) + floor).

    h is the largest entry, and the floor least (d + smallest h), or least h where smallest is 1.
    """

    share: float  # of |r|^2 (proportional to the error: Chan and Lawrence 1988)
    most: float  # of h: far targets are approached in long steps
    least: float  # of d or h, in roundings of the lanes' precision; with less, rounding decides where DOFs to spare go
    progress: float  # share by which a trial must lower the least |r|^2 so far to count as progress
    up: float  # factor on the damping_factor after a trial that is no progress
    down: float  # factor on the damping_factor after one that is; it does not fall under 1
    factor_max: float  # a lane this much damped that makes no progress will make none
    # share of h that entries have besides their own, so that zeros have a floor, or 1: all have the same
    smallest: float = 1.0
    # of |g| [m], g those rows that may have goals: as large as their second derivatives, steps near singularities with
    # residuals that stay do not swing to and fro
    bend: float = 0.0
    # whether a lane has finished, too, when a trial differs from the best so far by less than `progress`, or when the
    # next would: by the model, whose rows are straight, a step s lowers |r|^2 by no more than 2 s'J'r
    settles: bool = False


@dataclass(frozen=True)
class LaneState:
    """Layout of the numbers of a lane in its state: first places of the groups.

    What the iteration only reads, from the limits on, takes no places where it stands apart.
    """

    q: int  # best configuration so far: a number per active DOF, four for a rotation that has a quaternion
    trial: int  # configuration to be evaluated next, laid out as q
    gradient: int  # J'r at q, per DOF
    lengths2: int  # squared lengths of the columns of J at q, per DOF, or one for all
    errors: int  # squared errors of the targets, and of rows with tolerances, at q
    norm2: int  # |r|^2 at q
    damping_factor: int  # factor on the damping
    steps: int  # steps tried
    stage: int  # what the factor of rows that yield is multiplied with, where there are such: see `stages`
    multipliers: int  # those of the rows that have some, 0 at first; see `multipliers`
    pressure: int  # the gradient at the trial, as the step before has predicted it, where that is kept; per DOF
    hessian: int  # J'J at q under its diagonal, where it is kept: an entry per coupled pair of DOFs
    lower: int  # lower limits, per DOF
    upper: int  # upper limits, per DOF
    inputs: int  # data of the problem, as the program lists it
    floor2: int  # |r|^2 that ends the attempt
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
        """Lay out the state of a program; with `padded`, kinds of targets have one layout and share a kernel."""
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
    """Active DOF and component ("" or one of xyzw) of every coordinate of the island, in the order of the state."""
    names: list[tuple[int, str]] = []
    inner = {a + k for a in program.quaternions for k in (1, 2)}
    for a in program.dofs:
        if a in program.quaternions:
            names += [(a, component) for component in COMPONENTS]
        elif a not in inner:
            names.append((a, ""))
    return tuple(names)


def error_outputs(program: IslandProgram) -> list[tuple[str, Expression]]:
    """Squared errors of pose targets ("position" or "chord") and of rows with tolerances ("rows"), and expressions.

    The last two, where rows yield to others, are |r|^2 of either kind ("level").
    """
    found = []
    for error in program.errors:
        found += [("position", error.position2)] if error.position2 is not None else []
        found += [("chord", error.chord2)] if error.chord2 is not None else []
    found += [("rows", program.row_error2)] if program.row_error2 is not None else []
    return [*found, *(("level", norm2) for norm2 in program.levels)]


def error_places(program: IslandProgram, *, padded: bool) -> list[int]:
    """Return the place of each of `error_outputs` among the errors of a state."""
    # Padded, every target has a place for each of its errors; unused ones stay 0
    if not padded:
        return list(range(len(error_outputs(program))))
    kinds = [kind for error in program.errors for kind in (error.position2, error.chord2)]
    return [k for k, kind in enumerate(kinds) if kind is not None]
