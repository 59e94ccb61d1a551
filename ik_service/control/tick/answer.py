"""How a tick ends for a packet of robots: their commands, and what is to be said about them.

best configuration -> shortened as a whole if asked -> errors, singular value
-> command, what holds the robot back, status
"""

import typing
from typing import Any

import warp as wp

from ik_service.compiler import IterationSource, MeasureSource
from ik_service.control.tick.approach import MAY_GAIN, NUMBERS, TURNED, TickLane
from ik_service.control.tick.joint_box import BRAKING_MOVE, JOINT_BOX
from ik_service.control.tick.task import DT, TickRef
from ik_service.solver.compiled.iteration import coordinate_places, rotation_bits

TINY = wp.constant(wp.float64(NUMBERS["TINY"]))

# Afterwards the intervals of the joints are those of the command, with speed.
SETTLE = """
const Real dt = task.numbers.data[DT];
F share = zero + 1.0;
if (task.settings.data[SCALES] == 1) {
    for (int k = 0; k < DOFS; ++k) {
        const int c = PLACE[k], a = task.dof.data[k];
        if (c < 0) continue;
        const F move = absolute(s[Q + c] - gather(task.joint_q, task.coordinate.data[c]));
        const F most = smaller(zero + task.velocity.data[a] * dt, zero + task.joint_step.data[a]);
        share = move > most ? smaller(share, most / move) : share;
    }
    for (int k = 0; k < DOFS; ++k) {
        const int c = PLACE[k];
        if (c < 0) continue;
        const F q = gather(task.joint_q, task.coordinate.data[c]);
        const Box box = box_of(k, q);
        const F moved = q + share * (s[Q + c] - q);
        s[LOWER + k] = box.below;
        s[UPPER + k] = box.above;
        s[Q + c] = smaller(larger(moved, box.below), box.above);
    }
}
*(U*)&scaling = share;
"""
BOX_OF = """
const auto box_from = [&](int k, F q, F qd) -> Box {
    const int a = task.dof.data[k];
    return joint_box(q, qd, task.numbers.data[DT], task.limit_lower.data[a], task.limit_upper.data[a],
                     task.velocity.data[a], task.acceleration.data[a], task.joint_step.data[a]);
};
const auto box_of = [&](int k, F q) { return box_from(k, q, gather(task.joint_qd, task.robot_dof.data[k])); };
"""

# The configuration and the speeds that lead to it; turns have theirs from `turn_speed`. Robots of which nobody knows
# where they are brake from their last command, and their turns stay. A follower that its leader has outside of its
# limits comes back with it.
COMMAND = """
const Real rate = 1.0 / task.numbers.data[DT];
const auto sound = gather(task.faulty, task.island) == zero, lost = gather(task.faulty, task.island) != zero;
F starts[COORDINATES];
for (int c = 0; c < COORDINATES; ++c) starts[c] = gather(task.joint_q, task.coordinate.data[c]);
if (any(lost)) {
    for (int c = 0; c < COORDINATES; ++c) {
        const F last = gather(task.joint_q_out, task.coordinate.data[c]);
        starts[c] = lost ? last : starts[c];
        s[Q + c] = lost ? last : s[Q + c];
    }
    for (int k = 0; k < DOFS; ++k) {
        const int c = PLACE[k], d = task.robot_dof.data[k];
        if (c < 0) scatter_where(lost, task.joint_qd_out, d, zero);
        if (c < 0) continue;
        const Box box = box_from(k, starts[c], gather(task.joint_qd_out, d));
        s[Q + c] = lost ? smaller(larger(starts[c], box.below), box.above) : s[Q + c];
    }
}
for (int c = 0; c < COORDINATES; ++c) scatter(task.joint_q_out, task.coordinate.data[c], s[Q + c]);
for (int k = 0; k < DOFS; ++k) {
    const int c = PLACE[k];
    if (c >= 0) scatter(task.joint_qd_out, task.robot_dof.data[k], (s[Q + c] - starts[c]) * rate);
}
for (int f = 0; f < task.follower.shape[0]; ++f) {
    const Real* const number = wp::address(task.follower_number, f, 0);
    const int c = task.follower_place.data[f];
    const F start = number[0] * starts[c] + number[1], free = number[0] * s[Q + c] + number[1];
    const F q = smaller(larger(free, smaller(zero + number[2], start)), larger(zero + number[3], start));
    scatter(task.joint_q_out, task.follower.data[f], q);
    scatter(task.joint_qd_out, task.follower_dof.data[f], (q - start) * rate);
}
"""

