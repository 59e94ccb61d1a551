"""Core of a solver: rows, arrays and engine, and one solve from checked arrays to a result."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.collision.collision_data import CollisionData
from ik_service.compiler import Lanes
from ik_service.errors import EngineError
from ik_service.kernels.device_lock import DEVICE_LOCK, device_work
from ik_service.kernels.host_device_array import side_stream, wait
from ik_service.kernels.kernel_loading import KernelsFor, load_kernels_alone, whom_of
from ik_service.robots import RobotModel
from ik_service.solver.arrays.parts import SOLVE_ON_DEVICE
from ik_service.solver.arrays.pose_targets import PoseTargets
from ik_service.solver.arrays.problem_arrays import SolveSettings
from ik_service.solver.compiled import island_launches
from ik_service.solver.compiled.engine import CompiledEngine, LoopClosing
from ik_service.solver.compiled.island_kernels import why_uncovered
from ik_service.solver.compiled.self_motion_samples import SelfMotionSamples, load_self_motion
from ik_service.solver.construction import SolverSetup
from ik_service.solver.deadline import TIME_CHECK, stopped_after, with_time_left
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.reading import check_lines
from ik_service.solver.given.targets import Target, part_of
from ik_service.solver.given.worlds import CheckedWorlds
from ik_service.solver.recorded_launches import NOT_RECORDABLE, PreparedSolve, RecordedLaunches
from ik_service.solver.result import IKResult, ResultHead, collect_result, replace_answers
from ik_service.solver.rows.binding import ConstraintRows, RowKind, release_objective
from ik_service.solver.rows.layout import RowLayout, row_labels
from ik_service.solver.staged.engine import StagedEngine
from ik_service.solver.verdict.advice import IslandReport, report_islands
from ik_service.solver.workspace import Workspace
from objectives import IKObjective, IKObjectiveJointLimit, InputError
from objectives.expression.expression_objective import ExpressionObjective


class SolverCore:
    """Rows, arrays and engine of one solver, in the robot's own order of coordinates."""

    def __init__(
        self,
        robot: RobotModel,
        targets: Sequence[Target | str],  # pose targets
        objectives: Sequence[IKObjective],  # further objectives; bound to this object
        setup: SolverSetup,
    ) -> None:
        self.robot, self.objectives, self.options, self._join = robot, tuple(objectives), setup.options, setup.join
        self.targets, self._device = PoseTargets(robot, targets), setup.device
        self._device_work = device_work(setup.device)
        self._threads = 1 if island_launches.in_threads(setup.device) else setup.threads
        whom = whom_of(robot.name, [target.link for target in self.targets.all])
        self._kernels = KernelsFor(whom)  # around everything that may compile
        self._asked: tuple[object, ...] = ()  # key of `_last`
        self._last: SolveSettings | None = None
        self._samples: SelfMotionSamples | None = None
        with DEVICE_LOCK, self._kernels:
            self._set_up(setup.engine)

    def _set_up(self, engine: str) -> None:
        options = self.options
        self.model = self.robot.on_device(str(self._device))
        self.work = self._workspace(1)  # arrays of the problems, with room for the largest solve so far
        targets = self.targets.make_objectives(self.work.problems)
        self._constraints = ConstraintRows(self.robot)
        others: list[IKObjective] = [*self.objectives, *self._constraints.objectives]
        if options.joint_limits == "soft":
            others.append(IKObjectiveJointLimit())
            others[-1].priority = 0
        try:
            self.layout = RowLayout(self, self.model, targets, others, options.jacobian_type())
            has_model = self.robot.collision_model is not None
            # packets of its kernels
            self.lanes = Lanes(1) if island_launches.in_threads(self._device) else Lanes.on_cpu()
            # geometry of the collision check; None where the robot has no collision model
            self.collision = CollisionData(self.model, self.lanes) if has_model else None
            self.engine = self._chosen_engine(engine)
            self._use_layout()
        except Exception:
            for objective in (*targets, *others):  # so that another solver can take it
                release_objective(objective, self)
            raise

    def _chosen_engine(self, wanted: str) -> CompiledEngine | StagedEngine:
        """Return the compiled engine if it covers the problem and the staged one is not requested."""
        layout, options, join = self.layout, self.options, self._join
        reason = why_uncovered(layout, options, join=join)
        if wanted == "compiled" and reason is not None:
            raise EngineError(f"The compiled engine does not cover this problem: {reason}. Use engine='staged'.")
        limited = options.joint_limits == "hard"
        if wanted == "staged" or reason is not None:
            closes = bool(layout.rows.of_kind(RowKind.CONSTRAINT))
            close = LoopClosing(layout, hard_limits=limited).close if closes else None
            return StagedEngine(layout, options, join=join, close=close, collision=self.collision)
        return CompiledEngine(layout, join=join, hard_limits=limited, threads=self._threads, collision=self.collision)

    def row_labels(self) -> tuple[str, ...]:
        """Return a name for each row."""
        return tuple(row_labels(self.layout.rows, [target.link for target in self.targets.all]))

    def check(self, batch: Batch) -> None:
        """Check that the lines of data per problem, and the given parts of targets, fit a batch."""
        check_lines(self.objectives, self.targets.with_lines, batch.problem_count)
        if self.targets.are_near:
            self.targets.check_given(batch)

    def solve(
        self,
        head: ResultHead,  # names and places shared by all results
        batch: Batch,
        options: SolverOptions,
        *,
        guess: NDArray[Any] | None = None,  # as in `run`
        # configurations [problems, joint_coord_count] to verify in place of the answers, or None
        judged: NDArray[Any] | None = None,
    ) -> IKResult | None:
        """Solve a batch of problems.

        Returns:
            The result; None where a number is faulty.

        Raises:
            InputError: From `check`.
        """
        TIME_CHECK.get()()
        if self.objectives or self.targets.with_lines or self.targets.are_near:
            self.check(batch)
        if self.robot.constraint_names:
            options = self._closing(options)
        has_several = judged is None and options.solutions != 1
        if has_several and isinstance(self.engine, CompiledEngine) and (seeds := self.engine.branch_seeds(options)):
            return self._solve_from_branches(head, batch, options, seeds)
        done = self.run(batch, options, guess=guess)
        if done is None:
            return None
        if judged is not None:
            with DEVICE_LOCK, self._kernels:
                self.work.verify_given(judged, done[0])
        return collect_result(head, self.work, *done)

    def _solve_from_branches(
        self, head: ResultHead, batch: Batch, options: SolverOptions, seeds: int
    ) -> IKResult | None:
        """Find several solutions from the branches of an arm; then by seeds for problems that may have others."""
        began = time.monotonic()
        done = self.run(batch, options, branch_seeds=seeds)
        if done is None:
            return None
        result = replace(collect_result(head, self.work, *done), seeds=options.search_seeds)
        selection = done[0].selection
        assert selection is not None  # several solutions have been asked for
        left = np.flatnonzero(selection.unfinished.read(batch.problem_count))
        if len(left):
            part = batch.part(left)
            with self.data_of(part):
                searched = self.run(part, with_time_left(options, began))
            assert searched is not None  # the numbers were checked in the first solve
            replace_answers(result, left, collect_result(head, self.work, *searched))
        return result

    def _closing(self, options: SolverOptions) -> SolverOptions:
        """Return the options of a solve that closes loops: float32 leaves them open by a micrometre."""
        if options.solution_count > 1:
            raise InputError(
                f"Option solutions is {options.solutions!r}. Allowed for a robot with constraints: 1. "
                "robot.constraints.close(..., solutions=k) finds other ways to assemble it."
            )
        return replace(options, precision="float64")

    def _settings(
        self, count: int, options: SolverOptions, worlds: CheckedWorlds | None, *, branch_seeds: int = 0
    ) -> SolveSettings:
        """Return the settings of a solve: the last ones if nothing has changed."""
        asked = count, options, worlds is not None, branch_seeds
        if self._last is None or asked != self._asked:
            self._last = self.engine.settings(count, options, checks_collision=worlds is not None)
            if branch_seeds:
                self._last = self._last._replace(seeds=branch_seeds, only_branches=True)
            self._asked = asked
        return self._last

    def run(
        self,
        batch: Batch,
        options: SolverOptions,
        *,
        guess: NDArray[Any] | None = None,
        verdict: bool = True,
        branch_seeds: int = 0,
        iterations: int | None = None,  # of every attempt, in place of the option; 0 leaves attempts at their starts
    ) -> tuple[PreparedSolve, SolveSettings] | None:
        """Run a solve and leave its answers in the workspace; None where a number is faulty."""
        # `guess` [problems, joint_coord_count] is seed 0 where no start is given. Attempts of single islands are always
        # checked for contact; with `verdict` the whole answers are, too.
        start, limits = batch.start, batch.limits
        settings = self._settings(batch.problem_count, options, batch.worlds, branch_seeds=branch_seeds)
        with self._kernels:
            with DEVICE_LOCK:
                work = self._fitted_workspace(settings, batch.enabled, batch.worlds, verdict=verdict)
                work.start = first = start if guess is None else guess
                if limits is not None or work.requested_limits is not None:
                    first = work.use_limits(limits, first, batch.problem_count)
                work.inputs.stage(batch.positions, batch.orientations_xyzw, first)
                work.set_options(settings, has_start=start is not None)
                if iterations is not None:
                    work.set_iterations(iterations)
                prepared = self.engine.prepare(work, settings)
                if options.deadline_s is not None:
                    side_stream(str(self._device))
            with self._device_work:  # on a CPU beside kernels of other solvers; a GPU has one stream for all
                if options.deadline_s is None:
                    prepared.run()
                else:
                    with stopped_after(work.problems, options.deadline_s):
                        prepared.run()
        return None if np.count_nonzero(work.inputs.fault.host) else (prepared, settings)

    def attempts(self, batch: Batch, options: SolverOptions) -> tuple[Workspace, Callable[[int], None]] | None:
        """Read a batch with common limits for attempts; the caller writes starts, limits and data on the device.

        Returns:
            The arrays, with the starts of a solve without a start, and a function that makes one attempt with a number
            of iterations at each problem with a seed left; call it with `working` held. None where a number is faulty.
        """
        count = batch.problem_count
        settings = self._settings(count, options, None)
        with self._kernels, DEVICE_LOCK:
            work = self._fitted_workspace(settings, None, None, verdict=False)
            if work.requested_limits is not batch.limits:
                work.use_limits(batch.limits, None, work.problems.capacity)
            work.start = None
            work.inputs.stage(batch.positions, batch.orientations_xyzw, None)
            work.set_options(settings, has_start=True)
            work.read(count)
            if np.count_nonzero(work.inputs.fault.host):
                return None
            _partition, attempt = self.engine.attempts(work, settings)

        def run(iterations: int) -> None:
            work.set_iterations(iterations)
            attempt()

        return work, run

    def self_motions(self, batch: Batch, options: SolverOptions) -> tuple[NDArray[Any], ...] | None:
        """Return samples of the self-motions at some problems, as `SelfMotionSamples.of`; None for a fault."""
        assert isinstance(self.engine, CompiledEngine)  # `last_dof` has been asked for
        settings = self._settings(batch.problem_count, options, batch.worlds)
        with self._kernels, DEVICE_LOCK:
            work = self._fitted_workspace(settings, batch.enabled, batch.worlds)
            work.start = start = batch.start
            if batch.limits is not None or work.requested_limits is not None:
                start = work.use_limits(batch.limits, start, batch.problem_count)
            work.inputs.stage(batch.positions, batch.orientations_xyzw, start)
            work.set_options(settings, has_start=batch.start is not None)
            work.read(batch.problem_count)
            if self._samples is None:
                self._samples = SelfMotionSamples(self.engine, self.model.joint_coord_count, self._device)
            return None if work.inputs.fault.host.any() else self._samples.of(work, settings)

    def load_self_motions(self) -> None:
        """Load the code of `self_motions`."""
        assert isinstance(self.engine, CompiledEngine)  # `last_dof` has been asked for
        with self._kernels, DEVICE_LOCK:
            load_self_motion(self.engine, self._device)

    @property
    def working(self) -> AbstractContextManager[object]:
        """The context to hold while attempts are made."""
        return self._device_work if isinstance(self.engine, CompiledEngine) else DEVICE_LOCK

    def judge(
        self, worlds: CheckedWorlds | None, options: SolverOptions, joint_q: NDArray[np.float64]
    ) -> dict[str, Any]:
        """Return the columns of a verdict on configurations of the batch last read for attempts, by name."""
        settings = self._settings(len(joint_q), options, worlds)
        with self._kernels, DEVICE_LOCK:
            work = self._fitted_workspace(settings, None, worlds)
            work.set_options(settings, has_start=True)
            work.verify_given(joint_q, PreparedSolve(self.engine.attempts(work, settings)[0]))
            wait(self._device)
            return work.verification.read(len(joint_q), float64_finish=False)

    @contextmanager
    def on_device(
        self, given: NDArray[np.int32], count: int, options: SolverOptions, worlds: CheckedWorlds | None
    ) -> Iterator[tuple[Workspace, SolveSettings]]:
        """Hold the device for a solve with inputs and answers on the device."""
        # Waits at the end until the device is done, except while a graph is being recorded. `given` is as in
        # `InputArrays`. Raises InputError where a graph is being recorded and no solve was like this one before,
        # EngineError where the active rows differ between problems.
        if self.robot.constraint_names:
            options = self._closing(options)
        check_lines(self.objectives, self.targets.with_lines, count)
        settings = self._settings(count, options, worlds)
        with self._kernels, DEVICE_LOCK:
            work = self._fitted_workspace(settings, None, worlds)
            if work.requested_limits is not None:
                work.use_limits(None, None, 0)
            work.copies = False
            try:
                load_kernels_alone(SOLVE_ON_DEVICE, self._device)
                work.inputs.given.host[:] = given
                work.set_options(settings, has_start=bool(given[0]))
                work.push_numbers()
                yield work, settings
            finally:
                work.copies = True
            if not self._device.is_capturing:
                wait(self._device)

    def _fitted_workspace(
        self,
        settings: SolveSettings,
        enabled: NDArray[np.bool_] | None,
        worlds: CheckedWorlds | None,
        *,
        verdict: bool = True,
    ) -> Workspace:
        """Return the workspace, large enough, with the constraints, obstacles, targets and tolerances of a solve."""
        options = settings.options
        if self.robot.constraint_names:
            self._constraints.enable(enabled)
        if worlds is not None and self.collision is not None:
            widest = options.best_of == "clearance"
            self.collision.use(*worlds, options.margin, widest=widest, of_world=options.world_clearance)
        if settings.problem_count > self.work.problems.capacity:
            self.work = self._workspace(2 ** math.ceil(math.log2(settings.problem_count)))
            self.targets.use_arrays(self.work.problems)
            self._use_layout()
        if self.targets.are_near:
            self.targets.use_tolerances(options.position_tolerance, options.orientation_tolerance)
        if self.targets.is_replaced:
            exchanged = self.targets.upload()
            if self.work.use_targets(self.targets.all) or exchanged:
                self.work.forget()
                self.engine.forget()
        judged = self.work.verification
        judged.collision = judged.collision_verdict if worlds is not None and verdict else None
        return self.work

    @contextmanager
    def data_of(self, batch: Batch) -> Iterator[None]:
        """Limit targets and objectives to the data of some problems, for a block."""
        if batch.lines is None:
            yield
            return
        whole = self.targets.all
        with ExitStack() as undo:
            for objective in self.objectives:
                if isinstance(objective, ExpressionObjective):
                    undo.callback(objective.use_lines, None)
                    objective.use_lines(batch.lines)
            if self.targets.with_lines:
                undo.callback(self.targets.take, whole)
                self.targets.take(tuple(part_of(target, batch.lines) for target in whole))
            yield

    def report_islands(self, problem: int) -> IslandReport:
        """Return the islands of a problem, with every row of possible weight above 0 and all constraints."""
        self._constraints.enable(None)
        self.engine.bind_rows()
        rows, trees = self.layout.rows, self.layout.incidence
        return report_islands(self.robot, self.targets.all, rows, trees, problem=problem, join=self._join)

    def recorded(
        self, *, orientations: bool, for_gpus: bool, float64_finish: bool, worlds: CheckedWorlds | None
    ) -> RecordedLaunches:
        """Return the launches of a solve; see `IKSolver.recorded`."""
        if self.targets.with_lines:
            raise EngineError(NOT_RECORDABLE)
        float64_finish = float64_finish or bool(self.robot.every_constraint)
        given = {"orientations": orientations, "for_gpus": for_gpus, "float64_finish": float64_finish}
        given["collision"] = worlds is not None and self.collision is not None
        self._constraints.enable(None)
        with DEVICE_LOCK, self._kernels:
            settings = self._settings(2, replace(self.options, best_of=None, solutions=1), worlds)
            work = self._fitted_workspace(settings, None, worlds)
            work.use_limits(None, None, 0)
            return self.engine.recorded(work, 2, **given)

    def _workspace(self, capacity: int) -> Workspace:
        hard = self.options.joint_limits == "hard"
        targets = self.targets
        return Workspace(self.model, targets.all, targets.touches, capacity, hard_limits=hard, threads=self._threads)

    def _use_layout(self) -> None:
        self.work.use_layout(self.layout)
        if self.collision is not None:
            self.work.verification.use_collision(self.collision)
        self.engine.use_layout()
