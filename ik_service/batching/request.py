"""What goes to a solver and what comes back, free of any wire format.

Values are taken as checked: shapes, finiteness and unit quaternions are the business of whoever reads the wire, and the
solver checks them once more before it launches anything.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ik_service.robots import RobotModel
from ik_service.solver import IKResult, IKStatus, SolverOptions, Target
from ik_service.solver.island_results import IslandResults

Float64Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TargetColumns:
    """One pose target of every problem of a request.

    Attributes:
        link: Link that is to reach the target.
        positions: Target positions [m], world frame or that of `reference_link`, shape [problem_count, 3]; None leaves
            the position free.
        orientations_xyzw: Target orientations, same frame, shape [problem_count, 4]; None leaves the orientation free.
        offset: Tool frame in the link frame, position [m] and orientation xyzw, shape [7] or [problem_count, 7].
        reference_link: Link in whose frame the target is given; None is the world.
        row_weights: Weights of the three position and three orientation rows, shape [6] or [problem_count, 6].
    """

    link: str
    positions: Float64Array | None = None
    orientations_xyzw: Float64Array | None = None
    offset: Float64Array | None = None
    reference_link: str | None = None
    row_weights: Float64Array | None = None

    @property
    def problem_count(self) -> int:
        """Number of problems, 0 for a target that constrains nothing."""
        return next((len(rows) for rows in (self.positions, self.orientations_xyzw) if rows is not None), 0)

    @property
    def varies(self) -> bool:
        """Whether the tool frame or the weights differ between problems."""
        return any(array is not None and array.ndim == 2 for array in (self.offset, self.row_weights))

    @property
    def structure(self) -> tuple[object, ...]:
        """All that a solver must be built for: equal structures can share one, unless they vary by problem."""
        fixed = tuple(None if array is None else array.tobytes() for array in (self.offset, self.row_weights))
        return (self.link, self.reference_link, *fixed)

    def declaration(self, rows: slice) -> Target:
        """Return the target as the solver wants it declared, for some of the problems."""
        return Target(self.link, _rows(self.offset, rows), self.reference_link, _rows(self.row_weights, rows))


@dataclass(frozen=True, eq=False)
class SolveRequest:
    """A batch of problems for one robot.

    Attributes:
        targets: The targets, at least one, all with the same number of problems.
        initial_joint_q: First start of every problem [rad or m], shape [problem_count, joint_coord_count].
        options: What the solve may spend.
    """

    targets: tuple[TargetColumns, ...]
    initial_joint_q: Float64Array | None = None
    options: SolverOptions = field(default_factory=SolverOptions)

    @property
    def problem_count(self) -> int:
        """Number of problems."""
        return self.targets[0].problem_count

    @property
    def structure(self) -> tuple[object, ...] | None:
        """Structure shared by requests that one solver can serve; None where the solver serves this request only."""
        if any(target.varies for target in self.targets):
            return None
        return tuple(target.structure for target in self.targets)


@dataclass(frozen=True, eq=False)
class SolveAnswer:
    """The results of a request, in the order of its problems.

    Attributes:
        joint_q: Configurations [rad or m], float32 [problem_count, joint_coord_count].
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
        solve_ms: Time in the solver [ms].
        queue_ms: Time spent waiting for the solver [ms].
    """

    joint_q: NDArray[np.float32]
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

    @classmethod
    def joined(cls, results: "list[IKResult]", solve_ms: float) -> Self:
        """Return the answer that the results of consecutive parts of a request make together."""
        first = results[0]
        parts = [result.islands for result in results]
        return cls(
            **_concatenated(results, COLUMNS),
            islands=replace(parts[0], **_concatenated(parts, ISLAND_COLUMNS)),
            engine=first.engine,
            device=str(first.device),
            seeds=first.seeds,
            solve_ms=solve_ms,
        )

    @property
    def status_names(self) -> list[str]:
        """The status of every problem as a lower-case word."""
        words = {int(status): status.name.lower() for status in IKStatus}
        return [words[code] for code in self.status.tolist()]


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

Progress = Callable[[int], None]
"""Called with the number of problems that have just been solved."""

Robots = Mapping[str, RobotModel]
"""Robots by name."""


def worst_over_targets(errors: Float64Array) -> Float64Array:
    """Return the largest error of every problem, shape [problem_count]; NaN where no target constrains it."""
    worst = np.where(np.isnan(errors), -np.inf, errors).max(axis=1)
    return np.where(np.isneginf(worst), np.nan, worst)


def _concatenated(parts: Sequence[object], names: Sequence[str]) -> dict[str, Any]:
    return {name: np.concatenate([np.asarray(getattr(part, name)) for part in parts]) for name in names}


def _rows(array: Float64Array | None, rows: slice) -> Float64Array | None:
    return array[rows] if array is not None and array.ndim == 2 else array
