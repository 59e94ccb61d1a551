"""The controller: targets and where the robots are in, commands within all limits out, tick by tick."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.control.control_tasks import ControlTasks, SoftRows
from ik_service.control.following import follow_ticks, waypoint_targets
from ik_service.control.limits import ControlLimits, resolved_limits, velocity_and_acceleration
from ik_service.control.recorded_ticks import RecordedTicks, record_ticks
from ik_service.control.result import ControlResult
from ik_service.control.tick.arrays import POSE, TickArrays
from ik_service.control.tick.task import (
    BEGIN,
    BRAKES,
    CUT,
    DT,
    FINISH,
    ITERATIONS,
    ORIENTATION_TOLERANCE,
    POSITION_TOLERANCE,
    ROBOTS,
    SCALES,
)
from ik_service.control.tick_input import check_counts, check_times, check_tolerances, check_weights, lines, numbers
from ik_service.control.tick_islands import TickIslands
from ik_service.errors import EngineError
from ik_service.robots import RobotModel
from ik_service.robots.structure.caller_order import CallerOrder
from ik_service.robots.structure.coupling import complete_joint_q
from ik_service.solver.construction import check_construction
from ik_service.solver.device_lock import DEVICE_LOCK
from ik_service.solver.inputs.target_arrays import NUMBER_MAX, host_array
from ik_service.solver.inputs.targets import Target, as_target
from ik_service.solver.launches.kernel_loading import CacheErrorsExplained
from ik_service.solver.lm.status import IKStatus
from ik_service.solver.paths import PathResult
from ik_service.solver.paths.result import Pace, checked_dt, path_result
from ik_service.solver.problems.host_device_array import wait
from objectives import IKObjective, InputError

WARM_TICKS = 5
ITERATIONS_MAX = 100  # of a tick that has a deadline


class IKController:
    """Takes robots of one model towards targets, a tick at a time. Not thread-safe; the robot may be shared.

    Every tick starts from a configuration and ends in one that all limits allow: position, speed, joint step and
    acceleration together (`ik_service.control.tick.joint_box` has their precedence). They hold inside the solve, so
    what one joint may not do others make up for. Nothing is drawn at random and no other branch is tried. Once
    constructed, a controller neither allocates nor compiles in a tick. It commands nothing before it knows where the
    robots are: by `reset`, a start of `follow`, or a `joint_q` of the first `step`.

    Args:
        robot: The robot.
        targets: Links that are to reach poses: names or Targets. The poses are given to `step`. Offsets and weights
            have one line, or one per robot; rows of weight 0, for all robots alike, are left out for good. Every other
            row is judged, whether a joint can move it or not: a slider that is asked to turn never converges. A target
            is refused if no joint moves any row of it that has a weight.
        objectives: Further tasks, stated as expressions; each is bound to this controller. Their data have one line,
            or one per robot.
        robots: Number of robots that are controlled together.
        limits: Speeds, accelerations and the like; None takes the model's speeds.
        posture: Configuration that joints are drawn to where tasks leave them free, in the robot's own order, shape
            [joint_coord_count] or [robots, joint_coord_count]; None for none.
        posture_weight: Weight of the posture's rows [1/rad or 1/m].
        damping_weight: Weight of rows that hold every joint where it is [1/rad or 1/m]. They decide between
            configurations that serve the tasks alike, and slow a robot near singularities. With a posture, a tick
            covers p^2 / (p^2 + d^2) of the way to it, for weights p and d.
        scale_direction: Whether a step that limits do not allow is shortened as a whole, island by island, so that its
            direction stays; otherwise joint by joint. Not for ball and floating joints.
        iterations: Most steps that a tick without a deadline tries.
        position_tolerance: Distance within which a target counts as met [m].
        orientation_tolerance: Angle within which it does [rad].
        joint_order: Names of joints in the order in which joint arrays are given and returned; None is the robot's own.
            Locked joints and those that follow others may be left out.
        wxyz: Whether target quaternions are given in the order wxyz instead of xyzw.
        device: A Warp device. A CPU answers a few robots sooner than a GPU.

    Attributes:
        robot: The robot.
        targets: The targets.
        robots: Number of robots.
        coordinate_names: Names of the columns of `joint_q`.
        dof_names: Names of the columns of `joint_qd`.

    Raises:
        UnknownNameError: A link or joint is not in the robot.
        InputError: An argument has a value that is not allowed.
        ObjectiveError: An objective breaks its contract or is bound to another controller or solver.
        EngineError: The tasks cannot be compiled.
        KernelCacheError: Compiled kernels can be neither read nor kept.
    """

    def __init__(
        self,
        robot: RobotModel,
        targets: Sequence[Target | str] = (),
        *,
        objectives: Sequence[IKObjective] = (),
        robots: int = 1,
        limits: ControlLimits | None = None,
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
        check_counts(robots, iterations)
        check_weights(posture_weight, damping_weight)
        check_tolerances(position_tolerance, orientation_tolerance)
        self.robot, self.robots = robot, robots
        self.targets = tuple(as_target(target, robot) for target in targets)
        self._order = CallerOrder(robot, joint_order)
        self.coordinate_names, self.dof_names = self._order.coordinate_names, self._order.dof_names
        self._iterations, self._wxyz = iterations, wxyz
        resolved = resolved_limits(robot, limits or ControlLimits())
        self._paces = velocity_and_acceleration(robot, limits or ControlLimits())
        with DEVICE_LOCK, CacheErrorsExplained():
            model = robot.on_device(device)
            self._arrays = TickArrays(model, robots, len(self.targets), resolved)
            soft = SoftRows(posture, posture_weight, damping_weight)
            self._tasks = ControlTasks(model, self.targets, objectives, soft, self._arrays, self)
            self._islands = TickIslands(model, self._tasks, self._arrays, robots)
        self._device, self._idle = model.device, self._islands.idle_coordinates()
        self._launches = tuple(island.launch for island in self._islands.islands)
        settings, self._numbers = self._arrays.settings.host, self._arrays.numbers.host
        settings[ROBOTS], settings[SCALES] = robots, scale_direction
        settings[BRAKES] = self._arrays.has_accelerations
        self._numbers[POSITION_TOLERANCE] = position_tolerance
        self._numbers[ORIENTATION_TOLERANCE] = orientation_tolerance
        self._settings = settings
        self._iterations_ns = self._answers_ns = (0, 0)  # what the last two took before a deadline
        self._result = self._make_result()
        self.reset(robot.mid_joint_q[self._order.coordinates])
        self._is_placed = False  # nobody has said yet where the robots are

    def _make_result(self) -> ControlResult:
        """The one result, whose arrays are views of the answers where the caller's order is the robot's."""
        count, order = len(self._launches), self._order
        host = {name: mirror.host for name, mirror in self._arrays.answers.items()}
        joint_q, joint_qd, active_limits = host["joint_q_out"], host["joint_qd_out"], host["active_limits"]
        if not order.is_own:
            joint_q, joint_qd = order.coordinates_of(joint_q), order.dofs_of(joint_qd)
            active_limits = order.dofs_of(active_limits)
        return ControlResult(
            joint_q=joint_q,
            joint_qd=joint_qd,
            island_status=host["status"][:, :count],
            position_error=host["position_error"],
            orientation_error=host["orientation_error"],
            active_limits=active_limits,
            sigma_min=host["sigma_min"][:, :count],
            scaling=host["scaling"][:, :count],
            iterations=host["iterations"][:, :count],
            dof_names=self.dof_names,
        )

    def reset(self, joint_q: Any, joint_qd: Any = 0.0) -> None:
        """Say where the robots are, and how fast; the next step starts from there.

        Args:
            joint_q: Configuration, shape [coordinates] or [robots, coordinates]. Locked joints are held where it says.
            joint_qd: Speeds [m/s or rad/s], shape [DOFs] or [robots, DOFs], or one number.

        Raises:
            InputError: A shape or number that is not allowed; the controller is then where it was.
        """
        speeds = host_array("joint_qd", joint_qd)
        if speeds.ndim == 0:
            speeds = np.full(len(self._order.dofs), speeds)
        last_q, last_qd = self._arrays.answers["joint_q_out"].host, self._arrays.answers["joint_qd_out"].host
        placed = np.tile(self.robot.mid_joint_q, (self.robots, 1)), np.zeros_like(last_qd)
        columns, dofs = self._order.coordinates, self._order.dofs
        placed[0][:, columns] = lines("joint_q", host_array("joint_q", joint_q), self.robots, len(columns))
        placed[1][:, dofs] = lines("joint_qd", speeds, self.robots, len(dofs))
        placed[1][:, self._islands.still_dofs()] = 0.0
        last_q[...], last_qd[...] = complete_joint_q(self.robot, placed[0]), placed[1]
        self._is_placed = True
        self._islands.forget_last_tick()
        self._give_in_order()

    def warmup(self) -> None:
        """Run some ticks of both kinds and put everything back: the first tick of a loop is then as fast as others."""
        answers = {name: mirror.host.copy() for name, mirror in self._arrays.answers.items()}
        targets, dt = self._arrays.targets.host.copy(), float(self._numbers[DT])
        is_placed, self._is_placed = self._is_placed, True
        for deadline_ns in (None, 0) * WARM_TICKS:
            self.step(deadline_ns=deadline_ns)
        for name, values in answers.items():
            self._arrays.answers[name].host[...] = values
        self._arrays.targets.host[...], self._numbers[DT] = targets, dt
        self._is_placed = is_placed
        self._islands.forget_last_tick()
        self._give_in_order()

    def recorded(self) -> RecordedTicks:
        """Return the kernels of a tick, with what they work on, for export.

        Raises:
            EngineError: The controller is on a GPU, or has an order of joints or quaternions of its own.
        """
        if not self._order.is_own or self._wxyz:
            raise EngineError("Only controllers in the robot's own joint_order, of quaternions xyzw, can be exported.")
        if self._device.is_cuda:
            raise EngineError("Only controllers on a CPU can be exported.")
        self._islands.refresh()
        return record_ticks(self._tasks, self._islands, self._arrays, self._iterations)

    def step(
        self,
        targets: Any = None,
        joint_q: Any = None,
        dt: float = 1e-3,
        *,
        joint_qd: Any = None,
        deadline_ns: int | None = None,
    ) -> ControlResult:
        """Go one tick towards the targets.

        Args:
            targets: Poses of the targets in the world or their reference frames, position [m] and unit quaternion,
                shape [7] for one, [targets, 7], or [robots, targets, 7]. None keeps those of the step before.
            joint_q: Where the robots are, shape [coordinates] or [robots, coordinates]. None is where the step before
                has sent them, or `reset` has said that they are: measured positions are behind that, and given in every
                tick they hold the robots back.
            dt: Length of the tick [s]. With limits of acceleration change it slowly: braking is counted in ticks alike:
                ticks that differ by 5 % break these limits by about as much. All other limits hold for any lengths.
            joint_qd: Speeds in the tick before, shape [DOFs] or [robots, DOFs]. None is what the step before has
                commanded.
            deadline_ns: Time of `time.monotonic_ns()` at which to stop iterating. None makes the number of iterations
                that the controller was made with: the same answer every time.

        Returns:
            The commands; the same object in every step, see `ControlResult`. Where numbers of a robot are not finite
            its status is INVALID, and it brakes and keeps its place as far as its limits allow.

        Raises:
            InputError: An array has another shape, or `dt` is not a time; or nobody has said yet where the robots are,
                by finite numbers. The tick is not made, and nothing is taken.
        """
        begun = time.perf_counter_ns()
        check_times(dt, deadline_ns)
        arrays, answers, order = self._arrays, self._arrays.answers, self._order
        poses = None if targets is None else self._checked_targets(targets)
        start = None if joint_q is None else lines("joint_q", joint_q, self.robots, len(order.coordinates))
        speeds = None if joint_qd is None else lines("joint_qd", joint_qd, self.robots, len(order.dofs))
        if not self._is_placed:
            self._place(joint_q)
        self._islands.refresh()
        self._numbers[DT] = dt
        if poses is not None:
            self._take_targets(poses)
        self._take(arrays.joint_q.host, answers["joint_q_out"].host, start, order.coordinates)
        self._take(arrays.joint_qd.host, answers["joint_qd_out"].host, speeds, order.dofs)
        is_lost = self._take_idle() if start is not None and self._idle.size else None
        if deadline_ns is None:
            self._launch(1, 1, self._iterations + 1)
        else:
            self._run_until(deadline_ns)
        if is_lost is not None:
            answers["status"].host[is_lost] = IKStatus.INVALID
        result = self._result
        self._give_in_order()
        result.seconds = 1e-9 * (time.perf_counter_ns() - begun)
        return result

    def _place(self, joint_q: Any) -> None:
        """Take where the robots are from the first step; without it a command would be a jump to anywhere."""
        if joint_q is None:
            raise InputError(
                "The controller does not know where the robots are. Call reset(joint_q), or give step a joint_q."
            )
        self.reset(joint_q)

    def follow(self, positions: Any, orientations_xyzw: Any, dt: float, *, start_joint_q: Any = None) -> PathResult:
        """Go along a path, a tick for every waypoint: warm-started, and within all limits in every tick.

        Where the limits do not let the robot keep up it falls behind, and catches up when they do. For a path that is
        known beforehand `IKSolver.follow` looks ahead.

        Args:
            positions: Positions of the targets [m], [n, 3] for one, [n, targets, 3] for several.
            orientations_xyzw: Unit quaternions, shapes alike with 4; wxyz if the controller was made so.
            dt: Time from waypoint to waypoint [s].
            start_joint_q: Configuration at rest, one tick before the first waypoint, shape [coordinates]; None goes on
                from where the controller is.

        Raises:
            InputError: A value that is not allowed, the controller has several robots, or nobody has said yet where the
                robot is.
        """
        if self.robots != 1:
            raise InputError(f"The controller has {self.robots} robots. follow takes one; call step for several.")
        dt = checked_dt(dt)
        poses = waypoint_targets(self.targets, positions, orientations_xyzw)
        if start_joint_q is not None:
            self.reset(start_joint_q)
        joint_q = self._arrays.answers["joint_q_out"].host[0]
        start = joint_q.copy()
        commands, answers = follow_ticks(lambda pose: self.step(pose, dt=dt), joint_q, poses)
        return path_result(self.robot, self._order, commands, start, Pace(dt, *self._paces), answers)

    def _launch(self, begin: int, finish: int, iterations: int, cut: int = 0) -> None:
        """Launch all islands and wait for them: nothing is under way when it returns, so all arrays may be written."""
        settings = self._settings
        settings[BEGIN], settings[FINISH], settings[ITERATIONS], settings[CUT] = begin, finish, iterations, cut
        if self._arrays.are_apart:
            self._launch_apart()
            return
        for launch in self._launches:
            launch()

    def _launch_apart(self) -> None:
        """The same where the host does not see the memory of the device, with the device to itself."""
        with DEVICE_LOCK:
            self._arrays.push()
            for launch in self._launches:
                launch()
            self._arrays.fetch()
            wait(self._device)

    def _run_until(self, deadline_ns: int) -> None:
        """Iterate until a time, or until nothing more can be gained; one step is always tried.

        It stops while there is time for another iteration and the answer, as long as those took before: the shorter of
        the last two, for now and then the machine does something else.
        """
        running, cut = self._arrays.running.host, 0
        self._launch(1, 0, 2)
        now = time.monotonic_ns()
        for _ in range(ITERATIONS_MAX):
            if not running.any():
                break
            if now + min(self._iterations_ns) + min(self._answers_ns) >= deadline_ns:
                cut = 1
                break
            self._launch(0, 0, 1)
            before, now = now, time.monotonic_ns()
            self._iterations_ns = self._iterations_ns[1], now - before
        self._launch(0, 1, 0, cut)
        self._answers_ns = self._answers_ns[1], time.monotonic_ns() - now

    def _give_in_order(self) -> None:
        """Give the answers in the caller's order of joints, if that is not the robot's."""
        if self._order.is_own:
            return
        answers, order, result = self._arrays.answers, self._order, self._result
        np.take(answers["joint_q_out"].host, order.coordinates, axis=1, out=result.joint_q)
        np.take(answers["joint_qd_out"].host, order.dofs, axis=1, out=result.joint_qd)
        np.take(answers["active_limits"].host, order.dofs, axis=1, out=result.active_limits)

    def _checked_targets(self, targets: Any) -> NDArray[Any]:
        host, values = self._arrays.targets.host, numbers("targets", targets)
        if values.shape != host.shape and values.shape != host.shape[1:]:
            if not (values.shape == (POSE,) and len(self.targets) == 1):
                allowed = f"[{len(self.targets)}, {POSE}] or [{self.robots}, {len(self.targets)}, {POSE}]"
                raise InputError(f"targets have shape {list(values.shape)}. Allowed: {allowed}.")
        return values

    def _take_targets(self, values: NDArray[Any]) -> None:
        host = self._arrays.targets.host
        if self._wxyz:
            host[..., :3], host[..., 3:6], host[..., 6] = values[..., :3], values[..., 4:], values[..., 3]
        else:
            host[...] = values

    def _take(
        self, host: NDArray[Any], last: NDArray[Any], values: NDArray[Any] | None, columns: NDArray[np.intp]
    ) -> None:
        """Take what a caller gives, or what the step before has commanded."""
        if values is None:
            host[...] = last
        elif self._order.is_own:
            host[...] = values
        else:
            host[...] = last
            host[:, columns] = values

    def _take_idle(self) -> NDArray[np.bool_]:
        """Take joints that no island moves for where they are; return the robots of which that is no number."""
        given, last = self._arrays.joint_q.host[:, self._idle], self._arrays.answers["joint_q_out"].host
        known = np.abs(given) <= NUMBER_MAX
        last[:, self._idle] = np.where(known, given, last[:, self._idle])
        return np.asarray(~known.all(axis=1))
