"""Start of a tick for a packet of robots: intervals of joints, data of the tasks, and reachable goals.

positions of the robots, speeds, limits -> intervals of their joints; data of the tasks -> data of the program
with acceleration limits, before that: configurations of the last tick's and this tick's tasks
-> speed of the goal, lag of the robot -> goals from which the robot can still brake
"""

import math
import typing
from dataclasses import asdict
from typing import Any

import warp as wp

from ik_service.compiler import GOAL, TURN, TURN_WIDTH, IterationSource, MeasureSource, coordinate_names, error_outputs
from ik_service.control.limits import KINDS
from ik_service.control.tick import arrays as tick_task
from ik_service.control.tick.arrays import DT, TARGET_STATE, TickRef
from ik_service.control.tick.packet_text import MAY_GAIN, PacketText, fragments
from ik_service.kernels.typed_warp import reference_to
from ik_service.solver.compiled.iteration import IterationFunctions, coordinate_places, integers, rotation_bits
from ik_service.solver.given.arrays import NUMBER_MAX
from ik_service.solver.lm.status import IKStatus
from ik_service.solver.lm.termination import COSINE_MAX, FLOAT64_FLOOR2, NOT_EVALUATED
from objectives.data_field import UNIT_TOLERANCE

ENDLESS = wp.constant(wp.float64(1.0e9))  # step limit of a lane: `iterate_all` counts the steps
PI = wp.constant(wp.float64(math.pi))

NUMBERS = {
    **KINDS,
    **{status.name: status.value for status in IKStatus},
    **{name: int(getattr(tick_task, name)) for name in tick_task.PLACES},
    "LARGEST": NUMBER_MAX,
    "SLACK": UNIT_TOLERANCE,
    "ALMOST": 1.0 - 1.0e-9,  # a share not below 1 by rounding alone
    "FLOAT64_FLOOR2": FLOAT64_FLOOR2,
    "NOT_EVALUATED": float(NOT_EVALUATED),
    "STANDING": 0.1,  # share of a joint's largest move from rest in a tick below which the joint is at rest
    "SMOOTHED": 1.0e-5,  # distance of a command from the unsmoothed one that counts as none [rad or m]
    "ROUNDING2": 1.0e-18,  # |r|^2 that counts as met for any slope
    "COSINE2_MAX": float(COSINE_MAX) ** 2,
    "SPARE_TICKS": 1.0,  # extra stopping time of resting joints of a loop
    "TOGETHER": 0.5,  # share of the accelerations available to loop joints that stop together
    "BESIDE": 5.0e-2,  # largest interval of a joint for escaping a saddle point [rad or m]
    "ROOM_SHARE": 0.25,  # share of this interval used by a trial: the step from the trial needs room, too
    "UNLIKE": 1.0e-6,  # thousandth of the part of a trial common to all ticks
    "CURVED": 1.0e-10,  # share of |r|^2 by which the cost must lie below its linear prediction
    "TINY": 1.0e-60,  # keeps quotients of zeros finite
}


