"""The interval in which a joint may be at the end of a tick, from all of its limits together.

    braking distance to the position limits, speed, joint step -> an interval of moves that holds 0
    acceleration -> narrows it, and gives way where none of them allows it
    where the joint is + moves -> an interval of positions, never empty

Precedence: position limits and braking distance, then speed and joint step, then acceleration. A joint that is outside
its limits, as real ones are by a little, may stay where it is or come back, and never goes further out.

Braking is counted in ticks of the same length, not continuously: a joint that keeps to its interval in every tick can
stop in front of the limit without ever braking harder than its acceleration limit allows.
"""

import typing
from enum import IntEnum

import warp as wp

Real = wp.float64


class LimitKind(IntEnum):
    """What holds a joint back in a tick."""

    NONE = 0
    POSITION = 1
    BRAKING = 2
    VELOCITY = 3
    JOINT_STEP = 4
    ACCELERATION = 5


POSITION = wp.constant(int(LimitKind.POSITION))
BRAKING = wp.constant(int(LimitKind.BRAKING))
VELOCITY = wp.constant(int(LimitKind.VELOCITY))
JOINT_STEP = wp.constant(int(LimitKind.JOINT_STEP))
ACCELERATION = wp.constant(int(LimitKind.ACCELERATION))


@wp.func
@typing.no_type_check
def braking_move(room: Real, acceleration: Real, dt: Real):
    """Return how far a joint may move in this tick if it is to stop within `room`.

    With u and d the move and the room in units of acceleration dt^2, the joint goes on by u, u - 1, ... until it
    stands: (n + 1) u - n (n + 1) / 2 <= d, where n is the whole part of u.

    Args:
        room: Distance that is left, this tick's included [m or rad]; not negative.
        acceleration: How hard the joint may brake [m/s^2 or rad/s^2]; infinite for at once.
        dt: Length of a tick [s].
    """
    if not (acceleration < Real(wp.inf) and room < Real(wp.inf)):
        return room
    unit = acceleration * dt * dt
    d = room / unit
    n = wp.floor(Real(0.5) * (wp.sqrt(Real(1.0) + Real(8.0) * d) - Real(1.0)))
    return unit * (d + Real(0.5) * n * (n + Real(1.0))) / (n + Real(1.0))


@wp.func
@typing.no_type_check
def joint_box(
    q: Real, qd: Real, dt: Real, lower: Real, upper: Real, velocity: Real, acceleration: Real, joint_step: Real
):
    """Return the interval for a joint at the end of a tick, and what bounds it below and above (`LimitKind`).

    Args:
        q: Where it is [m or rad].
        qd: Its speed in the tick before.
        dt: Length of the tick [s].
        lower: Lower position limit.
        upper: Upper position limit.
        velocity: Largest speed.
        acceleration: Largest change of speed per second.
        joint_step: Largest change of position in a tick.
    """
    down = -braking_move(wp.max(q - lower, Real(0.0)), acceleration, dt)
    up = braking_move(wp.max(upper - q, Real(0.0)), acceleration, dt)
    kind_below = POSITION
    if acceleration < Real(wp.inf):
        kind_below = BRAKING
    kind_above = kind_below
    fast = velocity * dt
    if -fast > down:
        down = -fast
        kind_below = VELOCITY
    if fast < up:
        up = fast
        kind_above = VELOCITY
    if -joint_step > down:
        down = -joint_step
        kind_below = JOINT_STEP
    if joint_step < up:
        up = joint_step
        kind_above = JOINT_STEP
    if acceleration < Real(wp.inf):
        least = wp.clamp((qd - acceleration * dt) * dt, down, up)
        most = wp.clamp((qd + acceleration * dt) * dt, down, up)
        if least > down:
            kind_below = ACCELERATION
        if most < up:
            kind_above = ACCELERATION
        down = least
        up = most
    below = wp.max(q + down, wp.min(lower, q))
    above = wp.min(q + up, wp.max(upper, q))
    return below, above, kind_below, kind_above
