"""The columns of a part of the results: names and units."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.integrations.bulk.parts import Part
from ik_service.integrations.bulk.plan import BulkPlan
from ik_service.result_schema import ALWAYS_COLUMNS, edge_arrays
from ik_service.solver.launches.result import IKResult
from ik_service.solver.lm.status import STATUS_WORDS, IKStatus

PER_TARGET = {f"target_{column.edge_name}": column for column in ALWAYS_COLUMNS if column.is_per_target}
"""Columns of each target beside those of the worst, where there are several."""
UNITS = {column.edge_name: column.unit for column in ALWAYS_COLUMNS if column.unit}
UNITS.update((name, column.unit) for name, column in PER_TARGET.items())


class PartColumns:
    """The results of a part, filled in ranges of rows.

    Attributes:
        arrays: Columns by name, with a row per problem.

    Args:
        plan: The plan.
        part: The part.
    """

    def __init__(self, plan: BulkPlan, part: Part) -> None:
        self._count, self._is_for_several = part.row_count, len(plan.targets) > 1
        problems = np.arange(part.first_problem, part.first_problem + part.row_count, dtype=np.int64)
        self.arrays: dict[str, NDArray[Any]] = {"problem": problems}

    def put(self, rows: slice, result: IKResult) -> None:
        """Set the results of some rows."""
        arrays = edge_arrays(result)
        if self._is_for_several:
            arrays |= {name: getattr(result, column.name) for name, column in PER_TARGET.items()}
        for name, values in arrays.items():
            if name not in self.arrays:
                self.arrays[name] = np.empty((self._count, *values.shape[1:]), values.dtype)
            self.arrays[name][rows] = values

    def mark_invalid(self, rows: NDArray[np.intp]) -> None:
        """Set rows to status `invalid`, without configuration and errors."""
        for name, array in self.arrays.items():
            if name != "problem":
                array[rows] = np.nan if array.dtype.kind == "f" else 0
        self.arrays["status"][rows] = IKStatus.INVALID
        self.arrays["seed_index"][rows] = -1

    @property
    def status_counts(self) -> list[int]:
        """Number of problems of each status, by code."""
        counts: list[int] = np.bincount(self.arrays["status"], minlength=len(STATUS_WORDS)).tolist()
        return counts
