"""The kernels for GPUs, run on a CPU one thread after the other: the answers of the packets, whatever the waves.

Their iteration is the same text at width 1, so nearly all bytes are equal too. Only the order in which a compiler fuses
products and sums may differ; so an attempt may take another turn where a step hardly changes the cost.
"""

import typing
from dataclasses import replace

import numpy as np
import pytest
import warp as wp

from ik_service.solver.compiled import island_launches, waves
from ik_service.solver.compiled.thread_attempt import plain_cosine
from ik_service.solver.lm.termination import squared_cosine
from objectives import InputError
from tests.objectives.conftest import scene
from tests.solver.conftest import Reachable, bare_robot, cpu_solver, use_engine, use_threads

SAME_PLACE = 2e-2  # [m or rad] between attempts that take the same way: robots drift along the DOFs they have to spare
SAME_SEEDS = 0.98  # of the problems
SAME_WAY = 0.95  # of the problems: after the same number of steps too; the last is decided by a few bits
SAME_WAY_OF_MANY_DOFS = 0.7  # sums of more products are rounded more often
FINISHED = 1e-9  # [m], of float64
COLUMNS = ("joint_q", "success", "status", "seed_index", "iterations", "cost", "position_error", "active_limits")
ROBOTS = {
    "panda": lambda: (bare_robot("panda"), ["panda_hand"]),
    "two islands": lambda: (bare_robot("dual_panda"), ["left_panda_hand", "right_panda_hand"]),
    "humanoid, all limbs": lambda: (bare_robot("humanoid"), ["left_sole", "right_sole", "left_grasp", "right_grasp"]),
    "follower": lambda: (bare_robot("panda_gripper"), ["panda_rightfinger"]),
    "floating and ball": lambda: (scene("floating").robot, ["d", "f"]),
    "follower and ball": lambda: (scene("two_trees").robot, ["l_tool", "r_tool"]),
}
COUNT = 150


@pytest.fixture(scope="module", params=ROBOTS)
def problems(request):
    return Reachable.draw(*ROBOTS[request.param](), COUNT, random_seed=3)


@pytest.fixture(scope="module")
def arms():
    return Reachable.draw(*ROBOTS["two islands"](), 60, random_seed=7)


def solve(problems, **options):
    options = {"seeds": 8, **options}
    return cpu_solver(problems.robot, problems.links, engine="compiled").solve(*problems.targets, options=options)


def same_bytes(a, b):
    for name in COLUMNS:
        assert getattr(a, name).tobytes() == getattr(b, name).tobytes(), name


def small(monkeypatch, rows, at_once):
    """Room for few answers, and few threads: many launches and waves."""
    monkeypatch.setattr(waves, "WAVE_ATTEMPTS_MAX", rows)
    monkeypatch.setattr(waves, "CPU_THREADS", at_once)


@pytest.mark.quick_cases("panda")
def test_threads_give_the_answers_of_packets(problems, monkeypatch):
    assert not island_launches.in_threads(wp.get_device("cpu"))
    packets = solve(problems)
    use_threads(monkeypatch)
    result = solve(problems)
    problems.check_honest(result)
    np.testing.assert_array_equal(result.success, packets.success)
    same = (result.islands.seed_index == packets.islands.seed_index).all(axis=1)
    assert same.mean() >= SAME_SEEDS
    same &= (result.islands.iterations == packets.islands.iterations).all(axis=1)
    assert same.mean() >= (SAME_WAY if result.joint_q.shape[1] < 30 else SAME_WAY_OF_MANY_DOFS)
    np.testing.assert_array_equal(result.status[same], packets.status[same])
    own = problems.robot.dof_coordinate[problems.robot.dof_coordinate >= 0]
    same &= packets.success
    np.testing.assert_allclose(result.joint_q[same][:, own], packets.joint_q[same][:, own], atol=SAME_PLACE)
    assert (result.seed_index != 0).any()


