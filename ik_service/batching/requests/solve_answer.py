"""What comes back from a solver, put together from the batches that its problems were in."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ik_service.batching.requests.solve_request import Float64Array
from ik_service.solver import IKResult
from ik_service.solver.lm.status import STATUS_WORDS
from ik_service.solver.results.island_results import IslandResults


@dataclass(frozen=True, eq=False)
class SolveAnswer:
    """The results of a request, in the order of its problems.

    Attributes:
        joint_q: Configurations [rad or m], shape [problem_count, joint_coord_count].
        success: Whether every target is met, shape [problem_count].
        status: `IKStatus` codes, shape [problem_count].
        position_error: Distance to each target [m], shape [problem_count, targets]; NaN where it is free.
        orientation_error: Angle to each target [rad], shape [problem_count, targets]; NaN where it is free.
        cost: 1/2 |r|^2, shape [problem_count].
        iterations: Iterations of the winning seed, shape [problem_count].
        seed_index: The winning seed, shape [problem_count]; -1 where islands chose different ones.
        active_limits: DOFs that sit at a limit, shape [problem_count, joint_dof_count].
        islands: The islands of every problem.
        engine: Engine that ran.
        device: Device that it ran on.
        seeds: Seeds that each problem could use.
        solve_ms: Time from the first batch that held a problem of the request to the end of the last [ms].
        queue_ms: Time that the request waited before [ms].
        solutions: Where several were asked for: distinct solutions, shape [problem_count, solutions,
            joint_coord_count]; NaN past the last one found.
        solution_count: How many were found, shape [problem_count].
    """

    joint_q: NDArray[np.floating[Any]]
    success: NDArray[np.bool_]
    status: NDArray[np.integer[Any]]
    position_error: Float64Array
    orientation_error: Float64Array
    cost: NDArray[np.floating[Any]]
    iterations: NDArray[np.integer[Any]]
    seed_index: NDArray[np.integer[Any]]
    active_limits: NDArray[np.bool_]
    islands: IslandResults
    engine: str
    device: str
    seeds: int
    solve_ms: float = 0.0
    queue_ms: float = 0.0
    solutions: NDArray[np.floating[Any]] | None = None
    solution_count: NDArray[np.integer[Any]] | None = None

    @classmethod
    def joined(cls, parts: Sequence[tuple[IKResult, slice]], queue_ms: float, solve_ms: float) -> Self:
        """Return the answer to a request.

        Args:
            parts: Results of the batches that its problems were in, and which of their rows are its problems.
            queue_ms: Time that it waited [ms].
            solve_ms: Time from its first batch to the end of its last [ms].
        """
        first = parts[0][0]
        islands = [(result.islands, rows) for result, rows in parts]
        columns = COLUMNS if first.solutions is None else (*COLUMNS, *SOLUTION_COLUMNS)
        return cls(
            **_joined(parts, columns),
            islands=replace(first.islands, **_joined(islands, ISLAND_COLUMNS)),
            engine=first.engine,
            device=str(first.device),
            seeds=first.seeds,
            solve_ms=solve_ms,
            queue_ms=queue_ms,
        )

    @property
    def status_names(self) -> list[str]:
        """The status of every problem as a lower-case word."""
        return [STATUS_WORDS[code] for code in self.status.tolist()]


COLUMNS = (
    "joint_q",
    "success",
    "status",
    "position_error",
    "orientation_error",
    "cost",
    "iterations",
    "seed_index",
    "active_limits",
)
"""Names of the columns of a result, one row per problem."""

SOLUTION_COLUMNS = ("solutions", "solution_count")
"""Those of a result that was asked for several solutions."""

ISLAND_COLUMNS = (
    "nisland",
    "tree_island",
    "row_island",
    "success",
    "status",
    "seed_index",
    "iterations",
    "cost",
)
"""The same of its islands."""


def _joined(parts: Sequence[tuple[object, slice]], names: Sequence[str]) -> dict[str, Any]:
    """The columns of consecutive parts, one after the other."""
    if len(parts) == 1:
        part, rows = parts[0]
        return {name: getattr(part, name)[rows] for name in names}
    return {name: np.concatenate([getattr(part, name)[rows] for part, rows in parts]) for name in names}
