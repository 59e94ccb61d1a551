"""The solver: pose targets and objectives in, joint configurations with status and measured errors out."""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import warp as wp
from numpy.typing import NDArray

from ik_service.errors import EngineError
from ik_service.linear_solve import RowStructure
from ik_service.robots import RobotModel
from ik_service.robots.structure.caller_order import CallerOrder
from ik_service.solver.compiled import island_launches
from ik_service.solver.compiled.engine import CompiledEngine, why_uncovered
from ik_service.solver.construction import check_construction, resolve_device
from ik_service.solver.device_lock import DEVICE_LOCK, turn_on
from ik_service.solver.inputs.reading import (
    check_attempts,
    check_lines,
    check_one_line,
    raise_fault,
    read_start,
    read_targets,
)
from ik_service.solver.inputs.targets import Target, TargetArrays, host_array
from ik_service.solver.launches.kernel_loading import ToldCacheErrors
from ik_service.solver.options import SolverOptions
from ik_service.solver.paths import PathResult
from ik_service.solver.paths.follow import followed
from ik_service.solver.paths.result import Pace
from ik_service.solver.paths.waypoints import Waypoints
from ik_service.solver.problems.nearest_turn import coordinates_read
from ik_service.solver.problems.partition import Partition
from ik_service.solver.problems.pose_targets import PoseTargets
from ik_service.solver.problems.rows.blocks import Rows, bind_objective, release_objective
from ik_service.solver.problems.rows.support import Support, row_labels
from ik_service.solver.recorded_launches import RecordedLaunches
from ik_service.solver.result import IKResult, ResultHead, collect_result
from ik_service.solver.results.island_report import IslandReport, report_islands
from ik_service.solver.staged.batch import Batch
from ik_service.solver.workspace import Wishes, Workspace
from objectives import IKObjective, IKObjectiveJointLimit, InputError

SLOTS_MAX = {"cpu": 64, "cuda": 32768}  # a CPU batch stays in the innermost cache; a GPU wants many threads
SLOTS_MIN = 8
SHRINK_AT = 16  # a batch this many times too large is laid out anew
TOLD_CACHE_ERRORS = ToldCacheErrors()


