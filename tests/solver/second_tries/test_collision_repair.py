"""Answers in contact are moved out of it: by joints to spare, or by as much as tolerances of the targets allow."""

from dataclasses import replace

import numpy as np
import pytest

from ik_service import IKStatus, SolverOptions, Target, load_robot
from ik_service.mechanism.transforms import quaternion_rotate
from ik_service.robots import HalfSpace, Sphere, World
from ik_service.solver.deadline import TIME_LEFT_MIN_S
from ik_service.solver.second_tries import second_tries
from ik_service.solver.second_tries.collision_repair import STEPS_MAX, NearSpheres
from objectives import IKObjectiveLoop, InputError
from tests.objectives.objectives_of_tests import Height
from tests.solver.conftest import EACH_ENGINE, cpu_solver, poses_of
from tests.solver.test_collision import HAND, SPHERES, WORLD, free_targets, judged, panda_with_spheres

ONE_START = {"sampler": "none", "seeds": 1}
REPAIR = {"repair": True}
BALL = 0.05


@pytest.fixture(scope="module")
def panda():
    return panda_with_spheres()


@pytest.fixture(scope="module")
def solver(panda):
    return cpu_solver(panda, [HAND])


def touched(robot, count, depth, seed=1):
    """Poses of a hand, and around each a ball beyond its fingers, in contact with them by so much at the pose."""
    targets = free_targets(robot, 3 * count, WORLD, seed=seed)
    position, orientation = (values.astype(float) for values in targets)
    height = SPHERES[HAND][1][2] + SPHERES[HAND][1][3] + BALL - depth  # along the hand's z, over a finger
    place = np.array([0.0, SPHERES[HAND][1][1], height])
    centers = position + np.stack([quaternion_rotate(q, place) for q in orientation])
    worlds = [World({"ball": Sphere(BALL, tuple(center))}) for center in centers]
    return targets, worlds


def around(worlds):
    return {"world": worlds, "world_index": np.arange(len(worlds))}


def tried(solver, targets, options=ONE_START, **given):
    """Results without repair and with it."""
    given = {"world": WORLD, **given}
    return [solver.solve(*targets, **given, options=options | more) for more in ({}, REPAIR)]


def assert_unchanged(before, result):
    assert result.status_names == before.status_names
    assert result.joint_q.tobytes() == before.joint_q.tobytes()


@EACH_ENGINE
def test_tolerances_are_used_where_the_target_itself_is_in_contact(panda, engine):
    targets, worlds = touched(panda, 30 if engine == "compiled" else 4, 4e-4)
    solver = cpu_solver(panda, [HAND], engine=engine)
    before, result = tried(solver, targets, {"seeds": 8}, **around(worlds))
    assert (before.status == IKStatus.BLOCKED_BY_COLLISION).mean() >= 0.8
    assert result.success.mean() >= 0.97
    off = np.linalg.norm(poses_of(panda, result.joint_q.astype(float), HAND)[0] - targets[0], axis=1)
    assert off[result.success].max() <= 1e-3
    assert off[~before.success].min() >= 1e-5
    for q, world, success in zip(result.joint_q.astype(float), worlds, result.success, strict=True):
        assert panda.collision(q, world).is_free.all() or not success


def test_what_is_too_deep_for_the_tolerances_stays_as_it_was(panda, solver):
    targets, worlds = touched(panda, 4, 0.02)
    before, result = tried(solver, targets, {}, **around(worlds))
    assert (result.status == IKStatus.BLOCKED_BY_COLLISION).mean() >= 0.8
    assert_unchanged(before, result)


def test_joints_to_spare_give_way_first(panda, solver):
    before, result = tried(solver, free_targets(panda, 400, WORLD))
    blocked = before.status == IKStatus.BLOCKED_BY_COLLISION
    assert blocked.sum() >= 20
    assert result.success[blocked].mean() >= 0.3
    assert np.median(result.position_error[blocked & result.success]) <= 1e-5
    judged(panda, result, WORLD)
    same = ~blocked | ~result.success
    assert result.joint_q[same].tobytes() == before.joint_q[same].tobytes()


def test_margins_are_kept(panda, solver):
    before, result = tried(solver, free_targets(panda, 400, WORLD), ONE_START | {"margin": 0.02})
    assert result.success.sum() >= before.success.sum() + 20
    assert judged(panda, result, WORLD).clearance[result.success].min() >= 0.02


