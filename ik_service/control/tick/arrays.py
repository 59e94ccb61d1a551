"""Data of the kernel of an island in a tick (one struct), all arrays of a controller, made once, and launches.

Arrays are settings, start of a tick and answers. Arguments of launches are packed once.
"""

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import warp as wp

from ik_service.kernels.device_lock import DEVICE_LOCK
from ik_service.kernels.host_device_array import HostDeviceArray, wait
from ik_service.kernels.typed_warp import reference_to
from ik_service.result_column import Column
from ik_service.robots import DeviceModel

# Indices into `settings`
ROBOTS = wp.constant(0)
ITERATIONS_NOW = wp.constant(1)  # iterations of this launch
BEGIN = wp.constant(2)  # 1 if this launch begins the tick
FINISH = wp.constant(3)  # 1 if this launch ends the tick
SCALES = wp.constant(4)  # 1 to shorten the whole step instead of joint by joint
CUT = wp.constant(5)  # 1 if the deadline ends the tick
BRAKES = wp.constant(6)  # 1 with acceleration limits
CLEARS = wp.constant(7)  # 0 without a clearance limit; else the purpose of the launch
WINDOW = wp.constant(8)  # with jerk limits, the number of ticks over which commands are averaged; else 0
NOW = wp.constant(9)  # place of this tick among them
TICK_SETTINGS_COUNT = 10
HISTORY = 1000  # most ticks over which commands are averaged
# With a clearance limit, a launch proposes a configuration, which is made free of contact; a second launch answers.
PROPOSING, ANSWERING = wp.constant(1), wp.constant(2)
# Indices into `numbers`
DT = wp.constant(0)
POSITION_TOLERANCE = wp.constant(1)
ORIENTATION_TOLERANCE = wp.constant(2)
CLEARANCE_LEAST = wp.constant(3)  # clearance below which a robot is in contact [m]
RULES = wp.constant(4)  # first of the 8 numbers of a target filter and limits of targets
NUMBERS_COUNT = 12
# Stages of a tick: configurations of the last tick's and of this tick's tasks, then the command.
BEFORE, AFTER, COMMAND = wp.constant(0), wp.constant(1), wp.constant(2)
# Numbers kept for a filtered or limited target: given, filtered and commanded pose, speeds of the filter and of the
# commanded pose, 6 each, then (at LAG) distance and angle from the commanded to the given pose.
TARGET_STATE, LAG = 35, 33
HOLDING = wp.constant(2)  # in `source_task`: a weight of damping
# Within the last two stages, for lower-priority rows: their configuration, then the command.
LEADING, YIELDING = wp.constant(3), wp.constant(4)
JUDGED = wp.constant(5)  # at the end: errors are those of the given targets, not of filtered or limited ones
PLACES = (
    *("SCALES", "CUT", "BRAKES", "DT", "POSITION_TOLERANCE", "ORIENTATION_TOLERANCE", "CLEARANCE_LEAST"),
    *("BEFORE", "COMMAND", "HOLDING", "JUDGED", "TARGET_STATE", "LAG", "WINDOW", "NOW", "HISTORY"),
)
"""Names of the constants above that packets read."""


def _column(dtype: Literal["int32", "float64"], axis: str, name: str, meaning: str) -> Column:
    return Column(name=name, dtype=dtype, axes=(axis,), meaning=meaning, null="nan" if axis == "targets" else "")


