"""The program of one island: its rows, their Jacobian and the normal equations at a trial configuration.

Everything is one graph of scalar expressions; the code made from it decides how wide a scalar is.
"""

from dataclasses import dataclass

from objectives.expression import Expression, ExpressionGraph

NO_OBJECTIVE = -1
GOAL, TURN, FIXED = "goal", "turn", "fixed"
TURN_WIDTH = 5  # numbers of a turn's limit


@dataclass(frozen=True)
class DataInput:
    """A number that the program reads per problem: variable name, objective, field, column.

    Those of no objective: with field FIXED the coordinate `column` of the problem's start, which no active DOF moves;
    with field GOAL what row `column` is to reach instead of 0; with field TURN, five for each quaternion: where it
    starts, xyzw, and the sine of half the largest angle by which it may turn from there.
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
class IslandProgram:
    """One island's arithmetic.

    Attributes:
        graph: The expressions.
        dofs: Active DOFs of the island, in order.
        quaternions: Those at which the rotation of a ball or floating joint starts; the next two belong to it.
        halves: Reduced half angles that the program needs: variable -> (variable of an angle, multiplier, offset).
        inputs: Data that it reads per problem.
        norm2: |r|^2, r the rows less their goals; not finite where a row is not that is only judged.
        goal_norm2: The same of the rows that may have goals.
        gradient: J'r, per DOF.
        hessian: J'J, lower triangle, rows of 1, 2, ... entries.
        errors: Errors of the pose targets.
        row_error2: The largest of the squares of the rows that have tolerances, each over its own; None if none has.
        has_other_rows: Whether there are rows besides those of the pose targets.
        rows: The weighted rows, without goals.
        jacobian: Their Jacobian, [rows][dofs].
        row_objective: The objective that each row is of.
        row_independent: Whether it is one of rows that can all be met, see `RowGroup`.
    """

    graph: ExpressionGraph
    dofs: tuple[int, ...]
    quaternions: tuple[int, ...]
    halves: dict[str, tuple[str, float, float]]
    inputs: tuple[DataInput, ...]
    norm2: Expression
    goal_norm2: Expression
    gradient: tuple[Expression, ...]
    hessian: tuple[tuple[Expression, ...], ...]
    errors: tuple[TargetError, ...]
    row_error2: Expression | None
    has_other_rows: bool
    rows: tuple[Expression, ...]
    jacobian: tuple[tuple[Expression, ...], ...]
    row_objective: tuple[int, ...]
    row_independent: tuple[bool, ...]

    @property
    def coupled(self) -> list[tuple[int, int]]:
        """Pairs of DOFs, (later, earlier), whose entry of J'J is not zero for all data."""
        pairs = ((k, m) for k in range(len(self.dofs)) for m in range(k))
        return [(self.dofs[k], self.dofs[m]) for k, m in pairs if not self.hessian[k][m].is_zero]
