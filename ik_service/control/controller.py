"""Controller: targets and positions of the robots in, commands within all limits out, tick by tick."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ik_service.collision.body_spheres import checked_attached
from ik_service.collision.world import AttachedObject, World
from ik_service.control.caller_arrays import (
    CallerArrays,
    ControlResult,
    check_settings,
    check_times,
    lines,
    waypoint_targets,
)
from ik_service.control.clearance.limit import ClearanceLimit
from ik_service.control.control_tasks import ControlTasks
from ik_service.control.jerk import add_smoothing, begin_smoothing
from ik_service.control.limits import (
    ControlLimits,
    checked_clearance,
    checked_world,
    resolved_limits,
    velocity_and_acceleration,
)
from ik_service.control.target_filter import TargetFilter, shaping_rules, start_targets
from ik_service.control.tick.arrays import (
    BRAKES,
    DT,
    HISTORY,
    ORIENTATION_TOLERANCE,
    POSITION_TOLERANCE,
    ROBOTS,
    RULES,
    SCALES,
    WINDOW,
    TickArrays,
    TickLaunches,
)
from ik_service.control.tick.derivatives import TickAnswer, TickDerivatives, tick_derivatives
from ik_service.control.tick_islands import RecordedTicks, TickIslands, record_ticks
from ik_service.errors import EngineError
from ik_service.kernels.device_lock import DEVICE_LOCK, device_work
from ik_service.kernels.kernel_loading import KernelsFor, whom_of
from ik_service.mechanism.caller_order import CallerOrder
from ik_service.mechanism.configuration import refuse_degrees
from ik_service.mechanism.coupling import complete_joint_q
from ik_service.mechanism.transforms import Float64Array
from ik_service.motion import PathResult
from ik_service.motion.result import RateLimits, WaypointAnswers, checked_dt, path_result
from ik_service.robots import RobotModel
from ik_service.solver.construction import check_construction
from ik_service.solver.given.arrays import host_array
from ik_service.solver.given.targets import Target, as_target
from ik_service.solver.lm.status import IKStatus
from objectives import IKObjective, InputError

WARM_TICKS = 5


class IKController:
    """Controller that moves robots of one model towards targets, tick by tick. Not thread-safe; robots may be shared.

    Every tick starts from a configuration and ends in a configuration within all limits: position, speed, joint step
    and acceleration (see `ik_service.control.limits` for their precedence). Limits are part of the solve, so other
    joints compensate for a joint at its limit. Loop closures take precedence over all targets and objectives: within
    the limits, loops are closed in every tick, or the status is LOOP_OPEN. A tick uses no random numbers and stays on
    its branch. After construction, ticks neither allocate nor compile. The first tick needs the position of the robots:
    call `reset`, or give `follow` a start, or the first `step` a `joint_q`.

    Args:
        robot: The robot.
        targets: Links with target poses: names or Targets; `step` takes the poses. Offsets and weights have one line,
            or one per robot; rows of weight 0 for all robots are removed permanently. All other rows are judged, even
            rows that no joint moves: an orientation target for a slider never converges. A target is refused if no
            joint moves any of its weighted rows.
        objectives: Further objectives, stated as expressions; each is bound to this controller. Their data have one
            line, or one per robot. Objectives of priority 1, the default, act in the null space of targets and
            objectives of priority 0.
        robots: Number of robots controlled together.
        limits: Limits of speed, acceleration, clearance and others; None takes the model's speeds.
        target_filter: Filter of all target poses before each tick; None for none. Filter and limits of targets begin
            at rest where `reset` puts the links. Errors and `success` are those of the given targets.
        world: Obstacles, if clearance is a limit; None for none. `set_world` changes the obstacles.
        posture: Configuration that attracts joints in the null space of the targets, in the robot's own order, shape
            [joint_coord_count] or [robots, joint_coord_count]; None for none. Its rows have priority 1.
        posture_weight: Weight of the posture rows, in the robot's `length_unit` per rad or m.
        damping_weight: Weight of damping rows, which hold every joint at its position, in the same unit. Damping
            selects one of several equivalent solutions, and slows a robot near singularities. With a posture, a tick
            covers p^2 / (p^2 + d^2) of the way to the posture, for weights p and d.
        scale_direction: Shorten a step beyond limits as a whole, island by island, to keep its direction; otherwise
            joint by joint. Not for ball and floating joints.
        iterations: Most steps of a tick without a deadline.
        position_tolerance: Distance within which a target counts as met [m].
        orientation_tolerance: Angle within which a target counts as met [rad].
        joint_order: Names of joints in the order of the caller's joint arrays; None is the robot's own order. Locked
            joints and mimic joints may be omitted.
        wxyz: Target quaternions are given in the order wxyz instead of xyzw.
        device: A Warp device. A CPU answers a few robots sooner than a GPU.

    Attributes:
        robot: The robot.
        targets: The targets.
        robots: Number of robots.
        commanded_targets: Targets of the last tick, filtered and limited, quaternions xyzw, [robots, targets, 7].
        coordinate_names: Names of the columns of `joint_q`.
        dof_names: Names of the columns of `joint_qd`.

    Raises:
        UnknownNameError: A link or joint is not in the robot.
        InputError: An argument is invalid.
        ObjectiveError: An objective breaks its contract or is bound to another controller or solver.
        EngineError: The tasks cannot be compiled.
        KernelCacheError: The kernel cache can be neither read nor written.
    """

    def __init__(
        self,
        robot: RobotModel,
        targets: Sequence[Target | str] = (),
        *,
        objectives: Sequence[IKObjective] = (),
        robots: int = 1,
        limits: ControlLimits | None = None,
        target_filter: TargetFilter | None = None,
        world: World | None = None,
        posture: Any = None,
        posture_weight: float = 1e-3,
        damping_weight: float = 1e-2,
        scale_direction: bool = False,
        iterations: int = 6,
        position_tolerance: float = 1e-4,
        orientation_tolerance: float = 1e-3,
        joint_order: Sequence[str] | None = None,
        wxyz: bool = False,
        device: Any = "cpu",
    ) -> None:
        check_construction(robot, targets, objectives, "compiled", None, True, None, wxyz)
        tolerances = position_tolerance, orientation_tolerance
        check_settings(robots, iterations, (posture_weight, damping_weight), tolerances)
        self.robot, self.robots = robot, robots
        self.targets = tuple(as_target(target, robot) for target in targets)
        self._order = CallerOrder(robot, joint_order)
        self.coordinate_names, self.dof_names = self._order.coordinate_names, self._order.dof_names
        self._iterations, self._wxyz = iterations, wxyz
        limits = limits or ControlLimits()
        rules = shaping_rules(target_filter, limits)
        shapes = target_filter is not None or min(rules[4:]) < np.inf
        resolved, margin = resolved_limits(robot, limits), checked_clearance(robot, limits, world)
        self._rate_limits = velocity_and_acceleration(robot, limits)
        with DEVICE_LOCK, KernelsFor(whom_of(robot.name, [target.link for target in self.targets])):
            model = robot.on_device(device)
            self._arrays = TickArrays(model, robots, len(targets), resolved, clears=margin is not None, shapes=shapes)
            self._smoothing_time = add_smoothing(self._arrays, robot, limits, resolved["acceleration"])
            soft: dict[str, Any] = {"posture": posture, "posture_weight": posture_weight}
            given = model, self.targets, objectives, self._arrays, self
            self._tasks = ControlTasks(*given, tolerances=tolerances, damping_weight=damping_weight, **soft)
            self._islands = TickIslands(model, self._tasks, self._arrays, robots)
            self._clearance: ClearanceLimit | None = None
            if margin is not None:
                moved = ~self._islands.unmoved_dofs()
                self._clearance = ClearanceLimit(model, self._arrays, moved, margin, world)
        launches = [island.launch for island in self._islands.islands]
        self._launches = TickLaunches(self._arrays, launches, model.device, self._clearance)
        unmoved = self._islands.unmoved_coordinates()
        self._caller = CallerArrays(self._arrays, self._order, len(self.targets), len(launches), unmoved, wxyz=wxyz)
        settings, self._numbers = self._arrays.settings.host, self._arrays.numbers.host
        self._numbers[RULES:], self.commanded_targets = rules, self._arrays.targets.host
        self._tick_numbers: Any = self._numbers.data  # written in half the time of the array
        settings[ROBOTS], settings[SCALES] = robots, scale_direction
        settings[BRAKES] = self._arrays.has_accelerations
        self._numbers[POSITION_TOLERANCE], self._numbers[ORIENTATION_TOLERANCE] = tolerances
        self.reset(robot.mid_joint_q[self._order.coordinates])
        self._is_placed = False  # the position of the robots is still unknown

    def reset(self, joint_q: Any, joint_qd: Any = 0.0) -> None:
        """Set position and speed of the robots for the next step.

        Args:
            joint_q: Configuration, shape [coordinates] or [robots, coordinates]; locked joints are set, too.
            joint_qd: Speeds [m/s or rad/s], shape [DOFs] or [robots, DOFs], or one number.

        Raises:
            InputError: A wrong shape or number, or angles in degrees; the controller is then unchanged.
        """
        speeds = host_array("joint_qd", joint_qd)
        if speeds.ndim == 0:
            speeds = np.full(len(self._order.dofs), speeds)
        last_q, last_qd = self._arrays.answers["joint_q_out"].host, self._arrays.answers["joint_qd_out"].host
        placed = np.tile(self.robot.mid_joint_q, (self.robots, 1)), np.zeros_like(last_qd)
        columns, dofs = self._order.coordinates, self._order.dofs
        placed[0][:, columns] = lines("joint_q", host_array("joint_q", joint_q), self.robots, len(columns))
        refuse_degrees(self.robot, "joint_q", placed[0])
        placed[1][:, dofs] = lines("joint_qd", speeds, self.robots, len(dofs))
        placed[1][:, self._islands.unmoved_dofs()] = 0.0
        last_q[...], last_qd[...] = complete_joint_q(self.robot, placed[0]), placed[1]
        start_targets(self._arrays, self.robot, self.targets, last_q)
        self._is_placed, self._arrays.settings.host[WINDOW] = True, 0
        self._islands.forget_last_tick()
        self._caller.write_in_order()

    def set_world(self, world: World | None, attached: Mapping[str, AttachedObject] | None = None) -> None:
        """Use other obstacles and other attached objects from the next step on; compiles nothing.

        Args:
            world: The obstacles; None for none.
            attached: Objects carried by links, by name; None for none.

        Raises:
            UnknownNameError: The robot has no link of a name.
            InputError: Clearance is not a limit of this controller, `world` is not a World, or an attached object is
                never as far from a link as the kept clearance.
        """
        if self._clearance is None:
            raise InputError("The controller checks no clearance. Make it with limits=ControlLimits(clearance=...).")
        world = checked_world(world)
        others = () if world is None else world.names
        spheres = self.robot.body_spheres
        assert spheres is not None  # clearance is a limit
        self._clearance.use(world, checked_attached(self.robot, spheres, attached or {}, others))

    def warmup(self) -> None:
        """Run some ticks of both kinds and restore the state, so that the first tick of a loop is not slower."""
        with self._kept():
            self._is_placed, self._arrays.settings.host[WINDOW] = True, 0
            dt = max(1e-3, self._smoothing_time / HISTORY)
            for deadline_ns in (None, 0) * WARM_TICKS:
                self.step(dt=dt, deadline_ns=deadline_ns)

    def linearise(self, targets: Any, joint_q: Any, dt: float = 1e-3, *, joint_qd: Any = 0.0) -> TickDerivatives:
        """Return the derivatives of a tick by its start, its start speeds, and its targets.

        The tick equals `step` after `reset`, with the iterations of the constructor; the state of the controller is
        restored. Derivatives are central differences of ticks in float64: 8 ticks per DOF, 24 per target, and one more.

        Args:
            targets: Target poses, as in `step`.
            joint_q: Positions of the robots, as in `reset`.
            dt: Length of the tick [s].
            joint_qd: Speeds in the previous tick, as in `reset`.

        Raises:
            InputError: As in `step` and `reset`.
        """
        check_times(dt, None)
        poses, caller = self._caller.checked_targets(targets), self._caller
        with self._kept():
            self.reset(joint_q, joint_qd)
            caller.read_targets(poses)
            last = (self._arrays.answers[name].host.copy() for name in ("joint_q_out", "joint_qd_out"))
            start, speeds, given = *last, caller.given.copy()

            def tick(q: Float64Array, qd: Float64Array, at: Float64Array) -> TickAnswer:
                self.reset(q[:, self._order.coordinates], qd[:, self._order.dofs])
                caller.given[...] = at
                result = self.step(dt=dt)
                is_sound = ~np.isin(result.status, (IKStatus.INVALID, IKStatus.LOOP_OPEN))
                return TickAnswer(result.joint_q.copy(), result.joint_qd.copy(), is_sound)

            return tick_derivatives(tick, self.robot, self._order.dofs, start, speeds, given, dt)

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Restore the state after some ticks: positions, targets, and results of the last tick."""
        with device_work(self._islands.device):
            put_back, tasks = self._arrays.kept(), self._islands.last_tasks()
            is_placed, seconds = self._is_placed, self._caller.result.seconds
            try:
                yield
            finally:
                put_back()
                self._is_placed, self._caller.result.seconds = is_placed, seconds
                self._islands.take_last_tasks(tasks)
                self._caller.write_in_order()

    def recorded(self) -> RecordedTicks:
        """Return the kernels of a tick with their arrays, for export.

        Raises:
            EngineError: The controller is on a GPU, has its own joint order or quaternion order, or filters targets.
        """
        if not self._order.is_own or self._wxyz:
            raise EngineError("Only controllers in the robot's own joint_order, of quaternions xyzw, can be exported.")
        if self._islands.device.is_cuda:
            raise EngineError("Only controllers on a CPU can be exported.")
        if self._arrays.shapes or self._arrays.smoothed:
            raise EngineError(
                "Filters, limits of targets and jerk limits are not exported: filter targets in your program."
            )
        self._islands.refresh()
        return record_ticks(self._tasks, self._islands, self._arrays, self._iterations, self._clearance)

    def step(
        self,
        targets: Any = None,
        joint_q: Any = None,
        dt: float = 1e-3,
        *,
        joint_qd: Any = None,
        deadline_ns: int | None = None,
    ) -> ControlResult:
        """Take one tick towards the targets.

        Args:
            targets: Target poses in the world or their reference frames, position [m] and unit quaternion, shape [7]
                for one target, [targets, 7], or [robots, targets, 7], or Poses of these shapes. None keeps the previous
                targets.
            joint_q: Positions of the robots, shape [coordinates] or [robots, coordinates]. None takes the last command,
                or the configuration of `reset`: measured positions lag behind, and slow the robots if given in every
                tick.
            dt: Length of the tick [s]. With acceleration limits change `dt` slowly: braking assumes ticks of equal
                length. A change of 5 % violates these limits by about 5 %, and acceleration limits together with
                clearance need equal lengths. All other limits hold for any lengths.
            joint_qd: Speeds in the previous tick, shape [DOFs] or [robots, DOFs]. None takes the last command.
            deadline_ns: Time of `time.monotonic_ns()` at which iterations stop. None takes the iterations of the
                constructor: repeatable answers.

        Returns:
            The commands, in the same object in every step (see `ControlResult`). A robot with non-finite numbers has
            status INVALID, brakes, and keeps its position as far as its limits allow.

        Raises:
            InputError: An array has another shape, `dt` is not a time, or the positions of the robots are unknown or
                not finite. The state is unchanged.
        """
        begun = time.perf_counter_ns()
        check_times(dt, deadline_ns)
        caller = self._caller
        poses = None if targets is None else caller.checked_targets(targets)
        start = speeds = None
        if joint_q is not None or joint_qd is not None:
            start, speeds = caller.checked_lines(joint_q, joint_qd)
        if self._smoothing_time > 0.0 and (self._is_placed or joint_q is not None):
            begin_smoothing(self._arrays, self.robot, self._smoothing_time, dt, moved=not (start is speeds is None))
        if not self._is_placed:
            self._place(joint_q)
        self._islands.refresh()
        self._tick_numbers[DT] = dt
        if poses is not None:
            caller.read_targets(poses)
        is_lost = caller.read_joints(start, speeds)
        if deadline_ns is None:
            self._launches.run(1, 1, self._iterations + 1)
        else:
            self._launches.run_until(deadline_ns)
        if is_lost is not None:
            self._arrays.answers["status"].host[is_lost] = IKStatus.INVALID
            self._arrays.answers["success"].host[is_lost] = 0
        caller.write_in_order()
        result = caller.result
        result.seconds = 1e-9 * (time.perf_counter_ns() - begun)
        return result

    def _place(self, joint_q: Any) -> None:
        """Take the positions of the robots from the first step; without them a command could be any jump."""
        if joint_q is None:
            raise InputError(
                "The controller does not know where the robots are. Call reset(joint_q), or give step a joint_q."
            )
        self.reset(joint_q)

    def follow(self, positions: Any, orientations_xyzw: Any, dt: float, *, start_joint_q: Any = None) -> PathResult:
        """Follow a path with one tick per waypoint: warm-started, and within all limits in every tick.

        A robot slowed by its limits falls behind and catches up later. For a path known in advance, `IKSolver.follow`
        looks ahead.

        Args:
            positions: Target positions [m], [n, 3] for one target, [n, targets, 3] for several.
            orientations_xyzw: Unit quaternions, shapes as for positions with 4; wxyz if set in the constructor.
            dt: Time between waypoints [s].
            start_joint_q: Configuration at rest, one tick before the first waypoint, shape [coordinates]; None
                continues from the present position.

        Raises:
            InputError: An invalid value, several robots, or an unknown position of the robot.
        """
        if self.robots != 1:
            raise InputError(f"The controller has {self.robots} robots. follow takes one; call step for several.")
        dt = checked_dt(dt)
        poses = waypoint_targets(self.targets, positions, orientations_xyzw, wxyz=self._wxyz)
        if start_joint_q is not None:
            self.reset(start_joint_q)
        joint_q = self._arrays.answers["joint_q_out"].host[0]
        start, commands, status = joint_q.copy(), np.empty((len(poses), len(joint_q))), np.empty(len(poses), np.int8)
        errors = np.empty((2, len(poses), poses.shape[1]))
        for tick, pose in enumerate(poses):
            result = self.step(pose, dt=dt)
            commands[tick], status[tick] = joint_q, result.status[0]
            errors[:, tick] = result.position_error[0], result.orientation_error[0]
        answers = WaypointAnswers(status == int(IKStatus.CONVERGED), status, errors[0], errors[1])
        return path_result(self.robot, self._order, commands, start, RateLimits(dt, *self._rate_limits), answers)
