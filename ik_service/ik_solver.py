"""The solver: pose targets and objectives in, joint configurations with status and measured errors out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from ik_service.collision.world import AttachedObject, World
from ik_service.errors import EngineError
from ik_service.mechanism.caller_order import CallerOrder
from ik_service.motion import PathResult
from ik_service.motion.clip_fitting import ClipFitting
from ik_service.motion.follow import followed
from ik_service.motion.result import RateLimits
from ik_service.motion.waypoints import WayCheck, Waypoints
from ik_service.robots import RobotModel
from ik_service.solver.answer_derivatives import linearised, with_derivatives
from ik_service.solver.candidate_solving import CandidateSolving
from ik_service.solver.construction import SolverSetup, check_construction, resolve_device
from ik_service.solver.derivatives.linearisation import Linearisation
from ik_service.solver.device_solver import DeviceSolver
from ik_service.solver.given import reading
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import Target
from ik_service.solver.given.worlds import CheckedWorlds, read_worlds
from ik_service.solver.recorded_launches import RecordedLaunches
from ik_service.solver.recording import USES_MIN
from ik_service.solver.result import IKResult, ResultHead
from ik_service.solver.second_tries.second_tries import SecondTries
from ik_service.solver.verdict.advice import IslandReport
from ik_service.solver.verdict.explanation import AskedSolve
from objectives import IKObjective


class IKSolver(CandidateSolving, ClipFitting):
    """Solves batches of inverse-kinematics problems of one robot. Not thread-safe; the robot may be shared.

    Args:
        robot: The robot.
        targets: Links with target poses: names or Targets. The poses are given to `solve`.
        objectives: Objectives of the general form; may be combined with targets. Each is bound to this solver.
        device: "auto" (the first GPU, else the CPU), or a Warp device.
        engine: "compiled" for objectives stated as expressions and islands of up to 200 DOFs with one target, or some
            48 with many (36 and 21 on a GPU); "staged" for any objective; "auto" takes "compiled" where possible.
            `solver.engine` is the engine chosen.
        islands: Whether trees without a common row are solved independently; False solves them as one system.
        threads: Threads of the compiled engine on a CPU; None is one. Answers do not depend on the number of threads.
        options: Budgets and tolerances.
        joint_order: Names of joints in the order in which configurations are given and returned; None is the robot's
            own. Locked joints and mimic joints may be left out.
        wxyz: Whether target quaternions are given to `solve` in the order wxyz instead of xyzw.

    Attributes:
        robot: The robot.
        options: The options.
        engine: The engine that runs.
        device: The device of the engine.
        coordinate_names: Names of the columns of configurations.
        dof_names: Names of the columns of DOFs.
        wxyz: Whether target quaternions are given in the order wxyz.

    Raises:
        UnknownNameError: A link or joint is not in the robot.
        InputError: The value of an argument is not allowed.
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
        self.device = resolve_device(device)
        self._order, self.wxyz = CallerOrder(robot, joint_order), wxyz
        self.coordinate_names, self.dof_names = self._order.coordinate_names, self._order.dof_names
        setup = SolverSetup(self.device, engine, not islands, 1 if threads is None else threads, self.options)
        self._setup, self._solves = setup, SecondTries(robot, targets, objectives, setup)
        self._core = self._solves.core
        self.engine = self._core.engine.name
        labels = self._core.row_labels()
        self._own_head = ResultHead(robot, CallerOrder(robot, None), labels, self.engine, str(self.device))
        self._head = replace(self._own_head, order=self._order)
        self._linearised = partial(linearised, self._core, self._head)

    @property
    def targets(self) -> tuple[Target, ...]:
        """The targets."""
        return self._core.targets.all

    def solve(
        self,
        positions: Any = None,
        orientations_xyzw: Any = None,
        *,
        initial_joint_q: Any = None,
        problem_count: int | None = None,
        offset: Any = None,
        row_weights: Any = None,
        tolerance: Any = None,
        constraint_enabled: Any = None,
        world: "World | Sequence[World] | None" = None,
        world_index: Any = None,
        object_enabled: Any = None,
        attached: "Mapping[str, AttachedObject] | None" = None,
        joint_limits: Any = None,
        frozen: Any = None,
        max_change: Any = None,
        options: "dict[str, object] | SolverOptions | None" = None,
    ) -> IKResult:
        """Solve a batch of problems.

        Args:
            positions: Target positions in the world or reference frame [m], shape [n, 3] for one target, or [3] for one
                problem; [n, targets, 3] for several, or a list with one array or None per target; None is
                unconstrained. Or whole poses: `Poses`, matrices [n, 4, 4], `pinocchio.SE3`.
            orientations_xyzw: Target orientations, unit quaternions, the same shapes with 4 instead of 3, rotation
                matrices [n, 3, 3] or a SciPy Rotation. Arrays may be of NumPy or Warp, or anything with `__dlpack__`.
            initial_joint_q: Configurations of seed 0, shape [coordinates] or [n, coordinates]; clamped into the limits.
                Locked joints are held at these values. None: the middle of the ranges and the robot's values of locked
                joints; where targets fix links joined by welds, a solution found with the welds open.
            problem_count: Number of problems, where only objectives hold the data.
            offset: Tool frame in this solve alone, as in `Target`; for several targets a list of one or None for each.
            row_weights: Weights in this solve alone, in the same form.
            tolerance: Tolerances in this solve alone, in the same form. Declare targets as for `set_target_data`.
            constraint_enabled: Closed loops of the robot: booleans [loops] or [n, loops], or a mapping from names of
                loops to a boolean or [n]; None and loops left out of the mapping: closed. An open loop is not judged
                and changes nothing; its error is in the result. The same islands as before compile nothing.
            world: Obstacles, or several sets of obstacles; new ones compile nothing.
            world_index: Index of the world of each problem, where there are several, [n].
            object_enabled: Objects present in the world, booleans [objects] or [n, objects]; None for all.
            attached: Objects carried by links, by name; new ones compile nothing.
            joint_limits: Limits within the robot's [rad or m]: a mapping from names of DOFs to pairs (lower, upper),
                each a number or [n]; a pair of arrays [DOFs] or [n, DOFs]; or `RequestedLimits`, which also replace
                `frozen` and `max_change`. New limits compile nothing.
            frozen: DOFs held at their values in `initial_joint_q`, within the robot's limits: names, a mapping from
                names to a boolean or [n], or booleans [DOFs] or [n, DOFs].
            max_change: Largest distance of DOFs from `initial_joint_q` [rad or m]: one number for all, a mapping from
                names to a number or [n], or an array [DOFs] or [n, DOFs].
            options: Seeds, iterations, tolerances and random seed of this solve, where they differ from the solver's.

        Returns:
            One answer per problem.

        Raises:
            UnknownNameError: The robot has no loop or DOF of a name, or no link that carries an object.
            InputError: A value that is not allowed; nothing has been launched.
            ObjectiveError: `check_jacobians` found a wrong Jacobian.
            EngineError: The compiled engine cannot hold an island of this problem.
            KernelCacheError: Compiled kernels can be neither read nor kept.
        """
        chosen = self.options if options is None else self.options.of_solve(options)
        poses, data = (positions, orientations_xyzw, problem_count), (offset, row_weights, tolerance)
        obstacles, limits = (world, world_index, object_enabled, attached), (joint_limits, frozen, max_change)
        asked = poses, data, initial_joint_q, constraint_enabled, obstacles, limits
        batch = reading.read_problems(self.robot, self._order, self._core.targets.all, chosen, *asked, wxyz=self.wxyz)
        result = self._solves.solve(self._head, batch, chosen)
        if result is None:
            reading.raise_fault(self.robot, self._order, self.targets, (*poses[:2], initial_joint_q, problem_count))
        vars(result)["asked"] = AskedSolve(chosen, batch)
        return result if chosen.sensitivity is None else with_derivatives(result, self._linearised(result, batch))

    def solve_batch(self, batch: Batch, options: SolverOptions) -> IKResult:
        """Solve a checked batch, as the service reads one: `solve` without the checks of its arrays.

        Args:
            batch: The problems; quaternions are xyzw, and coordinates are in the robot's own order.
            options: Seeds, iterations, tolerances and random seed of this solve.

        Raises:
            InputError: An option that is fixed for a solver, a number that is not finite, or data of another number of
                problems.
            EngineError: The compiled engine cannot hold an island of this problem.
            KernelCacheError: Compiled kernels can be neither read nor kept.
        """
        chosen = self.options.of_solve(options)
        result = self._solves.solve(self._head, batch, chosen)
        if result is None:
            given = [*batch.positions], [*batch.orientations_xyzw], batch.start, None
            reading.raise_fault(self.robot, CallerOrder(self.robot, None), self.targets, given)
        vars(result)["asked"] = AskedSolve(chosen, batch)
        return result if chosen.sensitivity is None else with_derivatives(result, self._linearised(result, batch))

    def on_device(self) -> DeviceSolver:
        """Return a solver with arrays of this solver's device, such as tensors of a GPU.

        Raises:
            EngineError: The solver is staged, or has no targets.
        """
        return DeviceSolver(self.robot, self._core, self._order, self.options, self.device, wxyz=self.wxyz)

    def warmup(self, *targets: Any, **arguments: Any) -> None:
        """Solve repeatedly until code of this kind of solve is compiled, loaded and recorded.

        A kind is the number of problems and the names of arguments given. Takes the arguments of `solve`.
        """
        self._solves.rehearses = True
        try:
            for _ in range(USES_MIN + 1):
                self.solve(*targets, **arguments)
        finally:
            self._solves.rehearses = False

    def solve_as_recorded(
        self, positions: Any, orientations_xyzw: Any = None, *, world: "World | None" = None
    ) -> IKResult:
        """Return the answers of the launches of `recorded`.

        The same as `solve` without `best_of`, `solutions` and `precision`. Answers in contact stay: no other
        combination of the islands' solutions is tried, and no target is solved without the other rows. No start is
        found with loops opened. Arguments are as in `solve`.

        Raises:
            InputError: A value that is not allowed.
        """
        batch = reading.read_targets(self.targets, positions, orientations_xyzw, None, wxyz=self.wxyz)
        chosen = replace(self.options, best_of=None, solutions=1, precision="float32")
        worlds = read_worlds(self.robot, chosen, world, None, None, None, batch.problem_count)
        result = self._core.solve(self._head, batch._replace(worlds=worlds), chosen)
        if result is None:
            reading.raise_fault(self.robot, self._order, self.targets, (positions, orientations_xyzw, None, None))
        return result

    def linearise(
        self,
        result: IKResult,
        positions: Any = None,
        orientations_xyzw: Any = None,
        *,
        constraint_enabled: Any = None,
        data: "Sequence[tuple[IKObjective, str]]" = (),
        limits: bool = False,
    ) -> Linearisation:
        """Return first derivatives of the answers of a solve by its targets; answers are taken as local minima.

        Computed on the host in float64, from the statements of all rows. Targets met by an answer are equality
        constraints; the other rows have their least cost under these constraints, with the second derivatives of all
        rows. There are no derivatives where targets are not met, or are opposed by rows of priority 0, and there are
        lower-priority rows; nor in singular configurations and at kinks of rows. If all rows belong to targets met,
        code compiled at first use derives the answers, in microseconds each. Columns are in the order of
        `coordinate_names` and `dof_names`. Data of the solve alone are used, else the data of objectives and targets.

        Args:
            result: Answers of this solver, or of a solver of the same robot, rows and order of joints.
            positions: The targets of the solve, as in `solve`.
            orientations_xyzw: As in `solve`.
            constraint_enabled: As in `solve`.
            data: Objectives and names of their fields; answers are derived by these numbers, too: `found.by_data`.
            limits: Whether answers are derived by the active joint limits, too: `found.by_limits`.

        Raises:
            UnknownNameError: The robot has no loop of a name, or an objective no field of a name.
            InputError: A value is not allowed, the number of targets differs from the number of answers, parts of
                targets differ from the solve, or the answers are of another solver.
            EngineError: An objective does not state its rows, or a target has a frame or tolerances of its own.
            KernelCacheError: Compiled kernels can be neither read nor kept.
        """
        count = None if self.targets else len(result)
        batch = reading.read_targets(self.targets, positions, orientations_xyzw, count, wxyz=self.wxyz)
        enabled = reading.read_enabled(self.robot.constraint_names, constraint_enabled, batch.problem_count)
        return self._linearised(result, batch._replace(enabled=enabled), data, limits=limits)

    def follow(
        self,
        positions: Any,
        orientations_xyzw: Any,
        dt: float,
        *,
        start_joint_q: Any = None,
        solutions: int = 16,
        velocity: Any = None,
        acceleration: Any = None,
        world: "World | None" = None,
        attached: "Mapping[str, AttachedObject] | None" = None,
        options: "dict[str, object] | SolverOptions | None" = None,
    ) -> PathResult:
        """Follow a path: choose solutions of its waypoints, each close to the one before.

        Several solutions are carried along the path within the speed limits; the farthest is taken, and
        another begins where all end (`PathResult.breaks`). Islands are independent. Over a waypoint without a solution
        the robot goes straight from the solution before to the one after, and stands still where none has a solution.

        Args:
            positions: Targets of the waypoints as in `solve`, a line each.
            orientations_xyzw: Orientations, in the same way.
            dt: Time from waypoint to waypoint [s].
            start_joint_q: Configuration one `dt` before the first waypoint, shape [coordinates]; None begins anywhere.
                The path begins there if the start meets that waypoint and no objective of priority 1 moves it away.
            solutions: Number of distinct solutions carried along; 4 times as many where all end before the path.
            velocity: Largest speeds [m/s or rad/s]: a number, a mapping from names of joints, or an array of shape
                [joint_dof_count] in the robot's order; None takes the limits of the robot's model.
            acceleration: Largest changes of speed [m/s^2 or rad/s^2], in the same forms; reported, without effect on
                the path.
            world: Obstacles; None for none. The ways between waypoints, straight in the joints, are checked, too.
            attached: Objects that links carry, by name; None for none.
            options: Seeds, iterations, tolerances and random seed as in `solve`.

        Raises:
            UnknownNameError: The robot has no joint of a name.
            InputError: A value that is not allowed, or targets or objectives with data for every waypoint.
            EngineError: The compiled engine cannot hold an island of this problem.
            KernelCacheError: Compiled kernels can be neither read nor kept.
        """
        rates, chosen = RateLimits.read(self.robot, dt, velocity, acceleration), self.options.of_solve(options)
        path = reading.read_targets(self.targets, positions, orientations_xyzw, None, wxyz=self.wxyz)
        start = None
        if start_joint_q is not None:
            start = reading.read_stand(self.robot, self._order, "start_joint_q", start_joint_q)
        reading.check_one_line(self._core.objectives, self._core.targets.with_lines)
        worlds = read_worlds(self.robot, chosen, world, None, None, attached, 1)
        check = None if worlds is None else WayCheck.of(self.robot, worlds)
        problems, solve = path._replace(worlds=worlds), partial(self._solves.solve, self._own_head)
        waypoints = Waypoints(self.robot, problems, chosen, self._core.engine.finish, solve, check=check)
        result = followed(waypoints, self._order, rates, solutions, start)
        if result is None:
            reading.raise_fault(self.robot, self._order, self.targets, (positions, orientations_xyzw, None, None))
        return result

    def set_target_data(
        self, target: int, *, offset: Any = None, row_weights: Any = None, tolerance: Any = None
    ) -> None:
        """Replace the tool frame, the weights or the tolerances of a target, from the next solve on.

        Nothing is compiled, unless the set of free rows changes.

        Args:
            target: Index in `targets`.
            offset: Tool frame as in `Target`; None keeps the frame. The target must have been declared with a frame.
            row_weights: Weights as in `Target`; None keeps the weights.
            tolerance: Tolerances as in `Target`; None keeps them. Declare the target with tolerances or free rows.

        Raises:
            InputError: There is no such target, or a value is not allowed.
        """
        self._core.targets.replace(target, offset=offset, row_weights=row_weights, tolerance=tolerance)

    def islands(self, problem: int = 0) -> IslandReport:
        """Report the joints of each island, the rows coupling them, and the targets on links without an active joint.

        A solve may hold fewer rows: rows of a target without positions or without orientations are off. The result of a
        solve reports its own islands.

        Args:
            problem: Index of the problem, where weights differ between problems.

        Raises:
            InputError: There is no such problem.
        """
        return self._core.report_islands(problem)

    def recorded(
        self,
        *,
        orientations: bool = True,
        for_gpus: bool = False,
        float64_finish: bool = False,
        collision: bool | None = None,
        world: World | None = None,
    ) -> RecordedLaunches:
        """Return the kernels of a solve and their arrays, for export.

        Args:
            orientations: Whether targets have orientations, or are positions alone.
            for_gpus: Whether islands are to be solved by the kernels for GPUs; the number of waves is not recorded.
            float64_finish: Whether the answers are improved in float64, in steps of the phase "finish".
            collision: Whether answers are checked for collision, where the robot has a model; None as in `solve`.
            world: With None: obstacles; kernels for GPUs know none.

        Raises:
            InputError: There is a world, and the robot has no collision model.
            EngineError: The solver is staged, has objectives besides its targets, data for every problem, or an order
                of joints or quaternions of its own.
        """
        if not self._order.is_own or self.wxyz:
            raise EngineError("Only solvers in the robot's own joint_order, of quaternions xyzw, can be exported.")
        worlds = CheckedWorlds((), np.zeros(1, np.int32), None, {}) if collision else None
        if collision is None:
            worlds = read_worlds(self.robot, self.options, world, None, None, None, 1)
        chosen = {"orientations": orientations, "for_gpus": for_gpus}
        return self._core.recorded(**chosen, float64_finish=float64_finish, worlds=worlds)
