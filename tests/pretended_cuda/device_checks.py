"""The pretended device itself: it behaves as a card where that is told, and it finds faults that are put in on purpose.

A fault that ends the context of a card ends the process here, so each of those runs in a child of this one.
"""

import faulthandler
import os
import signal
import tempfile
import traceback
import typing

import numpy as np
import pytest
import warp as wp
from ik_service.solver.launches import recording

import ik_service
from ik_service.kernels import host_device_array, typed_warp
from ik_service.solver.compiled import waves
from ik_service.solver.compiled.island_task import IslandTask
from tests.pretended_cuda.device import BACKWARDS, FORWARDS, RANDOM
from tests.solver.conftest import Reachable

GPU = "cuda:0"
COUNT = 64


@typed_warp.func_native("__syncwarp();")
def sync_warp() -> None:
    """Let the threads of a warp meet."""


@wp.func
@typing.no_type_check
def no_barrier():
    pass


def reverse_kernel(meet):
    """A kernel whose threads read what another of their warp has written, after they have met."""

    @wp.kernel(module="unique", enable_backward=False)
    @typing.no_type_check
    def reverse(between: wp.array[wp.int32], out: wp.array[wp.int32]):
        i = wp.tid()
        between[i] = i + 1
        meet()
        out[i] = between[31 - i]

    return reverse


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def least_by_atomics(rank: wp.array[wp.int32], best: wp.array[wp.int32]):
    wp.atomic_min(best, 0, rank[wp.tid()])


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def least_without_atomics(rank: wp.array[wp.int32], best: wp.array[wp.int32]):
    own = rank[wp.tid()]
    if own < best[0]:
        best[0] = own


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def add_one(values: wp.array[wp.int32]):
    i = wp.tid()
    values[i] = values[i] + 1


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def read_column(rows: wp.int32, columns: wp.int32, out: wp.array[wp.int32]):
    i = wp.tid()
    out[i] = ((rows - 1) * columns + i) % 7


@typed_warp.func_native("values.data[i] = 1;")
def write_at(values: wp.array[wp.int32], i: int) -> None:
    """Write without a look at the shape."""


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def write_by_address(values: wp.array[wp.int32]):
    write_at(values, wp.tid())


def zeros(count=COUNT):
    return wp.zeros(count, dtype=wp.int32, device=GPU)


def told_by_a_child(run):
    """How a child of this process ended that ran a function, and what it said."""
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            os.dup2(said.fileno(), 2)
            faulthandler.enable(said)
            try:
                run()
            except BaseException:  # noqa: BLE001  # the parent says what it was
                traceback.print_exc()
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        said.seek(0)
        return status, said.read().decode()


def assert_ends(run, *why, by=signal.SIGSEGV):
    status, said = told_by_a_child(run)
    assert os.WIFSIGNALED(status), said
    assert os.WTERMSIG(status) == by, said
    for text in ("pretended device", *why):
        assert text in said


# ---- as a card


@pytest.mark.usefixtures("schedule")
def test_threads_meet_and_atomics_lose_nothing():
    between, out, best = zeros(32), zeros(32), wp.full(1, 10**6, dtype=wp.int32, device=GPU)
    wp.launch(reverse_kernel(sync_warp), 32, inputs=[between, out], device=GPU, block_dim=32)
    assert out.numpy().tolist() == list(range(32, 0, -1))
    wp.launch(
        least_by_atomics, COUNT, inputs=[wp.array(range(5, 5 + COUNT), dtype=wp.int32, device=GPU), best], device=GPU
    )
    assert best.numpy().tolist() == [5]


def test_a_late_stream_works_when_somebody_waits_and_an_eager_one_at_once(device):
    pinned = wp.zeros(COUNT, dtype=wp.int32, device="cpu", pinned=True)
    for late, expected in ((0, 1), (1, 0)):
        with device.scheduled(late=late):
            values = zeros()
            pinned.numpy()[:] = 0
            wp.launch(add_one, COUNT, inputs=[values], device=GPU)
            wp.copy(pinned, values)
            assert pinned.numpy()[0] == expected
            wp.synchronize()
            assert pinned.numpy().tolist() == [1] * COUNT


