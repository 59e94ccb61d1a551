"""Faults that are put into the PTX on purpose: each has to be found."""

import signal
import typing

import numpy as np
import pytest
import warp as wp

from ik_service.solver.compiled import waves
from tests.pretended_cuda.device import BACKWARDS, FORWARDS, RANDOM
from tests.pretended_cuda.device_checks import assert_ends, sync_warp
from tests.ptx.plugin import changed
from tests.ptx.problems import draw, solve, solver_of

GPU, COUNT = "cuda:0", 64
MODULE = wp.get_module("kernels_with_faults")
ATOMIC = r"atom\.global\.(?P<change>{0})\.(?P<type>{1})\s+(?P<before>%\w+), (?P<at>\[[^\]]+\]), (?P<value>[^;]+);"


def plain(match):
    """Plain instructions in the place of an atomic one: between them others may run."""
    return """
	{{
	.reg .{type} %own;
	ld.global.{type} {before}, {at};
	{change}.{type} %own, {before}, {value};
	st.global.{type} {at}, %own;
	}}
	""".format(**match.groupdict())


@wp.kernel(module=MODULE, enable_backward=False)
@typing.no_type_check
def reverse(between: wp.array[wp.int32], out: wp.array[wp.int32]):
    i = wp.tid()
    between[i] = i + 1
    sync_warp()
    out[i] = between[31 - i]


@wp.kernel(module=MODULE, enable_backward=False)
@typing.no_type_check
def least_and_sum(rank: wp.array[wp.int64], best: wp.array[wp.int64], total: wp.array[wp.int32]):
    i = wp.tid()
    wp.atomic_min(best, 0, rank[i])
    wp.atomic_add(total, 0, 1)


def reversed_in(device, order):
    with device.scheduled(order=order):
        between, out = (wp.zeros(32, dtype=wp.int32, device=GPU) for _ in range(2))
        wp.launch(reverse, 32, inputs=[between, out], device=GPU, block_dim=32)
        return out.numpy().tolist()


def least_and_sums(device, count=COUNT):
    rank, found = wp.array(np.arange(COUNT, 0, -1), dtype=wp.int64, device=GPU), []
    for order, seed in ((FORWARDS, 0), *((RANDOM, seed) for seed in range(10))):
        with device.scheduled(order=order, seed=seed, pause_each=2):
            best, total = wp.full(1, 10**6, dtype=wp.int64, device=GPU), wp.zeros(1, dtype=wp.int32, device=GPU)
            wp.launch(least_and_sum, count, inputs=[rank, best, total], device=GPU, block_dim=COUNT)
            found.append((int(best.numpy()[0]), int(total.numpy()[0])))
    return found


@pytest.fixture
def compiled_again(tmp_path, monkeypatch):
    """Has a module compiled once more, in a cache of its own, from where nothing reaches other checks."""
    modules = []

    def compile_again(module):
        monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
        modules.append(module)
        module.unload()

    yield compile_again
    for module in modules:
        module.unload()


def test_threads_meet_and_atomics_lose_nothing(device):
    expected = list(range(32, 0, -1))
    assert [reversed_in(device, order) for order in (FORWARDS, BACKWARDS, RANDOM)] == [expected] * 3
    assert set(least_and_sums(device)) == {(1, COUNT)}
    assert set(least_and_sums(device, COUNT - 4)) == {(5, COUNT - 4)}


def test_a_barrier_that_is_left_out_is_found(device, compiled_again):
    compiled_again(MODULE)
    with changed(r"\tbar\.warp\.sync[^;]*;", ""):
        found = [reversed_in(device, order) for order in (FORWARDS, BACKWARDS)]
    assert list(range(32, 0, -1)) not in found
    assert found[0] != found[1]


@pytest.mark.parametrize(("opcode", "place"), [("min.s64", 0), ("add.u32", 1)])
def test_an_atomic_instruction_that_becomes_plain_is_found(opcode, place, device, compiled_again):
    compiled_again(MODULE)
    with changed(ATOMIC.format(*opcode.split(".")), plain):
        in_order, *at_random = least_and_sums(device)
    assert in_order == (1, COUNT)  # each thread alone, nothing is lost
    assert any(one[place] != in_order[place] for one in at_random)


def test_a_thread_too_many_is_found(device, compiled_again):
    """The last block of a launch has threads beyond its size, which have to end by themselves."""
    compiled_again(MODULE)
    with changed(r"setp\.ge\.u64", "setp.gt.u64"):
        assert set(least_and_sums(device, COUNT - 4)) == {(4, COUNT - 3)}


def test_an_address_that_no_value_of_its_size_can_have_is_found(device, compiled_again):
    compiled_again(MODULE)

    def launch():
        with changed(r"(st\.global\.u32\s+\[%rd\d+)\]", r"\1+2]"):
            reversed_in(device, FORWARDS)

    assert_ends(launch, "kernel reverse", "misaligned", by=signal.SIGABRT)


def unreachable(device, schedules):
    problems = draw("panda", 16)
    problems.positions[:] += 3.0
    answers = []
    for schedule in schedules:
        with device.scheduled(**schedule):
            answers.append(solve(solver_of(problems, GPU), problems).joint_q.tobytes())
    return answers


def test_problems_that_get_lost_between_waves_are_found(device, compiled_again, monkeypatch):
    """The list of unsolved problems is counted by atomic additions: of two at once, one would be lost."""
    monkeypatch.setattr(waves, "THREADS_PER_SM", 32)  # so that there are several waves
    schedules = [{"order": FORWARDS}, {"order": RANDOM, "pause_each": 2}]
    expected = unreachable(device, schedules)
    assert expected[0] == expected[1]
    compiled_again(waves.WAVES)
    with changed(ATOMIC.format("add", "u32"), plain):
        found = unreachable(device, schedules)
    assert found[0] == expected[0]
    assert found[1] != expected[1]


def test_a_wrong_comparison_is_found(device, compiled_again):
    """The kernel that keeps the best attempt, with its comparisons of ranks turned round."""
    problems = draw("panda", 16)
    assert solve(solver_of(problems, GPU), problems).success.any()
    compiled_again(waves.WAVES)
    with changed(r"setp\.lt\.s64", "setp.gt.s64"):
        assert not solve(solver_of(problems, GPU), problems).success.any()
