"""How a tick begins in a lane, which is a robot: intervals of its joints, data of its tasks, and how far it may come.

where the robot is, its speeds, limits -> intervals of its joints; what tasks ask for -> data of the program
with limits of acceleration, before that: where the tasks of the tick before and of this one lead
-> how fast the goal moves, how far the robot is behind -> goals from which it can still brake
"""

import math
import typing
from collections.abc import Sequence
from typing import Any

import warp as wp

from ik_service.compiler import GOAL, TURN, TURN_WIDTH, IterationSource, MeasureSource, coordinate_names
from ik_service.control.joint_box import braking_move, joint_box
from ik_service.control.tick_task import BEFORE, BRAKES, COMMAND, DT, SCALES, SLACK, TickRef, read_input
from ik_service.solver.lane import FLOAT64_FLOOR2, NOT_EVALUATED, LaneIteration, coordinate_places, rotation_bits
from ik_service.solver.targets import NUMBER_MAX

UNBOUNDED = wp.constant(wp.float64(1.0e9))  # steps of a lane: they are counted by `iterate_all`
ALMOST = wp.constant(wp.float64(1.0 - 1.0e-9))  # a share that rounding has not made smaller than 1
PI = wp.constant(wp.float64(math.pi))
LARGEST = wp.constant(wp.float64(NUMBER_MAX))


def integers(values: Sequence[int]) -> Any:
    """Return whole numbers as a constant for kernels, at least one."""
    padded = [*values, 0][: max(len(values), 1)]
    return wp.types.vector(len(padded), int)(*padded)


