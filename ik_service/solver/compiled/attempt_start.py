"""Start of an attempt in a lane: the data of its problem, and its seed."""

import typing
from collections.abc import Sequence
from typing import Any

import warp as wp

from ik_service.compiler import SECONDARY_STAGE_STEPS, DataInput, IterationSource, coordinate_names, stage_range
from ik_service.kinematics.device_kinematics import turned
from ik_service.solver.arrays.branch_starts import branch_of_seed, starts_in_rows
from ik_service.solver.compiled.island_task import TaskRef, read_input
from ik_service.solver.compiled.iteration import IterationFunctions, coordinate_places, is_plain, rotation_bits
from ik_service.solver.lm.codes import GAUSS, ITERATIONS, SAMPLER, SEEDS
from ik_service.solver.lm.seeds import bounded, seed_value
from ik_service.solver.lm.termination import NOT_EVALUATED, residual_floor2

RUN_MAX = 16  # inputs all loaded before the first is stored
FLOAT32_ROUNDINGS = wp.constant(5.0e-7)  # of a limit: largest inward rounding, followers included


@wp.func
@typing.no_type_check
def closed_form_start(task: TaskRef, p: int, island: int, s: int, k: int, dofs: int, c: int, wide: int):
    """Return DOF k, at place c of the coordinates, of a start in closed form; NaN for other seeds, or if `wide`."""
    value = float(wp.nan)
    branch = wp.where(wide == 1, -1, branch_of_seed(task.searches, p, island, s))
    if branch >= 0:
        value = task.searches.branch_joint_q[p, island, branch * dofs + k]
    elif wide == 0 and s < starts_in_rows(task.searches, p, island):
        value = task.best.joint_q[p * task.settings[SEEDS] + s, task.coordinate[c]]
    return value


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
        source, place = self.source, self.source.state
        W, DOFS = source.lanes.width, len(source.program.dofs)
        LOWER, INPUTS, FLOOR = place.lower, place.inputs, place.floor2
        FLOOR2 = residual_floor2(source.lanes.precision)

        if is_plain(source.program) and source.lanes.precision == "float32":

            @wp.func_native(inputs_text(source.program.inputs, INPUTS, "state.c[lane]", W))
            def put_inputs(state: StateRef, lane: int, task: TaskRef, p: int): ...
        else:  # their number would give every kind its own kernel

            @wp.func
            def put_inputs(state: StateRef, lane: int, task: TaskRef, p: int):
                for k in range(task.source.shape[0]):
                    state[(INPUTS + k) * W + lane] = Real(read_input(task, p, k))

        @wp.func
        def read_data(state: StateRef, lane: int, task: TaskRef, p: int, island: int, is_first: bool):
            """Give a lane the read-only data of the iteration, in the order of its `data_names`."""
            lines = task.limit_lower.shape[0]
            if is_first or lines > 1:
                line = wp.min(p, lines - 1)
                for k in range(DOFS):
                    state[(LOWER + k) * W + lane] = Real(task.limit_lower[line, task.dof[k]])
                    state[(LOWER + DOFS + k) * W + lane] = Real(task.limit_upper[line, task.dof[k]])
            put_inputs(state, lane, task, p)
            w = wp.min(p, task.lightest2.shape[0] - 1)
            state[FLOOR * W + lane] = Real(FLOOR2) * Real(task.lightest2[w, island])

        # gives a lane the read-only data of the iteration: (state, lane, task, problem, island, is_first); is_first:
        # the lane has no limits yet
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
        PLACE, ROTATIONS = coordinate_places(program), rotation_bits(program)
        Q, TRIAL, SCRATCH, LOWER = place.q, place.trial, place.gradient, place.lower
        REMEMBERED, REMEMBERED_END = place.multipliers, place.hessian  # multipliers and pressures
        NORM2, FACTOR, STEPS = place.norm2, place.damping_factor, place.steps
        STAGE, LEVELS = place.stage, len(program.level_norms2)
        FIRST_STAGE, LAST_STAGE = stage_range(program, self.source.lanes.precision)

        @wp.func
        def start_attempt(state: StateRef, lane: int, task: TaskRef, p: int, island: int, s: int):
            """Put seed s of problem p into a lane with the data of p."""
            for k in range(DOFS):
                a = task.dof[k]
                lower = at(state, (LOWER + k) * W + lane)
                upper = at(state, (LOWER + DOFS + k) * W + lane)
                c = PLACE[k]
                scalar = c >= 0 and (ROTATIONS >> k) & 1 == 0
                value = closed_form_start(task, p, island, s, k, DOFS, c, WIDE)  # wide: from the answer in float32
                if value != value:  # NaN: `wp.isnan` calls a function; here the call keeps the loop from being unrolled
                    start = float(0.0)
                    middle = float(0.0)
                    if scalar and wp.isnan(value):
                        start = task.start_joint_q[p, task.coordinate[c]]
                        middle = task.mid_joint_q[task.coordinate[c]]
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


def inputs_text(inputs: Sequence[DataInput], first: int, datum: str, columns: int) -> str:
    """Return C++ code to copy the float32 inputs of a program behind an address, from number `first` on."""
    # Adjacent inputs are read from one address
    lines = [f"float* const d = &{datum};"]
    stores = list[str]()
    for begin, count in _runs(inputs):
        row = f"row{begin}"
        lines.append(f"const int line{begin} = wp::min(p, wp::index(task.source_lines, {begin}) - 1);")
        lines.append(
            f"const float* const {row} = (const float*)wp::index(task.source, {begin})"
            f" + (size_t)line{begin} * wp::index(task.source_stride, {begin});"
        )
        if count > RUN_MAX:
            stores.append(f"for (int k = 0; k < {count}; ++k) d[({first + begin} + k) * {columns}] = {row}[k];")
            continue
        lines += [f"const float number{begin + k} = {row}[{k}];" for k in range(count)]
        stores += [f"d[{(first + begin + k) * columns}] = number{begin + k};" for k in range(count)]
    return "\n".join([*lines, *stores])


def _runs(inputs: Sequence[DataInput]) -> list[tuple[int, int]]:
    """Return first input and number of inputs of each run of adjacent columns in one field of an objective."""
    found = list[tuple[int, int]]()
    for k, one in enumerate(inputs):
        before = inputs[k - 1] if k > 0 else None
        side_by_side = before is not None and (before.objective, before.field, before.column + 1) == (
            one.objective,
            one.field,
            one.column,
        )
        if side_by_side:
            found[-1] = found[-1][0], found[-1][1] + 1
        else:
            found.append((k, 1))
    return found