TICK_COLUMNS = {
    "joint_q_out": _column("float64", "coordinates", "joint_q", "where to go [m or rad]"),
    "joint_qd_out": _column("float64", "dofs", "joint_qd", "speeds that lead there [m/s or rad/s]"),
    "status": _column("int32", "islands", "island_status", "what became of each island"),
    "position_error": _column(
        "float64", "targets", "position_error", "distance to each target [m], NAN where positions are free"
    ),
    "orientation_error": _column("float64", "targets", "orientation_error", "angle to each target [rad]"),
    "active_limits": _column("int32", "dofs", "active_limits", "what holds each DOF back"),
    "sigma_min": _column(
        "float64", "islands", "sigma_min", "smallest singular value of the weighted rows of each island's tasks"
    ),
    "scaling": _column("float64", "islands", "scaling", "share of each island's step that was taken, 1 for all of it"),
    "iterations": _column("int32", "islands", "iterations", "steps that were tried, -1 for none"),
    "success": _column(
        "int32",
        "islands",
        "island_success",
        "1 where the island's targets are met; without any, where it is at a minimum within limits of position",
    ),
}
"""Answers of a tick, by their names in `TickTask`; columns are named as in `ControlResult` and in C."""
CLEARANCE_COLUMN = Column(
    name="clearance", dtype="float64", meaning="distance of where to go from contact [m], infinite where it is no limit"
)
"""Further column of `ControlResult`, and of C with a clearance limit."""


@wp.struct
class TickTask:
    """Arrays of the kernel of an island; int32 and float64 unless said."""

    settings: wp.array[wp.int32]
    numbers: wp.array[wp.float64]
    island: int
    # island
    dof: wp.array[wp.int32]  # active DOF of each DOF of the island
    robot_dof: wp.array[wp.int32]  # the robot's DOF of each DOF of the island
    coordinate: wp.array[wp.int32]  # column in joint_q of each coordinate of the island
    follower: wp.array[wp.int32]  # columns of mimic joints
    follower_dof: wp.array[wp.int32]
    follower_place: wp.array[wp.int32]  # their leading coordinates
    follower_number: wp.array2d[wp.float64]  # [followers, 4]: multiplier, offset, lower and upper limit
    error_target: wp.array[wp.int32]  # [errors]: target of each error of the program
    # limits, per active DOF
    limit_lower: wp.array[wp.float64]
    limit_upper: wp.array[wp.float64]
    velocity: wp.array[wp.float64]
    acceleration: wp.array[wp.float64]
    joint_step: wp.array[wp.float64]
    # data
    source: wp.array[wp.uint64]  # [inputs]: address of the first number
    source_lines: wp.array[wp.int32]  # [inputs]: 1 or one per robot; 0 for the goals of rows
    source_stride: wp.array[wp.int32]  # [inputs]: numbers from line to line
    source_wide: wp.array[wp.int32]  # [inputs]: 1 for float64
    quaternion: wp.array[wp.int32]  # first inputs of quaternions, possibly a little off unit length
    source_task: wp.array[wp.int32]  # [inputs]: 1 for a task, HOLDING, or 0
    input_before: wp.array2d[wp.float64]  # [robots, inputs and DOFs]: inputs of the last tick, then the step from the
    # robot's last resting point to the end of the step from a trial beside it; NAN at first
    # filtered or limited targets
    given: wp.array2d[wp.float64]  # [robots, 7 targets]: targets of the caller
    targets: wp.array3d[wp.float64]  # [robots, targets, 7]: targets of the tick, NAN where `given` is no pose
    shaped: wp.array2d[wp.float64]  # [robots, TARGET_STATE targets]
    # jerk limits
    inner_q: wp.array2d[wp.float64]  # [robots, joint_coord_count]: last configuration before the mean
    inner_qd: wp.array2d[wp.float64]  # [robots, joint_dof_count]: speeds that led to it
    history: wp.array2d[wp.float64]  # [robots, HISTORY joint_coord_count]: configurations of the last ticks
    # from tick to tick
    joint_q: wp.array2d[wp.float64]  # [robots, joint_coord_count]: start of the tick
    joint_qd: wp.array2d[wp.float64]  # [robots, joint_dof_count]: speeds of the last tick
    reference_before: wp.array2d[wp.float64]  # [robots, joint_coord_count]: configuration of the last tick's tasks
    approach: wp.array2d[wp.float64]  # [robots, islands]: share of the remaining distance with time to brake
    slowest: wp.array2d[wp.int32]  # [robots, islands]: the island's DOF that takes longest to brake, -1 for none
    faulty: wp.array2d[wp.int32]  # [robots, islands]
    at_bound: wp.array2d[wp.int32]  # [robots, joint_dof_count]: +-1 for a DOF pressed against an end of its range;
    # for rotations the LimitKind of an active limit
    running: wp.array2d[wp.int32]  # [packets, islands]: 1 if more iterations may help
    proposal: wp.array2d[wp.float64]  # [robots, joint_coord_count]: the command, if free of contact
    gradient: wp.array2d[wp.float64]  # [robots, joint_coord_count]: J'r at the start of the tick
    hessian: wp.array2d[wp.float64]  # [robots, joint_coord_count^2]: J'J at the start of the tick
    near_contact: wp.array2d[wp.int32]  # [robots, joint_dof_count]: 1 for a DOF held back by clearance
    clearance: wp.array[wp.float64]  # [robots]: of the command [m]
    # answers
    joint_q_out: wp.array2d[wp.float64]
    joint_qd_out: wp.array2d[wp.float64]
    status: wp.array2d[wp.int32]  # [robots, islands]
    position_error: wp.array2d[wp.float64]  # [robots, targets]
    orientation_error: wp.array2d[wp.float64]
    active_limits: wp.array2d[wp.int32]  # [robots, joint_dof_count]
    sigma_min: wp.array2d[wp.float64]  # [robots, islands]
    scaling: wp.array2d[wp.float64]
    iterations: wp.array2d[wp.int32]
    success: wp.array2d[wp.int32]


