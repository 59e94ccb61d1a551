"""The kernel of one island on a CPU: the lanes of a SIMD packet work through the problems side by side.

A lane holds one attempt: one seed of one problem. All lanes run the generated iteration together; when a lane has
finished, the kernel keeps its answer and gives the lane its next attempt:

    the next seed of its problem, if its search has not ended
    else the first seed of the next problem
    else, when no problem is left, the next seed of a problem in another lane

So a single problem fills the lanes. A round of seeds (`lm.ranking`) begins when all attempts of the rounds before have
ended; the last lane of the problem continues, and others join. The best attempt is the lowest seed that succeeds, in
any order of finishing; answers do not depend on the batch, its order or the threads.
"""

import typing
from typing import Any

import warp as wp

from ik_service.collision.clearance import ClearanceSize
from ik_service.compiler import IterationSource
from ik_service.kernels.typed_warp import reference_to
from ik_service.solver.arrays.branch_starts import extend_search, is_limited
from ik_service.solver.arrays.parts import first_place
from ik_service.solver.arrays.problem_arrays import begin_search
from ik_service.solver.compiled.attempt import AttemptFunctions
from ik_service.solver.compiled.island_task import IslandTask, TaskRef, end_round, needs_attempt
from ik_service.solver.compiled.iteration import called_iteration, cpu_options
from ik_service.solver.lm.codes import ITERATIONS, KEEP_ALL, SEEDS
from ik_service.solver.lm.ranking import IMPRECISE, is_beaten, is_round_end

NOTHING = wp.constant(-1)  # problem of an idle lane
UNCOUNTED_STEPS = wp.constant(1.0e9)  # steps before the first of an idle lane


