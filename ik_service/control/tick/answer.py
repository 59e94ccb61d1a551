"""End of a tick for a packet of robots: commands, errors, limits and statuses.

best configuration -> shortened as a whole on request -> errors, singular value -> command, active limits, status
"""

import typing
from typing import Any

import warp as wp

from ik_service.compiler import IterationSource, MeasureSource
from ik_service.control.tick.approach import NUMBERS, TickApproach
from ik_service.control.tick.arrays import DT, TickRef
from ik_service.control.tick.packet_text import fragments
from ik_service.kernels.typed_warp import reference_to
from ik_service.solver.compiled.iteration import coordinate_places, rotation_bits
from objectives.expression import Expression

BOXES = ("braking_move", "joint_box", "box_of")
PROPOSE = """
for (int c = 0; c < COORDINATES; ++c) scatter(task.proposal, task.coordinate.data[c], s[COMMANDED + c]);
scatter(task.scaling, task.island, *(U*)&scaling);
/* The rows are seen as they are where the tick starts, without goals of this tick. */
for (int c = 0; c < COORDINATES; ++c) s[TRIAL + c] = gather(task.joint_q, task.coordinate.data[c]);
for (int k = 0; k < INPUT_COUNT; ++k) s[INPUTS + k] = IS_GOAL[k] ? zero : s[INPUTS + k];
const int width = (int)task.gradient.shape[1];
"""
TAKE = """
for (int c = 0; c < COORDINATES; ++c) s[COMMANDED + c] = gather(task.proposal, task.coordinate.data[c]);
*(U*)&scaling = gather(task.scaling, task.island);
"""
SMALLEST_SINE = wp.constant(wp.float64(NUMBERS["TINY"]))


class TickCommand(TickApproach):
    """Functions for a packet of robots, for use in kernels."""

    close: Any  # closes loops, if there are any: the same arguments

    def __init__(
        self, source: IterationSource, measure: MeasureSource, weighing: str = "", *, apart: bool = False, clears: bool
    ) -> None:
        super().__init__(source, measure, weighing, apart=apart, clears=clears)
        self._define_measure(measure)
        self._define_clearance(measure)
        self._define_turn_speed()
        self._define_answer()

    @typing.no_type_check
    def _define_measure(self, source: MeasureSource) -> None:
        StateRef: Any = self.StateRef
        self.Share: Any = wp.types.vector(self.source.lanes.width, self.Real)  # a number per lane
        ShareRef: Any = reference_to(self.Share)

        @wp.func_native(self.text.function(*fragments(*BOXES, "settle")))
        def settle(state: StateRef, lanes: int, task: TickRef, first: int, scaling: ShareRef): ...

        @wp.func_native(source.text(self.commanded))
        def measure(state: StateRef, sigma: ShareRef): ...

        @wp.func
        def lower(state: StateRef, lanes: int, task: TickRef, first: int):
            pass

        # settle: shortens steps on request and returns the shares left: (state, lanes, task, first, scaling)
        # lower: minimises lower-priority rows, if there are any: (state, lanes, task, first)
        # measure: errors of the targets, into the state, and smallest singular values: (state, sigma)
        # smooth: averages commands, with jerk limits: the same arguments
        self.settle, self.lower, self.close, self.smooth, self.measure = settle, lower, lower, lower, measure

    @typing.no_type_check
    def define_smoothing(self, unsmoothed: int) -> None:
        """Limit jerk: average the configurations at an index of the state into commands."""
        StateRef: Any = self.StateRef

        @wp.func_native(self.text.function(f"enum {{ UNSMOOTHED = {unsmoothed} }};", *fragments("smooth")))
        def smooth(state: StateRef, lanes: int, task: TickRef, first: int): ...

        self.smooth = smooth

    @typing.no_type_check
    def _define_clearance(self, source: MeasureSource) -> None:
        StateRef: Any = self.StateRef
        ShareRef: Any = reference_to(self.Share)
        if not self.clears:
            # propose: writes the tasks' configuration, and J'r and J'J at the start of the tick: (state, lanes, task,
            # first, scaling); take: reads the command made from this configuration: the same arguments
            self.propose = self.take = self.lower
            return
        lines = self._normal_equations(source)

        @wp.func_native(self.text.function(PROPOSE, *lines))
        def propose(state: StateRef, lanes: int, task: TickRef, first: int, scaling: ShareRef): ...

        @wp.func_native(self.text.function(TAKE))
        def take(state: StateRef, lanes: int, task: TickRef, first: int, scaling: ShareRef): ...

        self.propose, self.take = propose, take

    def _normal_equations(self, source: MeasureSource) -> list[str]:
        """Give statements that write J'r and J'J at the trial by coordinates, except DOFs of rotations."""
        program, outputs, stored = self.source.program, dict[str, Expression](), list[str]()
        places = [f"task.coordinate.data[PLACE[{k}]]" for k in range(len(program.dofs))]
        for k, one in enumerate(places):
            outputs[f"slope{k}"] = program.gradient[k]
            stored.append(f"if (PLACE[{k}] >= 0) scatter(task.gradient, {one}, slope{k});")
            for m, other in enumerate(places[: k + 1]):
                name = f"product{k}_{m}"
                outputs[name] = program.hessian[k][m]
                both = [f"scatter(task.hessian, {a} * width + {b}, {name});" for a, b in ((one, other), (other, one))]
                stored += [f"if (PLACE[{k}] >= 0 && PLACE[{m}] >= 0) {{", *both, "}"]
        return [*source.lines(outputs, self.source.state.trial), *stored]

    @typing.no_type_check
    def _define_turn_speed(self) -> None:
        StateRef: Any = self.StateRef
        Real, at, W, program = self.Real, self.at, self.source.lanes.width, self.source.program
        Q, PLACE = self.commanded, coordinate_places(program)

        @wp.func
        def turn_speed(state: StateRef, lane: int, task: TickRef, r: int, k: int):
            """Write the angular velocity of the rotation with first DOF k, in its joint-parent frame [rad/s]."""
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
            speed = vector * (wp.sign(turn[3]) * angle / wp.max(sine, SMALLEST_SINE) / task.numbers[DT])
            for m in range(3):
                task.joint_qd_out[r, task.robot_dof[k + m]] = speed[m]

        self._turn_speed = turn_speed

    @typing.no_type_check
    def _define_answer(self) -> None:
        StateRef: Any = self.StateRef
        ShareRef: Any = reference_to(self.Share)
        DOFS, ROTATIONS = len(self.source.program.dofs), rotation_bits(self.source.program)
        turn_speed = self._turn_speed

        @wp.func_native(self.text.function(*fragments(*BOXES, "command", "turned", "answer")))
        def answer_all(state: StateRef, lanes: int, task: TickRef, first: int, scaling: ShareRef, sigma: ShareRef): ...

        @wp.func
        def answer(state: StateRef, lanes: int, task: TickRef, first: int, scaling: ShareRef, sigma: ShareRef):
            answer_all(state, lanes, task, first, scaling, sigma)
            if wp.static(ROTATIONS != 0):
                for lane in range(lanes):
                    for k in range(DOFS):
                        if (ROTATIONS >> k) & 1 == 1 and task.faulty[first + lane, task.island] == 0:
                            turn_speed(state, lane, task, first + lane, k)

        self.answer = answer  # writes the answers of the robots: (state, lanes, task, first, scaling, sigma)
