"""The solver: pose targets and objectives in, joint configurations with status and measured errors out."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.linear_solve import RowStructure
from ik_service.robots import RobotModel
from ik_service.solver.answers import active_limits, common_seed, composed_status, nearest_turns
from ik_service.solver.batch import DEVICE_LOCK, Batch
from ik_service.solver.compiled_engine import CompiledEngine
from ik_service.solver.construction import check_construction
from ik_service.solver.island_report import IslandReport, report_islands
from ik_service.solver.island_results import IslandResults
from ik_service.solver.judge import judge
from ik_service.solver.options import SolverOptions
from ik_service.solver.problems import Problems
from ik_service.solver.result import IKResult
from ik_service.solver.rows import Rows, require_contract
from ik_service.solver.support import Support, row_labels
from ik_service.solver.targets import Target, TargetArrays, as_target, check_targets, host_array
from objectives import IKObjective, IKObjectiveJointLimit, IKObjectivePose, InputError

DEFAULT_SEEDS = 32
SLOTS_MAX = {"cpu": 64, "cuda": 32768}  # a CPU batch stays in the innermost cache; a GPU wants many threads
SLOTS_MIN = 8
SHRINK_AT = 16  # a batch this many times too large is laid out anew
ATTEMPTS_MAX = 2**31 - 1  # attempts are numbered in 32 bits
PER_SOLVE_OPTIONS = ("seeds", "max_iterations", "position_tolerance", "orientation_tolerance", "random_seed")


class IKSolver:
    """Solves batches of inverse-kinematics problems of one robot. Not thread-safe; the robot may be shared.

    Args:
        robot: The robot.
        targets: Links that are to reach poses: names or Targets. Their values are given to `solve`.
        objectives: Objectives of the general form; may be combined with targets. Each is bound to this solver.
        device: "auto" (the first GPU, else the CPU), or a Warp device.
        engine: "staged" for any objective on any device; "compiled" for objectives stated as expressions and joints of
            one DOF, on a CPU; "auto" is the staged engine.
        islands: Whether trees that no row couples are solved independently; False solves them as one dense system.
        threads: None or 1: both engines run on one thread.
        options: Budgets and tolerances.

    Raises:
        UnknownNameError: A link is not in the robot.
        InputError: An argument has a value that is not allowed.
        ObjectiveError: An objective breaks its contract or is bound to another solver.
        EngineError: The engine asked for cannot run this problem.
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
    ) -> None:
        check_construction(robot, targets, objectives, engine, threads, islands, options)
        self.robot, self.options = robot, options if options is not None else SolverOptions()
        self.targets = tuple(as_target(target, robot) for target in targets)
        self.engine, self.islands_enabled = "compiled" if engine == "compiled" else "staged", islands
        self.device = _resolve_device(device)
        self._objectives = tuple(objectives)
        self._touches = _touched_trees(robot, self.targets)
        with DEVICE_LOCK:
            self._set_up()

    def _set_up(self) -> None:
        """Bind the objectives and lay out their rows."""
        self._model = self.robot.on_device(str(self.device))
        self._problems = Problems(self._model, self.targets, self._touches, 1)
        self._pose_objectives = [self._pose_objective(k) for k in range(len(self.targets))]
        extra = [IKObjectiveJointLimit()] if self.options.joint_limits == "soft" else []
        everything = [*self._pose_objectives, *self._objectives, *extra]
        try:
            for objective in everything:
                self._bind(objective)
            self._rows = Rows(self._model, everything, self.options.jacobian_type())
            self._support = Support(self._model, self._rows)
            self._use_support()
            self._compiled: CompiledEngine | None = None
            if self.engine == "compiled":
                self._compiled = CompiledEngine(self._model, self._rows, self._support, len(self.targets), self.options)
        except Exception:
            for objective in everything:  # so that it can be given to another solver
                release = getattr(objective, "release_solver", None)
                if release is not None:
                    release(self)
            raise
        self._batch: Batch | None = None
        self._data_version = -1

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
            orientations_xyzw: Target orientations, unit quaternions, shapes alike with 4.
            initial_joint_q: Configurations of seed 0, shape [joint_coord_count] or [n, joint_coord_count]; clamped into
                the limits. None starts at the middle of the ranges.
            problem_count: Number of problems, where only objectives hold the data.
            options: Seeds, iterations, tolerances and random seed of this solve, where they differ from the solver's.

        Returns:
            One answer per problem.

        Raises:
            InputError: A value that is not allowed; nothing has been launched.
            ObjectiveError: `check_jacobians` found a wrong Jacobian.
            EngineError: The compiled engine cannot hold an island of this problem.
        """
        chosen = self._options_for(options)
        arrays = check_targets(self.targets, positions, orientations_xyzw, problem_count)
        start, has_start = self._starts(initial_joint_q, arrays.problem_count)
        for objective in self._objectives:
            if isinstance(objective, IKObjective):
                objective.require_problem_count(arrays.problem_count)
        for target in self.targets:
            _check_rows(target, arrays.problem_count)
        seeds = chosen.seeds if chosen.seeds is not None else DEFAULT_SEEDS
        if arrays.problem_count * seeds > ATTEMPTS_MAX:
            attempts = f"{arrays.problem_count} problems x {seeds} seeds"
            raise InputError(f"{attempts} are more than {ATTEMPTS_MAX} attempts. Split the batch.")
        with DEVICE_LOCK:
            self._fit_problems(arrays.problem_count)
            if self._compiled is None:
                self._fit_batch(arrays.problem_count, seeds)  # binds the objectives, whose weights tell the islands
            self._problems.write(arrays, start, has_start, chosen, seeds)
            self._problems.discover(self._rows, arrays.problem_count, join=not self.islands_enabled)
            if self._compiled is None:
                self._solve_staged(arrays.problem_count, seeds)
            else:
                prepared = self._compiled.prepare(self._problems, arrays.problem_count)
        if self._compiled is not None:
            prepared.run()  # kernels of several solvers may run side by side
        return self._result(arrays, start, chosen, seeds)

    def _solve_staged(self, problem_count: int, seeds: int) -> None:
        """Work through all attempts; again where a row reached a tree that its probes had not shown."""
        while True:
            self._fit_batch(problem_count, seeds).run(self.options.use_graph, self.options.check_jacobians)
            if not self._support.widen():
                return
            kept = self._problems
            self._use_support()
            kept.refresh_winners(problem_count)
            kept.discover(self._rows, problem_count, join=not self.islands_enabled)

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

    # ------------------------------------------------------------------ set-up
    def _pose_objective(self, k: int) -> IKObjectivePose:
        target, problems = self.targets[k], self._problems
        return IKObjectivePose(
            target.link,
            problems.positions[k],
            problems.orientations_xyzw[k],
            offset=target.offset,
            reference_link=target.reference_link,
            row_weights=problems.row_weights[k],
        )

    def _bind(self, objective: Any) -> None:
        require_contract(objective)
        bind_solver = getattr(objective, "bind_solver", None)
        if bind_solver is not None:
            bind_solver(self)
        bind_model = getattr(objective, "bind_model", None)
        if bind_model is not None:
            bind_model(self._model)

    def _use_support(self) -> None:
        """Lay out islands, answers and batch for the support of the rows as it is known now."""
        trees = self.robot.trees
        self._structure = RowStructure.build(
            self._support.trees, trees.active_treeid, trees.coordinate_treeid, self._model.device
        )
        self._problems.use_structure(self._structure)
        self._batch = None

    def _fit_problems(self, problem_count: int) -> None:
        """Grow the per-problem arrays where they are too small."""
        if problem_count > self._problems.capacity:
            capacity = 2 ** math.ceil(math.log2(problem_count))
            self._problems = Problems(self._model, self.targets, self._touches, capacity)
            for k, objective in enumerate(self._pose_objectives):
                objective.set_data("target_positions", self._problems.positions[k])
                objective.set_data("target_orientations_xyzw", self._problems.orientations_xyzw[k])
                objective.set_data("row_weights", self._problems.row_weights[k])
            self._use_support()

    def _fit_batch(self, problem_count: int, seeds: int) -> Batch:
        """Fit the batch to the work; forget a recording whose arrays have changed."""
        most = SLOTS_MAX["cuda" if self._model.device.is_cuda else "cpu"]
        slots = min(most, max(SLOTS_MIN, 2 ** math.ceil(math.log2(problem_count * seeds))))
        if self._batch is None or not slots <= self._batch.slot_count < slots * SHRINK_AT:
            self._batch = Batch(self._model, self._rows, self._support, self._problems, slots, self.options)
        version = sum(getattr(objective, "data_version", 0) for objective in self._rows.objectives)
        if version != self._data_version:
            self._batch.forget_graph()
            self._data_version = version
        return self._batch

    # ------------------------------------------------------------------ input and output of a solve
    def _options_for(self, options: "dict[str, object] | SolverOptions | None") -> SolverOptions:
        if isinstance(options, SolverOptions):
            options = options.changes_from(self.options)
        if options is not None and not isinstance(options, dict):
            raise InputError(f"options is {options!r}. Allowed: a dict of option names and values, or SolverOptions.")
        merged = self.options.merged(options)
        fixed = [name for name in options or {} if name not in PER_SOLVE_OPTIONS]
        if fixed:
            raise InputError(f"Option {fixed[0]!r} is fixed when the solver is made. Per solve: {PER_SOLVE_OPTIONS}.")
        return merged

    def _starts(self, initial_joint_q: Any, problem_count: int) -> tuple[NDArray[np.float32], bool]:
        """Configurations of seed 0 and whether they are the caller's."""
        coordinates = self.robot.joint_coord_count
        if initial_joint_q is None:
            q = self.robot.mid_joint_q
        else:
            q = host_array("initial_joint_q", initial_joint_q)
            if q.shape not in ((coordinates,), (problem_count, coordinates)):
                allowed = f"[{coordinates}] or [{problem_count}, {coordinates}]"
                raise InputError(f"initial_joint_q has shape {list(q.shape)}. Allowed: {allowed}.")
            q = self.robot.clamp_joint_q(q) if self.options.joint_limits == "hard" else self.robot.complete_joint_q(q)
        start = np.broadcast_to(np.asarray(q, np.float64), (problem_count, coordinates))
        return self._inside(start.astype(np.float32)), initial_joint_q is not None

    def _inside(self, joint_q: NDArray[np.float32]) -> NDArray[np.float32]:
        """Undo roundings that cross a limit, where limits are hard."""
        if self.options.joint_limits == "hard":
            own = self.robot.dof_coordinate >= 0
            column = self.robot.dof_coordinate[own]
            lower, upper = self._model.joint_limit_lower.numpy()[own], self._model.joint_limit_upper.numpy()[own]
            free = self.robot.dof_active[own] >= 0  # a locked joint stays where it was locked
            column, lower, upper = column[free], lower[free], upper[free]
            joint_q[:, column] = np.clip(joint_q[:, column], lower, upper)
        return joint_q

    def _result(self, arrays: TargetArrays, start: NDArray[np.float32], options: SolverOptions, seeds: int) -> IKResult:
        count = arrays.problem_count
        joint_q = nearest_turns(self.robot, self._problems.winners.joint_q.numpy()[:count].copy(), start)
        judgement = judge(self.robot, self.targets, arrays, joint_q)
        met = judgement.met(options.position_tolerance, options.orientation_tolerance)
        labels = row_labels(self._rows, [target.link for target in self.targets])
        starts = self._rows.start[: len(self.targets)]
        islands = IslandResults.collect(self._problems, count, met, self.robot, labels, starts)
        present = islands.present
        success = np.asarray((islands.success | ~present).all(axis=1) & met.all(axis=1))
        return IKResult(
            joint_q=joint_q,
            success=success,
            status=composed_status(islands, success),
            position_error=judgement.position_error,
            orientation_error=judgement.orientation_error,
            cost=np.where(present, islands.cost, np.float32(0.0)).sum(axis=1, dtype=np.float32),
            iterations=np.where(present, islands.iterations, 0).max(axis=1),
            seed_index=common_seed(islands),
            active_limits=active_limits(self._model, joint_q),
            joint_names=self.robot.joint_names,
            coordinate_names=self.robot.coordinate_names,
            engine=self.engine,
            device=str(self._model.device),
            seeds=seeds,
            islands=islands,
        )


