"""Waves of attempts on a GPU: which attempts a launch works on, where their answers stand, and which is the best.

    first wave    all problems; each later one those whose search has not ended
    every wave    as many seeds of its problems as fill the device, and no fewer than all waves before
    after it      the answers of each problem are looked at seed by seed, until its search ends

So few attempts are superfluous. How many seeds a wave has is computed on the device, where the unsolved problems are
counted; the host launches as many waves as are needed if no problem is ever solved, and waves that have nothing to do
end at once. A wave of more attempts than there are rows for answers takes several launches.
"""

import typing
from collections.abc import Iterator
from typing import Any

import warp as wp

from ik_service.linear_solve import zeroed
from ik_service.solver.compiled.island_task import IslandTask, TaskRef, attempt_line, count_attempt, end_round
from ik_service.solver.launches import typed_warp
from ik_service.solver.lm.codes import KEEP_ALL, NO_TARGET, SEEDS
from ik_service.solver.lm.coupling import follow

BLOCK = 32  # threads of a block: a warp, so that it leaves as soon as it finds nothing more to do
ROWS_MAX = 1 << 20  # attempts of a launch: some 50 MB of answers
WAVES_MAX = 32  # each has as many seeds as all before
THREADS_PER_SM = 384  # that run side by side
CPU_THREADS = 64  # on a CPU they run one after another
WAVES = wp.get_module("ik_service_waves")  # of both kernels here


@wp.struct
class AttemptStorage:
    """Answers of the attempts of one launch, and data of those in flight; neighbours read and write side by side."""

    # answers
    joint_q: wp.array2d[wp.float32]  # [coordinates of the island, rows]
    rank: wp.array[wp.int64]  # [rows]
    search_cost: wp.array[wp.float32]  # [rows]: by which attempts compete
    cost: wp.array[wp.float32]  # [rows]
    iterations: wp.array[wp.int32]  # [rows]
    status: wp.array[wp.int32]  # [rows]
    met: wp.array[wp.int32]  # [rows]
    # work
    data: wp.array3d[wp.float32]  # [threads / BLOCK, data, BLOCK]: what each thread's iterations only read
    next_row: wp.array[wp.int32]  # [1]: the first that no thread has taken
    listed: wp.array[wp.int32]  # [problems]: problems of the wave, as places in task.problem
    listed_count: wp.array[wp.int32]  # [WAVES_MAX + 1]: how many, by wave
    first_seed: wp.array[wp.int32]  # [WAVES_MAX + 1]: by wave


@wp.struct
class Wave:
    """Attempts of one launch. Attempt k of a wave is of its problem k % problems, seed k / problems after the first."""

    number: int
    attempts: int  # of the wave at most
    first_attempt: int  # whose answer is in row 0
    rows: int  # attempts of the launch at most
    threads: int  # that the device runs side by side


StorageRef: Any = typed_warp.reference_to(AttemptStorage)
WaveRef: Any = typed_warp.reference_to(Wave)


@typed_warp.func_native("return *(volatile const int*)wp::address(ends, line, island);")
def current_end(ends: wp.array2d[wp.int32], line: int, island: int) -> wp.int32:  # type: ignore[empty-body]  # the C++ above is the body; Warp takes no 'raise' here, and no types under 'no_type_check'
    """Return the end of a search that other threads may write while the one that looks is in its loop."""


@wp.func
@typing.no_type_check
def may_win(task: TaskRef, p: int, s: int):
    """Return whether a seed comes before the end of a problem's search."""
    return task.settings[KEEP_ALL] == 1 or s < current_end(task.searches.end_seed, p, task.island)


@wp.func
@typing.no_type_check
def problems_of(task: TaskRef, wave: WaveRef, storage: StorageRef):
    """Return how many problems a wave has: the first has all, others those that are listed."""
    if wave.number == 0:
        return task.count[0]
    return storage.listed_count[wave.number]


@wp.func
@typing.no_type_check
def seeds_of(task: TaskRef, wave: WaveRef, storage: StorageRef):
    """Return how many seeds of its problems a wave tries."""
    problems = problems_of(task, wave, storage)
    if problems == 0 or task.fault[0] != 0:
        return 0
    first = storage.first_seed[wave.number]
    seeds = wp.max(wave.threads / problems, wp.max(first, 1))
    return wp.min(wp.min(seeds, wave.attempts / problems), task.settings[SEEDS] - first)


@wp.func
@typing.no_type_check
def rows_of(task: TaskRef, wave: WaveRef, storage: StorageRef):
    """Return the number of attempts of a launch."""
    attempts = problems_of(task, wave, storage) * seeds_of(task, wave, storage)
    return wp.clamp(attempts - wave.first_attempt, 0, wave.rows)


@wp.func
@typing.no_type_check
def attempt_of(task: TaskRef, wave: WaveRef, storage: StorageRef, row: int):
    """Return problem and seed of the attempt whose answer belongs into a row."""
    problems = problems_of(task, wave, storage)
    attempt = wp.uint32(wave.first_attempt + row)
    seed = attempt / wp.uint32(problems)
    place = int(attempt - seed * wp.uint32(problems))
    if wave.number > 0:
        place = storage.listed[place]
    return task.problem[place], storage.first_seed[wave.number] + int(seed)


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


