"""A tick with lower-priority rows: rows of priority 1 act in the null space of the island's other rows.

    first-priority rows and damping -> their configuration, as if there were no other row
    from this configuration, their residuals are kept; lower-priority rows and damping, with much smaller weights, are
    minimised within the same intervals of the joints -> the command

With acceleration limits, lower-priority rows and damping have goals of their own from which every joint can brake, on
the straight line to the configuration of all rows. First-priority rows keep their own goals, not met on this line.
"""

import typing
from collections.abc import Sequence
from typing import Any

import warp as wp

from ik_service.compiler import GOAL, IslandProgram, IterationSource, MeasureSource
from ik_service.control.tick.answer import TickCommand
from ik_service.control.tick.approach import REACH
from ik_service.control.tick.arrays import BRAKES, COMMAND, LEADING, YIELDING, TickRef
from ik_service.control.tick.closing import LOOP_WEIGHT
from ik_service.control.tick.packet_text import fragments
from objectives.expression.rows import ROW_WEIGHTS
from objectives.tasks.joints import JOINT_Q_REFERENCE

# Weight of the heaviest lower-priority or damping row, relative to the lightest first-priority row; the second value is
# for the search of a goal, with possibly long steps.
LIGHT, LESS_LIGHT = 2.0**-20, 2.0**-12
YIELDING_EVALUATIONS = wp.constant(5)  # of lower-priority rows
# Kind of a weight: of first-priority rows, lower-priority rows, damping (the only objective without goals), loops.
FIRST, YIELDS, HOLDS, LOOP = 1, 2, 3, 4

WEIGHING = """
static const int kinds[] = {{{kinds}}};
static const Real factors[] = {{{factors}}};
F light = zero;
if (stage >= {leading}) {{
    F lightest = infinite, heaviest = zero;
    for (int k = 0; k < INPUT_COUNT; ++k) {{
        const F weight = s[INPUTS + k] * factors[k];
        if (kinds[k] == {first}) lightest = ((weight > zero) & (weight < lightest)) ? weight : lightest;
        if (kinds[k] == {yields} || kinds[k] == {holds}) heaviest = larger(weight, heaviest);
    }}
    light = (stage == {leading} ? {less_light!r} : {light!r}) * lightest / heaviest;
    light = light < infinite ? light : zero + 1.0;
}}
for (int k = 0; k < INPUT_COUNT; ++k) {{
    if (kinds[k] == {yields}) s[INPUTS + k] = s[INPUTS + k] * light;
    if (kinds[k] == {holds} && stage >= {leading}) s[INPUTS + k] = s[INPUTS + k] * light;
    if (kinds[k] == {loop} && stage >= {leading}) s[INPUTS + k] = s[INPUTS + k] * {loop_share!r};
}}
"""
OTHER = "\nU* const t = (U*)&other;\n"
COPY_OTHER = f"{OTHER}for (int k = 0; k < SIZE; ++k) t[k] = s[k];\n"
PLACE_OTHER = f"{OTHER}for (int c = 0; c < COORDINATES; ++c) t[Q + c] = s[Q + c];\n"
KEEP_OTHER = f"{OTHER}for (int c = 0; c < COORDINATES; ++c) s[COMMANDED + c] = t[Q + c];\n"
# Damping attracts joints to this goal, too, not to their position: it would slow them on the way to the goal.
LOAD_GOAL = """
static const int references[][2] = {{references}};
for (int c = 0; c < COORDINATES; ++c) s[Q + c] = gather(task.reference_before, task.coordinate.data[c]);
for (const int* one = references[0]; one[0] >= 0; one += 2) s[INPUTS + one[0]] = gather(task.reference_before, one[1]);
"""
RESTART_OTHER = """
for (int c = 0; c < COORDINATES; ++c) s[TRIAL + c] = s[Q + c];
s[FLOOR2] = zero;
s[NORM2] = zero + NOT_EVALUATED;
s[DAMPING_FACTOR] = zero + 1.0;
s[STEPS] = zero - 1.0;
"""
# The other state is the configuration of lower-priority rows; it becomes the reachable configuration.
APPROACH = f"""{OTHER}
F goals[DOFS];
const F share = reach(t + Q, goals).share;
for (int k = 0; k < DOFS; ++k) {{
    if (PLACE[k] >= 0) t[Q + PLACE[k]] = goals[k];
}}
for (int n = 0; n < TURN_COUNT; ++n) {{ /* the same share of the turn, nearly */
    const U* const from = s + Q + TURN_AT[n];
    U* const to = t + Q + TURN_AT[n];
    const F dot = from[0] * to[0] + from[1] * to[1] + from[2] * to[2] + from[3] * to[3];
    const F signed_share = dot < zero ? -share : share;
    F mixed[4], length2 = zero;
    for (int m = 0; m < 4; ++m) {{
        mixed[m] = (1.0 - share) * from[m] + signed_share * to[m];
        length2 = length2 + mixed[m] * mixed[m];
    }}
    for (int m = 0; m < 4; ++m) to[m] = mixed[m] / square_root(length2);
}}
"""


def _kinds(program: IslandProgram) -> dict[int, int]:
    """Map the objectives of an island to the kinds of their weights."""
    goals = {program.row_objective[one.column] for one in program.inputs if one.field == GOAL}
    kinds = dict.fromkeys(program.row_objective, HOLDS) | dict.fromkeys(goals, FIRST)
    for level in program.levels:
        if level.is_closing or level is program.levels[-1]:
            kinds |= dict.fromkeys(level.objectives, LOOP if level.is_closing else YIELDS)
    return kinds