TickRef: Any = reference_to(TickTask)


def device_array(values: Any, dtype: Any, device: Any) -> "wp.array[Any]":
    """Copy values into an array on the device."""
    return wp.array(np.asarray(values, wp.dtype_to_numpy(dtype)), dtype=dtype, device=device)


POSE = 7  # numbers of a target: position and quaternion xyzw


class TickArrays:
    """The arrays of a controller; `limits` are those of the active DOFs, by their names in `TickTask`."""

    def __init__(
        self, model: DeviceModel, robots: int, targets: int, limits: Mapping[str, Any], *, clears: bool, shapes: bool
    ) -> None:
        self.clears, self.shapes = clears, shapes
        self.smoothed: dict[str, HostDeviceArray] = {}  # of jerk limits, by their names in `TickTask`
        device, dofs, islands = model.device, model.joint_dof_count, max(model.robot.trees.ntree, 1)

        def numbers(*shape: int) -> HostDeviceArray:
            return HostDeviceArray(shape, wp.float64, device, per_problem=False)

        def integers(*shape: int) -> HostDeviceArray:
            return HostDeviceArray(shape, wp.int32, device, per_problem=False)

        self.settings, self.numbers = integers(TICK_SETTINGS_COUNT), numbers(NUMBERS_COUNT)
        # host and device memory are separate, so arrays have to be copied
        self.are_apart = self.settings.has_host_copy
        self.targets = numbers(robots, max(targets, 1), POSE)  # poses, float64 [robots, targets, 7]
        self.given = numbers(robots, POSE * max(targets, 1)) if shapes else self.targets
        self.shaped = numbers(robots, TARGET_STATE * max(targets, 1) if shapes else 0)
        self.given.host[...] = np.nan if shapes else 0.0  # no target yet
        # joint_q: start configurations of a tick, float64 [robots, joint_coord_count]
        # joint_qd: speeds of the last tick, float64 [robots, joint_dof_count]
        self.joint_q, self.joint_qd = numbers(robots, model.joint_coord_count), numbers(robots, dofs)
        self.clearance = numbers(robots)  # of the command [m], infinite without a limit, float64 [robots]
        self.clearance.host[:] = np.inf
        # 1 if more iterations may help, int32 [>= packets, trees]; there are at most as many islands as trees
        self.running = integers(robots, islands)
        extents = {"coordinates": model.joint_coord_count, "dofs": dofs, "islands": islands, "targets": targets}
        # answers of a tick, by their names in `TickTask`
        self.answers = {
            name: (integers if column.dtype == "int32" else numbers)(robots, *(extents[axis] for axis in column.axes))
            for name, column in TICK_COLUMNS.items()
        }
        self._own = {
            "faulty": wp.zeros((robots, islands), dtype=wp.int32, device=device),
            "approach": wp.zeros((robots, islands), dtype=wp.float64, device=device),
            "slowest": wp.zeros((robots, islands), dtype=wp.int32, device=device),
            "at_bound": wp.zeros((robots, dofs), dtype=wp.int32, device=device),
            "reference_before": wp.zeros((robots, model.joint_coord_count), dtype=wp.float64, device=device),
        }
        if clears:
            coordinates = model.joint_coord_count
            for name, columns in (("proposal", coordinates), ("gradient", coordinates), ("hessian", coordinates**2)):
                self._own[name] = wp.zeros((robots, columns), dtype=wp.float64, device=device)
            self._own["near_contact"] = wp.zeros((robots, dofs), dtype=wp.int32, device=device)
        self.has_accelerations = bool(np.isfinite(limits["acceleration"]).any())
        self._limits = {name: device_array(values, wp.float64, device) for name, values in limits.items()}
        for name, column in TICK_COLUMNS.items():
            if column.null:
                self.answers[name].host[:] = np.nan
                self.answers[name].push(robots)

    def kept(self) -> Callable[[], None]:
        """Save all arrays written by ticks; return a function that restores them."""
        hosts = [array.host for array in (*self.answers.values(), self.targets, self.joint_q, self.joint_qd)]
        hosts += [
            self.settings.host,
            *(array.host for array in self.smoothed.values()),
            self.numbers.host,
            self.clearance.host,
            self.given.host,
            self.shaped.host,
        ]
        before, own = [host.copy() for host in hosts], {name: wp.clone(array) for name, array in self._own.items()}

        def put_back() -> None:
            for host, values in zip(hosts, before, strict=True):
                host[...] = values
            for name, array in own.items():
                wp.copy(self._own[name], array)

        return put_back

    def of_task(self) -> dict[str, Any]:
        """Return the device arrays shared by all islands, by their names in `TickTask`."""
        given = {"settings": self.settings, "numbers": self.numbers, "joint_q": self.joint_q, "joint_qd": self.joint_qd}
        arrays = given | {"running": self.running} | self.answers
        if self.clears:
            arrays["clearance"] = self.clearance
        arrays |= self.smoothed
        if self.shapes:
            arrays |= {"given": self.given, "targets": self.targets, "shaped": self.shaped}
        return {name: array.device for name, array in arrays.items()} | self._limits | self._own

    def push(self) -> None:
        """Copy inputs of a launch to the device, with the last commands, from which idle and lost joints continue."""
        last = self.answers["joint_q_out"], self.answers["joint_qd_out"]
        shaped = (self.given, self.shaped) if self.shapes else ()
        last = (*last, *shaped, *self.smoothed.values())
        for array in (self.settings, self.numbers, self.targets, self.joint_q, self.joint_qd, *last):
            array.push(0)

    def fetch(self) -> None:
        """Copy outputs of a launch to the host: answers, and whether more iterations may help."""
        further = (self.clearance,) if self.clears else ()
        shaped = (self.targets, self.shaped) if self.shapes else ()
        for array in (self.running, *further, *shaped, *self.smoothed.values(), *self.answers.values()):
            array.fetch(0)


