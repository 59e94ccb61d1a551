"""Start of an attempt in a lane: the data of its problem, and its seed."""

import typing
from typing import Any

import warp as wp

from ik_service.compiler import SECONDARY_STAGE_STEPS, IterationSource, coordinate_names, stage_range
from ik_service.kinematics.device_kinematics import turned
from ik_service.solver.arrays.branch_starts import branch_of_seed, starts_in_rows
from ik_service.solver.compiled.island_task import TaskRef, read_input
from ik_service.solver.compiled.iteration import IterationFunctions, coordinate_places, rotation_bits
from ik_service.solver.lm.codes import GAUSS, ITERATIONS, SAMPLER, SEEDS
from ik_service.solver.lm.seeds import bounded, seed_value
from ik_service.solver.lm.termination import NOT_EVALUATED, residual_floor2

FLOAT32_ROUNDINGS = wp.constant(5.0e-7)  # of a limit: largest inward rounding, followers included


@wp.func
@typing.no_type_check
def closed_form_start(task: TaskRef, p: int, island: int, s: int, k: int, dofs: int, c: int):
    """Return DOF k, at place c of the coordinates, of a start in closed form; NaN for other seeds."""
    value = float(wp.nan)
    branch = branch_of_seed(task.searches, p, island, s)
    if branch >= 0:
        value = task.searches.branch_joint_q[p, island, branch * dofs + k]
    elif s < starts_in_rows(task.searches, p, island):
        value = task.best.joint_q[p * task.settings[SEEDS] + s, task.coordinate[c]]
    return value


@wp.func
@typing.no_type_check
def no_closed_form(task: TaskRef, p: int, island: int, s: int, k: int, dofs: int, c: int):
    """Return NaN, in place of `closed_form_start`."""
    return float(wp.nan)