@typing.no_type_check
def packet_kernel(  # noqa: C901  # it counts the branches of the functions inside as its own
    source: IterationSource, collision: ClearanceSize | None = None, *, calls: bool
) -> wp.Kernel:
    """Return the kernel for CPUs; arguments: the task, a part of the problems, and the number of parts."""
    # With `calls` the iteration is called at its address
    lanes = AttemptFunctions(source, collision)
    State, Real = lanes.State, lanes.Real
    StateRef: Any = lanes.StateRef
    iterate = called_iteration(lanes) if calls else _contained(lanes)
    read_data, start_attempt, keep_answer = lanes.read_data, lanes.start_attempt, lanes.keep_answer
    steps_aside = lanes.steps_aside
    Lanes: Any = wp.types.vector(source.lanes.width, int)
    LanesRef: Any = reference_to(Lanes)
    W, place = source.lanes.width, source.state
    HAS_TARGETS = 1 if source.program.errors else 0
    FINISHES = 1 if source.lanes.precision == "float64" else 0  # one attempt, regardless of the search
    FACTOR, STEPS, FLOOR2 = place.damping_factor, place.steps, place.floor2
    ALL = (1 << W) - 1

    @wp.func
    def cancel_later_seeds(problem: LanesRef, seed: LanesRef, p: int, rank: wp.int64):
        """Take later seeds of a solved problem out of their lanes; return these lanes as bits."""
        found = int(0)
        for lane in range(W):
            if problem[lane] == p and is_beaten(rank, seed[lane]):
                problem[lane] = NOTHING
                found = found | (1 << lane)
        return found

    @wp.func
    def may_go_on(task: TaskRef, problem: LanesRef, p: int):
        """Return whether a lane may begin the next attempt at a problem; end its search when due."""
        seeds = task.searches.next_seed[p, task.island]
        if seeds >= task.searches.end_seed[p, task.island]:
            if not is_limited(task.searches, p, task.island):
                return False
            for lane in range(W):
                if problem[lane] == p:
                    return False
            if not extend_search(task.searches, task.settings, p, task.island, task.best.rank[p, task.island]):
                return False
        if task.settings[KEEP_ALL] == 0 and is_round_end(seeds):
            for lane in range(W):
                if problem[lane] == p:
                    return False
            end_round(task, p, task.island, seeds, HAS_TARGETS == 1)
        return needs_attempt(task, p, task.island)

    @wp.func
    def problem_to_help(task: TaskRef, problem: LanesRef):
        """Return the running problem with the earliest seed left, or NOTHING."""
        found = int(NOTHING)
        earliest = int(task.settings[SEEDS])
        for lane in range(W):
            if problem[lane] != NOTHING:
                s = task.searches.next_seed[problem[lane], task.island]
                if s < earliest:
                    if may_go_on(task, problem, problem[lane]):
                        earliest = s
                        found = problem[lane]
        return found

    @wp.func
    def next_to_begin(task: TaskRef, place: int, end_place: int):
        """Return the place of the next problem in need of an attempt, or `end_place`."""
        found = int(place)
        waits = bool(False)
        while found < end_place and not waits:
            p = task.problem[found]
            if FINISHES == 1:
                begin_search(task.searches, task.settings, p, task.island)
            waits = needs_attempt(task, p, task.island)
            if not waits:
                found += 1
        return found

    @wp.func
    def begin(state: StateRef, held: LanesRef, task: TaskRef, lane: int, p: int):
        """Give a lane the next attempt at a problem; return its seed. `held`: the problem whose data each lane has."""
        s = task.searches.next_seed[p, task.island]
        task.searches.next_seed[p, task.island] = s + 1
        if held[lane] != p:
            read_data(state, lane, task, p, task.island, held[lane] == NOTHING)
            held[lane] = p
        start_attempt(state, lane, task, p, task.island, s)
        return s

    @wp.func
    def help_others(state: StateRef, held: LanesRef, task: TaskRef, problem: LanesRef, seed: LanesRef):
        """Give idle lanes another seed of a running problem; otherwise they compute a discarded result."""
        for lane in range(W):
            if problem[lane] == NOTHING:
                p = problem_to_help(task, problem)
                if p != NOTHING:
                    problem[lane] = p
                    seed[lane] = begin(state, held, task, lane, p)
                else:  # result discarded
                    held[lane] = NOTHING  # the next number is among the data
                    state[FLOOR2 * W + lane] = -Real(1.0)
                    state[FACTOR * W + lane] = Real(1.0)
                    state[STEPS * W + lane] = -Real(UNCOUNTED_STEPS)

    @wp.kernel(module="unique", enable_backward=False, module_options=cpu_options())
    def solve_island(task: IslandTask, part: int, parts: int):
        next_place = first_place(task.settings, task.count, task.problem, part, parts)
        end_place = first_place(task.settings, task.count, task.problem, part + 1, parts)
        if task.fault[part] != 0:
            end_place = next_place
        island = wp.max(task.island, 0)
        iterations = Real(task.settings[ITERATIONS])
        state = State()
        problem = Lanes(NOTHING)
        held = Lanes(NOTHING)
        seed = Lanes(0)
        finished = int(ALL)  # lanes in need of an attempt, as bits
        running = bool(True)
        while running:
            for lane in range(W):
                if (finished >> lane) & 1 == 1 and not steps_aside(state, lane, task, problem[lane]):
                    p = int(problem[lane])
                    problem[lane] = NOTHING
                    if p != NOTHING:
                        p = wp.max(p, 0)
                        rank = keep_answer(state, lane, task, p, island, seed[lane])
                        if rank < IMPRECISE and task.settings[KEEP_ALL] == 0:
                            finished = finished | cancel_later_seeds(problem, seed, p, rank)
                        if not may_go_on(task, problem, p):
                            p = NOTHING
                    if p == NOTHING:
                        next_place = next_to_begin(task, next_place, end_place)
                        if next_place < end_place:
                            p = wp.max(task.problem[next_place], 0)
                            next_place += 1
                    if p != NOTHING:
                        seed[lane] = begin(state, held, task, lane, p)
                    problem[lane] = p
            busy = int(0)
            for lane in range(W):
                if problem[lane] != NOTHING:
                    busy += 1
            running = busy > 0
            if running:
                if busy < W:
                    help_others(state, held, task, problem, seed)
                finished = int(0)
                while finished == 0:
                    finished = iterate(state, iterations, task)

    return solve_island


@typing.no_type_check
def _contained(lanes: AttemptFunctions) -> Any:
    """Return the contained iteration with the arguments of `called_iteration`."""
    iterate_lanes = lanes.iterate
    StateRef: Any = lanes.StateRef
    Real: Any = lanes.Real

    @wp.func
    def iterate(state: StateRef, iterations: Real, task: TaskRef):
        return iterate_lanes(state, iterations)

    return iterate
