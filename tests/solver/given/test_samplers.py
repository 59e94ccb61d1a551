"""How start configurations are drawn: by a sequence, independently, about the caller's, or not at all."""

import numpy as np
import pytest
import warp as wp

from ik_service import SolverOptions, load_robot
from ik_service.mechanism.device_model import on_device
from ik_service.robots import load_urdf
from ik_service.solver.lm import codes
from ik_service.solver.lm.seeds import SeedRanges, seed_ranges, seed_value
from objectives import InputError
from tests.solver.conftest import EACH_ENGINE, assert_same_bytes, cpu_solver

SEEDS, DRAWN = 4000, ("roberts", "uniform", "gauss")
START, MIDDLE, NOISE = 0.25, -0.5, 0.2
FLOATING = """<robot name="rover"><link name="base"/><link name="tip"/><joint name="arm" type="revolute">
  <parent link="base"/><child link="tip"/><origin xyz="0 0 0.3"/><axis xyz="0 1 0"/>
  <limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>"""


@wp.kernel(module="unique")
def _draw(
    settings: wp.array[wp.int32],
    ranges: SeedRanges,
    tree_hash: wp.array2d[wp.uint32],
    out: wp.array3d[wp.float32],  # [problems, seeds, DOFs]
):
    p, s, a = wp.tid()
    out[p, s, a] = seed_value(p, s, a, START, MIDDLE, settings, ranges, tree_hash)


def draws(sampler, *, has_start=True, random_seed=3, seeds=SEEDS):
    """Starts of two problems, [2, seeds, 7], drawn between -1 and 1."""
    model = on_device(load_robot("panda"), "cpu")
    ends = [wp.full((1, 7), value, dtype=wp.float32, device="cpu") for value in (-1.0, 1.0)]
    numbers = np.zeros(codes.SETTINGS_COUNT, np.int32)
    numbers[codes.HAS_START], numbers[codes.RANDOM_SEED] = has_start, random_seed
    numbers[codes.SAMPLER], numbers[codes.NOISE_BITS] = codes.SAMPLERS[sampler], np.float32(NOISE).view(np.int32)
    out = wp.zeros((2, seeds, 7), dtype=wp.float32, device="cpu")
    settings = wp.array(numbers, dtype=wp.int32, device="cpu")
    tree_hash = wp.array([[17], [4_000_000_000]], dtype=wp.uint32, device="cpu")
    ranges = seed_ranges(model, np.ones(7, dtype=bool), ends)
    wp.launch(_draw, out.shape, [settings, ranges, tree_hash], [out], device="cpu")
    return out.numpy().astype(np.float64)


@pytest.mark.parametrize("sampler", ["roberts", "uniform"])
def test_the_callers_start_and_the_middle_come_before_draws_that_fill_the_ranges(sampler):
    drawn, without = draws(sampler), draws(sampler, has_start=False)
    assert (drawn[:, 0] == START).all()
    assert (drawn[:, 1] == MIDDLE).all()
    assert (without[:, 0] == START).all()  # which is the middle then
    assert (without[:, 1] != MIDDLE).all()
    found = drawn[:, 2:]
    assert np.abs(found).max() <= 1.0
    shares = np.stack([np.histogram(found[p, :, a], 8, (-1.0, 1.0))[0] for p in range(2) for a in range(7)])
    deviation = np.sqrt(found.shape[1] * 7.0 / 64.0)
    assert np.abs(shares - found.shape[1] / 8.0).max() < 5.0 * deviation
    assert np.abs(np.corrcoef(found[0].T) - np.eye(7)).max() < 0.1
    assert abs(np.corrcoef(found[0, :, 0], found[1, :, 0])[0, 1]) < (1.0 if sampler == "roberts" else 0.1)


def test_a_sequence_covers_more_evenly_than_independent_draws():
    roberts, uniform = (
        np.histogram(draws(name, seeds=514)[0, 2:, 0], 64, (-1.0, 1.0))[0].std() for name in ("roberts", "uniform")
    )
    assert roberts < 0.5 * uniform