TICK_ITERATIONS_MAX = 100  # of a tick with a deadline
# Steps of even the latest tick. A first step cut by speed limits may lead away from the target; the second step holds
# the joints at limits. With a single step, a controller that is always late may never move.
STEPS_MIN = 2


_Launch: TypeAlias = Callable[[], None]


def packed_launch(kernel: wp.Kernel, dim: int, inputs: Sequence[Any], device: wp.Device) -> _Launch:
    """Return a function that launches a kernel on these arguments repeatedly.

    The function stores addresses of the arrays: the caller keeps the arrays alive. On a CPU the launch neither
    allocates
    nor locks, and has ended on return; on a GPU the launch is queued in the device's stream.
    """
    recorded = wp.launch(kernel, dim, inputs, device=device, record_cmd=True)
    if device.is_cuda:
        on_stream: _Launch = recorded.launch
        return on_stream
    # The steps of a Warp launch on a CPU, except packing the arguments.
    bounds, *values = recorded.params
    names = [argument.label for argument in kernel.adj.args]
    fields = [(name, type(value)) for name, value in zip(names, values, strict=True)]
    packed = type("Arguments", (ctypes.Structure,), {"_fields_": fields})(*values)
    at_bounds, at_packed, forward = ctypes.byref(bounds), ctypes.byref(packed), recorded.hooks.forward

    def launch(_kept: object = (recorded, bounds, packed)) -> None:  # keeps them alive: `forward` has only addresses
        forward(at_bounds, at_packed)

    return launch


