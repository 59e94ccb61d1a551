"""Loop closure of a robot in a tick: loops take precedence over all other rows.

    rows of loops, with much larger weights than all others -> the goal of the tasks, loops nearly closed
    from the goal: rows of loops alone, joints within the intervals of the tick -> the command, loops closed
    if a loop is open: the same from the positions reached at present speed -> the better of both commands
    if a loop is still open: the same within the own limits of each joint, from the better command, then from points
        ever nearer to the start of the tick, at last from the start itself
    with acceleration limits: no faster than the next tick can keep the loops closed
    if a loop was open before the tick and stays open: as near to closed as leaves every joint time to brake

In the first step the weight must be small enough for the precision of the other rows, and large enough that the other
rows open the loop only a little.
"""

import typing
from typing import Any

import warp as wp

from ik_service.compiler import GOAL, MeasureSource
from ik_service.control.tick.answer import BOXES, TickCommand
from ik_service.control.tick.arrays import BRAKES, TickRef
from ik_service.control.tick.packet_text import fragments
from ik_service.kernels.typed_warp import reference_to

LOOP_WEIGHT = 2.0**8  # [1/m and 1/rad] of the rows of loops while other rows are minimised beside them
SMALL = 3  # DOFs: for larger islands, the closing is compiled as a separate function, once
CLOSING_EVALUATIONS = wp.constant(24)  # of loops alone
CLOSED2 = (1e-9 * LOOP_WEIGHT) ** 2  # |r|^2 of closed loops
HALVINGS = wp.constant(3)  # of the distance from the start of a tick, to close loops nearer to the start
CURVE_SHARE = 0.25  # share of an acceleration for following the loop; the rest is for slowing down

OTHER = "\nU* const t = (U*)&other;\n"
COPY = "for (int k = 0; k < SIZE; ++k) t[k] = s[k];\n"
PLACE = "for (int c = 0; c < COORDINATES; ++c) t[Q + c] = s[{place} + c];\n"
START = "for (int c = 0; c < COORDINATES; ++c) t[Q + c] = gather(task.joint_q, task.coordinate.data[c]);\n"
AHEAD = """
for (int k = 0; k < DOFS; ++k) {
    const int c = PLACE[k];
    if (c < 0) continue;
    const F ahead = t[Q + c] + gather(task.joint_qd, task.robot_dof.data[k]) * task.numbers.data[DT];
    t[Q + c] = smaller(larger(ahead, t[LOWER + k]), t[UPPER + k]);
}
"""
FAR_LIMITS = """
for (int k = 0; k < DOFS; ++k) {
    const int c = PLACE[k], a = task.dof.data[k];
    if (c < 0) continue;
    t[LOWER + k] = smaller(zero + task.limit_lower.data[a], t[Q + c]);
    t[UPPER + k] = larger(zero + task.limit_upper.data[a], t[Q + c]);
}
"""
# The start of the tick plus a share of the difference to another state; each joint may use its whole interval.
NEARER = """
const U* const u = (const U*)&nearest;
for (int c = 0; c < COORDINATES; ++c) {
    const F start = gather(task.joint_q, task.coordinate.data[c]);
    t[Q + c] = start + (IS_TURN[c] && share < 1.0 ? 0.0 : share) * (u[Q + c] - start);
}
for (int k = 0; k < DOFS; ++k) {
    const int c = PLACE[k];
    if (c < 0) continue;
    const Box box = box_of(k, gather(task.joint_q, task.coordinate.data[c]));
    t[LOWER + k] = box.below;
    t[UPPER + k] = box.above;
    t[Q + c] = smaller(larger(t[Q + c], box.below), box.above);
}
"""
RESTART = f"""
for (int c = 0; c < COORDINATES; ++c) t[TRIAL + c] = t[Q + c];
t[FLOOR2] = zero + {CLOSED2!r};
t[NORM2] = zero + NOT_EVALUATED;
t[DAMPING_FACTOR] = zero + 1.0;
t[STEPS] = zero - 1.0;
"""
# The configuration after another tick at the command's speed, without intervals.
ON = """
for (int c = 0; c < COORDINATES; ++c) {
    t[Q + c] = s[COMMANDED + c];
    if (!IS_TURN[c]) t[Q + c] = 2.0 * t[Q + c] - gather(task.joint_q, task.coordinate.data[c]);
}
for (int k = 0; k < DOFS; ++k) {
    t[LOWER + k] = -infinite;
    t[UPPER + k] = infinite;
}
"""
# The share of the command's speed at which closing the loop takes this much of each acceleration.
CURVE = f"""
F least = zero + 1.0;
const Real dt = task.numbers.data[DT];
for (int k = 0; k < DOFS; ++k) {{
    const int c = PLACE[k];
    if (c < 0) continue;
    const F change = absolute(t[TRIAL + c] - t[Q + c]);
    const F most = zero + {CURVE_SHARE!r} * task.acceleration.data[task.dof.data[k]] * dt * dt;
    least = most < least * change ? most / change : least;
}}
const U* const u = (const U*)&closed;
*(U*)&share = u[NORM2] > u[FLOOR2] ? zero + 1.0 : square_root(least);
return any(*(U*)&share < 1.0);
"""
AT_SLOWED = """
const F left = *(U*)&share;
for (int k = 0; k < DOFS; ++k) {
    const int c = PLACE[k];
    if (c < 0) continue;
    const F start = gather(task.joint_q, task.coordinate.data[c]);
    const F slowed = start + left * (s[COMMANDED + c] - start);
    t[Q + c] = smaller(larger(slowed, t[LOWER + k]), t[UPPER + k]);
}
"""
KEEP_SLOWED = """
const auto slower = (*(U*)&share < 1.0) & (t[NORM2] <= t[FLOOR2]);
for (int c = 0; c < COORDINATES; ++c) s[COMMANDED + c] = slower ? t[Q + c] : s[COMMANDED + c];
"""
IS_OPEN = "return any(t[NORM2] > t[FLOOR2]);\n"
# The share of the difference to the other state for which every joint has time to brake.
SHARE = """
F least = zero + 1.0;
for (int k = 0; k < DOFS; ++k) {
    const int c = PLACE[k];
    if (c < 0) continue;
    const F distance = absolute(t[Q + c] - gather(task.joint_q, task.coordinate.data[c]));
    const F most = braking_move(distance, task.acceleration.data[task.dof.data[k]], task.numbers.data[DT]);
    least = most < least * distance * ALMOST ? most / distance : least;
}
*(U*)&share = least;
"""
LEFT = "t[INPUTS + {goal}] = t[INPUTS + {goal}] * (1.0 - *(U*)&share);\n"
CHOOSE = """
const U* const u = (const U*)&another;
const auto better = (t[NORM2] > t[FLOOR2]) & ({condition});
for (int c = 0; c < COORDINATES; ++c) t[Q + c] = better ? u[Q + c] : t[Q + c];
for (int k = 0; k < DOFS; ++k) {{
    t[LOWER + k] = better ? u[LOWER + k] : t[LOWER + k];
    t[UPPER + k] = better ? u[UPPER + k] : t[UPPER + k];
}}
t[NORM2] = better ? u[NORM2] : t[NORM2];
"""
KEEP = """
for (int c = 0; c < COORDINATES; ++c) s[COMMANDED + c] = t[Q + c];
for (int k = 0; k < DOFS; ++k) {
    s[LOWER + k] = t[LOWER + k];
    s[UPPER + k] = t[UPPER + k];
}
"""