def test_gauss_is_nearly_normal_about_the_start():
    found = (draws("gauss")[:, 1:] - START) / NOISE
    assert np.abs(found.mean(axis=1)).max() < 5.0 / np.sqrt(SEEDS)
    assert np.abs(found.std(axis=1) - 1.0).max() < 0.06
    assert np.abs(np.corrcoef(found[0].T) - np.eye(7)).max() < 0.1
    for limit, share in ((1.0, 0.6827), (2.0, 0.9545)):
        assert np.abs((np.abs(found) < limit).mean() - share) < 0.01
    assert np.abs(found).max() < 4.9


@pytest.mark.parametrize("sampler", DRAWN)
def test_draws_depend_on_the_random_seed_and_the_problem(sampler):
    first, other = draws(sampler, seeds=50), draws(sampler, random_seed=4, seeds=50)
    assert first.tobytes() == draws(sampler, seeds=50).tobytes()
    assert (first[:, 2:] != other[:, 2:]).mean() > 0.99
    assert (first[0, 2:] != first[1, 2:]).mean() > 0.99


def solve(solver, given, part=slice(None), **options):
    start = given.robot.mid_joint_q + np.random.default_rng(2).uniform(-0.3, 0.3, (len(given.positions), 7))
    return solver.solve(*given.part(part).targets, initial_joint_q=start[part], options=options)


@EACH_ENGINE
@pytest.mark.parametrize("sampler", ["uniform", "gauss"])
def test_targets_are_met_with_the_bytes_of_each_alone(panda_targets, engine, sampler):
    solver = cpu_solver(panda_targets.robot, ["panda_hand"], engine=engine)
    found = solve(solver, panda_targets, sampler=sampler, noise_std=0.8)
    assert found.success.mean() > 0.98
    assert (found.seed_index > 0).any()
    assert_same_bytes(found, solve(solver, panda_targets, sampler=sampler, noise_std=0.8))
    for p in (0, 117):
        alone = solve(solver, panda_targets, slice(p, p + 1), sampler=sampler, noise_std=0.8)
        assert alone.joint_q.tobytes() == found.joint_q[p : p + 1].tobytes()
    plain = solve(solver, panda_targets)
    later = (plain.seed_index > 1) & (found.seed_index > 1)
    assert later.any()
    assert (plain.joint_q[later] != found.joint_q[later]).any(axis=1).all()


@EACH_ENGINE
def test_none_tries_the_callers_start_alone(panda_targets, engine):
    solver = cpu_solver(panda_targets.robot, ["panda_hand"], engine=engine)
    found, one = solve(solver, panda_targets, sampler="none"), solve(solver, panda_targets, seeds=1)
    assert found.seeds == 1
    assert found.success.any()
    assert not found.success.all()
    assert_same_bytes(found, one)
    assert SolverOptions(sampler="none", solutions=4, seeds=9).search_seeds == 1


@EACH_ENGINE
def test_gauss_turns_a_floating_base_about_where_it_starts(engine):
    """A point says nothing of rotations, so answers keep those of their starts; one step meets it to no 1e-12 m."""
    robot = load_urdf(FLOATING, floating_base=True)
    start = robot.mid_joint_q.copy()
    start[:7] = [3.0, -2.0, 1.0, 0.5, -0.5, 0.5, 0.5]
    point = robot.forward_kinematics(start[None], ["tip"]).positions[:, 0] + [0.1, -0.1, 0.0]
    solver, others = cpu_solver(robot, ["tip"], engine=engine), 0
    for random_seed in range(8):
        options = {"seeds": 8, "position_tolerance": 1e-12, "max_iterations": 1, "random_seed": random_seed}
        found = solver.solve(point, initial_joint_q=start, options={**options, "sampler": "gauss", "noise_std": 0.05})
        others += int(found.islands.seed_index.max() > 0)
        turned = 2.0 * np.arccos(min(1.0, abs(found.joint_q[0, 3:7] @ start[3:7])))
        assert turned < 0.5
    assert others > 0


def test_what_is_no_sampler_is_refused():
    with pytest.raises(InputError, match=r"sampler is 'sobol'\. Allowed: 'roberts', 'uniform', 'gauss', 'none'"):
        SolverOptions(sampler="sobol")
    for noise in (0.0, -1.0, np.inf, True):
        with pytest.raises(InputError, match="noise_std"):
            SolverOptions(noise_std=noise)
