"""Requests to a solver, independent of any wire format.

Values are not checked here: readers of the wire check shapes, finite numbers and unit quaternions, and the solver
checks them again before it launches anything.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ik_service.batching.requests.objective_data import ROW_WEIGHTS, ObjectiveData, joined_lines, patterns_on
from ik_service.robots import RobotModel
from ik_service.solver import SolverOptions, Target

Float64Array = NDArray[np.float64]
FloatArray = NDArray[np.floating[Any]]
"""Of float32 or float64; what comes as float32 is not copied to be wider."""
Selection = slice | NDArray[np.intp]
"""Some of the problems: a range of them, or their numbers."""


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
        rows = self.orientations_xyzw if self.positions is None else self.positions
        return 0 if rows is None else len(rows)

    @property
    def is_bare(self) -> bool:
        """Whether it has neither a tool frame nor weights."""
        return self.offset is None and self.row_weights is None

    @property
    def varies(self) -> bool:
        """Whether the tool frame or the weights differ between problems."""
        return any(array is not None and array.ndim == 2 for array in (self.offset, self.row_weights))

    @property
    def structure(self) -> tuple[object, ...]:
        """All that a solver must be built for."""
        return (self.link, self.reference_link, self.offset is None, self.row_weights is None)

    @property
    def rows_on(self) -> NDArray[np.bool_]:
        """Which rows are given and have a weight above 0, one line for each pattern there is, shape [patterns, 6]."""
        given = _given_rows(self.positions is not None, self.orientations_xyzw is not None)
        return given if self.row_weights is None else patterns_on(self.row_weights * given[0])

    @property
    def code(self) -> tuple[object, ...]:
        """What kernels depend on: the frames and the rows that are on, but no values."""
        return (self.link, self.reference_link, self.offset is None, self.rows_on.tobytes())

    def declaration(self) -> Target:
        """Return the target as the solver wants it declared."""
        return Target(self.link, self.offset, self.reference_link, self.row_weights)

    def part(self, rows: Selection) -> Self:
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
    objectives: tuple[ObjectiveData, ...] = ()
    count: int = 0

    @cached_property
    def problem_count(self) -> int:
        """Number of problems."""
        return self.targets[0].problem_count if self.targets else self.count

    @property
    def structure(self) -> tuple[object, ...]:
        """Structure shared by requests that one solver can serve."""
        objectives = tuple(objective.structure for objective in self.objectives)
        return (*(target.structure for target in self.targets), *objectives)

    @cached_property
    def _rows_on(self) -> list[NDArray[np.bool_]]:
        """Which rows of each target and objective have a weight above 0, one line for each pattern."""
        of_objectives = [objective.rows_on for objective in self.objectives]
        return [target.rows_on for target in self.targets] + of_objectives

    @property
    def pattern_count(self) -> int:
        """How many patterns of rows that are on there can be among its problems, at most."""
        return math.prod(map(len, self._rows_on))

    @cached_property
    def joint_key(self) -> Hashable | None:
        """Key of the requests that can be solved together with this one; None where there are none.

        They go to one solver, have the same rows on in all their problems and ask for the same options.
        """
        structure, rows_on = self.structure, self._rows_on
        if self.pattern_count > 1:
            return None
        given = tuple((target.positions is None, target.orientations_xyzw is None) for target in self.targets)
        on = tuple(patterns.tobytes() for patterns in rows_on)
        return (structure, on, given, self.initial_joint_q is None, self.options)

    @property
    def code_key(self) -> Hashable:
        """Key of the requests that need the same kernels on one robot."""
        further = tuple((objective.structure, objective.rows_on.tobytes()) for objective in self.objectives)
        options, extras = self.options, "none"
        if options.precision == "float64":
            extras = "float64"  # which is to choose among seeds too
        elif options.best_of is not None or options.solutions > 1:
            extras = "choice"
        return (tuple(target.code for target in self.targets), further, extras)

    def sample(self) -> Self:
        """Return the least that needs all kernels of this request: one attempt of one iteration at few problems.

        There is one problem of each pattern of rows that are on, since each may have islands of its own.
        """
        options = replace(self.options, seeds=1, max_iterations=1, solutions=min(2, self.options.solutions))
        return replace(self._taken(self._first_of_each_pattern()), options=options)

    def _first_of_each_pattern(self) -> NDArray[np.intp]:
        """The first problem of each pattern of rows that are on."""
        weights = [target.row_weights for target in self.targets]
        weights += [objective.data[ROW_WEIGHTS] for objective in self.objectives]
        varying = [array.astype(np.float32) > 0.0 for array in weights if array is not None and array.ndim == 2]
        on = np.hstack([np.zeros((self.problem_count, 1), bool), *varying])
        if (on == on[0]).all():
            return np.zeros(1, np.intp)
        return np.sort(np.unique(on, axis=0, return_index=True)[1])

    def part(self, rows: slice) -> Self:
        """Return some of the problems as a request."""
        if rows.start == 0 and rows.stop >= self.problem_count:
            return self
        return self._taken(rows)

    def _taken(self, rows: Selection) -> Self:
        count = len(range(*rows.indices(self.problem_count))) if isinstance(rows, slice) else len(rows)
        return replace(
            self,
            targets=tuple(target.part(rows) for target in self.targets),
            initial_joint_q=_rows(self.initial_joint_q, rows),
            objectives=tuple(objective.part(rows) for objective in self.objectives),
            count=count,
        )


Progress = Callable[[int], None]
"""Called with the number of problems that have just been solved."""

Robots = Mapping[str, RobotModel]
"""Robots by name."""


@cache
def _given_rows(position: bool, orientation: bool) -> NDArray[np.bool_]:  # two switches of one thing
    """Which rows of a target are there, shape [1, 6]."""
    return np.repeat([position, orientation], 3)[None]


def joined_data(targets: Sequence[TargetColumns], counts: Sequence[int]) -> dict[str, FloatArray | None]:
    """Return tool frames and weights of one target in several requests, a line for every problem, by name.

    Args:
        targets: The target in each request, of equal structures.
        counts: Its number of problems.
    """
    data: dict[str, FloatArray | None] = {}
    for name in ("offset", "row_weights"):
        columns = [column for column in (getattr(target, name) for target in targets) if column is not None]
        data[name] = joined_lines(columns, counts) if columns else None
    return data


def _rows(array: FloatArray | None, rows: Selection) -> FloatArray | None:
    return array[rows] if array is not None and array.ndim == 2 else array
