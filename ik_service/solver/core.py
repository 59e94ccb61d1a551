"""The inside of a solver: rows, arrays, engine, and the course of a solve from checked arrays to a result."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.errors import EngineError
from ik_service.robots import RobotModel
from ik_service.solver.compiled import island_launches
from ik_service.solver.device_lock import DEVICE_LOCK, turn_on
from ik_service.solver.engine import choose_engine
from ik_service.solver.inputs.reading import check_lines
from ik_service.solver.inputs.target_arrays import TargetArrays
from ik_service.solver.inputs.targets import Target
from ik_service.solver.launches.kernel_loading import CacheErrorsExplained
from ik_service.solver.launches.recorded_launches import NOT_RECORDABLE, RecordedLaunches
from ik_service.solver.options import SolverOptions
from ik_service.solver.problems.pose_targets import PoseTargets
from ik_service.solver.problems.rows.binding import release_objective
from ik_service.solver.problems.rows.constraints import ConstraintRows
from ik_service.solver.problems.rows.layout import RowLayout
from ik_service.solver.problems.rows.support import row_labels
from ik_service.solver.problems.solve_settings import SolveSettings
from ik_service.solver.result import IKResult, ResultHead, collect_result
from ik_service.solver.results.island_report import IslandReport, report_islands
from ik_service.solver.workspace import Workspace
from objectives import IKObjective, IKObjectiveJointLimit


class SolverCore:
    """Rows, arrays and engine of one solver, in the robot's own order of coordinates.

    Args:
        robot: The robot.
        targets: Pose targets.
        objectives: Further objectives; they are bound to this object.
        device: Where to solve.
        engine: "auto", "compiled" or "staged".
        join: Whether all touched trees are one island.
        threads: Most threads of the compiled engine on a CPU; None is one.
        options: The solver's options.

    Attributes:
        targets: The targets, with their objectives.
        work: Arrays of the problems, with room for the largest solve so far.
        layout: The rows.
        engine: The engine, which was chosen once.
    """

    def __init__(
        self,
        robot: RobotModel,
        targets: Sequence[Target | str],
        objectives: Sequence[IKObjective],
        *,
        device: wp.Device,
        engine: str,
        join: bool,
        threads: int | None,
        options: SolverOptions,
    ) -> None:
        self._robot, self._objectives, self._options, self._join = robot, tuple(objectives), options, join
        self.targets, self._device = PoseTargets(robot, targets), device
        self._threads = 1 if threads is None or island_launches.in_threads(device) else threads
        with DEVICE_LOCK, CacheErrorsExplained():
            self._set_up(engine)

    def _set_up(self, engine: str) -> None:
        """Bind the objectives, lay out their rows and choose the engine."""
        options, join = self._options, self._join
        self._model = self._robot.on_device(str(self._device))
        self.work = self._workspace(1)
        targets = self.targets.make_objectives(self.work.problems)
        self._constraints = ConstraintRows(self._robot)
        others = [
            *self._objectives,
            *self._constraints.objectives,
            *([_soft_limits()] if options.joint_limits == "soft" else []),
        ]
        try:
            self.layout = RowLayout(self, self._model, targets, others, options.jacobian_type())
            self.engine = choose_engine(engine, self.layout, options, join=join, threads=self._threads)
            self._use_layout()
        except Exception:
            for objective in (*targets, *others):  # so that it can be given to another solver
                release_objective(objective, self)
            raise

    def row_labels(self) -> tuple[str, ...]:
        """Return a name for each row."""
        return tuple(row_labels(self.layout.rows, [target.link for target in self.targets.all]))

    def solve(
        self,
        head: ResultHead,
        given: TargetArrays,
        start: NDArray[Any] | None,
        options: SolverOptions,
        judged: NDArray[Any] | None = None,
        enabled: NDArray[np.bool_] | None = None,
    ) -> IKResult | None:
        """Solve a batch of problems.

        Args:
            head: What all results share.
            given: Values of the targets.
            start: Configurations of seed 0, [joint_coord_count] or [problems, joint_coord_count], or None.
            options: Options of this solve.
            judged: Configurations [problems, joint_coord_count] to verify in place of the answers, or None.
            enabled: Which constraints are to be met, [1 or problems, constraints]; None for all.

        Returns:
            The result; None where a number is faulty.
        """
        if self._robot.constraint_names:  # float32 leaves them open by a micrometre
            options = replace(options, precision="float64")
        count = given.problem_count
        check_lines(self._objectives, self.targets.with_lines, count)
        settings = SolveSettings(count, self.engine.seed_count(options), options)
        self.engine.require(settings)
        with DEVICE_LOCK, CacheErrorsExplained():
            self._constraints.enable(enabled)
            self._fit_workspace(count)
            self._upload_targets()
            work = self.work
            work.inputs.stage(given.positions, given.orientations_xyzw, start)
            work.problems.set_options(settings, has_start=start is not None)
            work.verification.use_tolerances(options.position_tolerance, options.orientation_tolerance)
            prepared = self.engine.prepare(work, settings)
        # Kernels of several solvers may run side by side on a CPU; a GPU has one stream for all.
        with turn_on(self._device), CacheErrorsExplained():
            prepared.run()
        if work.inputs.is_faulty():
            return None
        if judged is not None:
            with DEVICE_LOCK, CacheErrorsExplained():
                work.verify_given(judged, prepared)
        return collect_result(head, work, prepared, settings)

    def report_islands(self, problem: int) -> IslandReport:
        """Return the islands of a problem, every row on whose weight can be above 0, and all constraints."""
        self._constraints.enable(None)
        self.engine.bind_rows()
        rows, trees = self.layout.rows, self.layout.incidence
        return report_islands(self._robot, self.targets.all, rows, trees, problem=problem, join=self._join)

    def recorded(self, *, orientations: bool, for_gpus: bool, float64_finish: bool) -> RecordedLaunches:
        """Return the launches of a solve; see `IKSolver.recorded`."""
        if self.targets.with_lines:
            raise EngineError(NOT_RECORDABLE)
        float64_finish = float64_finish or bool(self._robot.every_constraint)
        given = {"orientations": orientations, "for_gpus": for_gpus, "float64_finish": float64_finish}
        self._constraints.enable(None)
        with DEVICE_LOCK, CacheErrorsExplained():
            self._fit_workspace(2)
            self._upload_targets()
            return self.work.recorded(self.engine.record_islands(self.work, 2, **given))

    def _workspace(self, capacity: int) -> Workspace:
        hard = self._options.joint_limits == "hard"
        targets = self.targets
        return Workspace(self._model, targets.all, targets.touches, capacity, hard_limits=hard, threads=self._threads)

    def _fit_workspace(self, problem_count: int) -> None:
        """Grow the per-problem arrays where they are too small."""
        if problem_count > self.work.problems.capacity:
            self.work = self._workspace(2 ** math.ceil(math.log2(problem_count)))
            self.targets.use_arrays(self.work.problems)
            self._use_layout()

    def _use_layout(self) -> None:
        self.work.use_layout(self.layout)
        self.engine.use_layout()

    def _upload_targets(self) -> None:
        """Copy tool frames and weights that have been replaced to the device."""
        if self.targets.is_replaced:
            exchanged = self.targets.upload()
            if self.work.use_targets(self.targets.all) or exchanged:
                self.work.forget()
                self.engine.forget()


def _soft_limits() -> IKObjective:
    """Return the rows of joint limits, which are weighed against targets."""
    limits = IKObjectiveJointLimit()
    limits.priority = 0
    return limits
