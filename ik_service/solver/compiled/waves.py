"""Waves of attempts on a GPU: the attempts of a launch, the storage of answers, and the choice of the best.

    first wave    all problems; each later one the problems with a search not ended
    every wave    enough seeds of its problems to keep the device busy, and as many as all waves before, if rows suffice
    after it      answers of each problem are read seed by seed, until its search ends; unfinished problems are listed
    deadline      after the first wave and every two: is the mark set? then the listed problems are the stopped ones

So few attempts are superfluous. The number of seeds of a wave is computed on the device, from the number of unsolved
problems. Waves are made while there are any: a loop that can be part of a recorded graph. The first wave is always
made; at most one more begins once the deadline's mark is set. At the end all searches end except of stopped problems.
"""

import typing
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import warp as wp

from ik_service.kernels import typed_warp
from ik_service.linear_solve.islands import zeroed
from ik_service.solver.arrays.parts import SOLVE_EXTRAS
from ik_service.solver.compiled.island_task import IslandTask, TaskRef, attempt_line, counts, setting_now, suffices
from ik_service.solver.lm.codes import KEEP_ALL, NO_TARGET, SEEDS, STOP
from ik_service.solver.lm.coordinates import follow
from ik_service.solver.lm.ranking import IMPRECISE, attempt_count, count_cost, is_round_end

WAVE_BLOCK_DIM = 32  # threads of a block: a single warp, so that an idle block ends at once
WAVE_ATTEMPTS_MAX = 1 << 20  # attempts of a wave, and at least one per problem: some 50 MB of answers
BUFFERS = 2  # ping-pong buffers: while one is read, problems to continue are listed in the other
THREADS_PER_SM = 768  # of a launch at most: more than run side by side; 384 are slower on an H100 (benchmarks/gpu.md)
CPU_THREADS = 64  # run one after another
WAVES = wp.get_module("ik_service_waves")  # of the kernel here
KEEP_BLOCK = 128  # threads of a block in `keep_best`


@wp.struct
class AttemptStorage:
    """Answers of the attempts of one launch, and data of running ones; neighbouring threads access neighbours."""

    # answers
    joint_q: wp.array2d[wp.float32]  # [coordinates of the island, rows]
    rank: wp.array[wp.int64]  # [rows]
    search_cost: wp.array[wp.float32]  # [rows]: cost for comparison of attempts
    cost: wp.array[wp.float32]  # [rows]
    iterations: wp.array[wp.int32]  # [rows]
    status: wp.array[wp.int32]  # [rows]
    met: wp.array[wp.int32]  # [rows]
    # work
    data: wp.array3d[wp.float32]  # [blocks, data, WAVE_BLOCK_DIM]: read-only data of each thread's iterations
    next_row: wp.array[wp.int32]  # [1]: first row not yet taken
    # of the waves, by buffer
    listed: wp.array2d[wp.int32]  # [BUFFERS, problems]: problems of a wave, as places in task.problem
    listed_count: wp.array[wp.int32]  # [BUFFERS]: number of listed problems
    first_seed: wp.array[wp.int32]  # [BUFFERS]


@wp.struct
class Wave:
    """A wave. Attempt k belongs to problem k % problems, with seed k / problems after the first seed."""

    buffer: int  # index of the buffer that is read
    is_first: int  # 1: of all problems, from seed 0
    threads: int  # largest number of threads, and target for the number of attempts
    keep_threads: int  # threads of `keep_best`


StorageRef: Any = typed_warp.reference_to(AttemptStorage)
WaveRef: Any = typed_warp.reference_to(Wave)


@typed_warp.func_native("return *(volatile const int*)wp::address(ends, line, island);")
def current_end(ends: wp.array2d[wp.int32], line: int, island: int) -> wp.int32:  # type: ignore[empty-body]  # the C++ above is the body; Warp takes no 'raise' here, and no types under 'no_type_check'
    """Return the end of a search, read from memory each time because other threads may write the end meanwhile."""


@wp.func
@typing.no_type_check
def may_win(task: TaskRef, p: int, s: int):
    """Return whether a seed comes before the end of a problem's search."""
    return task.settings[KEEP_ALL] == 1 or s < current_end(task.searches.end_seed, p, task.island)


@wp.func
@typing.no_type_check
def problems_of(task: TaskRef, wave: WaveRef, storage: StorageRef):
    """Return the number of problems of a wave: all in the first wave, the listed ones in others."""
    if wave.is_first == 1:
        return task.count[0]
    return storage.listed_count[wave.buffer]


@wp.func
@typing.no_type_check
def first_seed_of(wave: WaveRef, storage: StorageRef):
    """Return the first seed of a wave."""
    if wave.is_first == 1:
        return 0
    return storage.first_seed[wave.buffer]


