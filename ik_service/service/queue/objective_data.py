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

FloatArray = NDArray[np.floating[Any]]
"""Of float32 or float64; what comes as float32 is not copied to be wider."""

ROW_WEIGHTS = "row_weights"


@dataclass(frozen=True, eq=False)
class ObjectiveData:
    """One objective of every problem of a request."""

    kind: str  # name of the kind, as in a request
    objective_class: Callable[..., ExpressionObjective]  # class of the objective
    # arguments of the class other than numbers, such as `link` or `joints`
    names: tuple[tuple[str, str | tuple[str, ...]], ...]
    # numeric arguments of the class by name, shape [width] or [problem_count, width]; `row_weights` includes the weight
    # of the objective
    data: Mapping[str, FloatArray]
    priority: int = 1  # 0: same priority as targets; 1: lower-priority rows, in the null space of the targets

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


def joined_lines(columns: Sequence[FloatArray], counts: Sequence[int]) -> FloatArray:
    """Return the rows of all problems of several requests, shape [problems, width].

    A column has the shape [width], for all problems of its request, or [problem_count, width].
    """
    pairs = zip(columns, counts, strict=True)
    return np.concatenate([column if column.ndim == 2 else column[None].repeat(count, 0) for column, count in pairs])


def patterns_on(weights: FloatArray | NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the patterns [patterns, rows] of weights above 0, given as [rows] or [problem_count, rows]."""
    on = np.atleast_2d(weights).astype(np.float32) > 0.0
    return on[:1] if (on == on[0]).all() else np.unique(on, axis=0)
