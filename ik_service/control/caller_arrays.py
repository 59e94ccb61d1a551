"""Result of a tick, checks of a controller's arguments, and conversion between the caller's arrays and a tick's."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.control.limits import LimitKind
from ik_service.control.tick.arrays import POSE, TICK_COLUMNS, TickArrays
from ik_service.mechanism.caller_order import CallerOrder
from ik_service.mechanism.transforms import Float64Array, given_poses
from ik_service.solver.given.arrays import NUMBER_MAX, as_numpy, by_target
from ik_service.solver.given.reading import TO_WXYZ, check_targets, split_poses
from ik_service.solver.given.targets import Target
from ik_service.solver.lm.status import STATUS_WORDS, IKStatus
from objectives import InputError

Int32Array = NDArray[np.int32]
NUMBER_KINDS = "fiu"  # of dtypes


@dataclass(eq=False, slots=True)
class ControlResult:
    """The commands of one tick, one line per robot.

    The arrays belong to the controller, the same in every tick. They are valid until its next step or reset, and
    read-only, because the next tick starts from them. `copy` makes a lasting copy.

    Attributes:
        joint_q: Commanded configuration, [robots, coordinates]; names are `IKController.coordinate_names`.
        joint_qd: Speeds of the command [m/s or rad/s], [robots, DOFs]; names are `IKController.dof_names`.
        island_status: Status of every island, `IKStatus`, [robots, islands].
        position_error: Distance to each target [m], [robots, targets]; NaN only if all position rows have weight 0.
            Rows that no joint can move count like others.
        orientation_error: Angle to each target [rad], in the same form, [robots, targets].
        active_limits: Active limit of each DOF, `LimitKind`, negative at the lower end, [robots, DOFs]; without limits
            that only affect lower-priority rows.
        sigma_min: Smallest singular value of the weighted rows of the island's tasks, [robots, islands], without rows
            of weight 0, lower-priority rows, and rows of directions (look-at, axis alignment); infinite if no row is
            left.
        scaling: Share of the island's step taken, 1 for the whole step, [robots, islands].
        iterations: Steps tried, -1 for none, [robots, islands]; without steps of lower-priority rows.
        island_success: 1 if the targets of an island are met within tolerance; without targets, if the island is at a
            minimum, possibly at position limits, [robots, islands].
        clearance: Distance of the commanded configuration from contact [m], capped about 0.1 m above the kept
            clearance; infinite without a clearance limit, NaN for an unknown position of the robot, [robots].
        seconds: Time from call to answer [s].
        dof_names: Names of the DOFs.
    """

    joint_q: Float64Array
    joint_qd: Float64Array
    island_status: Int32Array
    position_error: Float64Array
    orientation_error: Float64Array
    active_limits: Int32Array
    sigma_min: Float64Array
    scaling: Float64Array
    iterations: Int32Array
    island_success: Int32Array
    dof_names: tuple[str, ...]
    clearance: Float64Array
    seconds: float = 0.0

    def __repr__(self) -> str:
        names = ", ".join(sorted(set(self.status_names)))
        return f"<ControlResult: robots {len(self.joint_q)}, coordinates {self.joint_q.shape[1]}, status {names}>"

    @property
    def status(self) -> Int32Array:
        """Worst status of the islands of each robot, `IKStatus`, [robots]."""
        return np.asarray(self.island_status.max(axis=1, initial=int(IKStatus.CONVERGED)))

    @property
    def status_names(self) -> list[str]:
        """Status of every robot as a lower-case word."""
        return [STATUS_WORDS[code] for code in self.status.tolist()]

    @property
    def success(self) -> NDArray[np.bool_]:
        """True if all targets are met within tolerance; without targets, if all islands are at a minimum, [robots]."""
        return np.asarray((self.island_success != 0).all(axis=1))

    def blocking(self, robot: int = 0) -> dict[str, LimitKind]:
        """Return the active limits of a robot's joints, by names of DOFs."""
        line = self.active_limits[robot]
        return {self.dof_names[k]: LimitKind(abs(int(line[k]))) for k in np.flatnonzero(line)}

    def copy(self) -> "ControlResult":
        """Return a copy independent of later ticks."""
        arrays: dict[str, Any] = {
            field.name: getattr(self, field.name).copy()
            for field in fields(self)
            if isinstance(getattr(self, field.name), np.ndarray)
        }
        return replace(self, **arrays)


