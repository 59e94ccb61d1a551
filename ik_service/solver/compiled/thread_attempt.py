"""Start and ranking of attempts in a thread of a GPU: the numbers of `attempt`, with few instructions.

Threads of a warp run an iteration together. A refill occurs when one attempt has ended, and costs the warp the same for
one thread as for all, so this code has to be short. Everything fixed by the signature of an island is constant here:
columns of arrays, and increments of the seed sequence. Rows of arrays are read from one address each. Limits shared by
all problems are read once per thread. Rare cases stand behind one branch for all DOFs: samplers other than the default
one, and numbers too small or large for float32 to keep its digits.
"""

import typing
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import warp as wp

from ik_service.collision.clearance import ClearanceSize
from ik_service.compiler import SECONDARY_STAGE_STEPS, IterationSource, coordinate_names, stage_range
from ik_service.kernels import typed_warp
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.solver.arrays.branch_starts import branch_of_seed
from ik_service.solver.compiled.attempt import AttemptFunctions
from ik_service.solver.compiled.attempt_start import inputs_text
from ik_service.solver.compiled.island_task import TaskRef, coordinate_columns
from ik_service.solver.compiled.iteration import coordinate_places, integers, rotation_bits
from ik_service.solver.compiled.waves import StorageRef
from ik_service.solver.lm.codes import HAS_START, INVALID, ITERATIONS, RANDOM_SEED, ROBERTS, RUNNING, SAMPLER, STALLED
from ik_service.solver.lm.coordinates import is_at_bound
from ik_service.solver.lm.seeds import UNIT, bounded, draw_sequence, hash_step, seed_value
from ik_service.solver.lm.termination import (
    COSINE_MAX,
    NOT_EVALUATED,
    PRODUCT_MAX,
    PRODUCT_MIN,
    RESIDUAL_FLOOR2,
    UNKNOWN_GAIN,
    phase_after,
    residual_floor2,
)


@typed_warp.func_native("return (wp::uint64)&wp::index(rows, line, 0);")
def row_address(rows: wp.array2d[wp.float32], line: int) -> wp.uint64:  # type: ignore[empty-body]  # the C++ above is the body; Warp takes no 'raise' here, and no types under 'no_type_check'
    """Return the address of a row of an array with contiguous rows."""


@typed_warp.func_native("return (wp::uint64)&wp::index(numbers, 0);")
def first_address(numbers: wp.array[wp.float32]) -> wp.uint64:  # type: ignore[empty-body]  # its body is the C++ above
    """Return the address of an array's first number."""


@typed_warp.func_native("return ((const float*)address)[column];")
def number_at(address: wp.uint64, column: int) -> wp.float32:  # type: ignore[empty-body]  # its body is the C++ above
    """Return a number of a row; a constant column needs no arithmetic for its address."""


@wp.func
@typing.no_type_check
def plain_cosine(gradient: float, diagonal: float, norm2: float):
    """Return `squared_cosine` if all numbers suit the short formula (not too small, too large or infinite), else -1."""
    product = diagonal * norm2
    cosine2 = gradient * gradient / product
    return wp.where(product > PRODUCT_MIN and product < PRODUCT_MAX and cosine2 <= 2.0, cosine2, -1.0)  # -1 for NaN


