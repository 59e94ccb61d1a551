"""How a tick ends in a lane: the command of a robot, and what is to be said about it.

best configuration -> shortened as a whole if asked -> errors, singular value
-> command, what holds the robot back, status
"""

import typing
from typing import Any

import warp as wp

from ik_service.compiler import IterationSource, MeasureSource, coordinate_names, error_outputs
from ik_service.control.joint_box import ACCELERATION
from ik_service.control.tick_lane import TickLane
from ik_service.control.tick_task import (
    BRAKES,
    CUT,
    DT,
    ORIENTATION_TOLERANCE,
    POSITION_TOLERANCE,
    SCALES,
    TickRef,
)
from ik_service.solver.assessment import COSINE_MAX
from ik_service.solver.lane import NOT_EVALUATED, coordinate_places, rotation_bits
from ik_service.solver.slots import BLOCKED_BY_LIMITS, CONVERGED, DEADLINE, INVALID, MAX_ITERATIONS, STALLED

ROUNDING2 = wp.constant(wp.float64(1.0e-18))  # |r|^2 that is met whatever the slope
COSINE2_MAX = wp.constant(wp.float64(float(COSINE_MAX) ** 2))
TINY = wp.constant(wp.float64(1.0e-60))  # keeps quotients of zeros finite


class TickAnswer(TickLane):
    """The functions of a robot's lane, to be called in kernels.

    Args:
        source: The iteration, in float64.
        measure: What is measured of configurations.

    Attributes:
        Sigma: Type of a number for every lane.
        settle: Shortens the step of a lane where that is asked for, and returns how much of it is left:
            (state, lane, task, robot).
        measure: Errors of the targets, into the state, and smallest singular values: (state, sigma).
        answer: Writes what became of a robot: (state, lane, task, robot, scaling, sigma).
    """

    def __init__(self, source: IterationSource, measure: MeasureSource) -> None:
        super().__init__(source, measure)
        self._define_measure(measure)
        self._define_settle()
        self._define_command()
        self._define_errors()
        self._define_hold()
        self._define_answer()

    @typing.no_type_check
    def _define_measure(self, source: MeasureSource) -> None:
        StateRef: Any = self.StateRef
        self.Sigma: Any = wp.types.vector(self.source.lanes.width, self.Real)
        SigmaRef: Any = wp.ref[self.Sigma]

        @wp.func_native(source.text())
        def measure(state: StateRef, sigma: SigmaRef): ...

        self.measure = measure

    @typing.no_type_check
    def _define_settle(self) -> None:
        StateRef: Any = self.StateRef
        Real, at, place, W = self.Real, self.at, self.source.state, self.source.lanes.width
        DOFS, PLACE, Q, box_of = len(self.source.program.dofs), self.places, place.q, self.box_of

        @wp.func
        def settle(state: StateRef, lane: int, task: TickRef, r: int):
            share = Real(1.0)
            if task.settings[SCALES] == 0:
                return share
            for k in range(DOFS):
                c = PLACE[k]
                if c >= 0:
                    move = wp.abs(at(state, (Q + c) * W + lane) - task.joint_q[r, task.coordinate[c]])
                    most = wp.min(task.velocity[task.dof[k]] * task.numbers[DT], task.joint_step[task.dof[k]])
                    if move > most:
                        share = wp.min(share, most / move)
            for k in range(DOFS):
                c = PLACE[k]
                if c >= 0:
                    below, above, _kind_below, _kind_above = box_of(task, r, k, c, True)
                    q = task.joint_q[r, task.coordinate[c]]
                    moved = q + share * (at(state, (Q + c) * W + lane) - q)
                    state[(Q + c) * W + lane] = wp.clamp(moved, below, above)
            return share

        self.settle = settle

    @typing.no_type_check
    def _define_command(self) -> None:
        StateRef: Any = self.StateRef
        Real, at, W, program = self.Real, self.at, self.source.lanes.width, self.source.program
        DOFS, COORDINATES, Q = len(program.dofs), len(coordinate_names(program)), self.source.state.q
        PLACE, ROTATIONS = coordinate_places(program), rotation_bits(program)

        @wp.func
        def rotation_speed(state: StateRef, lane: int, task: TickRef, r: int, k: int):
            """Return the angular velocity of the rotation that starts at DOF k, in its joint-parent frame [rad/s]."""
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
            return vector * (wp.sign(turn[3]) * angle / wp.max(sine, TINY) / task.numbers[DT])

        @wp.func
        def command(state: StateRef, lane: int, task: TickRef, r: int):
            """Write the configuration and the speeds that lead to it."""
            rate = Real(1.0) / task.numbers[DT]
            for c in range(COORDINATES):
                task.joint_q_out[r, task.coordinate[c]] = at(state, (Q + c) * W + lane)
            for k in range(DOFS):
                c = PLACE[k]
                if (ROTATIONS >> k) & 1 == 1:
                    speed = rotation_speed(state, lane, task, r, k)
                    for m in range(3):
                        task.joint_qd_out[r, task.robot_dof[k + m]] = speed[m]
                elif c >= 0:
                    move = at(state, (Q + c) * W + lane) - task.joint_q[r, task.coordinate[c]]
                    task.joint_qd_out[r, task.robot_dof[k]] = move * rate
            for f in range(task.follower.shape[0]):
                q = task.follower_number[f, 0] * at(state, (Q + task.follower_place[f]) * W + lane)
                q += task.follower_number[f, 1]
                q = wp.clamp(q, task.follower_number[f, 2], task.follower_number[f, 3])
                task.joint_q_out[r, task.follower[f]] = q
                task.joint_qd_out[r, task.follower_dof[f]] = (q - task.joint_q[r, task.follower[f]]) * rate

        self._command = command

    @typing.no_type_check
    def _define_errors(self) -> None:
        StateRef: Any = self.StateRef
        Real, at, W, ERROR = self.Real, self.at, self.source.lanes.width, self.source.state.errors
        kinds = [kind for kind, _ in error_outputs(self.source.program)]
        ERRORS, CHORDS = len(kinds), sum(1 << k for k, kind in enumerate(kinds) if kind == "chord")

        @wp.func
        def errors(state: StateRef, lane: int, task: TickRef, r: int):
            """Write the errors of the targets; return whether all are within tolerance."""
            met = bool(True)
            for k in range(ERRORS):
                error = wp.sqrt(at(state, (ERROR + k) * W + lane))
                if (CHORDS >> k) & 1 == 1:
                    error = Real(2.0) * wp.asin(wp.min(Real(0.5) * error, Real(1.0)))
                    task.orientation_error[r, task.error_target[k]] = error
                    met = met and error <= task.numbers[ORIENTATION_TOLERANCE]
                else:
                    task.position_error[r, task.error_target[k]] = error
                    met = met and error <= task.numbers[POSITION_TOLERANCE]
            return met

        self._errors = errors

    @typing.no_type_check
    def _define_hold(self) -> None:
        StateRef: Any = self.StateRef
        Real, at, place, W = self.Real, self.at, self.source.state, self.source.lanes.width
        DOFS, PLACE, box_of = len(self.source.program.dofs), self.places, self.box_of
        Q, NORM2, LOWER, UPPER = place.q, place.norm2, place.lower, place.upper
        GRADIENT, DIAGONAL = place.gradient, place.diagonal

        @wp.func
        def holding(state: StateRef, lane: int, task: TickRef, r: int, k: int, c: int):
            """Return the kind of limit that DOF k is at, negative below; 0 where it is at none."""
            q = at(state, (Q + c) * W + lane)
            outwards = at(state, (GRADIENT + k) * W + lane)
            inside = q > at(state, (LOWER + k) * W + lane) and q < at(state, (UPPER + k) * W + lane)
            if inside and task.settings[SCALES] == 0:
                return 0
            below, above, kind_below, kind_above = box_of(task, r, k, c, True)
            if task.settings[SCALES] == 1:
                outwards = task.joint_q[r, task.coordinate[c]] - q  # the one that the step was shortened for
            if q <= below and outwards > Real(0.0):
                return -kind_below
            if q >= above and outwards < Real(0.0):
                return kind_above
            return 0

        @wp.func
        def hold(state: StateRef, lane: int, task: TickRef, r: int):
            """Write which limits hold the robot back; return whether any, and whether the cost slopes for others."""
            norm2 = at(state, NORM2 * W + lane)
            blocked = bool(False)
            slopes = bool(False)
            for k in range(DOFS):
                g = at(state, (GRADIENT + k) * W + lane)
                # By the cosine between the residual and the DOF's column of J.
                steep = g * g > COSINE2_MAX * (at(state, (DIAGONAL + k) * W + lane) * norm2 + TINY)
                kind = int(0)
                if PLACE[k] >= 0:
                    kind = holding(state, lane, task, r, k, PLACE[k])
                shown = kind
                if task.settings[BRAKES] == 1 and kind == 0 and k == task.slowest[r, task.island]:
                    shown = ACCELERATION
                task.active_limits[r, task.robot_dof[k]] = shown
                if steep and kind == 0:
                    slopes = True
                if steep and kind != 0:
                    blocked = True
            return blocked, slopes

        self._hold = hold

    @typing.no_type_check
    def _define_answer(self) -> None:
        StateRef: Any = self.StateRef
        Real: Any = self.Real
        at, place, W = self.at, self.source.state, self.source.lanes.width
        command, errors, hold, may_gain = self._command, self._errors, self._hold, self.may_gain
        NORM2, STEPS, ERRORS = place.norm2, place.steps, len(error_outputs(self.source.program))

        @wp.func
        def answer(state: StateRef, lane: int, task: TickRef, r: int, scaling: Real, sigma: Real):
            island = task.island
            sound = task.faulty[r, island] == 0
            evaluated = at(state, NORM2 * W + lane) < Real(NOT_EVALUATED)
            if sound:
                command(state, lane, task, r)
            blocked, slopes = hold(state, lane, task, r)
            met = errors(state, lane, task, r)
            if wp.static(ERRORS == 0):
                met = not slopes and not blocked
                met = met or at(state, NORM2 * W + lane) <= ROUNDING2
            held_back = task.settings[BRAKES] == 1 and task.slowest[r, island] >= 0
            status = int(MAX_ITERATIONS)
            if not (sound and evaluated):
                status = INVALID
            elif met:
                status = CONVERGED
            elif task.settings[CUT] == 1 and may_gain(state, lane):
                status = DEADLINE
            elif blocked or scaling < Real(1.0) or held_back:
                status = BLOCKED_BY_LIMITS
            elif not may_gain(state, lane):
                status = STALLED
            task.status[r, island] = status
            task.sigma_min[r, island] = sigma
            task.scaling[r, island] = scaling
            if task.settings[BRAKES] == 1:
                task.scaling[r, island] = scaling * task.approach[r, island]
            task.iterations[r, island] = int(at(state, STEPS * W + lane))

        self.answer = answer