def test_a_graph_repeats_what_was_recorded_and_waiting_in_it_is_refused():
    values = zeros()
    wp.load_module(add_one.module, device=GPU)
    wp.launch(add_one, COUNT, inputs=[values], device=GPU)
    with wp.ScopedCapture(device=GPU) as capture:
        wp.launch(add_one, COUNT, inputs=[values], device=GPU)
    assert values.numpy()[0] == 1
    for _ in range(3):
        wp.capture_launch(capture.graph)
    assert values.numpy()[0] == 4
    with pytest.raises(RuntimeError, match="capturing"), wp.ScopedCapture(device=GPU):
        values.numpy()


def test_new_memory_holds_the_pattern(device):
    for pattern in (0x01, 0x7F):
        with device.scheduled(pattern=pattern):
            assert wp.empty(3, dtype=wp.uint8, device=GPU).numpy().tolist() == [pattern] * 3


# ---- faults in kernels and programs


def test_a_missing_barrier_is_found(device):
    """Threads run to their next barrier in order: whoever reads what a later one writes reads what was there before."""
    found = set()
    for order in (FORWARDS, BACKWARDS):
        with device.scheduled(order=order):
            out = zeros(32)
            wp.launch(reverse_kernel(no_barrier), 32, inputs=[zeros(32), out], device=GPU, block_dim=32)
            found.add(out.numpy().tobytes())
    assert np.arange(32, 0, -1, dtype=np.int32).tobytes() not in found
    assert len(found) == 2


def test_a_lost_update_of_the_winner_is_found(device):
    """In order, each thread alone, all is well; where threads are interrupted a worse rank overwrites a better one."""
    rank, found = wp.array(np.arange(COUNT, 0, -1), dtype=wp.int32, device=GPU), []
    for order, seed in ((FORWARDS, 0), *((RANDOM, seed) for seed in range(20))):
        with device.scheduled(order=order, seed=seed, pause_each=2):
            best = wp.full(1, 10**6, dtype=wp.int32, device=GPU)
            wp.launch(least_without_atomics, COUNT, inputs=[rank, best], device=GPU)
            found.append(int(best.numpy()[0]))
    assert found[0] == 1
    assert max(found[1:]) > 1


def test_a_read_by_the_host_is_found():
    values = zeros()
    as_if_on_the_host = wp.array(ptr=values.ptr, shape=COUNT, dtype=wp.int32, device="cpu")
    assert_ends(lambda: as_if_on_the_host.numpy().sum(), "the host reached memory of the device")


def test_a_stale_address_in_a_recorded_graph_is_found():
    values = zeros()
    wp.load_module(add_one.module, device=GPU)
    with wp.ScopedCapture(device=GPU) as capture:
        wp.launch(add_one, COUNT, inputs=[values], device=GPU)
    wp.capture_launch(capture.graph)
    assert values.numpy()[0] == 1
    del values

    def replay():
        wp.capture_launch(capture.graph)
        wp.synchronize()

    assert_ends(replay, "kernel add_one", "memory that is freed")


def test_an_index_beyond_an_array_is_found():
    def launch():
        wp.launch(add_one, COUNT + 1, inputs=[zeros()], device=GPU)
        wp.synchronize()

    assert_ends(launch, "kernel add_one", "shape[0]", by=signal.SIGABRT)


def test_an_address_beyond_an_array_is_found():
    values = zeros(1024)  # whole pages: the next one is closed

    def launch():
        wp.launch(write_by_address, 1025, inputs=[values], device=GPU)
        wp.synchronize()

    assert_ends(launch, "kernel write_by_address", "before or behind an array")


def test_an_index_over_2_to_the_31_is_found():
    out = zeros()

    def launch(rows):
        wp.launch(read_column, COUNT, inputs=[rows, 1 << 16, out], device=GPU)
        return out.numpy()

    assert launch(1 << 15).tolist() == [(((1 << 15) - 1) * (1 << 16) + i) % 7 for i in range(COUNT)]
    assert_ends(lambda: launch((1 << 15) + 1), "kernel read_column", "a whole number beyond its type", by=signal.SIGILL)


# ---- faults in the product


