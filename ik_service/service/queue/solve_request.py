"""Requests to a solver, independent of any wire format.

Values are not checked here: readers of documents check shapes, finite numbers and unit quaternions, and the solver
checks the same again before any launch.
"""

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ik_service.collision.world import AttachedObject, World
from ik_service.robots import RobotModel
from ik_service.service.queue.objective_data import ROW_WEIGHTS, ObjectiveData, patterns_on
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import DATA, Target, part_of, rows_of

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

Float64Array = NDArray[np.float64]
Engine = Literal["auto", "compiled", "staged"]
_GIVEN_ROWS = {given: np.repeat(given, 3)[None] for given in product((False, True), repeat=2)}
"""Given rows of a target, bool [1, 6], by whether positions and orientations are given."""
_ALL_ENABLED = np.ones((1, 0), bool)
"""Stands for the patterns of constraints that are enabled, [patterns, constraints], where all are."""


@dataclass(frozen=True, eq=False)
class SolveRequest:
    """Batch of problems for one robot."""

    targets: tuple[Target, ...]  # the targets; at least one target or one objective is required
    batch: Batch  # the problems, without worlds; either each problem has its own start, or no problem has a start
    options: SolverOptions = field(default_factory=SolverOptions)  # options of the solve
    objectives: tuple[ObjectiveData, ...] = ()  # objectives besides the targets
    world: World | None = None  # obstacles around the robot; None: no obstacles
    # enabled objects of the world, bool [objects] or [problem_count, objects]; None: all
    object_enabled: NDArray[np.bool_] | None = None
    attached: Mapping[str, AttachedObject] = field(default_factory=dict)  # objects attached to links, by name
    engine: Engine = "auto"  # engine of the solve, as for `IKSolver`
    islands: bool = True  # whether trees without common rows are solved independently

    @property
    def problem_count(self) -> int:
        """Number of problems."""
        return self.batch.problem_count

    @cached_property
    def structure(self) -> tuple[object, ...]:
        """Structure of the request: requests of equal structure can share a solver."""
        targets = [
            (target.link, target.reference_link, target.frame, *(getattr(target, name) is None for name in DATA))
            for target in self.targets
        ]
        objectives = [objective.structure for objective in self.objectives]
        return (*targets, *objectives, self.engine, self.islands, self.options.candidates)

    @cached_property
    def _rows_on(self) -> list[NDArray[np.bool_]]:
        """Active rows (given, with a weight above 0) of each target and objective, bool [patterns, rows].

        Enabled constraints come last.
        """
        batch, found = self.batch, []
        for target, position, turn in zip(self.targets, batch.positions, batch.orientations_xyzw, strict=True):
            rows = _GIVEN_ROWS[position is not None, turn is not None]
            is_plain = target.row_weights is None and target.tolerance is None
            found.append(rows if is_plain else patterns_on(target.weights() * rows[0]))
        enabled = _ALL_ENABLED if batch.enabled is None else patterns_on(batch.enabled)
        return [*found, *(objective.rows_on for objective in self.objectives), enabled]

    @property
    def pattern_count(self) -> int:
        """Largest number of patterns of active rows among the problems."""
        return math.prod(map(len, self._rows_on))

    @cached_property
    def batch_key(self) -> Hashable | None:
        """Batch key: requests with the same key can share a batch; None if this request must be solved alone.

        Requests with the same key use one solver, have the same active rows in all problems and have equal options.
        """
        if math.prod(map(len, self._rows_on)) > 1:
            return None
        on = tuple(patterns.tobytes() for patterns in self._rows_on)
        batch = self.batch
        arrays = (*batch.positions, *batch.orientations_xyzw, batch.start, batch.limits, self.world)
        given = tuple(one is not None for one in arrays)
        held = tuple((name, one.content) for name, one in self.attached.items())
        return (self.structure, on, given, self.options, held)

    @property
    def code_key(self) -> Hashable:
        """Kernel key: requests with the same key need the same kernels on one robot."""
        further = tuple((objective.structure, objective.rows_on.tobytes()) for objective in self.objectives)
        options, extras = self.options, "none"
        if options.precision == "float64":
            extras = "float64"  # includes the choice among seeds
        elif options.best_of is not None or options.solution_count > 1:
            extras = "choice"
        collision = (options.collision, self.world is None, options.repair)  # the first two decide about the check
        derived = options.sensitivity
        own = tuple(
            (target.link, target.reference_link, target.frame, target.offset is None, on.tobytes())
            for target, on in zip(self.targets, self._rows_on[: len(self.targets)], strict=True)
        )
        made_with = (self.engine, self.islands, options.candidates)
        return (own, further, self._rows_on[-1].tobytes(), extras, collision, derived, made_with)

    def collision_names(self, robot: RobotModel) -> tuple[str, ...]:
        """Return the names for the indices in column `closest`.

        Order: links with collision spheres, attached objects, objects of the world.
        """
        links = () if robot.body_spheres is None else robot.body_spheres.links
        return (*links, *self.attached, *(() if self.world is None else self.world.names))

    def sample(self) -> "Self":
        """Return the smallest request with all kernels of this request: one attempt of one iteration, few problems.

        The sample has one problem per pattern of active rows, because each pattern may have its own islands.
        """
        weights: list[Any] = [target.weights() for target in self.targets]
        weights += [objective.data[ROW_WEIGHTS] for objective in self.objectives]
        weights.append(self.batch.enabled)
        count, first = self.problem_count, np.zeros(1, np.intp)
        lines = [array for array in weights if array is not None and array.ndim == 2 and len(array) == count]
        on = np.hstack([np.zeros((count, 1), bool), *(array.astype(np.float32) > 0.0 for array in lines)])
        if not (on == on[0]).all():
            first = np.sort(np.unique(on, axis=0, return_index=True)[1])  # problem of each pattern
        options = replace(self.options, seeds=1, max_iterations=1, solutions=min(2, self.options.solution_count))
        return replace(self._taken(first), options=options)

    def part(self, rows: slice) -> "Self":
        """Return some of the problems as a request."""
        if rows.start == 0 and rows.stop >= self.batch.problem_count:
            return self
        return self._taken(rows)

    def _taken(self, problems: slice | NDArray[np.intp]) -> "Self":
        return replace(
            self,
            targets=tuple(part_of(target, problems) for target in self.targets),
            batch=self.batch.part(problems)._replace(lines=None),  # lines index the uncut data
            objectives=tuple(objective.part(problems) for objective in self.objectives),
            object_enabled=rows_of(self.object_enabled, problems),
        )


Progress = Callable[[int], None]
"""Called with the number of problems that have just been solved."""
