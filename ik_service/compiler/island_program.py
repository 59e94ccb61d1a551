"""The program of one island: its rows, their Jacobian and the normal equations at a trial configuration.

Everything is one graph of scalar expressions; the code made from it decides how wide a scalar is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from objectives.expression import Expression, ExpressionGraph, Scalar

NO_OBJECTIVE = -1
GOAL, TURN, FIXED, SECONDARY, TERTIARY = "goal", "turn", "fixed", "secondary_scale", "tertiary_scale"
TURN_WIDTH = 5  # numbers of a turn's limit


@dataclass(frozen=True)
class DataInput:
    """A number that the program reads per problem: variable name, objective, field, column.

    Those of no objective: with field FIXED the coordinate `column` of the start of the problem or tick; with field
    GOAL what row `column` is to reach instead of 0; with field TURN, five for each quaternion: where it starts,
    xyzw, and the sine of half the largest angle by which it may turn from there; with field SECONDARY the factor of
    the rows that yield to others, with field TERTIARY of those that yield to these again.
    """

    name: str
    objective: int
    field: str
    column: int


@dataclass(frozen=True)
class TargetError:
    """Squared errors of one pose target, over the rows that the island solves or judges; None where it has none."""

    target: int
    position2: Expression | None
    chord2: Expression | None


@dataclass(frozen=True)
class LoopKind:
    """Elements of a loop that stand on the same bodies."""

    frames: tuple[int, ...]  # numbers of the bodies on which its frames stand
    first: int  # its first element
    end: int  # after its last
    columns: tuple[int, ...]  # DOFs of the island on which it depends, by their places
    # how a DOF moves a frame: place in `columns`, first of the frame's parts, number of the twist, factor
    entries: tuple[tuple[int, int, int, float], ...]


@dataclass(frozen=True)
class RowLoop:
    """Rows of many elements that differ in numbers and links only.

    The variables of the statement are those of the frame of each body (`NAME_frame0_0` to 6, `NAME_frame1_0`, ...), the
    numbers of the element in the table (`NAME_number0`, ...), its inputs (`NAME_input0`, ...), and inputs of the
    program.
    """

    name: str  # what its variables begin with
    objective: int  # number of the objective that it is of
    # whether the twists of a kind are taken at the body of its first frame, not at the world's origin
    is_relative: bool
    rows: tuple[Expression, ...]  # the weighted rows of an element; this and the next two in a graph of their own
    # derivatives of each row by the twists of its frames; where they are opposite, by that of the first
    parts: tuple[tuple[Expression, ...], ...]
    shares2: tuple[Expression, ...]  # squares of the rows without weights over their tolerances, if they have some
    kinds: tuple[LoopKind, ...]
    # position and orientation xyzw of the bodies, in the graph of the program
    frames: tuple[tuple[Expression, ...], ...]
    twists: tuple[tuple[Expression, ...], ...]  # twists of DOFs, in the graph of the program
    table: tuple[tuple[float, ...], ...]  # numbers of each element
    inputs: tuple[DataInput, ...]  # data of all elements, those of an element side by side

    @property
    def count(self) -> int:
        """Number of elements."""
        return self.kinds[-1].end

    @property
    def norm2(self) -> str:
        """Variable of the program: |r|^2 of the rows."""
        return f"{self.name}_norm2"

    @property
    def error2(self) -> str:
        """Variable of the program: the largest of the squares of rows over tolerances."""
        return f"{self.name}_error2"

    def gradient(self, place: int) -> str | None:
        """Variable of the program: J'r of a DOF of the island, by its place; None where no row depends on it."""
        touched = any(place in kind.columns for kind in self.kinds)
        return f"{self.name}_gradient{place}" if touched else None

    def hessian(self, place: int, other: int) -> str | None:
        """Variable of the program: J'J of two DOFs, the later first; None where no row depends on both."""
        coupled = any(place in kind.columns and other in kind.columns for kind in self.kinds)
        return f"{self.name}_hessian{place}_{other}" if coupled else None


