"""The staged engine: any objective, by separate launches for each step of an iteration."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NoReturn

import warp as wp

from ik_service.collision.collision_data import CollisionData
from ik_service.errors import EngineError
from ik_service.kernels.host_device_array import HostDeviceArray
from ik_service.solver.arrays.partition import Partition
from ik_service.solver.arrays.problem_arrays import Problems, SolveSettings
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.recorded_launches import NOT_RECORDABLE, PreparedSolve
from ik_service.solver.rows.layout import RowLayout
from ik_service.solver.staged.batch import AttemptBatch
from ik_service.solver.workspace import Workspace
from objectives import InputError

SLOTS_MAX = {"cpu": 64, "cuda": 32768}  # a CPU batch stays in the innermost cache; a GPU needs many threads
SLOTS_MIN = 8
SHRINK_AT = 16  # a batch this many times too large is replaced


class StagedEngine:
    """The staged engine of one solver."""

    name: Literal["staged"] = "staged"

    def __init__(
        self,
        layout: RowLayout,
        options: SolverOptions,
        *,
        join: bool,  # whether all touched trees are one island
        # returns the best attempts of a solve in float64, loops closed; None for a robot without loops
        close: Callable[[Workspace, int], HostDeviceArray] | None = None,
        collision: CollisionData | None = None,  # geometry of the collision check; None without a model
    ) -> None:
        self._collision = collision
        self._layout, self._options, self._join, self._close = layout, options, join, close
        # the finest precision of its answers
        self.finish: Literal["float32", "float64"] = "float32" if close is None else "float64"
        self._data_version = -1
        self.batch: AttemptBatch | None = None  # the batch of the last solve; None once the layout has changed

    def settings(self, problem_count: int, options: SolverOptions, *, checks_collision: bool) -> SolveSettings:
        """Return the settings of a solve; InputError for an unsupported option or too many attempts."""
        settings = SolveSettings.of(problem_count, options.seed_count, options, checks_collision=checks_collision)
        if settings.runs_all_seeds or (settings.float64_finish and self._close is None):
            raise InputError(
                "Options best_of, solutions and precision need the compiled engine; this solver is staged."
            )
        settings.require_numbers()
        return settings

    def use_layout(self) -> None:
        """Take over changes of the rows' support or of the arrays of the problems."""
        self.batch = None

    def bind_rows(self) -> None:
        """Bind the objectives, so that their weights are available."""
        if self.batch is None:
            rows = self._layout.rows
            rows.bind(1, wp.zeros(1, dtype=wp.int32, device=rows.model.device))

    def forget(self) -> None:
        """Do nothing: the versions of the objectives' data show any exchange of an array."""

    def prepare(self, work: Workspace, settings: SolveSettings) -> PreparedSolve:
        """Solve, with the device lock held; repeat if a row depends on a tree not known before."""
        count = settings.problem_count
        while True:
            batch = self._fit_batch(work.problems, settings)  # binds the objectives; their weights give the islands
            work.read(count)
            partition, joint_q = work.discovered(count, join=self._join), None
            if not work.inputs.fault.host.any():
                given = self._options.use_graph, self._options.check_jacobians, settings.options.deadline_s
                batch.run(count, *given)
            if self._close is not None:
                joint_q = self._close(work, count)
            prepared = PreparedSolve(partition, joint_q_float64=joint_q)
            if not self._layout.support.extend():
                work.verify(prepared, count)
                return prepared
            self._layout.refresh()
            work.use_layout(self._layout)
            self.use_layout()

    def attempts(self, work: Workspace, settings: SolveSettings) -> tuple[Partition, Callable[[], None]]:
        """Return the islands of a batch that has been read, and attempts at all its problems, whatever is left."""
        run, count = self._fit_batch(work.problems, settings).run, settings.problem_count
        return work.discovered(count, join=self._join), partial(run, count, self._options.use_graph)

    def recorded(self, work: Workspace, count: int, **options: Any) -> NoReturn:
        """Raise EngineError: nothing can be exported."""
        raise EngineError(NOT_RECORDABLE)

    def _fit_batch(self, problems: Problems, settings: SolveSettings) -> AttemptBatch:
        """Fit the batch to the solve; drop a recording of exchanged arrays."""
        rows, attempts = self._layout.rows, settings.problem_count * settings.seeds
        most = SLOTS_MAX["cuda" if rows.model.device.is_cuda else "cpu"]
        slots = min(most, max(SLOTS_MIN, 2 ** math.ceil(math.log2(attempts))))
        if self.batch is None or not slots <= self.batch.slot_count < slots * SHRINK_AT:
            own = (self._options, self._collision)
            self.batch = AttemptBatch(rows.model, rows, self._layout.support, problems, slots, *own)
        self.batch.use_limits()
        self.batch.check_collision(checked=settings.checks_collision)
        version = sum(getattr(objective, "data_version", 0) for objective in rows.objectives)
        if version != self._data_version:
            self.batch.forget_graph()
            self._data_version = version
        return self.batch
