"""The interval in which a joint may be at the end of a tick, from all of its limits together.

    braking distance to the position limits, speed, joint step -> an interval of moves that holds 0
    acceleration -> narrows it, and gives way where none of them allows it
    where the joint is + moves -> an interval of positions, never empty

Precedence: position limits and braking distance, then speed and joint step, then acceleration. A joint that is outside
its limits, as real ones are by a little, may stay where it is or come back, and never goes further out.

Braking is counted in ticks of the same length, not continuously: a joint that keeps to its interval in every tick can
stop in front of the limit without ever braking harder than its acceleration limit allows.
"""

from enum import IntEnum


class LimitKind(IntEnum):
    """What holds a joint back in a tick."""

    NONE = 0
    POSITION = 1
    BRAKING = 2
    VELOCITY = 3
    JOINT_STEP = 4
    ACCELERATION = 5


KINDS = {kind.name: kind.value for kind in LimitKind}

BRAKING_MOVE = """
/* How far a joint may move in this tick if it is to stop within `room` [m or rad], which is not negative and includes
   this tick; infinite acceleration stops at once. With u and d the move and the room in units of acceleration dt^2, the
   joint goes on by u, u - 1, ... until it stands: (n + 1) u - n (n + 1) / 2 <= d, where n is the whole part of u. */
const auto braking_move = [&](F room, Real acceleration, Real dt) -> F {
    if (!(acceleration < INFINITY)) return room;
    const Real unit = acceleration * dt * dt;
    const F d = room / unit;
    const F n = round_down(0.5 * (square_root(1.0 + 8.0 * d) - 1.0));
    const F move = unit * (d + 0.5 * n * (n + 1.0)) / (n + 1.0);
    return room < infinite ? move : room;
};
"""

JOINT_BOX = """
/* The interval for a joint at the end of a tick, and what bounds it below and above (`LimitKind`), from where it is [m
   or rad], its speed in the tick before, the length of the tick [s] and its limits. */
struct Box { F below, above, kind_below, kind_above; };
const auto joint_box = [&](F q, F qd, Real dt, Real lower, Real upper, Real velocity, Real acceleration,
                           Real joint_step) -> Box {
    const bool brakes = acceleration < INFINITY;
    F down = -braking_move(larger(q - lower, zero), acceleration, dt);
    F up = braking_move(larger(upper - q, zero), acceleration, dt);
    F kind_below = zero + Real(brakes ? BRAKING : POSITION);
    F kind_above = kind_below;
    const F fast = zero + velocity * dt;
    kind_below = -fast > down ? zero + Real(VELOCITY) : kind_below;
    kind_above = fast < up ? zero + Real(VELOCITY) : kind_above;
    down = larger(-fast, down);
    up = smaller(fast, up);
    const F step = zero + joint_step;
    kind_below = -step > down ? zero + Real(JOINT_STEP) : kind_below;
    kind_above = step < up ? zero + Real(JOINT_STEP) : kind_above;
    down = larger(-step, down);
    up = smaller(step, up);
    if (brakes) {
        const F least = smaller(larger((qd - acceleration * dt) * dt, down), up);
        const F most = smaller(larger((qd + acceleration * dt) * dt, down), up);
        kind_below = least > down ? zero + Real(ACCELERATION) : kind_below;
        kind_above = most < up ? zero + Real(ACCELERATION) : kind_above;
        down = least;
        up = most;
    }
    const F below = larger(q + down, smaller(zero + lower, q));
    const F above = smaller(q + up, larger(zero + upper, q));
    return Box{below, above, kind_below, kind_above};
};
"""