class IKSolver:
    """Solves batches of inverse-kinematics problems of one robot. Not thread-safe; the robot may be shared.

    Args:
        robot: The robot.
        targets: Links that are to reach poses: names or Targets. Their values are given to `solve`.
        objectives: Objectives of the general form; may be combined with targets. Each is bound to this solver.
        device: "auto" (the first GPU, else the CPU), or a Warp device.
        engine: "compiled" for objectives stated as expressions and islands of up to 34 coupled DOFs, 16 on a GPU;
            "staged" for any objective; "auto" takes the first where it can. `solver.engine` says which it is.
        islands: Whether trees that no row couples are solved independently; False solves them as one system.
        threads: Threads of the compiled engine on a CPU; None is one. Answers do not depend on it.
        options: Budgets and tolerances.
        joint_order: Names of joints in the order in which configurations are given and returned; None is the robot's
            own. Locked joints and those that follow others may be left out.
        wxyz: Whether target quaternions are given to `solve` in the order wxyz instead of xyzw.

    Attributes:
        robot: The robot.
        options: The options.
        engine: The engine that runs.
        device: The device it runs on.
        coordinate_names: Names of the columns of configurations.
        dof_names: Names of the columns of DOFs.

    Raises:
        UnknownNameError: A link or joint is not in the robot.
        InputError: An argument has a value that is not allowed.
        ObjectiveError: An objective breaks its contract or is bound to another solver.
        EngineError: The engine asked for cannot run this problem.
        KernelCacheError: Compiled kernels can be neither read nor kept.
    """

    def __init__(
        self,
        robot: RobotModel,
        targets: Sequence[Target | str] = (),
        *,
        objectives: Sequence[IKObjective] = (),
        device: Any = "auto",
        engine: Literal["auto", "compiled", "staged"] = "auto",
        islands: bool = True,
        threads: int | None = None,
        options: SolverOptions | None = None,
        joint_order: Sequence[str] | None = None,
        wxyz: bool = False,
    ) -> None:
        check_construction(robot, targets, objectives, engine, threads, islands, options, wxyz)
        self.robot, self.options = robot, options if options is not None else SolverOptions()
        self._poses = PoseTargets(robot, targets)
        self.islands_enabled = islands
        self._order, self._wxyz = CallerOrder(robot, joint_order), wxyz
        self.coordinate_names, self.dof_names = self._order.coordinate_names, self._order.dof_names
        self.device = resolve_device(device)
        self._objectives = tuple(objectives)
        self._threads = 1 if threads is None or island_launches.in_threads(self.device) else threads
        self._executor = ThreadPoolExecutor(self._threads, "ik-solver") if self._threads > 1 else None
        with DEVICE_LOCK, TOLD_CACHE_ERRORS:
            self._set_up(engine)

    @property
    def targets(self) -> tuple[Target, ...]:
        """The targets."""
        return self._poses.all

    def _set_up(self, engine: str) -> None:
        """Bind the objectives, lay out their rows and choose the engine."""
        self._model = self.robot.on_device(str(self.device))
        self._work = self._workspace(1)
        self._poses.state(self._work.problems)
        extra = [IKObjectiveJointLimit()] if self.options.joint_limits == "soft" else []
        everything = [*self._poses.objectives, *self._objectives, *extra]
        try:
            for objective in everything:
                bind_objective(objective, self, self._model)
            self._rows = Rows(self._model, everything, self.options.jacobian_type())
            self._support = Support(self._model, self._rows)
            self._choose_engine(engine)
            self._use_support()
        except Exception:
            for objective in everything:  # so that it can be given to another solver
                release_objective(objective, self)
            raise
        labels = tuple(row_labels(self._rows, [target.link for target in self.targets]))
        self._own_head = ResultHead(self.robot, CallerOrder(self.robot, None), labels, self.engine, str(self.device))
        self._head = replace(self._own_head, order=self._order)
        self._batch: Batch | None = None
        self._data_version = -1

    def _choose_engine(self, engine: str) -> None:
        """Take the compiled engine where it covers the problem and nothing asks for the other."""
        self._compiled: CompiledEngine | None = None
        reason = why_uncovered(self._model, self._rows, self._support, self.options, join=not self.islands_enabled)
        if engine == "compiled" and reason is not None:
            raise EngineError(f"The compiled engine does not cover this problem: {reason}. Use engine='staged'.")
        if engine != "staged" and reason is None:
            hard = self.options.joint_limits == "hard"
            self._compiled = CompiledEngine(self._model, self._rows, self._support, len(self.targets), hard_limits=hard)
        self.engine = "staged" if self._compiled is None else "compiled"

    def solve(
        self,
        positions: Any = None,
        orientations_xyzw: Any = None,
        *,
        initial_joint_q: Any = None,
        problem_count: int | None = None,
        options: "dict[str, object] | SolverOptions | None" = None,
    ) -> IKResult:
        """Solve a batch of problems.

        Args:
            positions: Target positions in the world or reference frame [m], shape [n, 3] for one target,
                [n, targets, 3] for several, or a list with one array or None per target; None is unconstrained.
            orientations_xyzw: Target orientations, unit quaternions, shapes alike with 4. These arrays and the next may
                be of NumPy or Warp, or anything with `__dlpack__`.
            initial_joint_q: Configurations of seed 0, shape [coordinates] or [n, coordinates]; clamped into the limits.
                Locked joints are held where it says. None: the middle of the ranges, and where they are locked.
            problem_count: Number of problems, where only objectives hold the data.
            options: Seeds, iterations, tolerances and random seed of this solve, where they differ from the solver's.

        Returns:
            One answer per problem.

        Raises:
            InputError: A value that is not allowed; nothing has been launched.
            ObjectiveError: `check_jacobians` found a wrong Jacobian.
            EngineError: The compiled engine cannot hold an island of this problem.
            KernelCacheError: Compiled kernels can be neither read nor kept.
        """
        chosen = self.options.of_solve(options)
        given = read_targets(self.targets, positions, orientations_xyzw, problem_count, wxyz=self._wxyz)
        start = None
        if initial_joint_q is not None:
            start = read_start(self.robot, self._order, "initial_joint_q", initial_joint_q, given.problem_count)
        result = self._solve(self._head, given, start, chosen)
        if result is None:
            inputs = (positions, orientations_xyzw, initial_joint_q, problem_count)
            raise_fault(self.robot, self._order, self.targets, inputs)
        return result

    def _solve(
        self,
        head: ResultHead,
        given: TargetArrays,
        start: NDArray[Any] | None,
        options: SolverOptions,
        judged: NDArray[Any] | None = None,
    ) -> IKResult | None:
        """Solve; None where a number is faulty. Other configurations may be judged instead of the answers."""
        count = given.problem_count
        check_lines(self._objectives, self._poses.with_lines, count)
        seeds = options.seed_count
        check_attempts(count, seeds)
        wishes = self._wishes(count, seeds, options)
        with DEVICE_LOCK, TOLD_CACHE_ERRORS:
            self._fit_workspace(count)
            work = self._work
            self._upload_targets()
            work.intake.stage(given.positions, given.orientations_xyzw, start)
            work.problems.set_options(count, start is not None, options, seeds, keep_all=wishes.choosing)
            work.outcome.use_tolerances(options.position_tolerance, options.orientation_tolerance)
            join = not self.islands_enabled
            if self._compiled is None:
                partition = self._solve_staged(count, seeds)
            else:
                partition, run = work.compiled(self._compiled, self._rows, self._incidence, wishes, join=join)
        if self._compiled is not None:
            # Kernels of several solvers may run side by side on a CPU; a GPU has one stream for all.
            with turn_on(self.device), TOLD_CACHE_ERRORS:
                run(self._executor)
        if work.intake.is_faulty():
            return None
        if judged is not None:
            with DEVICE_LOCK, TOLD_CACHE_ERRORS:
                self._work.judge_given(judged, partition)
        return collect_result(head, self._work, partition, wishes)

    def follow(
        self,
        positions: Any,
        orientations_xyzw: Any,
        dt: float,
        *,
        start_joint_q: Any = None,
        solutions: int = 8,
        velocity: Any = None,
        acceleration: Any = None,
        options: "dict[str, object] | SolverOptions | None" = None,
    ) -> PathResult:
        """Follow a path: of the solutions of its waypoints, choose those that go from one to the next.

        Speed limits come first, then the largest change of a joint from waypoint to waypoint, then smoothness; each
        island is chosen for by itself. Where a waypoint has no solution the robot goes straight from the solution
        before to the one after. `ik_service.solver.paths` says how.

        Args:
            positions: Targets of the waypoints as in `solve`, a line each.
            orientations_xyzw: Alike.
            dt: Time from waypoint to waypoint [s].
            start_joint_q: Configuration one `dt` before the first waypoint, shape [coordinates], and at that waypoint
                if it meets it; None begins anywhere.
            solutions: Distinct solutions to begin from, at each of several places along the path; paths of more than
                some 10000 waypoints begin from fewer.
            velocity: Largest speeds [m/s or rad/s]: a number, a mapping from names of joints, or an array of shape
                [joint_dof_count] in the robot's order; None takes those of the robot's model.
            acceleration: Largest changes of speed [m/s^2 or rad/s^2], alike; None for no limit. They are reported, and
                not chosen for.
            options: Seeds, iterations, tolerances and random seed as in `solve`.

        Raises:
            UnknownNameError: The robot has no joint of a name.
            InputError: A value that is not allowed, or targets or objectives with data for every waypoint.
            EngineError: The compiled engine cannot hold an island of this problem.
            KernelCacheError: Compiled kernels can be neither read nor kept.
        """
        pace = Pace.read(self.robot, dt, velocity, acceleration)
        chosen = self.options.of_solve(options)
        given = read_targets(self.targets, positions, orientations_xyzw, None, wxyz=self._wxyz)
        start = None
        if start_joint_q is not None:
            start = read_start(self.robot, self._order, "start_joint_q", start_joint_q, 1).reshape(-1)
            start = self.robot.clamp_joint_q(host_array("start_joint_q", start))[0]
        check_one_line(self._objectives, self._poses.with_lines)
        finish: Literal["float32", "float64"] = "float32" if self._compiled is None else "float64"
        waypoints = Waypoints(self.robot, given, chosen, finish, partial(self._solve, self._own_head))
        result = followed(waypoints, self._order, pace, solutions, start)
        if result is None:
            raise_fault(self.robot, self._order, self.targets, (positions, orientations_xyzw, None, None))
        return result

    def _solve_staged(self, problem_count: int, seeds: int) -> Partition:
        """Work through all attempts; again where a row reached a tree that its probes had not shown."""
        join = not self.islands_enabled
        while True:
            batch = self._fit_batch(problem_count, seeds)  # binds the objectives, whose weights tell the islands
            self._work.read(problem_count)
            partition = self._work.discovered(self._rows, problem_count, join=join)
            if not self._work.intake.is_faulty():
                batch.run(self.options.use_graph, self.options.check_jacobians)
            if not self._support.widen():
                self._work.judge(partition, problem_count)
                return partition
            self._use_support()

    def set_target_data(self, target: int, *, offset: Any = None, row_weights: Any = None) -> None:
        """Replace the tool frame or the weights of a target, from the next solve on.

        Nothing is compiled for it, unless weights are 0 in other places than before.

        Args:
            target: Which of `targets`.
            offset: Tool frame as in `Target`, which must have been declared with one; None leaves it as it is.
            row_weights: Weights as in `Target`; None leaves them as they are.

        Raises:
            InputError: There is no such target, or a value is not allowed.
        """
        self._poses.replace(target, offset, row_weights)

    def islands(self, problem: int = 0) -> IslandReport:
        """Tell which joints fall into which island, which rows join them, and which targets nothing can move.

        A solve may hold fewer rows: those of a target without positions or without orientations are off. What became
        of the islands of a solve stands in its result.

        Args:
            problem: Which problem, where weights differ between problems.

        Raises:
            InputError: There is no such problem.
        """
        if self._batch is None:  # objectives have their weights at hand once they are bound
            self._rows.bind(1, wp.zeros(1, dtype=wp.int32, device=self._model.device))
        trees, join = self._support.trees, not self.islands_enabled
        return report_islands(self.robot, self.targets, self._rows, trees, problem=problem, join=join)

    def recorded(
        self, *, orientations: bool = True, for_gpus: bool = False, polished: bool = False
    ) -> RecordedLaunches:
        """Return the kernels of a solve, with what they work on, for export.

        Args:
            orientations: Whether targets have orientations, or are positions alone.
            for_gpus: Whether islands are to be solved by the kernels for GPUs; nothing says in how many waves.
            polished: Whether the answers are taken on in float64, in steps of the phase "polish".

        Raises:
            EngineError: The solver is staged, has objectives besides its targets, data for every problem, or an order
                of joints or quaternions of its own.
        """
        if not self._order.is_own or self._wxyz:
            raise EngineError("Only solvers in the robot's own joint_order, of quaternions xyzw, can be exported.")
        if self._compiled is None or len(self._rows.objectives) != len(self.targets) or self._poses.with_lines:
            raise EngineError(
                "Only solvers of pose targets by the compiled engine can be exported: no further objectives, no soft "
                "limits, no offsets or row weights per problem."
            )
        with DEVICE_LOCK, TOLD_CACHE_ERRORS:
            self._fit_workspace(2)
            self._upload_targets()
            join = not self.islands_enabled
            engine = self._compiled.for_gpus(join=join) if for_gpus else self._compiled
            given = {"orientations": orientations, "join": join, "polished": polished}
            return self._work.recorded(engine, self._rows, self._incidence, 2, **given)

    # ------------------------------------------------------------------ set-up
    def _use_support(self) -> None:
        """Lay out islands, answers and batch for the support of the rows as it is known now."""
        trees = self.robot.trees
        self._incidence = self._support.trees
        self._structure = RowStructure.build(
            self._incidence, trees.active_treeid, trees.coordinate_treeid, self._model.device
        )
        self._work.use_rows(self._structure, coordinates_read(self._rows, self._support.dofs))
        self._batch = None

    def _workspace(self, capacity: int) -> Workspace:
        hard = self.options.joint_limits == "hard"
        return Workspace(
            self._model, self.targets, self._poses.touches, capacity, hard_limits=hard, threads=self._threads
        )

    def _fit_workspace(self, problem_count: int) -> None:
        """Grow the per-problem arrays where they are too small."""
        if problem_count > self._work.problems.capacity:
            self._work = self._workspace(2 ** math.ceil(math.log2(problem_count)))
            self._poses.use_arrays(self._work.problems)
            if self._compiled is not None:
                self._rows.bind_data()
            self._use_support()

    def _upload_targets(self) -> None:
        """Bring tool frames and weights that have been replaced to the device."""
        if self._poses.is_replaced:
            exchanged = self._poses.upload()
            if self._work.use_targets(self._poses.all) or exchanged:
                self._work.forget()

    def _fit_batch(self, problem_count: int, seeds: int) -> Batch:
        """Fit the batch to the work; forget a recording whose arrays have changed."""
        most = SLOTS_MAX["cuda" if self._model.device.is_cuda else "cpu"]
        slots = min(most, max(SLOTS_MIN, 2 ** math.ceil(math.log2(problem_count * seeds))))
        if self._batch is None or not slots <= self._batch.slot_count < slots * SHRINK_AT:
            self._batch = Batch(self._model, self._rows, self._support, self._work.problems, slots, self.options)
        version = sum(getattr(objective, "data_version", 0) for objective in self._rows.objectives)
        if version != self._data_version:
            self._batch.forget_graph()
            self._data_version = version
        return self._batch

    # ------------------------------------------------------------------ input and output of a solve
    def _wishes(self, problem_count: int, seeds: int, options: SolverOptions) -> Wishes:
        """What a solve is to do."""
        wishes = Wishes.of(problem_count, seeds, options)
        if self._compiled is None and (wishes.choosing or wishes.polished):
            raise InputError(
                "Options best_of, solutions and precision need the compiled engine; this solver is staged."
            )
        return wishes