@pytest.mark.evidence
def test_limits_of_the_call_are_kept(panda, solver):
    joint_q = panda.random_free_joint_q(np.random.default_rng(3), 400, WORLD)
    start = panda.clamp_joint_q(joint_q + np.random.default_rng(4).normal(scale=0.4, size=joint_q.shape))
    start[:, 0] = joint_q[:, 0]
    given = {"initial_joint_q": start, "frozen": ["panda_joint1"], "max_change": 1.0}
    before, result = tried(solver, poses_of(panda, joint_q, HAND)[:1], **given)
    assert result.success.sum() >= before.success.sum() + 5
    assert (result.joint_q[:, 0] == start[:, 0].astype(np.float32)).all()
    assert np.abs(result.joint_q - start).max() <= 1.0 + 1e-6
    judged(panda, result, WORLD)


@pytest.mark.evidence_cases("float64")
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_joints_at_limits_of_the_call_leave_the_way_to_others(panda, solver, precision):
    """Of 39 answers in contact 34 are moved out of it; where steps lead beyond limits, 26."""
    joint_q = panda.random_free_joint_q(np.random.default_rng(3), 400, WORLD)
    start = panda.clamp_joint_q(joint_q + np.random.default_rng(4).normal(scale=0.4, size=joint_q.shape))
    narrow = {f"panda_joint{k}": (-1.1, 1.1) for k in (1, 2, 3, 5, 7)}  # float32 of 1.1 is more
    given, options = {"initial_joint_q": start, "joint_limits": narrow}, ONE_START | {"precision": precision}
    before, result = tried(solver, poses_of(panda, joint_q, HAND)[:1], options, **given)
    repaired = result.success & ~before.success
    assert repaired.sum() >= 31
    at_limits = 1.1 - np.abs(result.joint_q[repaired][:, [0, 1, 2, 4, 6]].astype(float))
    assert at_limits.min() >= 0.0
    judged(panda, result, WORLD)


def test_without_limits_answers_are_moved_beyond_them(panda):
    solver = cpu_solver(panda, [HAND], options=SolverOptions(joint_limits="off"))
    before, result = tried(solver, free_targets(panda, 400, WORLD))
    repaired = result.success & ~before.success
    assert repaired.sum() >= 22
    joint_q = result.joint_q[repaired].astype(float)
    assert not (panda.clamp_joint_q(joint_q) == joint_q).all()
    judged(panda, result, WORLD)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_bytes_are_those_of_each_problem_alone(panda, solver, precision):
    targets = free_targets(panda, 400, WORLD)
    options = ONE_START | REPAIR | {"precision": precision}
    blocked = solver.solve(*targets, world=WORLD, options=ONE_START).status == IKStatus.BLOCKED_BY_COLLISION
    result = solver.solve(*targets, world=WORLD, options=options)
    repaired = np.flatnonzero(blocked & result.success)
    assert len(repaired) >= 10
    for k in repaired[:3]:
        alone = solver.solve(targets[0][k : k + 1], targets[1][k : k + 1], world=WORLD, options=options)
        assert alone.joint_q.tobytes() == result.joint_q[k : k + 1].tobytes()
    threads = cpu_solver(panda, [HAND], threads=2).solve(*targets, world=WORLD, options=options)
    assert threads.joint_q.tobytes() == result.joint_q.tobytes()


@pytest.mark.evidence_cases("staged")
@EACH_ENGINE
def test_arms_that_touch_each_other_part(engine):
    robot, links = load_robot("dual_panda"), ("left_panda_hand", "right_panda_hand")
    targets = free_targets(robot, 60 if engine == "compiled" else 30, links=links)
    before, result = tried(cpu_solver(robot, list(links), engine=engine), targets, world=None)
    assert result.success[before.status == IKStatus.BLOCKED_BY_COLLISION].sum() >= 1
    judged(robot, result)


@pytest.mark.evidence
def test_tolerances_of_each_problem_are_its_own(panda):
    """Inside its tolerance a target has no slope; the device has the tolerances of the last solve."""
    given = poses_of(panda, panda.random_free_joint_q(np.random.default_rng(6), 120, WORLD), HAND)
    wide = np.where(np.arange(120)[:, None] % 2, [0.05, 0.05, 0.05, 0.3, 0.3, 0.3], 0.0)
    solver = cpu_solver(panda, [Target(HAND, tolerance=wide)])
    before, result = tried(solver, given)
    assert result.success.sum() >= before.success.sum() + 3
    judged(panda, result, WORLD)
    off = np.linalg.norm(poses_of(panda, result.joint_q.astype(float), HAND)[0] - given[0], axis=1)
    assert off[result.success & (wide[:, 0] == 0.0)].max() <= 1e-3
    blocked = np.flatnonzero(before.status == IKStatus.BLOCKED_BY_COLLISION)
    assert len(blocked) >= 5
    for k in blocked:
        own = {"world": WORLD, "tolerance": wide[k : k + 1], "options": ONE_START | REPAIR}
        alone = solver.solve(*(one[k : k + 1] for one in given), **own)
        assert alone.joint_q.tobytes() == result.joint_q[k : k + 1].tobytes()