@wp.kernel(module=WAVES, enable_backward=False)
@typing.no_type_check
def keep_best(task: IslandTask, wave: Wave, storage: AttemptStorage):
    """Keep the best answers of the attempts of a launch, problem by problem; prepare for what follows."""
    place = wp.tid()
    if place == 0:
        storage.next_row[0] = 0
        storage.listed_count[wave.number + 1] = 0
        storage.first_seed[wave.number + 1] = storage.first_seed[wave.number] + seeds_of(task, wave, storage)
    problems = problems_of(task, wave, storage)
    rows = rows_of(task, wave, storage)
    row = int(rows)
    if place < problems:
        row = (place - wave.first_attempt) % problems
        if row < 0:
            row += problems
    best = int(-1)  # row of the best answer
    best_line = int(0)
    while row < rows:
        p, s = attempt_of(task, wave, storage, row)
        if not may_win(task, p, s):
            row = rows
        else:
            line = attempt_line(task, p, s)
            rank = storage.rank[row]
            count_attempt(task, p, task.island, s, rank, storage.search_cost[row])
            if task.settings[KEEP_ALL] == 1:
                copy_answer(task, storage, row, line, s)
            elif rank < task.best.rank[line, task.island]:
                best = row
                best_line = line
            if task.settings[KEEP_ALL] == 1 or rank < task.best.rank[line, task.island]:
                task.best.rank[line, task.island] = rank
            end_round(task, p, task.island, s + 1, storage.met[row] != NO_TARGET)
            row += problems
    if best >= 0:
        _p, best_seed = attempt_of(task, wave, storage, best)
        copy_answer(task, storage, best, best_line, best_seed)


@wp.kernel(module=WAVES, enable_backward=False)
@typing.no_type_check
def list_unsolved(task: IslandTask, wave: Wave, storage: AttemptStorage):
    """List the problems whose search has not ended before the seeds of a wave."""
    place = wp.tid()
    if place < task.count[0]:
        if may_win(task, task.problem[place], storage.first_seed[wave.number]):
            storage.listed[wp.atomic_add(storage.listed_count, wave.number, 1)] = place


def threads_at_once(device: wp.Device) -> int:
    """Return how many threads a device runs side by side, about."""
    return int(device.sm_count) * THREADS_PER_SM if device.is_cuda else CPU_THREADS


def allocate_storage(device: wp.Device, coordinates: int, data: int, problems: int, attempts: int) -> Any:
    """Return storage for the attempts of islands that are solved one after the other.

    Args:
        device: Where it is needed.
        coordinates: Of the island that has most.
        data: Numbers that the iteration only reads, of the island that has most.
        problems: Of the largest solve.
        attempts: Of the largest solve.
    """
    rows = min(ROWS_MAX, attempts)
    blocks = -(-min(threads_at_once(device), rows) // BLOCK)

    return zeroed(
        AttemptStorage,
        device,
        rows,
        joint_q=(coordinates, rows),
        data=(blocks, data, BLOCK),
        next_row=1,
        listed=problems,
        listed_count=WAVES_MAX + 1,
        first_seed=WAVES_MAX + 1,
    )


def plan_waves(problem_count: int, seeds: int, threads: int) -> Iterator[int]:
    """Yield how many seeds each wave has, if no problem is ever solved: the least that leads through all seeds.

    Args:
        problem_count: Problems of the solve.
        seeds: Seeds per problem.
        threads: Threads that the device runs side by side.
    """
    first, count = 0, max(1, threads // problem_count)
    while first < seeds:
        count = min(count, seeds - first)
        yield count
        first += count
        count = first


def record_waves(kernel: wp.Kernel, task: Any, problem_count: int, seeds: int, storage: Any) -> list[wp.Launch]:
    """Return the launches that solve an island of all its problems into the task's best attempts, to be run in order.

    They hold the arrays of task and storage by address only. The numbers of problems and seeds that stand on the
    device when they run may be smaller.

    Args:
        kernel: Of `thread_kernel`, for the island.
        task: What to work on; where not every attempt is kept, the ranks of its best attempts are UNRANKED, and its
            searches before their first seeds.
        problem_count: Problems of the task.
        seeds: Seeds per problem.
        storage: Of `allocate_storage`.
    """
    by_row = (task.limit_lower, task.limit_upper, task.start_joint_q, task.ranges.lower, task.ranges.upper)
    assert all(array.is_contiguous for array in by_row)  # threads read each row from one address
    device, rows = task.settings.device, storage.cost.shape[0]
    threads = storage.data.shape[0] * BLOCK
    launches: list[wp.Launch] = []

    def record(kernel: wp.Kernel, dim: int, *further: Any, block: int = 256) -> None:
        inputs = [task, wave, storage, *further]
        launches.append(wp.launch(kernel, dim, inputs, device=device, block_dim=block, record_cmd=True))

    for number, count in enumerate(plan_waves(problem_count, seeds, threads)):
        attempts = max(problem_count * count, min(threads, problem_count * seeds))
        for first_attempt in range(0, attempts, rows):
            wave: Any = Wave()
            wave.number, wave.attempts, wave.first_attempt, wave.threads = number, attempts, first_attempt, threads
            wave.rows = min(rows, attempts - first_attempt)
            if number > 0 and first_attempt == 0:
                record(list_unsolved, problem_count)
            busy = min(threads, wave.rows)
            record(kernel, busy, block=BLOCK)
            record(keep_best, problem_count)
    return launches