# Whether limits hold the robot back, and whether the cost slopes for other joints: by the cosine between the residual
# and the DOF's column of J. Without derivatives nobody knows. Where steps are shortened as a whole, it is the joint
# that they were shortened for. Where all joints move by a small part of what they could from rest, it is not that one
# has to brake: damping slows them, at the edge of what they can reach.
HOLD = """
const bool scales = task.settings.data[SCALES] == 1, brakes = task.settings.data[BRAKES] == 1;
auto stands = zero == zero;
for (int k = 0; k < DOFS && brakes; ++k) {
    const int c = PLACE[k], a = task.dof.data[k];
    if (c < 0) continue;
    const Real dt = task.numbers.data[DT], change = task.acceleration.data[a] * dt;
    const F speed = smaller(zero + task.velocity.data[a], zero + change);
    const F most = smaller(speed * dt, zero + task.joint_step.data[a]); /* from rest */
    stands = stands & (absolute(s[Q + c] - gather(task.joint_q, task.coordinate.data[c])) <= STANDING * most);
}
const F slowest = brakes ? (stands ? zero - 1.0 : gather(task.slowest, task.island)) : zero - 1.0;
F blocked = zero, slopes = zero, undefined = zero;
for (int k = 0; k < DOFS; ++k) {
    const int c = PLACE[k];
    const F g = s[GRADIENT + k];
    F kind = brakes && c < 0 ? gather(task.held, task.robot_dof.data[k]) : turned[k];
    if (c >= 0) {
        const F start = gather(task.joint_q, task.coordinate.data[c]);
        const F outwards = scales ? start - s[Q + c] : g;
        const auto at_lower = (s[Q + c] <= s[LOWER + k]) & (outwards > zero);
        const auto at_upper = (s[Q + c] >= s[UPPER + k]) & (outwards < zero);
        if (any(at_lower | at_upper)) {
            const Box box = box_of(k, start);
            kind = at_upper ? box.kind_above : zero;
            kind = at_lower ? -box.kind_below : kind;
        }
        if (brakes) {
            const F held = gather(task.held, task.robot_dof.data[k]);
            const int a = task.dof.data[k];
            const auto stands = ((held < zero) & (s[Q + c] <= task.limit_lower.data[a]))
                | ((held > zero) & (s[Q + c] >= task.limit_upper.data[a]));
            kind = (kind == zero) & stands ? held * Real(POSITION) : kind;
            blocked = held != zero ? zero + 1.0 : blocked;
        }
    } else if (brakes) {
        blocked = kind != zero ? zero + 1.0 : blocked;
    }
    const auto is_slowest = (kind == zero) & (slowest == Real(k));
    scatter(task.active_limits, task.robot_dof.data[k], is_slowest ? zero + Real(ACCELERATION) : kind);
    const F column = s[DIAGONAL + k] * s[NORM2];
    const auto flat = g * g <= COSINE2_MAX * (column + TINY);
    slopes = (flat | (kind != zero)) ? slopes : zero + 1.0;
    blocked = (flat | (kind == zero)) ? blocked : zero + 1.0;
    undefined = g * g + column < infinite ? undefined : zero + 1.0;
}
"""

ANSWER = f"""
auto met = zero == zero;
for (int k = 0; k < ERROR_COUNT; ++k) {{
    const F error = square_root(s[ERRORS + k]);
    const int target = task.error_target.data[k];
    if (IS_CHORD[k]) {{
        const F angle = 2.0 * arc_sine(smaller(0.5 * error, zero + 1.0));
        scatter(task.orientation_error, target, angle);
        met = met & (angle <= task.numbers.data[ORIENTATION_TOLERANCE]);
    }} else {{
        scatter(task.position_error, target, error);
        met = met & (error <= task.numbers.data[POSITION_TOLERANCE]);
    }}
}}
if (ERROR_COUNT == 0) met = (slopes + blocked + undefined == zero) | (s[NORM2] <= ROUNDING2);

const F share = *(U*)&scaling;
const auto may_gain = {MAY_GAIN};
const auto held_back = (blocked > zero) | (share < 1.0) | (slowest >= zero);
F status = zero + Real(MAX_ITERATIONS);
status = may_gain ? status : zero + Real(STALLED);
status = held_back ? zero + Real(BLOCKED_BY_LIMITS) : status;
if (task.settings.data[CUT] == 1) status = may_gain ? zero + Real(DEADLINE) : status;
status = undefined > zero ? zero + Real(INVALID) : status;
status = met ? zero + Real(CONVERGED) : status;
status = (sound & (s[NORM2] < NOT_EVALUATED)) ? status : zero + Real(INVALID);
scatter(task.status, task.island, status);
scatter(task.sigma_min, task.island, *(U*)&sigma);
scatter(task.scaling, task.island, brakes ? share * gather(task.approach, task.island) : share);
scatter(task.iterations, task.island, s[STEPS]);
"""


