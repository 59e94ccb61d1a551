"""How a thread of a GPU takes and judges attempts, on a CPU: as packets do, whatever draws seeds and narrows limits."""

import typing

import numpy as np
import pytest
import warp as wp

from ik_service.solver.compiled.thread_attempt import plain_cosine
from ik_service.solver.lm.termination import squared_cosine
from tests.solver.conftest import Reachable, bare_robot, cpu_solver, use_engine

SAME_SEEDS = 0.97  # of the problems: a few bits decide the last step, and so whether a seed succeeds
SEEDS = 8


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def both_cosines(numbers: wp.array2d[wp.float32], cosine_out: wp.array2d[wp.float32]):
    k = wp.tid()
    gradient, diagonal, norm2 = numbers[k, 0], numbers[k, 1], numbers[k, 2]
    cosine_out[k, 0] = plain_cosine(gradient, diagonal, norm2)
    cosine_out[k, 1] = squared_cosine(gradient, diagonal, norm2)


def test_the_short_way_to_a_cosine_is_that_of_all_or_says_so():
    sizes = np.float32([0.0, 1e-38, 1e-20, 1e-12, 1e-4, 0.3, 1.0, 7.0, 1e9, 1e20, 3e38, np.inf, np.nan])
    gradients = np.concatenate([sizes, -sizes])
    numbers = np.stack(np.meshgrid(gradients, sizes, sizes, indexing="ij"), axis=-1).reshape(-1, 3)
    found = wp.zeros((len(numbers), 2), dtype=wp.float32, device="cpu")
    wp.launch(both_cosines, len(numbers), [wp.array(numbers, dtype=wp.float32, device="cpu")], [found], device="cpu")
    short, full = found.numpy().T
    is_plain = short >= 0.0
    assert 100 < is_plain.sum() < len(numbers) - 100
    np.testing.assert_array_equal(short[is_plain], full[is_plain])
    assert np.isfinite(full[is_plain]).all()
    assert (short[~is_plain] == -1.0).all()
    assert not is_plain[~np.isfinite(numbers).all(axis=1)].any()


@pytest.fixture(scope="module")
def arm():
    return Reachable.draw(bare_robot("panda"), ["panda_hand"], 150, random_seed=11)


def solved_by_both(problems, monkeypatch, options, **given):
    """Results of threads and of packets, which are nearly the same."""
    results = []
    for way in ("auto", "threads"):
        use_engine(way, monkeypatch)
        solver = cpu_solver(problems.robot, problems.links)
        results.append(solver.solve(*problems.targets, **given, options={"seeds": SEEDS, **options}))
    packets, threads = results
    for name in ("seed_index", "success", "active_limits"):
        assert (getattr(threads, name) == getattr(packets, name)).mean() >= SAME_SEEDS, name
    return threads


@pytest.mark.parametrize("has_start", [False, True])
@pytest.mark.parametrize("sampler", ["roberts", "uniform", "gauss"])
def test_threads_draw_the_seeds_of_packets(arm, monkeypatch, sampler, has_start):
    start = arm.robot.random_joint_q(np.random.default_rng(5), len(arm.positions)) if has_start else None
    if sampler == "gauss" and not has_start:
        start = np.asarray(arm.robot.mid_joint_q)
    threads = solved_by_both(arm, monkeypatch, {"sampler": sampler}, initial_joint_q=start)
    assert threads.seed_index.max() > 2


def test_threads_keep_the_limits_of_each_problem(arm, monkeypatch):
    low, high = arm.robot.active_limit_lower, arm.robot.active_limit_upper
    share = np.random.default_rng(2).uniform(0.05, 0.3, (len(arm.positions), 1))
    lower = np.minimum(low + share * (high - low), arm.joint_q)  # the configuration that a target was drawn from stays
    upper = np.maximum(high - share * (high - low), arm.joint_q)
    threads = solved_by_both(arm, monkeypatch, {}, joint_limits=(lower, upper))
    assert threads.success.mean() > 0.5
    assert ((threads.joint_q >= lower) & (threads.joint_q <= upper)).all()
    assert threads.active_limits.any()
