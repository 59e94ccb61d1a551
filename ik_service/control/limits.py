"""Limits of a controller's joints, in addition to the model's position limits, and their precedence."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from numbers import Real

import numpy as np

from ik_service.collision.body_spheres import slides_and_turns
from ik_service.collision.world import World
from ik_service.mechanism.configuration import dof_values
from ik_service.mechanism.coupling import mapped_limits
from ik_service.mechanism.transforms import Float64Array
from ik_service.robots import RobotModel
from objectives import InputError


class LimitKind(IntEnum):
    """Kind of the limit that holds a joint back in a tick.

    Precedence: position limits and braking distance, then speed and joint step, then acceleration. The first two leave
    an interval of moves around 0; acceleration narrows this interval, and is ignored if the result would be empty. A
    joint outside its limits, as real joints are by a little, may stay or return, and never moves further out. Braking
    is counted in ticks of equal length, not continuously: a joint inside its interval in every tick can stop before the
    limit within its acceleration limit.
    """

    NONE = 0
    POSITION = 1
    BRAKING = 2
    VELOCITY = 3
    JOINT_STEP = 4
    ACCELERATION = 5
    CLEARANCE = 6
    JERK = 7


KINDS = {kind.name: kind.value for kind in LimitKind}
TARGET_LIMITS = ("linear_speed", "angular_speed", "linear_acceleration", "angular_acceleration")
TURN_STEP_MAX = 3.0  # largest rotation of a joint per tick [rad] for rolling wheels: half a turn or more is ambiguous


@dataclass(frozen=True, kw_only=True)
class ControlLimits:
    """Limits of the joints' motion.

    Each field is one number for all joints, a mapping from names of joints to numbers, or an array of shape
    [joint_dof_count] in the robot's own order. Joints missing in a mapping keep their default.

    Attributes:
        velocity: Largest speed [m/s or rad/s]; default: the robot's model.
        acceleration: Largest change of speed per second [m/s^2 or rad/s^2]; default: the robot's model, but none for
            robots with limits on loop-closing joints. With a limit, joints brake before their position limits.
        jerk: Largest change of acceleration per second [m/s^3 or rad/s^3]; default: none. Delays all joints by the
            largest acceleration / jerk [s]. All ticks after a `reset` must have one length.
        joint_step: Largest change of position per tick [m or rad]; default: none. Robots with velocity constraints
            rotate no joint by more than 3 rad.
        position_margin: Distance kept from the position limits [m or rad]; default: 0.
        clearance: Distance of links from each other and from obstacles [m], one number; None checks nothing. Holds in
            every tick that starts with this clearance, on the path of the tick, and while the joints stop after the
            tick, if ticks have equal lengths. If obstacles have come nearer, joints give way.
        linear_speed: Largest speed of the commanded target poses [m/s], one number; default: none.
        angular_speed: Largest angular speed of these poses [rad/s]; default: none.
        linear_acceleration: Largest change of their velocity per second [m/s^2]; default: none.
        angular_acceleration: Largest change of their angular velocity per second [rad/s^2]; default: none.
    """

    velocity: float | Mapping[str, float] | Float64Array | None = None
    acceleration: float | Mapping[str, float] | Float64Array | None = None
    jerk: float | Mapping[str, float] | Float64Array | None = None
    joint_step: float | Mapping[str, float] | Float64Array | None = None
    position_margin: float | Mapping[str, float] | Float64Array | None = None
    clearance: float | None = None
    linear_speed: float | None = None
    angular_speed: float | None = None
    linear_acceleration: float | None = None
    angular_acceleration: float | None = None


def resolved_limits(robot: RobotModel, limits: ControlLimits) -> dict[str, Float64Array]:
    """Return the limits of the active DOFs, mimic joints included, by their names in `TickTask`, [active_dof_count].

    UnknownNameError if the robot has no joint of a name; InputError for a negative or non-finite number, or for margins
    larger than a range.
    """
    velocity, acceleration = velocity_and_acceleration(robot, limits)
    none = np.full(robot.joint_dof_count, np.inf)
    found = {
        "velocity": velocity,
        "acceleration": acceleration,
        "joint_step": dof_values(robot, "ControlLimits.joint_step", limits.joint_step, none),
    }
    if robot.velocity_constraints:
        turns = np.ones(robot.joint_dof_count, dtype=bool)
        for joint in range(robot.joint_count):
            turns[slides_and_turns(robot, joint)[0]] = False
        found["joint_step"] = np.minimum(found["joint_step"], np.where(turns, TURN_STEP_MAX, np.inf))
    if (found["acceleration"] == 0.0).any():
        raise InputError(
            "ControlLimits.acceleration is 0 for a joint. Allowed: above 0; lock joints that must not move."
        )
    if robot.has_closing_limits and np.isfinite(found["acceleration"]).any():
        raise InputError(
            "ControlLimits.acceleration is not for robots whose closing joints have limits yet. Leave it out."
        )
    active = {name: limits_of_active(robot, values) for name, values in found.items()}
    margin = dof_values(robot, "ControlLimits.position_margin", limits.position_margin, np.zeros(robot.joint_dof_count))
    active["limit_lower"], active["limit_upper"] = _narrowed(robot, margin)
    empty = np.flatnonzero(active["limit_lower"] > active["limit_upper"])
    if empty.size:
        name = robot.dof_names[robot.active_dof[empty[0]]]
        raise InputError(f"ControlLimits.position_margin leaves nothing of the range of '{name}'.")
    return active


def checked_clearance(robot: RobotModel, limits: ControlLimits, world: World | None) -> float | None:
    """Return the clearance limit [m] or None; InputError if invalid, or if a world is given without a limit."""
    checked_world(world)
    if limits.clearance is None:
        if world is not None:
            raise InputError(
                "A world needs ControlLimits.clearance, the distance that is kept from it [m], such as 0.01."
            )
        return None
    clearance = limits.clearance
    if isinstance(clearance, bool) or not isinstance(clearance, Real) or not 0.0 <= float(clearance) < np.inf:
        raise InputError(f"ControlLimits.clearance is {clearance!r}. Allowed: one number, 0 or more, in m.")
    if robot.collision_model is None:
        raise InputError(f"Robot '{robot.name}' has no collision model. Give it one: robot.with_collision_model.")
    if robot.every_constraint or robot.velocity_constraints:
        raise InputError("ControlLimits.clearance is not for robots that close loops or have other constraints yet.")
    if (robot.dof_coordinate[robot.dof_active >= 0] < 0).any():
        raise InputError("ControlLimits.clearance is not for ball and floating joints that move yet. Lock them.")
    return float(clearance)


def checked_world(world: World | None) -> World | None:
    """Return obstacles, or None; InputError for any other type."""
    if world is not None and not isinstance(world, World):
        raise InputError(f"world must be a World or None, got {type(world).__name__}.")
    return world


def _narrowed(robot: RobotModel, margin: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Narrow position limits of the active DOFs by margins of the DOFs and of their mimic joints."""
    lower, upper = robot.active_limit_lower.copy(), robot.active_limit_upper.copy()
    for dof, active in enumerate(robot.dof_active):
        if active < 0 or robot.dof_multiplier[dof] == 0.0 or margin[dof] == 0.0:
            continue
        own = robot.joint_limit_lower[dof] + margin[dof], robot.joint_limit_upper[dof] - margin[dof]
        low, high = mapped_limits(robot, dof, *own) if own[0] <= own[1] else (np.inf, -np.inf)
        lower[active], upper[active] = max(lower[active], low), min(upper[active], high)
    return lower, upper


def velocity_and_acceleration(robot: RobotModel, limits: ControlLimits) -> tuple[Float64Array, Float64Array]:
    """Return the largest speeds and accelerations of all DOFs, mimic joints included, each [joint_dof_count]."""
    velocity = dof_values(robot, "ControlLimits.velocity", limits.velocity, robot.joint_velocity_limit)
    own = np.full(robot.joint_dof_count, np.inf) if robot.has_closing_limits else robot.joint_acceleration_limit
    return velocity, dof_values(robot, "ControlLimits.acceleration", limits.acceleration, own)


def limits_of_active(robot: RobotModel, values: Float64Array) -> Float64Array:
    """Give the limits of active DOFs that also keep their mimic joints within limits."""
    least = np.full(robot.active_dof_count, np.inf)
    for dof, active in enumerate(robot.dof_active):
        factor = abs(float(robot.dof_multiplier[dof]))
        if active >= 0 and factor > 0.0:
            least[active] = min(least[active], values[dof] / factor)
    return least
