"""The kernels of one island on a GPU: a thread works through attempts, one seed of one problem at a time.

    attempts of a wave, seed by seed over its problems -> answers into rows of `AttemptStorage`
    -> the answer of each problem's best attempt is copied to `BestAttempts` (`waves`)

The threads of a warp run the generated iteration together, and a refill costs the warp the same for one thread as for
all; so a thread with a finished attempt waits for the next round. A thread stops an attempt when a lower seed has
solved its problem.

The order of finishing does not matter: once all attempts have ended, the answers of a problem are read in the order of
their seeds, up to the end of its search. So answers depend neither on waves nor on the order of threads, and equal the
answers of `packet_kernel` at width 1.

The kernels also run on a CPU, thread by thread, for tests.
"""

import typing
from typing import Any

import warp as wp

from ik_service.collision.clearance import ClearanceSize
from ik_service.compiler import IterationSource
from ik_service.kernels import typed_warp
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.solver.compiled.attempt import AttemptFunctions
from ik_service.solver.compiled.island_task import IslandTask, TaskRef
from ik_service.solver.compiled.thread_attempt import ThreadAttempts
from ik_service.solver.compiled.waves import (
    WAVE_BLOCK_DIM,
    AttemptStorage,
    StorageRef,
    Wave,
    WaveRef,
    attempt_of,
    begin_wave,
    may_win,
    rows_of,
)
from ik_service.solver.lm.codes import ITERATIONS, KEEP_ALL
from ik_service.solver.lm.ranking import IMPRECISE

ROUND = wp.constant(8)  # iterations from refill to refill: on an H100 faster than 12 for one target, equal for more
NOTHING = wp.constant(-1)  # row of a thread before its first attempt
SMALL_ISLAND = 7  # DOFs; a larger island needs all registers of a thread
WARPS_PER_SM = 12  # with 168 registers per thread
WARPS_PER_SM_OF_LARGE = 8  # with 255


@typed_warp.func_native("""
#if defined(__CUDA_ARCH__)
__syncwarp();
#endif
""")
def sync_warp() -> None:
    """Reconverge the threads of a warp after a refill."""


@wp.func
@typing.no_type_check
def take_row(task: TaskRef, wave: WaveRef, storage: StorageRef, rows: int):
    """Return the next row whose attempt could still win, and its problem and seed; `rows` first if there is none."""
    row = wp.atomic_add(storage.next_row, 0, 1)
    while row < rows:
        p, s = attempt_of(task, wave, storage, row)
        if may_win(task, p, s):
            return row, p, s
        row = wp.atomic_add(storage.next_row, 0, 1)
    return rows, 0, 0


@typing.no_type_check
def thread_kernel(source: IterationSource, robot: KinematicRobot, collision: ClearanceSize | None = None) -> wp.Kernel:
    """Return the kernel of an island; arguments: the task, the wave and the storage of attempts."""
    # The iteration has width 1, and separate data in `BLOCK` columns
    thread = ThreadAttempts(source, robot, collision)
    State, iterate, at = thread.State, thread.iterate, thread.at
    StateRef: Any = thread.StateRef
    read_data, start_attempt = thread.read_data, thread.start_attempt
    note_bounds, judge_attempt, steps_aside = thread.note_bounds, thread.judge_attempt, thread.steps_aside
    COORDINATES = len(source.coordinates)
    Q, STEPS = source.state.q, source.state.steps

    @wp.func
    def store_row(state: StateRef, task: TaskRef, storage: StorageRef, p: int, s: int, row: int):
        """Store the answer of a finished attempt; after a success later seeds cannot win."""
        rank, cost, status, met, search_cost = judge_attempt(state, 0, task, p, task.island, s)
        if rank < IMPRECISE and task.settings[KEEP_ALL] == 0:
            wp.atomic_min(task.searches.end_seed, p, task.island, s + 1)
        storage.rank[row] = rank
        storage.search_cost[row] = search_cost
        storage.cost[row] = cost
        storage.iterations[row] = int(at(state, STEPS))
        storage.status[row] = status
        storage.met[row] = met
        for c in range(COORDINATES):
            storage.joint_q[c, row] = at(state, Q + c)

    @wp.kernel(**_options(source))
    def solve_attempts(task: IslandTask, wave: Wave, storage: AttemptStorage):
        rows = rows_of(task, wave, storage)
        iterations = float(task.settings[ITERATIONS])
        lane = wp.tid()  # a division of 64 bits
        if lane == 0:
            begin_wave(wave, storage)
        state = State()
        row = int(NOTHING)
        p = int(0)
        s = int(0)
        ended = bool(True)
        left = int(0)  # iterations before the next refill
        while row < rows:
            if left == 0:
                left = ROUND
                if row != NOTHING:
                    if ended and steps_aside(state, 0, task, p):
                        ended = False
                    elif ended:
                        note_bounds(state, storage.data, lane)
                        store_row(state, task, storage, p, s, row)
                    else:
                        ended = not may_win(task, p, s)
                if ended:
                    is_first = row == NOTHING
                    row, p, s = take_row(task, wave, storage, rows)
                    if row < rows:
                        read_data(storage.data, lane, task, p, task.island, is_first)
                        start_attempt(state, storage, lane, task, p, s, row)
                        ended = False
            left -= 1
            if not ended:
                ended = iterate(state, iterations, storage.data, lane) != 0
            sync_warp()

    return solve_attempts


def _options(source: IterationSource) -> dict[str, Any]:
    # The state lives in registers: all loops are unrolled, so its places are constant. The overflow goes to shared
    # memory, as far as this leaves room for the warps. Divisions and square roots need not be exact
    # to the last bit; exact ones take more instructions.
    warps = WARPS_PER_SM if len(source.program.dofs) <= SMALL_ISLAND else WARPS_PER_SM_OF_LARGE
    return {
        "module": "unique",
        "module_options": {"block_dim": WAVE_BLOCK_DIM, "max_unroll": source.state.size, "fast_math": True},
        "enable_backward": False,
        "grid_stride": False,
        "launch_bounds": (WAVE_BLOCK_DIM, warps * 32 // WAVE_BLOCK_DIM),
        "enable_cuda_smem_spilling": True,
    }


@typing.no_type_check
def finish_kernel(source: IterationSource) -> wp.Kernel:
    """Return the kernel with one attempt at every problem, kept as the answer; argument: the task."""
    lane = AttemptFunctions(source)
    State, Real, iterate = lane.State, lane.Real, lane.iterate
    read_data, start_attempt, keep_answer = lane.read_data, lane.start_attempt, lane.keep_answer

    @wp.kernel(module="unique", enable_backward=False, grid_stride=False)
    def make_one_attempt(task: IslandTask):
        place = wp.tid()
        if place >= task.count[0] or task.fault[0] != 0:
            return
        p = task.problem[place]
        state = State()
        read_data(state, 0, task, p, task.island, True)
        start_attempt(state, 0, task, p, task.island, 0)
        iterations = Real(task.settings[ITERATIONS])
        ended = bool(False)
        while not ended:
            ended = iterate(state, iterations) != 0
        keep_answer(state, 0, task, p, task.island, 0)

    return make_one_attempt