@pytest.fixture(scope="module")
def problems():
    return Reachable.draw(ik_service.load_robot("panda", collision="ignore"), ["panda_hand"], 8, random_seed=5)


def make(problems, **chosen):
    chosen = ik_service.SolverOptions(**{"seeds": 4, **chosen})
    return ik_service.IKSolver(problems.robot, problems.links, device=GPU, engine="compiled", options=chosen)


def solve(solver, problems, count=8):
    return solver.solve(problems.positions[:count], problems.orientations_xyzw[:count])


def test_a_solve_that_does_not_wait_is_found(problems, device, monkeypatch):
    expected = solve(make(problems), problems).joint_q
    assert solve(make(problems), problems).joint_q.tobytes() == expected.tobytes()
    for module in (recording, host_device_array):
        monkeypatch.setattr(module, "wait", lambda device: None)
    with device.scheduled(late=1):
        solver = make(problems)
        assert solve(solver, problems).joint_q.tobytes() != expected.tobytes()
    with device.scheduled(late=0):  # which is why streams are late
        assert solve(make(problems), problems).joint_q.tobytes() == expected.tobytes()


def test_a_graph_whose_arrays_are_not_kept_is_found(problems, monkeypatch):
    """Graphs know arrays by address: one whose storage is replaced by a larger one needs the launches that have it."""
    monkeypatch.setattr(recording, "USES_MIN", 0)
    expected, prepare = solve(make(problems), problems).joint_q.tobytes(), recording.Recording.prepare

    def grow():
        solver = make(problems)
        for seeds in (4, 64, 4):
            result = solver.solve(problems.positions, problems.orientations_xyzw, options={"seeds": seeds})
        assert result.joint_q.tobytes() == expected

    def prepare_and_forget(own, count):
        replay = prepare(own, count)
        own._recorded.clear()
        return replay

    grow()
    monkeypatch.setattr(recording.Recording, "prepare", prepare_and_forget)
    assert_ends(grow, "memory that is freed")


def test_an_array_that_nobody_fills_is_found(problems, device, monkeypatch):
    """The storage of attempts counts from zero: filled with what was there before, attempts get lost."""
    allocate = waves.zeroed

    def unfilled(struct, on, *given, **shapes):
        storage = allocate(struct, on, *given, **shapes)
        storage.next_row = wp.empty(1, dtype=wp.int32, device=on)
        return storage

    found = [solve(make(problems), problems).joint_q.tobytes()]
    monkeypatch.setattr(waves, "zeroed", unfilled)
    with device.scheduled(pattern=0x7F):
        found.append(solve(make(problems), problems).joint_q.tobytes())
    assert found[0] != found[1]


@wp.kernel(module="unique", enable_backward=False, grid_stride=False)
@typing.no_type_check
def keep_best_without_atomics(task: IslandTask, wave: waves.Wave, storage: waves.AttemptStorage):
    place = wp.tid()
    first = waves.first_seed_of(wave, storage)
    seeds = waves.seeds_of(task, wave, storage)
    other = 1 - wave.turn
    if place == 0:
        storage.next_row[0] = 0
        storage.first_seed[other] = first + seeds
    if seeds > 0 and place < waves.problems_of(task, wave, storage):
        if waves.look_at(task, wave, storage, place, first, seeds):
            last = storage.listed_count[other]
            listed = place
            if wave.is_first == 0:
                listed = storage.listed[wave.turn, place]
            storage.listed[other, last] = listed
            storage.listed_count[other] = last + 1


@pytest.mark.evidence
def test_problems_that_are_lost_from_the_list_of_a_wave_are_found(problems, device, monkeypatch):
    monkeypatch.setattr(waves, "THREADS_PER_SM", 32)  # so that there are several waves

    def answers():
        solver = make(problems, seeds=64)
        return solver.solve(problems.positions + 3.0, problems.orientations_xyzw).joint_q.tobytes()  # beyond reach

    with device.scheduled(pause_each=2):
        expected = answers()
        assert answers() == expected
        monkeypatch.setattr(waves, "keep_best", keep_best_without_atomics)
        assert answers() != expected
        with device.scheduled(order=FORWARDS):  # each thread alone, nothing is lost
            assert answers() == expected