# An ended lane is reset to its final state: iterations of other lanes do not count.
PAUSE_ENDED = f"""
U* const kept = (U*)&paused;
const auto may_gain = {MAY_GAIN};
for (int k = 0; k < 3; ++k) {{
    kept[k] = ((kept[3] > zero) | may_gain) ? kept[k] : s[k == 0 ? NORM2 : k == 1 ? DAMPING_FACTOR : STEPS];
}}
s[NORM2] = may_gain ? s[NORM2] : zero - 1.0; /* nothing is better */
kept[3] = may_gain ? zero : zero + 1.0;
return any(may_gain);
"""
RESUME_ENDED = """
U* const kept = (U*)&paused;
for (int k = 0; k < 3; ++k) {
    U& number = s[k == 0 ? NORM2 : k == 1 ? DAMPING_FACTOR : STEPS];
    number = kept[3] > zero ? kept[k] : number;
}
"""
# A robot at rest with a residual is at a minimum or at a saddle point. One trial beside the robot is evaluated, on the
# downhill side, and taken if the cost is below its linear prediction: negative curvature. The damped step from a trial
# leads away from the robot in directions of negative curvature, and back in all other directions. The trial of the next
# tick is the end of this step, so trials turn towards negative curvature.
TRY_ASIDE = """
U* const t = (U*)&other;
auto flat = zero == zero;
for (int k = 0; k < DOFS; ++k) {
    flat = flat & (s[GRADIENT + k] * s[GRADIENT + k] <= COSINE2_MAX * (s[LENGTHS2 + k] * s[NORM2] + TINY));
}
const auto stands = (s[STEPS] == zero) & (s[NORM2] > s[FLOOR2]) & (flat | (s[DAMPING_FACTOR] > FACTOR_MAX));
if (!any(stands)) return false;
for (int k = 0; k < SIZE; ++k) t[k] = s[k];
F aside[DOFS], largest = zero + TINY, slope = zero, gain = zero, farthest = zero;
for (int k = 0; k < DOFS; ++k) {
    const F last = absolute(gather(task.input_before, INPUT_COUNT + k));
    farthest = last > farthest ? last : farthest; /* false for NAN */
}
farthest = farthest > zero ? farthest : zero + BESIDE;
for (int k = 0; k < DOFS; ++k) {
    const F last = gather(task.input_before, INPUT_COUNT + k);
    const F room = PLACE[k] < 0 ? zero : smaller(s[UPPER + k] - s[LOWER + k], zero + BESIDE);
    /* Only joints held by a limit have a slope at a saddle. That slope must not reverse the trial. */
    const auto held = s[GRADIENT + k] * s[GRADIENT + k] > COSINE2_MAX * (s[LENGTHS2 + k] * s[NORM2] + TINY);
    aside[k] = (last == last ? last : zero) + UNLIKE * (500 + 309 * k % 500) * smaller(room, farthest);
    aside[k] = held ? zero : aside[k];
    largest = absolute(aside[k]) > largest * room ? absolute(aside[k]) / room : largest;
    slope = slope + s[GRADIENT + k] * aside[k];
}
const F scale = (slope > zero ? zero - ROOM_SHARE : zero + ROOM_SHARE) / largest;
for (int c = 0; c < COORDINATES; ++c) t[TRIAL + c] = s[Q + c];
for (int k = 0; k < DOFS; ++k) {
    const int c = PLACE[k];
    if (c < 0) continue;
    t[TRIAL + c] = smaller(larger(s[Q + c] + scale * aside[k], s[LOWER + k]), s[UPPER + k]);
    gain = gain + s[GRADIENT + k] * (t[TRIAL + c] - s[Q + c]);
}
t[NORM2] = stands ? s[NORM2] * (1.0 - CURVED) + 2.0 * gain : zero - 1.0; /* of others nothing is lower */
t[DAMPING_FACTOR] = zero + 0.5; /* 1 after progress, else more */
return true;
"""
KEEP_ASIDE = """
const U* const t = (const U*)&other;
const auto lower = t[DAMPING_FACTOR] == 1.0, stood = t[NORM2] >= zero;
for (int k = 0; k < DOFS; ++k) {
    const int c = PLACE[k];
    if (c >= 0) scatter_where(stood, task.input_before, INPUT_COUNT + k, t[TRIAL + c] - s[Q + c]);
}
for (int k = 0; k < SIZE; ++k) s[k] = lower ? t[k] : s[k];
for (int k = 0; k < INPUT_COUNT; ++k) { /* with limits of acceleration they would hold the robot there */
    if (task.source_task.data[k] == HOLDING) s[INPUTS + k] = lower ? zero : s[INPUTS + k];
}
"""
# The robot moves along with its goal, and catches up only as fast as every joint can brake: otherwise the robot would
# overshoot the goal and oscillate forever. `s` is the solution for the first-priority rows.
REACH = """
struct Reach { F share, slowest; };
const auto reach = [&](const U* const lead, F* const goals) -> Reach {
    const Real dt = task.numbers.data[DT];
    F share = zero + 1.0, slowest = zero - 1.0;
    F moves[DOFS], lags[DOFS];
    for (int k = 0; k < DOFS; ++k) {
        const int c = PLACE[k], a = task.dof.data[k];
        if (c < 0) continue;
        const int i = task.coordinate.data[c];
        const F farthest = zero + task.velocity.data[a] * dt;
        moves[k] = smaller(larger(s[Q + c] - gather(task.reference_before, i), -farthest), farthest);
        lags[k] = lead[c] - gather(task.joint_q, i) - moves[k];
        const F distance = absolute(lags[k]), most = braking_move(distance, task.acceleration.data[a], dt);
        const auto slower = most < share * distance * ALMOST;
        share = slower ? most / distance : share;
        slowest = slower ? zero + Real(k) : slowest;
    }
    for (int k = 0; k < DOFS; ++k) {
        const int c = PLACE[k];
        if (c >= 0) goals[k] = gather(task.joint_q, task.coordinate.data[c]) + moves[k] + share * lags[k];
    }
    return Reach{share, slowest};
};
"""
KEEP_REFERENCE = """
for (int c = 0; c < COORDINATES; ++c) scatter(task.reference_before, task.coordinate.data[c], s[Q + c]);
"""