class AttemptStart(IterationFunctions):
    """Functions of a lane to take an attempt, for one program."""

    def __init__(self, source: IterationSource) -> None:
        super().__init__(source)
        self._define_data()
        self._define_rotation()
        self._define_start()

    @typing.no_type_check
    def _define_data(self) -> None:
        StateRef: Any = self.StateRef
        Real: Any = self.Real
        source, COLUMNS = self.source, self.source.data_columns
        W, DATA = source.lanes.width, source.state.lower
        DOFS, PADDED = len(source.program.dofs), source.padded
        INPUTS = 0 if PADDED else len(source.program.inputs)  # a number would give every kind its own kernel
        FLOOR = source.state.floor2 - DATA if PADDED else 2 * DOFS + INPUTS
        FLOOR2 = residual_floor2(source.lanes.precision)
        Data: Any = StateRef if COLUMNS == 0 else wp.array3d[Real]

        if COLUMNS > 0:

            @wp.func
            def put(data: Data, lane: int, k: int, number: Real):
                data[lane / COLUMNS, k, lane % COLUMNS] = number
        else:

            @wp.func
            def put(data: Data, lane: int, k: int, number: Real):
                data[(DATA + k) * W + lane] = number

        @wp.func
        def read_data(data: Data, lane: int, task: TaskRef, p: int, island: int):
            """Give a lane the read-only data of the iteration, in the order of its `data_names`."""
            line = wp.min(p, task.limit_lower.shape[0] - 1)
            for k in range(DOFS):
                put(data, lane, k, Real(task.limit_lower[line, task.dof[k]]))
                put(data, lane, DOFS + k, Real(task.limit_upper[line, task.dof[k]]))
            if wp.static(PADDED):
                for k in range(task.source.shape[0]):
                    put(data, lane, 2 * DOFS + k, Real(read_input(task, p, k)))
            else:
                for k in range(INPUTS):
                    put(data, lane, 2 * DOFS + k, Real(read_input(task, p, k)))
            w = wp.min(p, task.lightest2.shape[0] - 1)
            put(data, lane, FLOOR, Real(FLOOR2) * Real(task.lightest2[w, island]))

        # gives a lane the read-only data of the iteration: (state, lane, task, problem, island), with data in place of
        # state where they are separate
        self.read_data = read_data

    @typing.no_type_check
    def _define_rotation(self) -> None:
        StateRef: Any = self.StateRef
        Real, at, place = self.Real, self.at, self.source.state
        W = self.source.lanes.width
        PLACE, TRIAL, SCRATCH = coordinate_places(self.source.program), place.trial, place.gradient

        @wp.func
        def start_rotation(state: StateRef, lane: int, task: TaskRef, p: int, k: int, s: int):
            """Make a quaternion of the rotation vector in the scratch places of DOFs k to k + 2."""
            c = PLACE[k]
            i = task.coordinate[c]
            q = wp.quat()
            for m in range(4):
                q[m] = task.start_joint_q[p, i + m]
            if s > 0 and task.ranges.drawn[task.dof[k]] != 0:
                turn = wp.vec3()
                for m in range(3):
                    turn[m] = float(at(state, (SCRATCH + k + m) * W + lane))
                if task.settings[SAMPLER] != GAUSS:
                    for m in range(4):
                        q[m] = task.mid_joint_q[i + m]
                q = turned(q, turn)
            for m in range(4):
                state[(TRIAL + c + m) * W + lane] = Real(q[m])

        self._start_rotation = start_rotation

    @typing.no_type_check
    def _define_start(self) -> None:
        StateRef: Any = self.StateRef
        Real, at, place = self.Real, self.at, self.source.state
        W = self.source.lanes.width
        program = self.source.program
        DOFS, COORDINATES = len(program.dofs), len(coordinate_names(program))
        QUATERNIONS = 1 if program.quaternions else 0
        WIDE = 1 if self.source.lanes.precision == "float64" else 0
        start_rotation = self._start_rotation
        # in float64 from the best attempt in float32
        closed_form = no_closed_form if WIDE == 1 else closed_form_start
        PLACE, ROTATIONS = coordinate_places(program), rotation_bits(program)
        Q, TRIAL, SCRATCH = place.q, place.trial, place.gradient
        REMEMBERED, REMEMBERED_END = place.multipliers, place.hessian  # multipliers and pressures
        NORM2, FACTOR, STEPS = place.norm2, place.damping_factor, place.steps
        STAGE, LEVELS = place.stage, len(program.level_norms2)
        FIRST_STAGE, LAST_STAGE = stage_range(program, self.source.lanes.precision)

        @wp.func
        def start_attempt(state: StateRef, lane: int, task: TaskRef, p: int, island: int, s: int):
            """Put seed s of problem p into a lane with the data of p."""
            line = wp.min(p, task.limit_lower.shape[0] - 1)
            for k in range(DOFS):
                a = task.dof[k]
                lower = Real(task.limit_lower[line, a])
                upper = Real(task.limit_upper[line, a])
                c = PLACE[k]
                scalar = c >= 0 and (ROTATIONS >> k) & 1 == 0
                start = float(0.0)
                middle = float(0.0)
                if scalar:
                    start = task.start_joint_q[p, task.coordinate[c]]
                    middle = task.mid_joint_q[task.coordinate[c]]
                value = closed_form(task, p, island, s, k, DOFS, c)
                if wp.isnan(value):
                    value = seed_value(p, s, a, start, middle, task.settings, task.ranges, task.tree_hash)
                if scalar:
                    trial = bounded(Real(value), lower, upper)
                    if wp.static(WIDE == 1):  # a float32 value at a limit is at the limit
                        if trial - lower < Real(FLOAT32_ROUNDINGS) * wp.abs(lower):
                            trial = lower
                        if upper - trial < Real(FLOAT32_ROUNDINGS) * wp.abs(upper):
                            trial = upper
                    state[(TRIAL + c) * W + lane] = trial
                else:
                    state[(SCRATCH + k) * W + lane] = Real(value)
            if wp.static(QUATERNIONS == 1):
                for k in range(DOFS):
                    if (ROTATIONS >> k) & 1 == 1:
                        start_rotation(state, lane, task, p, k, s)
            for c in range(COORDINATES):
                state[(Q + c) * W + lane] = at(state, (TRIAL + c) * W + lane)
            state[NORM2 * W + lane] = Real(NOT_EVALUATED)
            state[FACTOR * W + lane] = Real(1.0)
            state[STEPS * W + lane] = Real(-1.0)  # the seed itself is no step
            for k in range(REMEMBERED, REMEMBERED_END):
                state[k * W + lane] = Real(0.0)
            if wp.static(LEVELS == 2):
                state[STAGE * W + lane] = Real(FIRST_STAGE)
                if task.settings[ITERATIONS] <= SECONDARY_STAGE_STEPS:
                    state[STAGE * W + lane] = Real(LAST_STAGE)

        # gives a lane with data a seed: (state, lane, task, problem, island, seed)
        self.start_attempt = start_attempt