def _resolve_device(device: Any) -> wp.Device:
    wp.init()
    if device == "auto":
        return wp.get_preferred_device()
    try:
        return wp.get_device(device)
    except (ValueError, RuntimeError) as error:
        known = ", ".join(str(d) for d in wp.get_devices())
        raise InputError(f"device is {device!r}, which Warp does not know. Devices: auto, {known}.") from error


def _check_rows(target: Target, problem_count: int) -> None:
    """Per-problem offsets and weights must have a line for every problem."""
    for name in ("offset", "row_weights"):
        value = getattr(target, name)
        lines = 1 if value is None or np.ndim(value) == 1 else len(value)
        if lines not in (1, problem_count):
            raise InputError(f"Target '{target.link}': {name} has {lines} lines for {problem_count} problems.")


def _touched_trees(robot: RobotModel, targets: Sequence[Target]) -> NDArray[np.bool_]:
    """Which trees each target touches, bool [targets, trees]."""
    touches = np.zeros((len(targets), robot.trees.ntree), dtype=bool)
    for k, target in enumerate(targets):
        for link in (target.link, target.reference_link):
            body = robot.link_frame(link)[0] if link is not None else -1
            if body >= 0 and robot.trees.body_treeid[body] >= 0:
                touches[k, robot.trees.body_treeid[body]] = True
    return touches