@typing.no_type_check
def closing(of: TickCommand, measure: MeasureSource, place: int) -> Any:
    """Return the function that closes loops from an index of the state, for kernels: (state, lanes, task, first)."""
    State: Any = of.State
    StateRef: Any = of.StateRef
    Real: Any = of.Real
    begin, begin_ahead, begin_nearer, is_open, choose, keep = _attempts(of, place)
    iterate_all = of.repeated(_iteration(of))
    close_slowly, slow_down = _slow_closing(of, measure, iterate_all), _slowing_down(of, iterate_all)

    @wp.func_native(of.text.function(OTHER, COPY))
    def copy(state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef): ...

    @wp.func
    def close_again(state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef):
        another = State()
        begin_ahead(state, lanes, task, first, another)
        iterate_all(another, lanes, task, first, CLOSING_EVALUATIONS)
        choose(state, lanes, task, first, other, another)
        attempt = int(0)
        while attempt <= HALVINGS + 1 and is_open(state, lanes, task, first, other):
            share = wp.where(attempt == 0, Real(1.0), wp.where(attempt <= HALVINGS, Real(0.5), Real(0.0)))
            begin_nearer(state, lanes, task, first, another, other, share)
            iterate_all(another, lanes, task, first, CLOSING_EVALUATIONS)
            choose(state, lanes, task, first, other, another)
            attempt += 1
        if task.settings[BRAKES] == 1 and is_open(state, lanes, task, first, other):
            close_slowly(state, lanes, task, first, other)

    @wp.func(inline=False if of.source.lanes.width > 1 and len(of.source.program.dofs) > SMALL else None)
    def close(state: StateRef, lanes: int, task: TickRef, first: int):
        other = State()
        begin(state, lanes, task, first, other)
        iterate_all(other, lanes, task, first, CLOSING_EVALUATIONS)
        if is_open(state, lanes, task, first, other):
            again = State()  # a copy: passing the address of `other` makes every tick 3 % slower
            copy(other, lanes, task, first, again)
            close_again(state, lanes, task, first, again)
            copy(again, lanes, task, first, other)
        keep(state, lanes, task, first, other)
        if task.settings[BRAKES] == 1:
            slow_down(state, lanes, task, first, other)

    return close


