"""Result of following a path, by a solver or tick by tick."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.caller_order import CallerOrder
from ik_service.mechanism.configuration import dof_values
from ik_service.mechanism.transforms import Float64Array
from ik_service.motion.metric import CHANGE_ROUNDING, JointMetric
from ik_service.robots import RobotModel
from ik_service.solver.lm.status import STATUS_WORDS
from objectives import InputError

FASTER, FAR_STEP = 4.0, 0.2  # a step to another configuration: times the largest step within speeds, and [rad or m]

DT_LEAST, DT_MOST = 1e-6, 1e6  # time between frames or waypoints [s]


@dataclass(frozen=True, eq=False)
class PathResult:
    """A path in joint space, a line per waypoint.

    Columns are in the order of the caller's `joint_order`, or else in the robot's own order.

    Attributes:
        joint_q: Configurations [m or rad, quaternions xyzw], float64 [n, coordinates].
        joint_qd: Speeds from the line before [m/s or rad/s], [n, DOFs]; from the start in the first line, 0 without a
            start.
        joint_qdd: Changes of these speeds [m/s^2 or rad/s^2], [n, DOFs]; 0 without two lines before.
        success: True if every target is met within tolerance and, if checked, the path to the waypoint is free of
            contact, bool [n].
        status: IKStatus codes, int8 [n].
        position_error: Position errors [m], float64 [n, targets]; NaN if the target leaves the position free.
        orientation_error: Orientation errors [rad], float64 [n, targets]; NaN if the target leaves the orientation
            free.
        joint_change: Largest joint change from the line before [m or rad], [n].
        clearance: Least distance from contact on the straight joint path from the line before [m], to a tenth, [n]; in
            contact the first value found. None without a check.
        over_velocity: DOFs beyond their speed limit, bool [n, DOFs].
        over_acceleration: DOFs beyond their acceleration limit, bool [n, DOFs].
        is_break: True at a reconfiguration: from the line before, a joint would move more than 4 times the step of its
            speed limit, and more than 0.2 rad or m; bool [n].
        dt: Time between lines [s].
        coordinate_names: Names of the columns of `joint_q`.
        dof_names: Names of the columns of DOFs.
    """

    joint_q: Float64Array
    joint_qd: Float64Array
    joint_qdd: Float64Array
    success: NDArray[np.bool_]
    status: NDArray[np.int8]
    position_error: Float64Array
    orientation_error: Float64Array
    joint_change: Float64Array
    over_velocity: NDArray[np.bool_]
    over_acceleration: NDArray[np.bool_]
    is_break: NDArray[np.bool_]
    dt: float
    coordinate_names: tuple[str, ...]
    dof_names: tuple[str, ...]
    clearance: Float64Array | None = None

    def __repr__(self) -> str:
        met = f"{int(self.success.sum())} of {len(self)} waypoints met"
        return f"<PathResult: {met}, {len(self.coordinate_names)} coordinates, dt {self.dt:g} s>"

    def __len__(self) -> int:
        return len(self.success)

    @property
    def breaks(self) -> NDArray[np.intp]:
        """Waypoints at which the robot takes another configuration, [reconfigurations]."""
        return np.flatnonzero(self.is_break)

    @property
    def reconfigurations(self) -> int:
        """Number of breaks."""
        return int(self.is_break.sum())

    @property
    def largest_joint_change(self) -> float:
        """Largest joint change between consecutive lines [m or rad]."""
        return float(self.joint_change.max())

    @property
    def within_limits(self) -> NDArray[np.bool_]:
        """True if the step to the waypoint keeps the limits of speed and acceleration, bool [n]."""
        return np.asarray(~(self.over_velocity | self.over_acceleration).any(axis=1))

    @property
    def status_names(self) -> list[str]:
        """Status of every waypoint as a lower-case word."""
        return [STATUS_WORDS[code] for code in self.status.tolist()]


@dataclass(frozen=True, eq=False)
class RateLimits:
    """Time between waypoints, and limits of the joints' speeds and accelerations."""

    dt: float  # [s]
    velocity: Float64Array  # largest speeds [m/s or rad/s], [joint_dof_count]
    acceleration: Float64Array  # largest changes of speed [m/s^2 or rad/s^2], [joint_dof_count]

    @classmethod
    def read(cls, robot: RobotModel, dt: float, velocity: Any, acceleration: Any) -> "RateLimits":
        """Read a caller's arguments, None for the model's limits; UnknownNameError or InputError if invalid."""
        accelerations = dof_values(robot, "acceleration", acceleration, robot.joint_acceleration_limit)
        return cls(
            checked_dt(dt),
            _above_zero("velocity", dof_values(robot, "velocity", velocity, robot.joint_velocity_limit)),
            _above_zero("acceleration", accelerations),
        )

    @property
    def largest_step(self) -> Float64Array:
        """Largest changes between waypoints within the speed limits [m or rad], [joint_dof_count]."""
        return self.velocity * self.dt


def checked_dt(dt: Any) -> float:
    """Return a time step; InputError unless finite and above 0."""
    if isinstance(dt, bool) or not isinstance(dt, Real) or not 0.0 < float(dt) < math.inf:
        raise InputError(f"dt is {dt!r}. Allowed: above 0 s.")
    if not DT_LEAST <= float(dt) <= DT_MOST:
        raise InputError(f"dt is {dt!r}. Allowed: {DT_LEAST:g} to {DT_MOST:g} s.")
    return float(dt)


def _above_zero(name: str, values: Float64Array) -> Float64Array:
    if (values == 0.0).any():
        raise InputError(f"{name} is 0 for a joint. Allowed: above 0; lock joints that must not move.")
    return values


@dataclass(frozen=True, eq=False)
class WaypointAnswers:
    """Verdicts on waypoints; see `PathResult`."""

    success: NDArray[np.bool_]
    status: NDArray[np.int8]
    position_error: Float64Array
    orientation_error: Float64Array
    clearance: Float64Array | None = None


def path_result(
    robot: RobotModel,
    order: CallerOrder,
    joint_q: Float64Array,  # configurations in the robot's order, float64 [n, joint_coord_count]
    start: NDArray[np.floating[Any]] | None,  # configuration before the first, [joint_coord_count], or None
    rates: RateLimits,
    answers: WaypointAnswers,
) -> PathResult:
    """Return the result of a path."""
    metric = JointMetric(robot)
    before = np.concatenate([joint_q[:1] if start is None else start[None], joint_q[:-1]])
    change = metric.straight(before, joint_q)
    speed = change / rates.dt
    acceleration = np.diff(speed, axis=0, prepend=speed[:1]) / rates.dt
    if start is None:
        acceleration[1:2] = 0.0
    return PathResult(
        joint_q=order.coordinates_of(joint_q),
        joint_qd=order.dofs_of(speed),
        joint_qdd=order.dofs_of(acceleration),
        **vars(answers),
        joint_change=np.abs(change).max(axis=1, initial=0.0),
        over_velocity=order.dofs_of(np.abs(speed) > rates.velocity * CHANGE_ROUNDING),
        over_acceleration=order.dofs_of(np.abs(acceleration) > rates.acceleration * CHANGE_ROUNDING),
        is_break=np.asarray((np.abs(change) > np.maximum(FASTER * rates.largest_step, FAR_STEP)).any(axis=1)),
        dt=rates.dt,
        coordinate_names=order.coordinate_names,
        dof_names=order.dof_names,
    )
