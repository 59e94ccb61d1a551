"""Objectives of a request besides its targets: what a solver is made for, and the numbers of every problem.

The frames, joints and kinds are code; all numbers are data, weights too, which stand in the rows' weights. Requests
whose objectives agree in the first, and in which rows have weight 0, can be solved together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from objectives.expression_objective import ExpressionObjective

Column = NDArray[np.floating[Any]]

ROW_WEIGHTS = "row_weights"


@dataclass(frozen=True, eq=False)
class ObjectiveData:
    """One objective of every problem of a request.

    Attributes:
        kind: Name of its kind, as in a request.
        objective_class: Makes the objective.
        names: What it is about: the arguments of its class that are no numbers, such as `link` or `joints`.
        data: Its numbers by the names of the class's arguments, shape [width] or [problem_count, width]; `row_weights`,
            into which the weight of the whole is multiplied, are among them.
    """

    kind: str
    objective_class: Callable[..., ExpressionObjective]
    names: tuple[tuple[str, str | tuple[str, ...]], ...]
    data: Mapping[str, Column]

    @property
    def structure(self) -> tuple[object, ...]:
        """All that a solver must be built for."""
        return (self.kind, self.names, tuple(self.data))

    @property
    def rows_on(self) -> NDArray[np.bool_]:
        """Which rows have a weight above 0, one line for each pattern that there is, shape [patterns, rows]."""
        return patterns_on(self.data[ROW_WEIGHTS])

    @property
    def label(self) -> str:
        """What its rows are called: its kind, and the link that it is about."""
        return " ".join((self.kind, *(str(value) for name, value in self.names if name == "link")))

    def objective(self) -> ExpressionObjective:
        """Return the objective as a solver wants it."""
        return self.objective_class(**dict(self.names), **self.data)

    def part(self, rows: slice | NDArray[np.intp]) -> Self:
        """Return the objective of some of the problems."""
        return replace(
            self, data={name: value[rows] if value.ndim == 2 else value for name, value in self.data.items()}
        )


def set_columns(objective: ExpressionObjective, several: Sequence[ObjectiveData], counts: Sequence[int]) -> None:
    """Give an objective the numbers of the problems of several requests, one after the other.

    Args:
        objective: Made for the structure that all of them have.
        several: The columns of each request.
        counts: Its number of problems.
    """
    for name in several[0].data:
        objective.set_data(name, joined_lines([one.data[name] for one in several], counts))


def joined_lines(columns: Sequence[Column], counts: Sequence[int]) -> Column:
    """Return a line for every problem of several requests, shape [problems, width].

    Args:
        columns: Of each request, shape [width] for all of its problems or [problem_count, width].
        counts: Its number of problems.
    """
    pairs = zip(columns, counts, strict=True)
    return np.concatenate([column if column.ndim == 2 else _repeated(column, count) for column, count in pairs])


def _repeated(row: Column, count: int) -> Column:
    """A row as the lines of a request; most have one."""
    return row[None] if count == 1 else np.broadcast_to(row, (count, len(row)))


def patterns_on(weights: Column) -> NDArray[np.bool_]:
    """Return which weights are above 0, one line for each pattern that there is, shape [patterns, rows].

    Args:
        weights: Shape [rows] or [problem_count, rows].
    """
    on = np.atleast_2d(weights).astype(np.float32) > 0.0
    return on[:1] if (on == on[0]).all() else np.unique(on, axis=0)
