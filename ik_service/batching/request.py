"""What goes to a solver, free of any wire format.

Values are taken as checked: shapes, finiteness and unit quaternions are the business of whoever reads the wire, and the
solver checks them once more before it launches anything.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ik_service.batching.objective_columns import ObjectiveColumns
from ik_service.robots import RobotModel
from ik_service.solver import SolverOptions, Target

Float64Array = NDArray[np.float64]
FloatArray = NDArray[np.floating[Any]]
"""Of float32 or float64; what comes as float32 is not copied to be wider."""


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
    positions: FloatArray | None = None
    orientations_xyzw: FloatArray | None = None
    offset: FloatArray | None = None
    reference_link: str | None = None
    row_weights: FloatArray | None = None

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

    @property
    def code(self) -> tuple[object, ...]:
        """What kernels depend on: the frames and the rows that are on, but no values."""
        rows = () if self.row_weights is None else np.unique(np.atleast_2d(self.row_weights) > 0.0, axis=0).tobytes()
        free = self.positions is None, self.orientations_xyzw is None
        return (self.link, self.reference_link, self.offset is None, *free, rows)

    def declaration(self) -> Target:
        """Return the target as the solver wants it declared."""
        return Target(self.link, self.offset, self.reference_link, self.row_weights)

    def part(self, rows: slice) -> Self:
        """Return the target of some of the problems."""
        return replace(
            self,
            positions=_rows(self.positions, rows),
            orientations_xyzw=_rows(self.orientations_xyzw, rows),
            offset=_rows(self.offset, rows),
            row_weights=_rows(self.row_weights, rows),
        )


@dataclass(frozen=True, eq=False)
class SolveRequest:
    """A batch of problems for one robot.

    Attributes:
        targets: The targets, all with the same number of problems; at least one, or else an objective.
        initial_joint_q: First start of every problem [rad or m], shape [problem_count, joint_coord_count].
        options: What the solve may spend.
        objectives: Further objectives.
        count: Number of problems, where there are no targets.
    """

    targets: tuple[TargetColumns, ...]
    initial_joint_q: FloatArray | None = None
    options: SolverOptions = field(default_factory=SolverOptions)
    objectives: tuple[ObjectiveColumns, ...] = ()
    count: int = 0

    @property
    def problem_count(self) -> int:
        """Number of problems."""
        return self.targets[0].problem_count if self.targets else self.count

    @property
    def structure(self) -> tuple[object, ...] | None:
        """Structure shared by requests that one solver can serve; None where the solver serves this request only."""
        if any(target.varies for target in self.targets):
            return None
        objectives = tuple(objective.structure for objective in self.objectives)
        return (*(target.structure for target in self.targets), *objectives)

    @cached_property
    def joint_key(self) -> Hashable | None:
        """Key of the requests that can be solved together with this one; None where there are none.

        They go to one solver, leave the same things free and ask for the same options.
        """
        structure, rows_on = self.structure, [objective.rows_on for objective in self.objectives]
        if structure is None or any(len(patterns) > 1 for patterns in rows_on):
            return None
        given = tuple((target.positions is None, target.orientations_xyzw is None) for target in self.targets)
        on = tuple(patterns.tobytes() for patterns in rows_on)
        return (structure, on, given, self.initial_joint_q is None, self.options)

    @property
    def code_key(self) -> Hashable:
        """Key of the requests that need the same kernels on one robot."""
        further = tuple((objective.structure, objective.rows_on.tobytes()) for objective in self.objectives)
        return (tuple(target.code for target in self.targets), further, self.options.precision)

    def part(self, rows: slice) -> Self:
        """Return some of the problems as a request."""
        if rows.start == 0 and rows.stop >= self.problem_count:
            return self
        return replace(
            self,
            targets=tuple(target.part(rows) for target in self.targets),
            initial_joint_q=_rows(self.initial_joint_q, rows),
            objectives=tuple(objective.part(rows) for objective in self.objectives),
            count=len(range(*rows.indices(self.problem_count))),
        )


Progress = Callable[[int], None]
"""Called with the number of problems that have just been solved."""

Robots = Mapping[str, RobotModel]
"""Robots by name."""


def _rows(array: FloatArray | None, rows: slice) -> FloatArray | None:
    return array[rows] if array is not None and array.ndim == 2 else array
