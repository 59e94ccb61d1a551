"""Maps from rows of either packing to constraints."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ik_service.mechanism.names import unknown_name
from ik_service.mechanism.transforms import Float64Array
from objectives.errors import InputError, UnknownNameError


class ConstraintRow(NamedTuple):
    """Name of a row: constraint and component."""

    constraint: str
    component: str


class RowMap:
    """Rows of constraints in the order of the constraints.

    Args:
        components: Names of the rows of each constraint.

    Attributes:
        count: Number of rows.
        starts: First row of each constraint and, last, the number of rows.
    """

    def __init__(self, components: Mapping[str, Sequence[str]]) -> None:
        self._places = [ConstraintRow(name, one) for name, parts in components.items() for one in parts]
        self._names = tuple(components)
        self.count = len(self._places)
        self.starts = tuple(np.cumsum([0, *map(len, components.values())]).tolist())

    def row_at(self, row: int) -> ConstraintRow:
        """Name a row; InputError for an unknown row."""
        if not 0 <= row < self.count:
            raise InputError(f"Row {row} is not among the rows of constraints: 0 to {self.count - 1}.")
        return self._places[row]

    def rows(self, name: str) -> slice:
        """Give the rows of a constraint; UnknownNameError for an unknown name."""
        k = constraint_index(self._names, name)
        return slice(self.starts[k], self.starts[k + 1])

    def largest(self, rows: Float64Array) -> Float64Array:
        """Give the largest absolute row of each constraint, shape [n, constraints], from rows [n, count]."""
        if not self.count:
            return np.zeros((len(rows), 0))
        return np.asarray(np.maximum.reduceat(np.abs(rows), self.starts[:-1], axis=1))

    def of_rows(self, constraints: np.ndarray) -> np.ndarray:
        """Repeat a value per constraint [..., constraints] for each of its rows, shape [..., count]."""
        return np.repeat(constraints, np.diff(self.starts), axis=-1)


def constraint_index(names: Sequence[str], name: str) -> int:
    """Find a constraint by name; UnknownNameError, with the closest and all names, for an unknown name."""
    if name not in names:
        raise UnknownNameError(unknown_name(f"Constraint '{name}' is not in the robot.", "Constraint", names, name))
    return names.index(name)