def test_joints_that_no_row_moves_stay():
    robot = load_robot("dual_panda")
    joint_q = robot.random_free_joint_q(np.random.default_rng(7), 200)
    others = np.array([name.startswith("right") for name in robot.coordinate_names])
    start, given = np.where(others, joint_q, robot.mid_joint_q), poses_of(robot, joint_q, "left_panda_hand")
    before, result = tried(cpu_solver(robot, ["left_panda_hand"]), given, initial_joint_q=start, world=None)
    assert (result.success & ~before.success).sum() >= 3
    np.testing.assert_array_equal(result.joint_q[:, others], start.astype(np.float32)[:, others])
    judged(robot, result)


def test_answers_keep_limits_exactly_and_are_the_nearest_turn():
    robot, rng = load_robot("ur5e"), np.random.default_rng(8)
    given, start = poses_of(robot, robot.random_free_joint_q(rng, 300), "tool0"), robot.random_joint_q(rng, 300)
    world = World({"ball": Sphere(0.25, (0.4, 0.2, 0.4))})
    before, result = tried(cpu_solver(robot, ["tool0"]), given, initial_joint_q=start, world=world)
    assert (result.success & ~before.success).sum() >= 3
    q, (lower, upper) = result.joint_q[result.success].astype(float), (robot.joint_limit_lower, robot.joint_limit_upper)
    assert ((q >= lower) & (q <= upper)).all()
    gaps = q - start[result.success]
    nearer = q - 2.0 * np.pi * np.sign(gaps)
    assert not ((nearer >= lower) & (nearer <= upper) & (np.abs(gaps) > np.pi + 1e-5)).any()


def test_a_deadline_ends_the_search_after_a_step(panda, solver, monkeypatch):
    """What is left is asked for once before the first step, and then after each."""
    targets, options = free_targets(panda, 400, WORLD), ONE_START | {"deadline_s": 1000.0}
    steps, step = [], NearSpheres.of
    monkeypatch.setattr(NearSpheres, "of", lambda *arguments: steps.append(1) or step(*arguments))
    before, whole = tried(solver, targets, options)
    assert len(steps) == STEPS_MAX
    steps.clear()

    def with_time_left(options, began):
        return replace(options, deadline_s=TIME_LEFT_MIN_S if steps else 1000.0)

    monkeypatch.setattr(second_tries, "with_time_left", with_time_left)
    result = solver.solve(*targets, world=WORLD, options=options | REPAIR)
    assert len(steps) == 1
    assert before.success.sum() == result.success.sum() < whole.success.sum()


@pytest.mark.evidence
@EACH_ENGINE
def test_beside_a_loop_of_its_own_answers_stay(panda, engine):
    q = panda.random_free_joint_q(np.random.default_rng(0), 1)
    positions, turns = poses_of(panda, q, [HAND, "panda_link4"])
    hinge = np.concatenate([positions[0, 0], turns[0, 0]])
    loop = IKObjectiveLoop(HAND, None, "revolute", reference_offset=hinge, limits=(-1.0, 1.0))
    loop.is_constraint = True
    solver, wall = cpu_solver(panda, ["panda_link4"], objectives=[loop], engine=engine), HalfSpace((1.0, 0.0, 0.0), 5.0)
    before, result = tried(solver, [positions[:, 1]], initial_joint_q=q[0], world=World({"wall": wall}))
    assert before.status_names == ["blocked_by_collision"]
    assert_unchanged(before, result)


class HeightOnDevice(Height):
    """Its targets are on the device of the solver."""

    def init_buffers(self, model, jacobian_mode):
        super().init_buffers(model, jacobian_mode)
        self.targets = self.targets.to(self.device)


def test_objectives_with_kernels_leave_it_out(panda):
    solver = cpu_solver(panda, [HAND], objectives=[HeightOnDevice(3, np.full(300, 0.5))])
    before, result = tried(solver, free_targets(panda, 300, WORLD))
    assert (before.status == IKStatus.BLOCKED_BY_COLLISION).any()
    assert_unchanged(before, result)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (REPAIR | {"solutions": 2}, "Option repair is for one solution of each problem"),
        ({"repair": "yes"}, "Option repair is 'yes'"),
    ],
)
def test_what_does_not_go_with_it_is_refused(panda, solver, options, words):
    with pytest.raises(InputError, match=words):
        solver.solve(*free_targets(panda, 2, WORLD), options=options)
