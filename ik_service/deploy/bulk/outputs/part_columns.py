"""The columns of a part of the results: names and units."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.batching.requests.solve_answer import worst_over_targets
from ik_service.deploy.bulk.parts import Part
from ik_service.deploy.bulk.plan import BulkPlan
from ik_service.solver import IKResult, IKStatus
from ik_service.solver.lm.status import STATUS_WORDS

UNITS = {
    "joint_q": "rad or m",
    "position_error_m": "m",
    "orientation_error_rad": "rad",
    "target_position_error_m": "m",
    "target_orientation_error_rad": "rad",
}


class PartColumns:
    """The results of a part while they are put together.

    Attributes:
        arrays: Columns by name, with a line per problem.

    Args:
        plan: The plan.
        part: The part.
    """

    def __init__(self, plan: BulkPlan, part: Part) -> None:
        count, targets = part.row_count, len(plan.targets)
        floats = np.dtype(plan.options.precision)
        problems = np.arange(part.first_problem, part.first_problem + count, dtype=np.int64)
        self.arrays: dict[str, NDArray[Any]] = {
            "problem": problems,
            "joint_q": np.empty((count, plan.robot.joint_coord_count), floats),
            "success": np.empty(count, np.bool_),
            "status": np.empty(count, np.uint8),
            "position_error_m": np.empty(count),
            "orientation_error_rad": np.empty(count),
            "iterations": np.empty(count, np.int32),
            "seed_index": np.empty(count, np.int32),
            "cost": np.empty(count, np.float32),
        }
        if targets > 1:
            self.arrays["target_position_error_m"] = np.empty((count, targets))
            self.arrays["target_orientation_error_rad"] = np.empty((count, targets))

    def put(self, rows: slice, result: IKResult) -> None:
        """Take over the answers to some rows."""
        for name in ("joint_q", "success", "status", "iterations", "seed_index", "cost"):
            self.arrays[name][rows] = getattr(result, name)
        self.arrays["position_error_m"][rows] = worst_over_targets(result.position_error)
        self.arrays["orientation_error_rad"][rows] = worst_over_targets(result.orientation_error)
        if "target_position_error_m" in self.arrays:
            self.arrays["target_position_error_m"][rows] = result.position_error
            self.arrays["target_orientation_error_rad"][rows] = result.orientation_error

    def mark(self, rows: NDArray[np.intp]) -> None:
        """Say of rows that nothing could be solved for: status `invalid`, no configuration, no errors."""
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