def _weighing(program: IslandProgram, weights: Sequence[float]) -> str:
    """Give statements that disable lower-priority rows, or reduce their weights and damping, by the stage."""
    kinds, numbers = _kinds(program), [one.objective if one.field == ROW_WEIGHTS else None for one in program.inputs]
    return WEIGHING.format(
        kinds=", ".join(str(0 if k is None else kinds[k]) for k in (*numbers, None)),
        factors=", ".join(repr(0.0 if k is None else float(weights[k])) for k in (*numbers, None)),
        leading=int(LEADING),
        light=LIGHT,
        less_light=LESS_LIGHT,
        first=FIRST,
        yields=YIELDS,
        holds=HOLDS,
        loop=LOOP,
        loop_share=1.0 / LOOP_WEIGHT,
    )


def _goal_text(program: IslandProgram) -> str:
    """Give statements that load the goal configuration of a command, with acceleration limits."""
    kinds, inputs = _kinds(program), enumerate(program.inputs)
    found = [(k, one.column) for k, one in inputs if one.field == JOINT_Q_REFERENCE and kinds[one.objective] == HOLDS]
    return LOAD_GOAL.replace("{references}", ", ".join(f"{{{k}, {column}}}" for k, column in (*found, (-1, -1))))


class TickYielding(TickCommand):
    """Functions for a packet of robots with lower-priority rows, for use in kernels."""

    def __init__(
        self, source: IterationSource, measure: MeasureSource, weights: Sequence[float], *, clears: bool
    ) -> None:
        super().__init__(source, measure, _weighing(source.program, weights), apart=True, clears=clears)
        self._define_states(_goal_text(source.program))
        self._define_minimise(measure)
        self._define_lower()
        self._define_approach_of_all()

    @typing.no_type_check
    def _define_states(self, goal: str) -> None:
        StateRef: Any = self.StateRef

        @wp.func_native(self.text.function(COPY_OTHER))
        def copy(state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef): ...

        @wp.func_native(self.text.function(PLACE_OTHER))
        def place(state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef): ...

        @wp.func_native(self.text.function(KEEP_OTHER))
        def keep(state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef): ...

        @wp.func_native(self.text.function(goal))
        def load_goal(state: StateRef, lanes: int, task: TickRef, first: int): ...

        @wp.func_native(self.text.function(RESTART_OTHER))
        def restart(state: StateRef, lanes: int, task: TickRef, first: int): ...

        self._copy, self._place, self._keep = copy, place, keep
        self._load_goal, self._restart = load_goal, restart

    @typing.no_type_check
    def _define_minimise(self, measure: MeasureSource) -> None:
        StateRef: Any = self.StateRef
        Real: Any = self.Real
        source, read, (*_, before, last) = self.source, self.read, self.source.program.levels
        copy, place, load_goal, restart = self._copy, self._place, self._load_goal, self._restart

        @wp.func_native(measure.goals_text(source.program.rows_of([before])))
        def set_first_goals(state: StateRef): ...

        @wp.func_native(measure.goals_text(source.program.rows_of([last])))
        def set_yielding_goals(state: StateRef): ...

        @wp.func_native(source.of_level(last).text())
        def iterate_keeping(state: StateRef, iterations: Real) -> int: ...

        iterate_all = self.repeated(iterate_keeping)

        @wp.func
        def minimise(state: StateRef, lanes: int, task: TickRef, first: int, stage: int, other: StateRef):
            """Minimise the lower-priority rows, from a state, in another state."""
            copy(state, lanes, task, first, other)
            read(other, lanes, task, first, stage)
            if stage == YIELDING and task.settings[BRAKES] == 1:
                load_goal(other, lanes, task, first)
                set_yielding_goals(other)
                place(state, lanes, task, first, other)
            set_first_goals(other)
            restart(other, lanes, task, first)
            iterate_all(other, lanes, task, first, YIELDING_EVALUATIONS)

        self._minimise = minimise

    @typing.no_type_check
    def _define_lower(self) -> None:
        State: Any = self.State
        StateRef: Any = self.StateRef
        minimise, keep = self._minimise, self._keep

        @wp.func
        def lower(state: StateRef, lanes: int, task: TickRef, first: int):
            other = State()
            minimise(state, lanes, task, first, YIELDING, other)
            keep(state, lanes, task, first, other)

        self.lower = lower

    @typing.no_type_check
    def _define_approach_of_all(self) -> None:
        State: Any = self.State
        StateRef: Any = self.StateRef
        minimise, approach_first, keep_goal = self._minimise, self.approach, self.keep_reference
        begin_first, load_goal = self.begin, self._load_goal

        @wp.func_native(self.text.function(*fragments("braking_move"), REACH, APPROACH))
        def approach_yielding(state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef): ...

        @wp.func
        def approach(state: StateRef, lanes: int, task: TickRef, first: int):
            other = State()
            minimise(state, lanes, task, first, LEADING, other)
            approach_yielding(state, lanes, task, first, other)
            approach_first(state, lanes, task, first)
            keep_goal(other, lanes, task, first)

        @wp.func
        def begin(state: StateRef, lanes: int, task: TickRef, first: int, stage: int):
            """Begin a stage; the search for the command starts at the reachable configuration of all rows."""
            if stage == COMMAND and task.settings[BRAKES] == 1:
                load_goal(state, lanes, task, first)
            begin_first(state, lanes, task, first, stage)

        self.begin, self.approach = begin, approach