class TickLane(LaneIteration):
    """The functions of a robot's lane up to its iterations, to be called in kernels.

    Args:
        source: The iteration, in float64.
        measure: What is measured of configurations.

    Attributes:
        places: The place of each DOF's coordinate; -1 for rotations that have a quaternion, a constant for kernels.
        box_of: The interval of a DOF, and what bounds it below and above: (task, robot, DOF, coordinate, with_speed).
        begin: Puts robots, the first of which is given, into the lanes of a packet: (state, lanes, task, robot, stage).
        may_gain: Whether more iterations may help a lane: (state, lane).
        iterate_all: Makes so many iterations while a lane has something to gain; 1 if one has: (state, lanes, count).
        keep_reference: Keeps where the tasks of the tick before lead a robot: (state, lane, task, robot).
        approach: Turns where the tasks lead into where the robot may come: the same arguments.
        set_goals: Makes the rows there the goals of the rows: (state).
    """

    def __init__(self, source: IterationSource, measure: MeasureSource) -> None:
        super().__init__(source)
        rotations = rotation_bits(source.program)
        self.places = coordinate_places(source.program)
        for k in range(len(source.program.dofs)):
            if rotations >> k & 1:
                self.places[k] = -1
        self._define_intervals()
        self._define_quaternions()
        self._define_data()
        self._define_begin()
        self._define_iterations()
        self._define_approach(measure)

    @typing.no_type_check
    def _define_intervals(self) -> None:
        Real = self.Real

        @wp.func
        def box_of(task: TickRef, r: int, k: int, c: int, with_speed: bool):
            """Return the interval of DOF k, which has coordinate c, and what bounds it below and above.

            Without speed and joint step it is for steps that will be shortened as a whole.
            """
            a = task.dof[k]
            velocity = task.velocity[a]
            joint_step = task.joint_step[a]
            if not with_speed:
                velocity = Real(wp.inf)
                joint_step = Real(wp.inf)
            below, above, kind_below, kind_above = joint_box(
                task.joint_q[r, task.coordinate[c]],
                task.joint_qd[r, task.robot_dof[k]],
                task.numbers[DT],
                task.limit_lower[a],
                task.limit_upper[a],
                velocity,
                task.acceleration[a],
                joint_step,
            )
            return below, above, kind_below, kind_above

        @wp.func
        def reach_of(task: TickRef, r: int, k: int, c: int):
            """Return the interval in which the tasks may lead DOF k: as far as it takes to brake from its speed."""
            a = task.dof[k]
            q = task.joint_q[r, task.coordinate[c]]
            v = task.velocity[a]
            room = v * (Real(0.5) * v / task.acceleration[a] + task.numbers[DT])
            if not (v < Real(wp.inf)):
                room = v
            return wp.max(wp.min(task.limit_lower[a], q), q - room), wp.min(wp.max(task.limit_upper[a], q), q + room)

        self.box_of, self._reach_of = box_of, reach_of

    @typing.no_type_check
    def _define_quaternions(self) -> None:
        StateRef: Any = self.StateRef
        Real, at, DATA, W = self.Real, self.at, self.source.state.inputs, self.source.lanes.width
        program = self.source.program
        TURNS_AT = sum(one.field not in (GOAL, TURN) for one in program.inputs)
        names = coordinate_names(program)
        TURN_DOF = integers([program.dofs.index(a) for a in program.quaternions])
        TURN_PLACE = integers([names.index((a, "x")) for a in program.quaternions])

        @wp.func
        def to_unit_length(state: StateRef, first: int):
            """Make a quaternion of the data a unit quaternion; NaN of one that is far from it."""
            length2 = Real(0.0)
            for m in range(4):
                component = at(state, first + m * W)
                length2 += component * component
            length = wp.sqrt(length2)
            if not (wp.abs(length - Real(1.0)) <= SLACK):
                length = Real(wp.nan)
            scale = Real(1.0) / length
            for m in range(4):
                state[first + m * W] = at(state, first + m * W) * scale

        @wp.func
        def limit_turn(state: StateRef, lane: int, task: TickRef, r: int, n: int):
            """Say where rotation n starts and how far it may turn, by the least of the limits of its DOFs."""
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

        self._to_unit_length, self._limit_turn = to_unit_length, limit_turn

    @typing.no_type_check
    def _define_data(self) -> None:
        StateRef: Any = self.StateRef
        Real, DATA, W, program = self.Real, self.source.state.inputs, self.source.lanes.width, self.source.program
        INPUTS, TURNS = len(program.inputs), len(program.quaternions)
        to_unit_length, limit_turn = self._to_unit_length, self._limit_turn

        @wp.func
        def read_data(state: StateRef, lanes: int, task: TickRef, first: int, stage: int):
            """Read the data of the program; goals and turns are set when they are known."""
            for k in range(INPUTS):
                place = (DATA + k) * W
                lines = task.source_lines[k]
                if lines > 1 or (stage == BEFORE and task.source_task[k] == 1):
                    for lane in range(lanes):
                        if stage == BEFORE and task.source_task[k] == 1:
                            state[place + lane] = task.input_before[first + lane, k]
                        else:
                            state[place + lane] = read_input(task, first + lane, k)
                else:
                    number = Real(0.0)
                    if lines == 1:
                        number = read_input(task, 0, k)
                    for lane in range(lanes):
                        state[place + lane] = number
            for lane in range(lanes):
                for n in range(TURNS):
                    limit_turn(state, lane, task, first + lane, n)
                for n in range(task.quaternion.shape[0]):
                    to_unit_length(state, (DATA + task.quaternion[n]) * W + lane)

        self._read_data = read_data

    @typing.no_type_check
    def _define_begin(self) -> None:
        StateRef: Any = self.StateRef
        Real, at, place, W = self.Real, self.at, self.source.state, self.source.lanes.width
        program, PLACE, box_of, reach_of = self.source.program, self.places, self.box_of, self._reach_of
        DOFS, COORDINATES, read_data = len(program.dofs), len(coordinate_names(program)), self._read_data
        Q, TRIAL, LOWER, UPPER = place.q, place.trial, place.lower, place.upper
        NORM2, BOOST, STEPS, FLOOR2 = place.norm2, place.boost, place.steps, place.floor2

        @wp.func
        def begin_joints(state: StateRef, lane: int, task: TickRef, r: int, stage: int):
            sound = bool(True)
            for c in range(COORDINATES):
                q = task.joint_q[r, task.coordinate[c]]
                sound = sound and wp.abs(q) <= LARGEST
                state[(TRIAL + c) * W + lane] = q
            for k in range(DOFS):
                c = PLACE[k]
                below = -Real(wp.inf)
                above = Real(wp.inf)
                if c >= 0:
                    if stage == COMMAND:
                        below, above, _kind_below, _kind_above = box_of(task, r, k, c, task.settings[SCALES] == 0)
                    else:
                        below, above = reach_of(task, r, k, c)
                    sound = sound and wp.abs(task.joint_qd[r, task.robot_dof[k]]) <= LARGEST
                    state[(TRIAL + c) * W + lane] = wp.clamp(task.joint_q[r, task.coordinate[c]], below, above)
                state[(LOWER + k) * W + lane] = below
                state[(UPPER + k) * W + lane] = above
            for c in range(COORDINATES):
                state[(Q + c) * W + lane] = at(state, (TRIAL + c) * W + lane)
            task.faulty[r, task.island] = wp.where(sound, 0, 1)

        @wp.func
        def begin(state: StateRef, lanes: int, task: TickRef, first: int, stage: int):
            if stage < COMMAND or task.settings[BRAKES] == 0:
                read_data(state, lanes, task, first, stage)
            for lane in range(lanes):
                begin_joints(state, lane, task, first + lane, stage)
                state[FLOOR2 * W + lane] = Real(FLOAT64_FLOOR2)
                state[NORM2 * W + lane] = Real(NOT_EVALUATED)
                state[BOOST * W + lane] = Real(1.0)
                state[STEPS * W + lane] = Real(-1.0)  # the start itself is no step

        self.begin = begin

    @typing.no_type_check
    def _define_iterations(self) -> None:
        StateRef: Any = self.StateRef
        at, place, W, iterate = self.at, self.source.state, self.source.lanes.width, self.iterate
        NORM2, BOOST, STEPS, FLOOR2 = place.norm2, place.boost, place.steps, place.floor2
        Real: Any = self.Real
        BOOST_MAX = self.source.damping.boost_max
        Numbers: Any = wp.types.vector(W, Real)
        Flags: Any = wp.types.vector(W, int)

        @wp.func
        def may_gain(state: StateRef, lane: int):
            floor2 = at(state, FLOOR2 * W + lane)
            return at(state, NORM2 * W + lane) > floor2 and at(state, BOOST * W + lane) <= Real(BOOST_MAX)

        @wp.func
        def iterate_all(state: StateRef, lanes: int, count: int):
            """Make so many iterations of the first lanes, or until none has anything to gain; return 1 if one has.

            A lane that has ended is put back to where it ended: others do not lend it their iterations.
            """
            norm2 = Numbers()
            boost = Numbers()
            steps = Numbers()
            ended = Flags(0)
            left = int(count)
            running = int(0)
            going = bool(True)
            while going:
                running = int(0)
                for lane in range(lanes):
                    if ended[lane] == 0:
                        if may_gain(state, lane):
                            running = int(1)
                        else:
                            ended[lane] = 1
                            norm2[lane] = at(state, NORM2 * W + lane)
                            boost[lane] = at(state, BOOST * W + lane)
                            steps[lane] = at(state, STEPS * W + lane)
                            state[NORM2 * W + lane] = -Real(1.0)  # nothing is better
                going = running == 1 and left > 0
                if going:
                    iterate(state, UNBOUNDED)
                    left -= 1
            for lane in range(lanes):
                if ended[lane] == 1:
                    state[NORM2 * W + lane] = norm2[lane]
                    state[BOOST * W + lane] = boost[lane]
                    state[STEPS * W + lane] = steps[lane]
            return running

        self.may_gain, self.iterate_all = may_gain, iterate_all

    @typing.no_type_check
    def _define_approach(self, measure: MeasureSource) -> None:
        StateRef: Any = self.StateRef
        Real, at, place, W = self.Real, self.at, self.source.state, self.source.lanes.width
        program, PLACE, Q, DATA = self.source.program, self.places, place.q, place.inputs
        DOFS, INPUTS, COORDINATES = len(program.dofs), len(program.inputs), len(coordinate_names(program))

        @wp.func
        def keep_reference(state: StateRef, lane: int, task: TickRef, r: int):
            """Keep where the tasks of the tick before lead."""
            for c in range(COORDINATES):
                task.reference_before[r, task.coordinate[c]] = at(state, (Q + c) * W + lane)

        @wp.func
        def way_of(state: StateRef, lane: int, task: TickRef, r: int, k: int, c: int):
            """Return how far the goal of DOF k moves in this tick, and how far the joint is behind it."""
            i = task.coordinate[c]
            most = task.velocity[task.dof[k]] * task.numbers[DT]
            goal = at(state, (Q + c) * W + lane)
            move = wp.clamp(goal - task.reference_before[r, i], -most, most)
            return move, goal - task.joint_q[r, i] - move

        @wp.func
        def approach(state: StateRef, lane: int, task: TickRef, r: int):
            """Go back from where the tasks lead to where the robot may come in this tick.

            It moves as its goal does, and catches up no faster than every joint can brake: or it would run past the
            goal, and swing around it for ever.
            """
            share = Real(1.0)
            slowest = int(-1)
            for k in range(DOFS):
                c = PLACE[k]
                if c >= 0:
                    _move, lag = way_of(state, lane, task, r, k, c)
                    most = braking_move(wp.abs(lag), task.acceleration[task.dof[k]], task.numbers[DT])
                    if most < share * wp.abs(lag) * ALMOST:
                        share = most / wp.abs(lag)
                        slowest = k
            for k in range(DOFS):
                c = PLACE[k]
                if c >= 0:
                    move, lag = way_of(state, lane, task, r, k, c)
                    state[(Q + c) * W + lane] = task.joint_q[r, task.coordinate[c]] + move + share * lag
            for k in range(INPUTS):
                task.input_before[r, k] = at(state, (DATA + k) * W + lane)
            task.approach[r, task.island] = share
            task.slowest[r, task.island] = slowest

        @wp.func_native(measure.goals_text())
        def set_goals(state: StateRef): ...

        self.keep_reference, self.approach, self.set_goals = keep_reference, approach, set_goals