class TickApproach(IterationFunctions):
    """Functions for a packet of robots up to its iterations, in float64, for use in kernels.

    `weighing` are statements that change the weights of rows after all data are read. With `apart` the commanded
    configuration is stored separately. With `clears` clearance is a limit.
    """

    def __init__(
        self, source: IterationSource, measure: MeasureSource, weighing: str, *, apart: bool, clears: bool
    ) -> None:
        super().__init__(source)
        self.clears = clears
        program = source.program
        # first index of the commanded configuration
        self.commanded = source.state.trial if apart else source.state.q
        rotations, places = rotation_bits(program), coordinate_places(program)
        kinds = [kind for kind, _ in error_outputs(program) if kind != "rows"]
        state = {name.upper(): place for name, place in asdict(source.state).items()}
        if NUMBERS.keys() & state.keys():
            raise RuntimeError(f"names stand for two numbers: {sorted(NUMBERS.keys() & state.keys())}")
        numbers = {
            **NUMBERS,
            **state,
            "DOFS": len(program.dofs),
            "COORDINATES": len(coordinate_names(program)),
            "INPUT_COUNT": len(program.inputs),
            "TURN_COUNT": len(program.quaternions),
            "TURN_WIDTH": TURN_WIDTH,
            "TURN_INPUTS": source.state.inputs + sum(one.field not in (GOAL, TURN) for one in program.inputs),
            "ERROR_COUNT": len(kinds),
            "HAS_LOOPS": int(program.row_error2 is not None),
            "FACTOR_MAX": source.damping.factor_max,
            "COMMANDED": self.commanded,
            "HAS_CLEARANCE": int(clears),
        }
        at = {"target_positions": 0, "target_orientations_xyzw": 3}
        tables = {
            "PLACE": [-1 if rotations >> k & 1 else places[k] for k in range(len(program.dofs))],
            "IS_TURN": [int(component != "") for _, component in coordinate_names(program)],
            "IS_CHORD": [int(kind == "chord") for kind in kinds],
            "GIVEN": [TARGET_STATE * x.objective + x.column + at.get(x.field, -(2**30)) for x in program.inputs],
            "TURN_AT": [coordinate_names(program).index((a, "x")) for a in program.quaternions],
            "IS_GOAL": [int(one.field == GOAL) for one in program.inputs],
            "TURN_DOF": [program.dofs.index(a) for a in program.quaternions],
        }
        self.text = PacketText(source.lanes, numbers, tables)
        self._define_turns()
        self._define_begin(weighing)
        self._define_iterations()
        self._define_approach(measure)

    @typing.no_type_check
    def _define_turns(self) -> None:
        StateRef: Any = self.StateRef
        Real, DATA, W, program = self.Real, self.source.state.inputs, self.source.lanes.width, self.source.program
        TURNS_AT = sum(one.field not in (GOAL, TURN) for one in program.inputs)
        names = coordinate_names(program)
        TURN_DOF = integers([program.dofs.index(a) for a in program.quaternions])
        TURN_PLACE = integers([names.index((a, "x")) for a in program.quaternions])

        @wp.func
        def limit_turn(state: StateRef, lane: int, task: TickRef, r: int, n: int):
            """Write start and largest angle of rotation n, from the least limit of its DOFs."""
            k = TURN_DOF[n]
            c = TURN_PLACE[n]
            first = (DATA + TURNS_AT + n * TURN_WIDTH) * W + lane
            angle = Real(PI)
            for m in range(3):
                a = task.dof[k + m]
                angle = wp.min(angle, wp.min(task.velocity[a] * task.numbers[DT], task.joint_step[a]))
            for m in range(4):
                state[first + m * W] = task.joint_q[r, task.coordinate[c + m]]
            state[first + 4 * W] = wp.sin(Real(0.5) * angle)

        self._limit_turn = limit_turn

    @typing.no_type_check
    def _define_begin(self, weighing: str) -> None:
        StateRef: Any = self.StateRef
        W, TURNS, limit_turn = self.source.lanes.width, len(self.source.program.quaternions), self._limit_turn

        @wp.func_native(self.text.function(*fragments("read_data"), weighing))
        def read_data(state: StateRef, lanes: int, task: TickRef, first: int, stage: int): ...

        @wp.func_native(self.text.function(*fragments("braking_move", "joint_box", "begin_joints")))
        def begin_joints(state: StateRef, lanes: int, task: TickRef, first: int, stage: int): ...

        @wp.func
        def read(state: StateRef, lanes: int, task: TickRef, first: int, stage: int):
            read_data(state, lanes, task, first, stage)
            for lane in range(W):
                for n in range(TURNS):
                    limit_turn(state, lane, task, first + wp.min(lane, lanes - 1), n)

        @wp.func
        def begin(state: StateRef, lanes: int, task: TickRef, first: int, stage: int):
            if stage < tick_task.COMMAND or task.settings[tick_task.BRAKES] == 0:
                read(state, lanes, task, first, stage)
            begin_joints(state, lanes, task, first, stage)

        # read_data, read: read the data of the rows, without and with rotations: the same arguments as `begin`
        # begin: loads robots into a packet, beginning with robot `first`: (state, lanes, task, first, stage)
        self.read_data, self.read, self.begin = read_data, read, begin

    @typing.no_type_check
    def _define_iterations(self) -> None:
        # at most `count` iterations while a lane can improve; 1 if a lane still can: (state, lanes, task, first, count)
        self.iterate_all = self.repeated(self.iterate)
        State: Any = self.State
        StateRef: Any = self.StateRef
        iterate = self.iterate

        @wp.func_native(self.text.function(TRY_ASIDE))
        def try_aside(state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef) -> bool: ...

        @wp.func_native(self.text.function(KEEP_ASIDE))
        def keep_aside(state: StateRef, lanes: int, task: TickRef, first: int, other: StateRef): ...

        @wp.func
        def look_aside(state: StateRef, lanes: int, task: TickRef, first: int):
            other = State()
            if try_aside(state, lanes, task, first, other):
                iterate(other, ENDLESS)
                keep_aside(state, lanes, task, first, other)

        self.look_aside = look_aside  # moves robots away from saddle points: (state, lanes, task, first)

    @typing.no_type_check
    def repeated(self, iterate: Any) -> Any:
        """Return the function that repeats an iteration; see `iterate_all`."""
        StateRef: Any = self.StateRef
        Paused: Any = wp.types.vector(4 * self.source.lanes.width, self.Real)
        PausedRef: Any = reference_to(Paused)

        @wp.func_native(self.text.function(PAUSE_ENDED))
        def pause_ended(state: StateRef, lanes: int, task: TickRef, first: int, paused: PausedRef) -> bool: ...

        @wp.func_native(self.text.function(RESUME_ENDED))
        def resume_ended(state: StateRef, lanes: int, task: TickRef, first: int, paused: PausedRef): ...

        @wp.func
        def iterate_all(state: StateRef, lanes: int, task: TickRef, first: int, count: int):
            """Make `count` iterations, or fewer if no lane can improve; return 1 if a lane still can."""
            paused = Paused()
            left = int(count)
            running = pause_ended(state, lanes, task, first, paused)
            while running and left > 0:
                iterate(state, ENDLESS)
                left -= 1
                running = pause_ended(state, lanes, task, first, paused)
            resume_ended(state, lanes, task, first, paused)
            return wp.where(running, 1, 0)

        return iterate_all

    @typing.no_type_check
    def _define_approach(self, measure: MeasureSource) -> None:
        StateRef: Any = self.StateRef

        @wp.func_native(self.text.function(KEEP_REFERENCE))
        def keep_reference(state: StateRef, lanes: int, task: TickRef, first: int): ...

        @wp.func_native(self.text.function(*fragments("braking_move"), REACH, *fragments("turned", "approach")))
        def approach(state: StateRef, lanes: int, task: TickRef, first: int): ...

        @wp.func_native(measure.goals_text())
        def set_goals(state: StateRef): ...

        # keep_reference: stores the configuration of the last tick's tasks: (state, lanes, task, first)
        # approach: limits the tasks' configuration to the reachable one: the same arguments
        # set_goals: makes the rows at this configuration the goals of the rows: (state)
        self.keep_reference, self.approach, self.set_goals = keep_reference, approach, set_goals
