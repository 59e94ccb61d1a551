"""The two engines of a solver: their common interface, and the choice between them."""

from typing import Literal, Protocol

from ik_service.collision.collision_data import CollisionData
from ik_service.errors import EngineError
from ik_service.solver.arrays.problem_arrays import SolveSettings
from ik_service.solver.compiled.engine import CompiledEngine
from ik_service.solver.compiled.island_kernels import why_uncovered
from ik_service.solver.compiled.loop_closing import LoopClosing
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.recorded_launches import PreparedSolve, RecordedLaunches
from ik_service.solver.rows.binding import RowKind
from ik_service.solver.rows.layout import RowLayout
from ik_service.solver.staged.engine import StagedEngine
from ik_service.solver.workspace import Workspace


class Engine(Protocol):
    """Solver of problems with inputs in the arrays of a solver."""

    @property
    def name(self) -> Literal["compiled", "staged"]:
        """Name of the engine in results."""

    @property
    def finish(self) -> Literal["float32", "float64"]:
        """Finest precision of the engine's answers."""

    def settings(self, problem_count: int, options: SolverOptions, *, checks_collision: bool) -> SolveSettings:
        """Return the settings of a solve; the InputError names an unsupported option."""

    def prepare(self, work: Workspace, settings: SolveSettings) -> PreparedSolve:
        """Do the part of a solve under the device lock."""

    def use_layout(self) -> None:
        """Take over changes of the rows' support or of the arrays of the problems."""

    def forget(self) -> None:
        """Drop all recordings, because arrays of the targets have been exchanged."""

    def bind_rows(self) -> None:
        """Fetch the objectives' weights."""

    def recorded(
        self,
        work: Workspace,
        count: int,
        *,
        orientations: bool,
        for_gpus: bool,
        float64_finish: bool,
        collision: bool,
    ) -> RecordedLaunches:
        """Return the launches of a solve one by one, for export; EngineError if the engine cannot."""


def choose_engine(
    wanted: str,  # "auto", "compiled" or "staged"
    layout: RowLayout,
    options: SolverOptions,
    *,
    join: bool,  # whether all touched trees are one island
    threads: int,  # most threads of the compiled engine
    collision: CollisionData | None = None,  # geometry of the collision check; None without a model
) -> Engine:
    """Return the compiled engine if it covers the problem and the staged one is not requested.

    Raises:
        EngineError: The compiled engine is requested and does not cover the problem.
    """
    reason = why_uncovered(layout, options, join=join)
    if wanted == "compiled" and reason is not None:
        raise EngineError(f"The compiled engine does not cover this problem: {reason}. Use engine='staged'.")
    limited = options.joint_limits == "hard"
    if wanted == "staged" or reason is not None:
        closes = bool(layout.rows.of_kind(RowKind.CONSTRAINT))
        closing = LoopClosing(layout, hard_limits=limited) if closes else None
        return StagedEngine(layout, options, join=join, closing=closing, collision=collision)
    return CompiledEngine(layout, join=join, hard_limits=limited, threads=threads, collision=collision)