DT_LEAST, DT_MOST = 1e-9, 1e3  # of a tick [s]; the square of a tick's length neither underflows nor overflows


def check_settings(robots: Any, iterations: Any, weights: Sequence[float], tolerances: Sequence[float]) -> None:
    """Check counts, weights of soft rows and tolerances of targets; InputError for an invalid number."""
    for name, value, least in (("robots", robots, 1), ("iterations", iterations, 0)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
            raise InputError(f"{name} is {value!r}. Allowed: whole numbers from {least}.")
    for weight in weights:
        if not 0.0 <= weight < math.inf:
            raise InputError(f"A weight of posture or damping is {weight!r}. Allowed: 0 and above.")
    for tolerance in tolerances:
        if not 0.0 < tolerance < math.inf:
            raise InputError(f"A tolerance is {tolerance!r}. Allowed: above 0.")


def numbers(name: str, given: Any) -> NDArray[Any]:
    """Convert an array or nested sequence of numbers to an array; InputError for other values."""
    try:
        values = given if type(given) is np.ndarray else np.asarray(as_numpy(name, given))
        if values.dtype.kind not in NUMBER_KINDS:
            raise TypeError(f"dtype {values.dtype}")
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is not an array of numbers: {error}") from error
    return values


def lines(name: str, given: Any, robots: int, columns: int) -> NDArray[Any]:
    """Give numbers [columns] or [robots, columns] as an array, without copying arrays; InputError for other shapes."""
    values = numbers(name, given)
    if values.shape not in ((columns,), (robots, columns)):
        allowed = f"[{columns}] or [{robots}, {columns}]"
        raise InputError(f"{name} has shape {list(values.shape)}. Allowed: {allowed}.")
    return values


def check_times(dt: float, deadline_ns: int | None) -> None:
    """Check the times of a tick."""
    if not DT_LEAST <= dt <= DT_MOST:
        raise InputError(f"dt is {dt}. Allowed: {DT_LEAST:g} to {DT_MOST:g} s.")
    if deadline_ns is not None and not isinstance(deadline_ns, int):
        raise InputError(f"deadline_ns is {deadline_ns!r}. Allowed: whole nanoseconds of time.monotonic_ns().")


def waypoint_targets(targets: Sequence[Target], positions: Any, orientations: Any, *, wxyz: bool) -> Float64Array:
    """Return the targets of every tick for `IKController.step`, [waypoints, targets, 7]; quaternions keep their order.

    Positions are [n, 3] for one target, else [n, targets, 3]; unit quaternions [n, 4] or [n, targets, 4]. InputError
    for a wrong shape or number, or a target without positions or orientations.
    """
    positions, orientations = split_poses(len(targets), positions, orientations, wxyz=wxyz)
    positions, orientations = as_numpy("positions", positions), as_numpy("orientations_xyzw", orientations)
    given = check_targets(targets, positions, orientations, None)
    poses = np.empty((given.problem_count, len(targets), 7))
    # Quaternions as given: the tick normalises them, and normalising twice changes the last bit.
    quaternions = by_target("orientations_xyzw", orientations, len(targets), 4)
    for k, (position, orientation) in enumerate(zip(given.positions, quaternions, strict=True)):
        if position is None or orientation is None:
            raise InputError(
                f"Target '{targets[k].link}' lacks positions or orientations_xyzw. Row weights of 0 leave axes free."
            )
        poses[:, k, :3], poses[:, k, 3:] = position, orientation
    return poses


class CallerArrays:
    """Converter between the caller's order of joints and the arrays of a tick."""

    def __init__(
        self,
        arrays: TickArrays,
        order: CallerOrder,
        target_count: int,
        islands: int,
        unmoved: NDArray[np.intp],  # coordinates not moved by any island
        *,
        wxyz: bool,  # quaternions of targets are given in the order wxyz
    ) -> None:
        self._arrays, self._order, self._target_count, self._wxyz = arrays, order, target_count, wxyz
        self._robots, self._unmoved = arrays.joint_q.host.shape[0], unmoved
        shape = arrays.targets.host.shape
        self.given = arrays.given.host.reshape(shape)  # targets of the caller, quaternions xyzw
        # destinations of targets by allowed shape; for one robot of the same shape, since this copies faster
        self._given = {shape: self.given, shape[1:]: self.given[0] if self._robots == 1 else self.given}
        if target_count == 1:
            self._given[POSE,] = self.given[0, 0] if self._robots == 1 else self.given
        self._joint_q, self._joint_qd = arrays.joint_q.host, arrays.joint_qd.host
        answers = arrays.answers  # commands of the last tick
        last = [arrays.smoothed.get(f"inner_{name}", answers[f"joint_{name}_out"]) for name in ("q", "qd")]
        to = (self._joint_q, self._joint_qd)
        # flat memory of starts and of last commands: copied in half the time of arrays
        self._starts = [(own.reshape(-1).data, one.host.reshape(-1).data) for own, one in zip(to, last, strict=True)]
        # the only result object; its arrays are views of the answers if the caller's order is the robot's
        self.result = self._make_result(islands)

    def _make_result(self, count: int) -> ControlResult:
        order, values = self._order, dict[str, Any]()
        for name, column in TICK_COLUMNS.items():
            host = self._arrays.answers[name].host
            if "islands" in column.axes:
                host = host[:, :count]
            elif "coordinates" in column.axes and not order.is_own:
                host = order.coordinates_of(host)
            elif "dofs" in column.axes and not order.is_own:
                host = order.dofs_of(host)
            values[column.name] = host
        return ControlResult(**values, dof_names=order.dof_names, clearance=self._arrays.clearance.host)

    def checked_lines(self, joint_q: Any, joint_qd: Any) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """Return configurations and speeds as arrays, None if not given; InputError for wrong shapes."""
        columns, dofs = len(self._order.coordinates), len(self._order.dofs)
        start = None if joint_q is None else lines("joint_q", joint_q, self._robots, columns)
        return start, None if joint_qd is None else lines("joint_qd", joint_qd, self._robots, dofs)

    def checked_targets(self, targets: Any) -> NDArray[Any]:
        """Return target poses as an array; InputError for a wrong shape or number."""
        if type(targets) is np.ndarray and targets.shape in self._given and targets.dtype.kind in NUMBER_KINDS:
            return targets
        if type(targets) is not np.ndarray or targets.shape[-1:] != (POSE,):
            poses = given_poses(targets, "targets")
            if poses is not None:
                order = (*range(3), *(3 + k for k in TO_WXYZ)) if self._wxyz else slice(None)
                targets = poses.transforms[..., order]
        values = numbers("targets", targets)
        if values.shape not in self._given:
            allowed = f"[{self._target_count}, {POSE}] or [{self._robots}, {self._target_count}, {POSE}]"
            single = f"[{POSE}], " if self._target_count == 1 else ""
            raise InputError(f"targets have shape {list(values.shape)}. Allowed: {single}{allowed}.")
        return values

    def read_targets(self, values: NDArray[Any]) -> None:
        """Copy checked poses into the arrays of a tick."""
        host = self._given[values.shape]
        if self._wxyz:
            host[..., :3], host[..., 3:6], host[..., 6] = values[..., :3], values[..., 4:], values[..., 3]
        else:
            host[...] = values

    def read_joints(self, start: NDArray[Any] | None, speeds: NDArray[Any] | None) -> NDArray[np.bool_] | None:
        """Copy positions and speeds, None for the last command; give robots with non-finite unmoved coordinates."""
        for own, last in self._starts:
            own[:] = last
        if speeds is not None:
            self._read(self._joint_qd, speeds, self._order.dofs)
        if start is None:
            return None
        self._read(self._joint_q, start, self._order.coordinates)
        if not self._unmoved.size:
            return None
        given, commands = self._joint_q[:, self._unmoved], self._arrays.answers["joint_q_out"].host
        known = np.abs(given) <= NUMBER_MAX
        commands[:, self._unmoved] = np.where(known, given, commands[:, self._unmoved])
        return np.asarray(~known.all(axis=1))

    def _read(self, host: NDArray[Any], values: NDArray[Any], columns: NDArray[np.intp]) -> None:
        if self._order.is_own:
            host[...] = values
        else:
            host[:, columns] = values

    def write_in_order(self) -> None:
        """Write the answers in the caller's order of joints if different from the robot's order."""
        if self._order.is_own:
            return
        answers, order, result = self._arrays.answers, self._order, self.result
        np.take(answers["joint_q_out"].host, order.coordinates, axis=1, out=result.joint_q)
        np.take(answers["joint_qd_out"].host, order.dofs, axis=1, out=result.joint_qd)
        np.take(answers["active_limits"].host, order.dofs, axis=1, out=result.active_limits)
