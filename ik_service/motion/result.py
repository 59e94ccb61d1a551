"""Result of following a path, by the solver or tick by tick."""

import math
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.caller_order import CallerOrder
from ik_service.mechanism.configuration import dof_values
from ik_service.motion.metric import CHANGE_ROUNDING, JointMetric
from ik_service.robots import RobotModel
from ik_service.solver.lm.status import STATUS_WORDS, IKStatus
from objectives import InputError

Float64Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PathResult:
    """A path in the space of joints, a line for every waypoint.

    Columns are in the order of the caller's `joint_order`, the robot's own without it.

    Attributes:
        joint_q: Configurations [m or rad, quaternions xyzw], float64 [n, coordinates].
        joint_qd: Speeds that lead there from the line before [m/s or rad/s], [n, DOFs]; from the start in the first
            line, 0 without a start.
        joint_qdd: Changes of these speeds [m/s^2 or rad/s^2], [n, DOFs]; 0 where two lines before are missing.
        success: Whether every target is met within its tolerance, and the way there is free of contact where that is
            checked, bool [n].
        status: IKStatus codes, int8 [n].
        position_error: [m], float64 [n, targets]; NaN where the target leaves the position free.
        orientation_error: [rad], float64 [n, targets]; NaN where the target leaves the orientation free.
        joint_change: Largest change of a joint from the line before [m or rad], [n].
        clearance: Least distance from contact on the straight way from the line before [m], to a tenth, [n]; in
            contact the first that was found. None where nothing is checked.
        over_velocity: DOFs that go faster than allowed, bool [n, DOFs].
        over_acceleration: DOFs whose speed changes more than allowed, bool [n, DOFs].
        dt: Time from line to line [s].
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
    def largest_joint_change(self) -> float:
        """Largest change of a joint from a line to the next [m or rad]."""
        return float(self.joint_change.max())

    @property
    def within_limits(self) -> NDArray[np.bool_]:
        """Whether the way to each waypoint keeps the limits of speed and acceleration, bool [n]."""
        return np.asarray(~(self.over_velocity | self.over_acceleration).any(axis=1))

    @property
    def status_names(self) -> list[str]:
        """Status of every waypoint as a lower-case word."""
        return [STATUS_WORDS[code] for code in self.status.tolist()]


@dataclass(frozen=True, eq=False)
class RateLimits:
    """Time from waypoint to waypoint, and how fast joints may move."""

    dt: float  # time from waypoint to waypoint [s]
    velocity: Float64Array  # largest speeds [m/s or rad/s], [joint_dof_count]
    acceleration: Float64Array  # largest changes of speed [m/s^2 or rad/s^2], [joint_dof_count]

    @classmethod
    def read(cls, robot: RobotModel, dt: float, velocity: Any, acceleration: Any) -> "RateLimits":
        """Read what a caller gives; None is what the model has."""
        # Raises UnknownNameError where the robot has no joint of a name, InputError for a number that is not allowed
        return cls(
            checked_dt(dt),
            _above_zero("velocity", dof_values(robot, "velocity", velocity, robot.joint_velocity_limit)),
            _above_zero(
                "acceleration", dof_values(robot, "acceleration", acceleration, robot.joint_acceleration_limit)
            ),
        )

    @property
    def largest_step(self) -> Float64Array:
        """Return the most that the speeds allow from waypoint to waypoint [m or rad], [joint_dof_count]."""
        return self.velocity * self.dt


def checked_dt(dt: Any) -> float:
    """Return a time step; InputError where it is not a finite number above 0."""
    if isinstance(dt, bool) or not isinstance(dt, Real) or not 0.0 < float(dt) < math.inf:
        raise InputError(f"dt is {dt!r}. Allowed: above 0 s.")
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

    def with_ways(self, clearance: Float64Array, is_free: NDArray[np.bool_]) -> "WaypointAnswers":
        """Return answers of which those fail whose ways, with least clearance [m], are not free, [n]."""
        blocked = np.int8(IKStatus.BLOCKED_BY_COLLISION)
        status = np.where(self.success & ~is_free, blocked, self.status)
        return replace(self, success=self.success & is_free, status=status, clearance=clearance)


def path_result(
    robot: RobotModel,
    order: CallerOrder,
    joint_q: Float64Array,  # configurations in the robot's order, float64 [n, joint_coord_count]
    start: NDArray[np.floating[Any]] | None,  # configuration before the first, [joint_coord_count], if there is one
    rates: RateLimits,
    answers: WaypointAnswers,  # whether waypoints are met
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
        success=answers.success,
        status=answers.status,
        position_error=answers.position_error,
        orientation_error=answers.orientation_error,
        joint_change=np.abs(change).max(axis=1, initial=0.0),
        over_velocity=order.dofs_of(np.abs(speed) > rates.velocity * CHANGE_ROUNDING),
        over_acceleration=order.dofs_of(np.abs(acceleration) > rates.acceleration * CHANGE_ROUNDING),
        dt=rates.dt,
        coordinate_names=order.coordinate_names,
        dof_names=order.dof_names,
        clearance=answers.clearance,
    )
