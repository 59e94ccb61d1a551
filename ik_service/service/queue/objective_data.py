"""Objectives of a request besides its targets: structure, and numbers of every problem.

Kinds, frames and joints are part of the generated code; all numbers are data, row weights included. Requests with the
same code and the same rows of weight 0 can share a batch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from objectives.expression.expression_objective import ExpressionObjective

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

Column = NDArray[np.floating[Any]]

ROW_WEIGHTS = "row_weights"


@dataclass(frozen=True, eq=False)
class ObjectiveData:
    """One objective of every problem of a request.

    Attributes:
        kind: Name of the kind, as in a request.
        objective_class: Class of the objective.
        names: Arguments of the class other than numbers, such as `link` or `joints`.
        data: Numeric arguments of the class by name, shape [width] or [problem_count, width]; `row_weights` includes
            the weight of the objective.
        priority: 0: same priority as targets; 1: lower-priority rows, in the null space of the targets.
    """

    kind: str
    objective_class: Callable[..., ExpressionObjective]
    names: tuple[tuple[str, str | tuple[str, ...]], ...]
    data: Mapping[str, Column]
    priority: int = 1

    @property
    def structure(self) -> tuple[object, ...]:
        """Structure of the objective: everything except the numbers."""
        return (self.kind, self.names, tuple(self.data), self.priority)

    @property
    def rows_on(self) -> NDArray[np.bool_]:
        """Patterns of active rows (weight above 0), bool, shape [patterns, rows]."""
        return patterns_on(self.data[ROW_WEIGHTS])

    @property
    def label(self) -> str:
        """Label of the rows: kind and link of the objective."""
        return " ".join((self.kind, *(str(value) for name, value in self.names if name == "link")))

    def objective(self) -> ExpressionObjective:
        """Return the objective for a solver."""
        objective = self.objective_class(**dict(self.names), **self.data)
        objective.priority = self.priority
        return objective

    def part(self, rows: slice | NDArray[np.intp]) -> "Self":
        """Return the objective of some of the problems."""
        return replace(
            self, data={name: value[rows] if value.ndim == 2 else value for name, value in self.data.items()}
        )


def set_columns(objective: ExpressionObjective, several: Sequence[ObjectiveData], counts: Sequence[int]) -> None:
    """Set the numbers of an objective for the problems of several requests, in order.

    Args:
        objective: Objective of the same structure.
        several: Data of the objective in each request.
        counts: Number of problems of each request.
    """
    for name in several[0].data:
        objective.set_data(name, joined_lines([one.data[name] for one in several], counts))


def joined_lines(columns: Sequence[Column], counts: Sequence[int]) -> Column:
    """Return the rows of all problems of several requests, shape [problems, width].

    Args:
        columns: Column of each request, shape [width] for all problems of the request or [problem_count, width].
        counts: Number of problems of each request.
    """
    pairs = zip(columns, counts, strict=True)
    return np.concatenate([column if column.ndim == 2 else _repeated(column, count) for column, count in pairs])


def _repeated(row: Column, count: int) -> Column:
    """Return a row repeated for all problems of a request; most requests have one problem."""
    return row[None] if count == 1 else np.broadcast_to(row, (count, len(row)))


def patterns_on(weights: Column | NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the patterns of weights above 0, shape [patterns, rows].

    Args:
        weights: Row weights or active rows (bool), shape [rows] or [problem_count, rows].
    """
    on = np.atleast_2d(weights).astype(np.float32) > 0.0
    return on[:1] if (on == on[0]).all() else np.unique(on, axis=0)