@pytest.mark.evidence
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("rows", "at_once"), [(1, 1), (7, 32), (64, 1000), (5000, 96), (100, 320)])
def test_waves_and_room_change_no_byte(monkeypatch, rows, at_once):
    unproven = Reachable.draw(*ROBOTS["follower"](), 60, random_seed=7)  # no class of arms: several rounds are tried
    far = replace(unproven, positions=unproven.positions.copy())
    far.positions[::9] += 5.0  # no seed reaches them
    small(monkeypatch, 1 << 20, 10**6)
    expected = solve(far, seeds=None)  # in one wave
    assert expected.islands.seed_index[~expected.success].max() > 10
    assert expected.islands.seed_index[expected.success].max() > 2
    small(monkeypatch, rows, at_once)
    same_bytes(solve(far, seeds=None), expected)


@pytest.mark.evidence
def test_every_attempt_is_kept_where_all_are_wanted(arms, monkeypatch):
    asked = {"best_of": "nearest", "solutions": 4}
    packets = solve(arms, **asked)
    use_threads(monkeypatch)
    result = solve(arms, **asked)
    np.testing.assert_array_equal(result.solution_count, packets.solution_count)
    assert (result.solution_count > 1).any()
    assert (result.islands.seed_index == packets.islands.seed_index).mean() >= SAME_SEEDS
    for k in range(4):
        found = result.solution_count > k
        assert arms.met(np.where(found[:, None], result.solutions[:, k], arms.joint_q)).all()
    small(monkeypatch, 50, 32)
    again = solve(arms, **asked)
    same_bytes(again, result)
    assert again.solutions.tobytes() == result.solutions.tobytes()


@pytest.mark.evidence
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("problems", ["follower", "floating and ball"], indirect=True)
def test_float64_follows_in_one_attempt_per_problem(problems):
    fine = solve(problems, seeds=16, precision="float64")
    problems.check_honest(fine)
    assert fine.success.mean() >= 0.97
    distance = problems.errors(fine.joint_q)[0][fine.success]
    assert (distance <= FINISHED).mean() >= 0.9  # the rest was near the tolerance when it began


@pytest.mark.evidence
@pytest.mark.usefixtures("threads")
def test_after_a_fault_nothing_is_solved_and_the_next_solve_is_whole(arms):
    solver, wrong = cpu_solver(arms.robot, arms.links), arms.orientations_xyzw.copy()
    expected = solver.solve(*arms.targets)
    wrong[41] *= 2.0
    for _ in range(2):
        with pytest.raises(InputError, match=r"orientations_xyzw.*41"):
            solver.solve(arms.positions, wrong)
    same_bytes(solver.solve(*arms.targets), expected)


@pytest.mark.usefixtures("threads")
def test_what_cannot_be_reached_has_its_status(planar_2r):
    far = cpu_solver(planar_2r(), ["tip"]).solve([[3.0, 4.0, 0.0], [1.0, 1, 0]], options={"seeds": 8})
    assert far.success.tolist() == [False, True]
    assert far.position_error[0, 0] == pytest.approx(3.0, abs=1e-3)
    bent = cpu_solver(planar_2r(0.5, 2.0), ["tip"]).solve([[2.0, 0.0, 0.0]], options={"seeds": 8})
    assert bent.status_names == ["blocked_by_limits"]
    assert bent.active_limits[0].tolist() == [False, True]


@pytest.mark.evidence
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("rows", [1 << 20, 400])
def test_waves_are_made_while_there_is_something_to_do_and_grow(arms, monkeypatch, rows):
    small(monkeypatch, rows, 1)
    turns, loop = [], wp.capture_while

    def counted(condition, body):
        loop(condition, lambda: (turns.append(1), body()))

    monkeypatch.setattr(wp, "capture_while", counted)
    solve(arms, seeds=1)
    assert turns == []
    solve(arms, seeds=64, best_of="cost")
    room = rows // len(arms.positions)  # seeds of a wave at most
    further = 6 if room > 64 else 3 + -(-(64 - 8) // room)  # waves after the first: 1, 2, 4 seeds and so on
    assert len(turns) == 2 * -(-further // 2)  # both islands; each turn of the loop makes two waves


SAME_DRAWS = 0.97  # of the problems: a few bits decide the last step, and so whether a seed succeeds
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
        assert (getattr(threads, name) == getattr(packets, name)).mean() >= SAME_DRAWS, name
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