@typing.no_type_check
def _iteration(of: TickCommand) -> Any:
    """Return an iteration of the rows of loops alone, on states like those of all rows."""
    StateRef: Any = of.StateRef
    Real: Any = of.Real
    alone = of.source.of_level(of.source.program.levels[0])

    @wp.func_native(alone.text())
    def iterate(state: StateRef, iterations: Real) -> int: ...

    return iterate


@typing.no_type_check
def _attempts(of: TickCommand, place: int) -> tuple[Any, ...]:
    """Return functions that begin an attempt to close loops in another state, and end the attempt."""
    StateRef: Any = of.StateRef
    Real: Any = of.Real
    text = of.text

    @wp.func_native(text.function(OTHER, COPY, PLACE.format(place=place), RESTART))
    def begin(state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef): ...

    @wp.func_native(text.function(OTHER, COPY, START, AHEAD, RESTART))
    def begin_ahead(state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef): ...

    @wp.func_native(text.function(*fragments(*BOXES), OTHER, COPY, NEARER, RESTART))
    def begin_nearer(
        state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef, nearest: StateRef, share: Real
    ): ...

    @wp.func_native(text.function(OTHER, IS_OPEN))
    def is_open(state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef) -> bool: ...

    @wp.func_native(text.function(OTHER, CHOOSE.format(condition="u[NORM2] < t[NORM2]")))
    def choose(state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef, another: StateRef): ...

    @wp.func_native(text.function(OTHER, KEEP))
    def keep(state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef): ...

    return begin, begin_ahead, begin_nearer, is_open, choose, keep


@typing.no_type_check
def _slow_closing(of: TickCommand, measure: MeasureSource, iterate_all: Any) -> Any:
    """Return a function that moves open loops nearer to closed with time to brake; remaining rows become goals."""
    State: Any = of.State
    StateRef: Any = of.StateRef
    Share: Any = of.Share
    ShareRef: Any = reference_to(Share)
    text, program = of.text, of.source.program
    goals = [k for k, one in enumerate(program.inputs) if one.field == GOAL and one.column in of.source.first_rows]
    left = "".join(LEFT.format(goal=k) for k in goals)

    @wp.func_native(text.function(OTHER, COPY, START, FAR_LIMITS, RESTART))
    def begin_far(state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef): ...

    @wp.func_native(text.function(*fragments("braking_move"), OTHER, SHARE))
    def share_of(state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef, share: ShareRef): ...

    @wp.func_native(text.function(OTHER, COPY, START))
    def begin_at_start(state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef): ...

    @wp.func_native(measure.goals_text(of.source.first_rows))
    def set_goals(state: StateRef): ...

    @wp.func_native(text.function(OTHER, left, AHEAD, RESTART))
    def begin_slowly(state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef, share: ShareRef): ...

    @wp.func_native(text.function(OTHER, CHOOSE.format(condition="*(U*)&share < 1.0")))
    def choose(
        state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef, another: StateRef, share: ShareRef
    ): ...

    @wp.func
    def close_slowly(state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef):
        another = State()
        share = Share()
        begin_far(state, lanes, task, first, another)
        iterate_all(another, lanes, task, first, CLOSING_EVALUATIONS)
        share_of(state, lanes, task, first, another, share)
        begin_at_start(state, lanes, task, first, another)
        set_goals(another)
        begin_slowly(state, lanes, task, first, another, share)
        iterate_all(another, lanes, task, first, CLOSING_EVALUATIONS)
        choose(state, lanes, task, first, other, another, share)

    return close_slowly


@typing.no_type_check
def _slowing_down(of: TickCommand, iterate_all: Any) -> Any:
    """Return a function that slows commands whose curve along the loop needs too much acceleration: (...)."""
    State: Any = of.State
    StateRef: Any = of.StateRef
    Share: Any = of.Share
    ShareRef: Any = reference_to(Share)
    text = of.text

    @wp.func_native(text.function(OTHER, COPY, ON, RESTART))
    def begin_on(state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef): ...

    @wp.func_native(text.function(OTHER, CURVE))
    def is_fast(
        state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef, closed: StateRef, share: ShareRef
    ) -> bool: ...

    @wp.func_native(text.function(OTHER, COPY, PLACE.format(place=of.commanded), AT_SLOWED, RESTART))
    def begin_slowed(state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef, share: ShareRef): ...

    @wp.func_native(text.function(OTHER, KEEP_SLOWED))
    def keep_slowed(state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef, share: ShareRef): ...

    @wp.func
    def slow_down(state: StateRef, lanes: int, task: TickRef, first: int, closed: StateRef):
        other = State()
        share = Share()
        begin_on(state, lanes, task, first, other)
        iterate_all(other, lanes, task, first, 1)
        if is_fast(state, lanes, task, first, other, closed, share):
            begin_slowed(state, lanes, task, first, other, share)
            iterate_all(other, lanes, task, first, CLOSING_EVALUATIONS)
            keep_slowed(state, lanes, task, first, other, share)

    return slow_down