@wp.func
@typing.no_type_check
def seeds_of(task: TaskRef, wave: WaveRef, storage: StorageRef):
    """Return the number of seeds per problem in a wave."""
    problems = problems_of(task, wave, storage)
    if problems == 0 or task.fault[0] != 0:
        return 0
    first = first_seed_of(wave, storage)
    seeds = wp.max(wp.max(wave.threads / problems, first), 1)
    return wp.min(wp.min(seeds, storage.rank.shape[0] / problems), task.settings[SEEDS] - first)


@wp.func
@typing.no_type_check
def rows_of(task: TaskRef, wave: WaveRef, storage: StorageRef):
    """Return the number of attempts of a wave."""
    return problems_of(task, wave, storage) * seeds_of(task, wave, storage)


@wp.func
@typing.no_type_check
def problem_at(task: TaskRef, wave: WaveRef, storage: StorageRef, place: int):
    """Return a problem of a wave by its place."""
    if wave.is_first == 1:
        return task.problem[place]
    return task.problem[storage.listed[wave.buffer, place]]


@wp.func
@typing.no_type_check
def attempt_of(task: TaskRef, wave: WaveRef, storage: StorageRef, row: int):
    """Return problem and seed of the attempt of a row."""
    problems = problems_of(task, wave, storage)
    seed = wp.uint32(row) / wp.uint32(problems)
    place = int(wp.uint32(row) - seed * wp.uint32(problems))
    return problem_at(task, wave, storage, place), first_seed_of(wave, storage) + int(seed)


@wp.func
@typing.no_type_check
def begin_wave(wave: WaveRef, storage: StorageRef):
    """Clear the list of problems to continue; by one thread, at the start of a wave."""
    storage.listed_count[1 - wave.buffer] = 0


@wp.func
@typing.no_type_check
def copy_answer(task: TaskRef, storage: StorageRef, row: int, line: int, s: int):
    """Make the answer in a row the best attempt of a line."""
    island = task.island
    task.best.cost[line, island] = storage.cost[row]
    task.best.seed[line, island] = s
    task.best.iterations[line, island] = storage.iterations[row]
    task.best.status[line, island] = storage.status[row]
    task.best.met[line, island] = storage.met[row]
    for c in range(task.coordinate.shape[0]):
        task.best.joint_q[line, task.coordinate[c]] = storage.joint_q[c, row]
    for f in range(task.follower.shape[0]):
        leader = storage.joint_q[task.follower_place[f], row]
        task.best.joint_q[line, task.follower[f]] = follow(task.follower_number, f, leader)


@wp.func
@typing.no_type_check
def keep_best_of(task: TaskRef, wave: WaveRef, storage: StorageRef, place: int, first: int, seeds: int):
    """Keep the best answer of a wave's attempts at a problem; return whether its search continues."""
    p = problem_at(task, wave, storage, place)
    problems = problems_of(task, wave, storage)
    keeps_all = task.settings[KEEP_ALL] == 1
    line = attempt_line(task, p, first)
    end = task.searches.end_seed[p, task.island]
    counted = task.searches.counted[p, task.island]
    best_rank = task.best.rank[line, task.island]
    best = int(-1)  # row of the best answer
    best_seed = int(0)
    s = int(first)
    row = int(place)
    while s < first + seeds and (keeps_all or s < end):
        rank = storage.rank[row]
        if keeps_all:
            line = attempt_line(task, p, s)
            task.best.rank[line, task.island] = rank
            copy_answer(task, storage, row, line, s)
        else:
            if rank < best_rank:
                best_rank = rank
                best = row
                best_seed = s
            if rank < IMPRECISE:
                end = wp.min(end, s + 1)
            elif counts(rank):
                count = attempt_count(storage.status[row], storage.met[row])
                counted = count_cost(counted, storage.search_cost[row], count)
            if is_round_end(s + 1) and s + 1 < end:
                if suffices(task, counted, best_rank, s + 1, storage.met[row] != NO_TARGET):
                    end = s + 1
        s += 1
        row += problems
    if keeps_all:
        return s < task.settings[SEEDS]
    task.searches.end_seed[p, task.island] = end
    task.searches.counted[p, task.island] = counted
    task.best.rank[line, task.island] = best_rank
    if best >= 0:
        copy_answer(task, storage, best, line, best_seed)
    return s < end


@wp.kernel(module=WAVES, enable_backward=False, grid_stride=False)
@typing.no_type_check
def keep_best(task: IslandTask, wave: Wave, storage: AttemptStorage):
    """Keep the best answers of a wave's attempts; list the problems to continue in the other buffer."""
    place = wp.tid()
    first = first_seed_of(wave, storage)
    seeds = seeds_of(task, wave, storage)
    other = 1 - wave.buffer
    if place == 0:
        storage.next_row[0] = 0
        storage.first_seed[other] = first + seeds
    problems = wp.where(seeds == 0, 0, problems_of(task, wave, storage))
    while place < problems:
        if keep_best_of(task, wave, storage, place, first, seeds):
            listed = place
            if wave.is_first == 0:
                listed = storage.listed[wave.buffer, place]
            storage.listed[other, wp.atomic_add(storage.listed_count, other, 1)] = listed
        place += wave.keep_threads