class TickAnswer(TickLane):
    """The functions of a packet of robots, to be called in kernels.

    Args:
        source: The iteration, in float64.
        measure: What is measured of configurations.

    Attributes:
        Share: Type of a number for every lane.
        settle: Shortens the steps of the robots where that is asked for, and says how much of them is left:
            (state, lanes, task, first, scaling).
        measure: Errors of the targets, into the state, and smallest singular values: (state, sigma).
        answer: Writes what became of the robots: (state, lanes, task, first, scaling, sigma).
    """

    def __init__(self, source: IterationSource, measure: MeasureSource) -> None:
        super().__init__(source, measure)
        self._define_measure(measure)
        self._define_turn_speed()
        self._define_answer()

    @typing.no_type_check
    def _define_measure(self, source: MeasureSource) -> None:
        StateRef: Any = self.StateRef
        self.Share: Any = wp.types.vector(self.source.lanes.width, self.Real)
        ShareRef: Any = wp.ref[self.Share]

        @wp.func_native(self.text.function(BRAKING_MOVE, JOINT_BOX, BOX_OF, SETTLE))
        def settle(state: StateRef, lanes: int, task: TickRef, first: int, scaling: ShareRef): ...

        @wp.func_native(source.text())
        def measure(state: StateRef, sigma: ShareRef): ...

        self.settle, self.measure = settle, measure

    @typing.no_type_check
    def _define_turn_speed(self) -> None:
        StateRef: Any = self.StateRef
        Real, at, W, program = self.Real, self.at, self.source.lanes.width, self.source.program
        Q, PLACE = self.source.state.q, coordinate_places(program)

        @wp.func
        def turn_speed(state: StateRef, lane: int, task: TickRef, r: int, k: int):
            """Write the angular velocity of the rotation that starts at DOF k, in its joint-parent frame [rad/s]."""
            c = PLACE[k]
            old = wp.quatd()
            new = wp.quatd()
            for m in range(4):
                old[m] = task.joint_q[r, task.coordinate[c + m]]
                new[m] = at(state, (Q + c + m) * W + lane)
            turn = new * wp.quat_inverse(old)
            vector = wp.vec3d(turn[0], turn[1], turn[2])
            sine = wp.length(vector)
            angle = Real(2.0) * wp.atan2(sine, wp.abs(turn[3]))
            speed = vector * (wp.sign(turn[3]) * angle / wp.max(sine, TINY) / task.numbers[DT])
            for m in range(3):
                task.joint_qd_out[r, task.robot_dof[k + m]] = speed[m]

        self._turn_speed = turn_speed

    @typing.no_type_check
    def _define_answer(self) -> None:
        StateRef: Any = self.StateRef
        ShareRef: Any = wp.ref[self.Share]
        DOFS, ROTATIONS = len(self.source.program.dofs), rotation_bits(self.source.program)
        turn_speed = self._turn_speed

        @wp.func_native(self.text.function(BRAKING_MOVE, JOINT_BOX, BOX_OF, COMMAND, TURNED, HOLD, ANSWER))
        def answer_all(state: StateRef, lanes: int, task: TickRef, first: int, scaling: ShareRef, sigma: ShareRef): ...

        @wp.func
        def answer(state: StateRef, lanes: int, task: TickRef, first: int, scaling: ShareRef, sigma: ShareRef):
            answer_all(state, lanes, task, first, scaling, sigma)
            if wp.static(ROTATIONS != 0):
                for lane in range(lanes):
                    for k in range(DOFS):
                        if (ROTATIONS >> k) & 1 == 1 and task.faulty[first + lane, task.island] == 0:
                            turn_speed(state, lane, task, first + lane, k)

        self.answer = answer