@dataclass(frozen=True)
class IslandProgram:
    """One island's arithmetic."""

    graph: ExpressionGraph
    dofs: tuple[int, ...]  # active DOFs of the island, in order
    # those at which the rotation of a ball or floating joint starts; the next two belong to it
    quaternions: tuple[int, ...]
    # reduced half angles that the program needs: variable -> (variable of an angle, multiplier, offset)
    halves: dict[str, tuple[str, float, float]]
    inputs: tuple[DataInput, ...]  # data that it reads per problem
    norm2: Expression  # |r|^2, r the rows less their goals; not finite where a row is not that is only judged
    goal_norm2: Expression  # the same of the rows that may have goals
    # |r|^2 of the rows that come before the last level, and of those that yield to all others, both without factors;
    # empty where none yields
    levels: tuple[Expression, ...]
    has_tertiary: bool  # whether rows yield to rows that yield
    # rows of constraints that have multipliers, variables that are added to them; see `multiplier`
    multiplied: tuple[int, ...]
    # of these, rows that are limits: what multiplies them next, by row, over the multiplier that they have now; see
    # `own_multiplier`
    one_sided: dict[int, Expression]
    gradient: tuple[Expression, ...]  # J'r, per DOF
    errors: tuple[TargetError, ...]  # errors of the pose targets
    # the largest of the squares of the rows that have tolerances, each over its own; None if none has
    row_error2: Expression | None
    has_other_rows: bool  # whether there are rows besides those of pose targets and constraints
    rows: tuple[Expression, ...]  # the weighted rows, without goals, but for those of loops
    residuals: tuple[Expression, ...]  # r: the weighted rows less their goals
    jacobian: tuple[tuple[Expression, ...], ...]  # their Jacobian, [rows][dofs]
    row_objective: tuple[int, ...]  # the objective that each row is of
    row_independent: tuple[bool, ...]  # whether it is one of rows that can all be met, see `RowGroup`
    loops: tuple[RowLoop, ...] = ()  # rows as loops, whose variables are part of |r|^2, J'r and J'J

    @cached_property
    def hessian(self) -> tuple[tuple[Expression, ...], ...]:
        """J'J, lower triangle, rows of 1, 2, ... entries; made when it is first asked for."""
        n = range(len(self.dofs))
        return tuple(tuple(self._product(a, b) for b in range(a + 1)) for a in n)

    @cached_property
    def diagonal(self) -> tuple[Expression, ...]:
        """Diagonal of J'J, per DOF."""
        return tuple(self._product(a, a) for a in range(len(self.dofs)))

    def norm2_of(self, rows: Iterable[int]) -> Expression:
        """Give |r|^2 of some rows."""
        return total((self.residuals[r] * self.residuals[r] for r in rows), self.graph.constant(0.0))

    def of_rows(self, rows: Sequence[int]) -> "IslandProgram":
        """Give the program of some of the rows alone, with all inputs and errors."""
        norm2, zero = self.norm2_of(rows), self.graph.constant(0.0)
        return replace(
            self,
            norm2=norm2,
            goal_norm2=norm2,
            levels=(),
            gradient=tuple(
                total((self.jacobian[r][a] * self.residuals[r] for r in rows), zero) for a in range(len(self.dofs))
            ),
            rows=tuple(self.rows[r] for r in rows),
            residuals=tuple(self.residuals[r] for r in rows),
            jacobian=tuple(self.jacobian[r] for r in rows),
            row_objective=tuple(self.row_objective[r] for r in rows),
            row_independent=tuple(self.row_independent[r] for r in rows),
            loops=(),
        )

    def _product(self, a: int, b: int) -> Expression:
        """Scalar product of two columns of the Jacobian, the later first, with what loops add to it."""
        names = [name for loop in self.loops if (name := loop.hessian(a, b)) is not None]
        zero = self.graph.constant(0.0)
        return total((row[a] * row[b] for row in self.jacobian), total(map(self.graph.variable, names), zero))

    @property
    def coupled(self) -> list[tuple[int, int]]:
        """Pairs of DOFs, (later, earlier), whose entry of J'J is not zero for all data."""
        pairs = ((k, m) for k in range(len(self.dofs)) for m in range(k))
        return [(self.dofs[k], self.dofs[m]) for k, m in pairs if not self.hessian[k][m].is_zero]


def multiplier(row: int) -> str:
    """Name the variable of a row's multiplier."""
    return f"multiplier{row}"


def own_multiplier(row: int) -> str:
    """Name the variable of the multiplier that a row had until now, where another one may follow."""
    return f"own_multiplier{row}"


def total(terms: Iterable[Scalar], zero: Expression) -> Expression:
    """Give the sum of terms, from zero on."""
    found = zero
    for term in terms:
        found = found + term
    return found