class ThreadAttempts(AttemptFunctions):
    """The functions of attempts for threads, as in `AttemptFunctions`; two of them have other arguments."""

    def __init__(self, source: IterationSource, robot: KinematicRobot, collision: ClearanceSize | None = None) -> None:
        self._robot = robot
        self.further_places = len(source.program.dofs)  # bounds: DOFs held back by limits
        super().__init__(source, collision)

    @typing.no_type_check
    def _define_data(self) -> None:
        source, COLUMNS = self.source, self.source.data_columns
        DOFS, INPUTS = len(source.program.dofs), len(source.program.inputs)
        FLOOR2 = residual_floor2(source.lanes.precision)
        datum = f"wp::index(data, thread / {COLUMNS}, 0, thread % {COLUMNS})"

        @wp.func_native(f"return (&{datum})[k * {COLUMNS}];")
        def read(data: wp.array3d[float], thread: int, k: int) -> float: ...

        @wp.func_native(f"(&{datum})[k * {COLUMNS}] = number;")
        def put(data: wp.array3d[float], thread: int, k: int, number: float): ...

        @wp.func_native(_limits_text(source.program.dofs, datum, COLUMNS))
        def put_limits(data: wp.array3d[float], thread: int, task: TaskRef, line: int): ...

        @wp.func_native(inputs_text(source.program.inputs, 2 * DOFS, datum, COLUMNS))
        def put_inputs(data: wp.array3d[float], thread: int, task: TaskRef, p: int): ...

        @wp.func
        def read_data(data: wp.array3d[float], thread: int, task: TaskRef, p: int, island: int, is_first: bool):
            """Give a thread the read-only data of the iteration, in the order of its `data_names`."""
            lines = task.limit_lower.shape[0]
            if is_first or lines > 1:
                put_limits(data, thread, task, wp.min(p, lines - 1))
            if INPUTS > 0:
                put_inputs(data, thread, task, p)
            if is_first or task.lightest2.shape[0] > 1:
                w = wp.min(p, task.lightest2.shape[0] - 1)
                put(data, thread, 2 * DOFS + INPUTS, FLOOR2 * task.lightest2[w, island])

        # read_data: gives a thread the read-only data of the iteration: (data, thread, task, problem, island,
        # is_first); is_first: the thread has had no attempt before in this launch
        self._read, self.read_data = read, read_data

    @typing.no_type_check
    def _define_start(self) -> None:
        StateRef: Any = self.StateRef
        program, at, start_rotation, read = self.source.program, self.at, self._start_rotation, self._read
        DOFS, SCRATCH, TRIAL = len(program.dofs), self.source.state.gradient, self.source.state.trial
        PLACE, ROTATIONS = coordinate_places(program), rotation_bits(program)
        COLUMN = integers(coordinate_columns(program, self._robot))
        begin, draw, draw_otherwise = self._begin(), self._draw(), self._draw_otherwise()

        @wp.func
        def start_attempt(state: StateRef, storage: StorageRef, thread: int, task: TaskRef, p: int, s: int, row: int):
            """Put seed s of problem p into a thread with the data of p; `row` receives the answer."""
            is_usual = task.settings[SAMPLER] == ROBERTS
            branch = branch_of_seed(task.searches, p, task.island, s)
            if branch >= 0:
                for k in range(DOFS):
                    state[SCRATCH + k] = task.searches.branch_joint_q[p, task.island, branch * DOFS + k]
            elif s == 0 or (is_usual and s <= task.settings[HAS_START]):
                given = wp.where(s == 0, row_address(task.start_joint_q, p), first_address(task.mid_joint_q))
                for k in range(DOFS):
                    c = PLACE[k]
                    state[SCRATCH + k] = 0.0
                    if c >= 0 and (ROTATIONS >> k) & 1 == 0:
                        state[SCRATCH + k] = number_at(given, COLUMN[c])
            elif is_usual:
                draw(state, task, p, s)
            else:
                draw_otherwise(storage, task, p, s, row)
                for k in range(DOFS):
                    state[SCRATCH + k] = storage.joint_q[k, row]
            for k in range(DOFS):
                c = PLACE[k]
                if c >= 0 and (ROTATIONS >> k) & 1 == 0:
                    lower = read(storage.data, thread, k)
                    upper = read(storage.data, thread, DOFS + k)
                    state[TRIAL + c] = bounded(at(state, SCRATCH + k), lower, upper)
            for k in range(DOFS):
                if (ROTATIONS >> k) & 1 == 1:
                    start_rotation(state, 0, task, p, k, s)
            begin(state, task)

        # gives a thread with data a seed: (state, storage, thread, task, problem, seed, row)
        self.start_attempt = start_attempt

    @typing.no_type_check
    def _draw(self) -> Any:
        """Return a function for the seeds of all DOFs from the sequence, equal to `seed_value`."""
        StateRef: Any = self.StateRef
        program, SCRATCH = self.source.program, self.source.state.gradient
        sequence, DOFS = draw_sequence(self._robot.trees), len(program.dofs)
        trees = [int(sequence.tree[a]) for a in program.dofs]
        DOF, TREE = integers(program.dofs), integers(trees)
        FIRST_OF_TREE = integers([1, *(int(a != b) for a, b in pairwise(trees))])
        INCREMENT = _unsigned([int(sequence.increment[a]) for a in program.dofs])
        PLACE_IN_TREE = _unsigned([int(sequence.place[a]) for a in program.dofs])

        @wp.func
        def draw(state: StateRef, task: TaskRef, p: int, s: int):
            line = wp.min(p, task.ranges.lower.shape[0] - 1)
            lowest = row_address(task.ranges.lower, line)
            highest = row_address(task.ranges.upper, line)
            number = wp.uint32(s - task.settings[HAS_START])
            base = wp.uint32(0)
            for k in range(DOFS):
                if FIRST_OF_TREE[k] == 1:
                    base = hash_step(task.tree_hash[p, TREE[k]], wp.uint32(task.settings[RANDOM_SEED]))
                bits = hash_step(base, PLACE_IN_TREE[k]) + number * INCREMENT[k]
                lower = number_at(lowest, DOF[k])
                upper = number_at(highest, DOF[k])
                state[SCRATCH + k] = bounded(lower + (upper - lower) * float(bits) * UNIT, lower, upper)

        return draw

    @typing.no_type_check
    def _draw_otherwise(self) -> Any:
        """Return a function for the seeds of all DOFs by any sampler, into the row of the answer: a short loop."""
        ROTATIONS = rotation_bits(self.source.program)

        @wp.func
        def draw_otherwise(storage: StorageRef, task: TaskRef, p: int, s: int, row: int):
            k = int(0)
            c = int(0)  # place of the coordinate
            of_rotation = int(0)  # remaining DOFs of a rotation
            while k < task.dof.shape[0]:  # unknown to the compiler
                start = float(0.0)
                middle = float(0.0)
                if (ROTATIONS >> k) & 1 == 1:
                    of_rotation = 3
                    c += 4
                if of_rotation > 0:
                    of_rotation -= 1
                else:
                    start = task.start_joint_q[p, task.coordinate[c]]
                    middle = task.mid_joint_q[task.coordinate[c]]
                    c += 1
                storage.joint_q[k, row] = seed_value(
                    p, s, task.dof[k], start, middle, task.settings, task.ranges, task.tree_hash
                )
                k += 1

        return draw_otherwise

    @typing.no_type_check
    def _begin(self) -> Any:
        """Return a function for the first numbers of every attempt, beside its configuration; as in `AttemptStart`."""
        StateRef: Any = self.StateRef
        at, place, program = self.at, self.source.state, self.source.program
        COORDINATES, Q, TRIAL = len(coordinate_names(program)), place.q, place.trial
        REMEMBERED, REMEMBERED_END = place.multipliers, place.hessian
        NORM2, FACTOR, STEPS, STAGE, LEVELS = (
            place.norm2,
            place.damping_factor,
            place.steps,
            place.stage,
            len(program.level_norms2),
        )
        FIRST_STAGE, LAST_STAGE = stage_range(program, "float32")

        @wp.func
        def begin(state: StateRef, task: TaskRef):
            for c in range(COORDINATES):
                state[Q + c] = at(state, TRIAL + c)
            state[NORM2] = NOT_EVALUATED
            state[FACTOR] = 1.0
            state[STEPS] = -1.0  # the seed itself is no step
            for k in range(REMEMBERED, REMEMBERED_END):
                state[k] = 0.0
            if wp.static(LEVELS == 2):
                state[STAGE] = FIRST_STAGE
                if task.settings[ITERATIONS] <= SECONDARY_STAGE_STEPS:
                    state[STAGE] = LAST_STAGE

        return begin

    @typing.no_type_check
    def _define_status(self) -> None:
        super()._define_status()
        StateRef: Any = self.StateRef
        at, place, program, read = self.at, self.source.state, self.source.program, self._read
        DOFS, PLACE, ROTATIONS = len(program.dofs), coordinate_places(program), rotation_bits(program)
        Q, GRADIENT, SCALE, BOUND = place.q, place.gradient, place.lengths2, place.size
        STRIDE = 0 if len(self.source.step.lengths2()) == 1 else 1
        NORM2, FACTOR, STEPS = place.norm2, place.damping_factor, place.steps
        FACTOR_MAX = self.source.damping.factor_max
        status_in_full = self._status_of

        @wp.func
        def note_bounds(state: StateRef, data: wp.array3d[float], thread: int):
            """Note the DOFs at which a limit holds back a step down the gradient."""
            for k in range(DOFS):
                state[BOUND + k] = 0.0
                c = PLACE[k]
                if c >= 0 and (ROTATIONS >> k) & 1 == 0:
                    lower = read(data, thread, k)
                    upper = read(data, thread, DOFS + k)
                    holds = is_at_bound(at(state, Q + c), lower, upper, at(state, GRADIENT + k))
                    state[BOUND + k] = wp.where(holds, 1.0, 0.0)

        @wp.func
        def status_of(state: StateRef, lane: int, task: TaskRef, p: int, island: int):
            """Return the status of a finished attempt, as in `AttemptFunctions`."""
            norm2 = at(state, NORM2)
            w = wp.min(p, task.lightest2.shape[0] - 1)
            blocked = int(0)
            slope = float(0.0)
            is_plain = bool(True)
            for k in range(DOFS):
                cosine2 = plain_cosine(at(state, GRADIENT + k), at(state, SCALE + STRIDE * k), norm2)
                is_plain = is_plain and cosine2 >= 0.0
                stays = at(state, BOUND + k) == 1.0
                slope = wp.max(slope, wp.where(stays, 0.0, cosine2))
                blocked = wp.where(stays and cosine2 > COSINE_MAX * COSINE_MAX, 1, blocked)
            ended = int(RUNNING)
            if at(state, FACTOR) > FACTOR_MAX:
                ended = STALLED
            left = task.settings[ITERATIONS] - int(at(state, STEPS))
            status = int(INVALID)
            if is_plain or norm2 <= RESIDUAL_FLOOR2 * task.lightest2[w, island]:
                status = phase_after(
                    norm2,
                    task.lightest2[w, island],
                    task.heaviest2[w, island],
                    slope,
                    UNKNOWN_GAIN,
                    blocked,
                    ended,
                    left,
                )
            else:
                status = status_in_full(state, lane, task, p, island)
            return status

        # notes the DOFs held back by limits, before `judge_attempt`: (state, data, thread)
        self.note_bounds = note_bounds
        if not self.source.with_hessian:
            self._status_of = status_of


def _limits_text(dofs: Sequence[int], datum: str, columns: int) -> str:
    """Return C++ code to copy the limits of DOFs, lower ones first, into the data of a thread."""
    lines = [f"float* const d = &{datum};"]
    for side in ("lower", "upper"):
        lines.append(f"const wp::float64* const {side}_row = &wp::index(task.limit_{side}, line, 0);")
    names = [(side, a) for side in ("lower", "upper") for a in dofs]
    lines += [f"const float {side}{a} = (float){side}_row[{a}];" for side, a in names]
    lines += [f"d[{k * columns}] = {side}{a};" for k, (side, a) in enumerate(names)]
    return "\n".join(lines)


def _unsigned(values: Sequence[int]) -> Any:
    return wp.types.vector(len(values), wp.uint32)(*values)
