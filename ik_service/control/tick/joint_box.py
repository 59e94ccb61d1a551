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
    CLEARANCE = 6


KINDS = {kind.name: kind.value for kind in LimitKind}