class ClearanceLaunches(Protocol):
    """Launches of a clearance limit in a tick, see `ik_service.control.clearance.limit.ClearanceLimit`."""

    keep: _Launch


class TickLaunches:
    """Launches of the kernels of all islands, and of a clearance limit."""

    def __init__(
        self, arrays: TickArrays, launches: Sequence[_Launch], device: wp.Device, clearance: ClearanceLaunches | None
    ) -> None:
        self.launches, self._clearance = tuple(launches), clearance
        self._arrays, self._device = arrays, device
        self._settings = arrays.settings.host.data  # written in half the time of the array
        self._iterations_ns = self._answers_ns = (0, 0)  # durations of the last two before a deadline

    def run(self, begin: int, finish: int, iterations: int, cut: int = 0) -> None:
        """Launch all islands and wait: after the return, all arrays may be written."""
        settings = self._settings
        settings[BEGIN], settings[FINISH], settings[ITERATIONS_NOW], settings[CUT] = begin, finish, iterations, cut
        if self._clearance is None:
            self._launch(self.launches)
            return
        settings[CLEARS] = PROPOSING  # islands propose a configuration, which is made free of contact, and answer
        self._launch(self.launches)
        if finish:
            settings[BEGIN], settings[ITERATIONS_NOW], settings[CLEARS] = 0, 0, ANSWERING
            self._launch((self._clearance.keep, *self.launches))

    def _launch(self, launches: Sequence[_Launch]) -> None:
        if not self._arrays.are_apart:
            for launch in launches:
                launch()
            return
        with DEVICE_LOCK:
            self._arrays.push()
            for launch in launches:
                launch()
            self._arrays.fetch()
            wait(self._device)

    def run_until(self, deadline_ns: int) -> None:
        """Iterate until a time, or until no robot can improve, with at least `STEPS_MIN` steps.

        Iterations stop if the time left is too short for another iteration and the answer. Their durations are
        predicted by the shorter of the last two, because other processes sometimes interrupt.
        """
        running, cut = self._arrays.running.host, 0
        self.run(1, 0, STEPS_MIN + 1)
        now = time.monotonic_ns()
        for _ in range(TICK_ITERATIONS_MAX):
            if not running.any():
                break
            if now + min(self._iterations_ns) + min(self._answers_ns) >= deadline_ns:
                cut = 1
                break
            self.run(0, 0, 1)
            before, now = now, time.monotonic_ns()
            self._iterations_ns = self._iterations_ns[1], now - before
        self.run(0, 1, 0, cut)
        self._answers_ns = self._answers_ns[1], time.monotonic_ns() - now