def allocate_storage(device: wp.Device, coordinates: int, data: int, problems: int, attempts: int) -> Any:
    """Return storage for the attempts of islands solved one after the other."""
    # Sized for the island with most coordinates and most read-only data, and for the largest number of problems and
    # attempts
    rows = max(problems, min(WAVE_ATTEMPTS_MAX, attempts))
    threads = int(device.sm_count) * THREADS_PER_SM if device.is_cuda else CPU_THREADS
    blocks = -(-min(threads, rows) // WAVE_BLOCK_DIM)

    return zeroed(
        AttemptStorage,
        device,
        rows,
        joint_q=(coordinates, rows),
        data=(blocks, data, WAVE_BLOCK_DIM),
        next_row=1,
        listed=(BUFFERS, problems),
        listed_count=BUFFERS,
        first_seed=BUFFERS,
    )


LISTED, STOPPED = wp.constant(0), wp.constant(1)
"""Buffers of a wave with a deadline: the first lists the problems to continue; the count of the second is the number of
these that are stopped."""


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def _stop_waves(task: IslandTask, storage: AttemptStorage):
    """Leave the next two waves no problems, if the mark is set; by one thread."""
    stopped = int(0)
    if setting_now(task.settings, STOP) != 0:
        stopped = storage.listed_count[LISTED]
        storage.listed_count[LISTED] = 0
    storage.listed_count[STOPPED] = stopped


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def _end_searches(task: IslandTask, storage: AttemptStorage, threads: int):
    """Mark all seeds of all searches as handed out."""
    place = wp.tid()
    while place < task.count[0]:
        p = task.problem[place]
        task.searches.next_seed[p, task.island] = task.searches.end_seed[p, task.island]
        place += threads


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def _reopen_stopped(task: IslandTask, storage: AttemptStorage, threads: int):
    """Mark the searches of stopped problems as having seeds left."""
    place = wp.tid()
    while place < storage.listed_count[STOPPED]:
        p = task.problem[storage.listed[LISTED, place]]
        task.searches.next_seed[p, task.island] = 0
        place += threads


def record_waves(
    kernel: wp.Kernel, task: Any, problem_count: int, seeds: int, storage: Any, *, is_timed: bool = False
) -> Callable[[], None]:
    """Return a function to solve an island of all problems into the task's best attempts, with a deadline if timed."""
    # The function launches, or becomes part of a graph during recording, and holds the arrays of task and storage by
    # address only. The numbers of problems and seeds on the device may be smaller at run time. When launched on a GPU,
    # the host waits after every other wave to learn whether there is another one. Unless every attempt is kept, the
    # ranks of the task's best attempts must be UNRANKED, and its searches before their first seeds.
    by_row = (task.limit_lower, task.limit_upper, task.start_joint_q, task.ranges.lower, task.ranges.upper)
    assert all(array.is_contiguous for array in by_row)  # threads read each row from one address
    device = task.settings.device
    threads = storage.data.shape[0] * WAVE_BLOCK_DIM
    sizes = {kernel: min(threads, problem_count * seeds), keep_best: min(threads, problem_count)}
    blocks = {kernel: WAVE_BLOCK_DIM, keep_best: KEEP_BLOCK}

    def recorded(buffer: int, is_first: int) -> list[wp.Launch]:
        wave: Any = Wave()
        wave.buffer, wave.is_first, wave.threads, wave.keep_threads = buffer, is_first, threads, sizes[keep_best]
        inputs = [task, wave, storage]
        return [
            wp.launch(one, size, inputs, device=device, block_dim=blocks[one], record_cmd=True)
            for one, size in sizes.items()
        ]

    stop, ends = list[wp.Launch](), list[wp.Launch]()
    if is_timed:
        stop.append(wp.launch(_stop_waves, 1, [task, storage], device=device, record_cmd=True))
        inputs = [task, storage, problem_count]
        for one in (_end_searches, _reopen_stopped):
            ends.append(wp.launch(one, problem_count, inputs, device=device, record_cmd=True))
    first, further = [*recorded(1, 1), *stop], [*recorded(0, 0), *recorded(1, 0), *stop]

    def launch_all(launches: Sequence[wp.Launch]) -> None:
        for launch in launches:
            launch.launch()

    def run() -> None:
        launch_all(first)
        # the first wave, and every second one, lists for buffer 0
        wp.capture_while(storage.listed_count[:1], partial(launch_all, further))
        launch_all(ends)

    return run
