"""Answers in contact are moved out of it: by joints to spare, or by as much as tolerances of the targets allow."""

from dataclasses import replace

import numpy as np
import pytest

import ik_service
from ik_service import SolverOptions, Target, load_robot
from ik_service.collision.shapes import HalfSpace, Sphere
from ik_service.collision.world import World
from ik_service.solver.deadline import TIME_LEFT_MIN_S
from ik_service.solver.lm.status import IKStatus
from ik_service.solver.second_tries import second_tries
from ik_service.solver.second_tries.collision_repair import STEPS_MAX
from ik_service.solver.second_tries.near_spheres import NearSpheres
from objectives import IKObjectiveLoop, IKObjectivePosture, InputError
from tests.objectives.objectives_of_tests import Height
from tests.solver.conftest import cpu_solver
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
    centers = position + np.stack([ik_service.mechanism.transforms.quaternion_rotate(q, place) for q in orientation])
    worlds = [World({"ball": Sphere(BALL, tuple(center))}) for center in centers]
    return targets, worlds


def around(worlds):
    return {"world": worlds, "world_index": np.arange(len(worlds))}


@pytest.mark.parametrize("engine", ["compiled", "staged"])
def test_tolerances_are_used_where_the_target_itself_is_in_contact(panda, engine):
    solver = cpu_solver(panda, [HAND], engine=engine)
    targets, worlds = touched(panda, 30 if engine == "compiled" else 4, 4e-4)
    options = {"seeds": 8}
    before = solver.solve(*targets, **around(worlds), options=options)
    assert (before.status == IKStatus.BLOCKED_BY_COLLISION).mean() >= 0.8
    result = solver.solve(*targets, **around(worlds), options=options | REPAIR)
    assert result.success.mean() >= 0.97
    reached = panda.forward_kinematics(result.joint_q.astype(float), [HAND])
    off = np.linalg.norm(reached.positions[:, 0] - targets[0], axis=1)
    assert off[result.success].max() <= 1e-3
    assert off[~before.success].min() >= 1e-5
    for q, world, success in zip(result.joint_q.astype(float), worlds, result.success, strict=True):
        assert panda.collision(q, world).is_free.all() or not success


def test_what_is_too_deep_for_the_tolerances_stays_as_it_was(panda, solver):
    targets, worlds = touched(panda, 4, 0.02)
    before = solver.solve(*targets, **around(worlds))
    result = solver.solve(*targets, **around(worlds), options=REPAIR)
    assert (result.status == IKStatus.BLOCKED_BY_COLLISION).mean() >= 0.8
    assert result.joint_q.tobytes() == before.joint_q.tobytes()
    assert result.status_names == before.status_names


def test_joints_to_spare_give_way_first(panda, solver):
    targets = free_targets(panda, 400, WORLD)
    before = solver.solve(*targets, world=WORLD, options=ONE_START)
    result = solver.solve(*targets, world=WORLD, options=ONE_START | REPAIR)
    blocked = before.status == IKStatus.BLOCKED_BY_COLLISION
    assert blocked.sum() >= 20
    assert result.success[blocked].mean() >= 0.3
    assert np.median(result.position_error[blocked & result.success]) <= 1e-5
    judged(panda, result, WORLD)
    same = ~blocked | ~result.success
    assert result.joint_q[same].tobytes() == before.joint_q[same].tobytes()


def test_margins_are_kept(panda, solver):
    targets = free_targets(panda, 400, WORLD)
    options = ONE_START | {"margin": 0.02}
    before = solver.solve(*targets, world=WORLD, options=options)
    result = solver.solve(*targets, world=WORLD, options=options | REPAIR)
    assert result.success.sum() >= before.success.sum() + 20
    assert judged(panda, result, WORLD).clearance[result.success].min() >= 0.02


@pytest.mark.evidence
def test_limits_of_the_call_are_kept(panda, solver):
    joint_q = panda.random_free_joint_q(np.random.default_rng(3), 400, WORLD)
    poses = panda.forward_kinematics(joint_q, [HAND])
    start = panda.clamp_joint_q(joint_q + np.random.default_rng(4).normal(scale=0.4, size=joint_q.shape))
    start[:, 0] = joint_q[:, 0]
    given = {"initial_joint_q": start, "world": WORLD, "frozen": ["panda_joint1"], "max_change": 1.0}
    before = solver.solve(poses.positions[:, 0], **given, options=ONE_START)
    result = solver.solve(poses.positions[:, 0], **given, options=ONE_START | REPAIR)
    assert result.success.sum() >= before.success.sum() + 5
    assert (result.joint_q[:, 0] == start[:, 0].astype(np.float32)).all()
    assert np.abs(result.joint_q - start).max() <= 1.0 + 1e-6
    judged(panda, result, WORLD)


@pytest.mark.evidence_cases("float64")
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_joints_at_limits_of_the_call_leave_the_way_to_others(panda, solver, precision):
    """Of 39 answers in contact 34 are moved out of it; where steps lead beyond limits, 26."""
    rng = np.random.default_rng(4)
    joint_q = panda.random_free_joint_q(np.random.default_rng(3), 400, WORLD)
    positions = panda.forward_kinematics(joint_q, [HAND]).positions[:, 0]
    start = panda.clamp_joint_q(joint_q + rng.normal(scale=0.4, size=joint_q.shape))
    narrow = {f"panda_joint{k}": (-1.1, 1.1) for k in (1, 2, 3, 5, 7)}  # float32 of 1.1 is more
    given, options = {"world": WORLD, "joint_limits": narrow}, ONE_START | {"precision": precision}
    before = solver.solve(positions, initial_joint_q=start, **given, options=options)
    result = solver.solve(positions, initial_joint_q=start, **given, options=options | REPAIR)
    repaired = result.success & ~before.success
    assert repaired.sum() >= 31
    at_limits = 1.1 - np.abs(result.joint_q[repaired][:, [0, 1, 2, 4, 6]].astype(float))
    assert at_limits.min() >= 0.0
    judged(panda, result, WORLD)


def test_without_limits_answers_are_moved_beyond_them(panda):
    solver = cpu_solver(panda, [HAND], options=SolverOptions(joint_limits="off"))
    targets = free_targets(panda, 400, WORLD)
    before = solver.solve(*targets, world=WORLD, options=ONE_START)
    result = solver.solve(*targets, world=WORLD, options=ONE_START | REPAIR)
    repaired = result.success & ~before.success
    assert repaired.sum() >= 22
    joint_q = result.joint_q[repaired].astype(float)
    assert not (panda.clamp_joint_q(joint_q) == joint_q).all()
    judged(panda, result, WORLD)


@pytest.mark.evidence
@pytest.mark.parametrize("weight", [0.01, 10.0])
def test_a_posture_beside_targets_takes_no_part(panda, weight):
    solver = cpu_solver(panda, [HAND], objectives=[IKObjectivePosture(panda.mid_joint_q, weight=weight)])
    targets = free_targets(panda, 400, WORLD)
    before = solver.solve(*targets, world=WORLD, options=ONE_START)
    result = solver.solve(*targets, world=WORLD, options=ONE_START | REPAIR)
    repaired = result.success & ~before.success
    assert repaired.sum() >= 5
    assert np.median(result.position_error[repaired]) <= 1e-5


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
@pytest.mark.parametrize("engine", ["compiled", "staged"])
def test_arms_that_touch_each_other_part(engine):
    robot = load_robot("dual_panda")
    links = ("left_panda_hand", "right_panda_hand")
    solver = cpu_solver(robot, list(links), engine=engine)
    targets = free_targets(robot, 60 if engine == "compiled" else 30, links=links)
    before = solver.solve(*targets, options=ONE_START)
    blocked = before.status == IKStatus.BLOCKED_BY_COLLISION
    result = solver.solve(*targets, options=ONE_START | REPAIR)
    assert result.success[blocked].sum() >= 1
    judged(robot, result)


@pytest.mark.evidence
def test_a_tool_a_reference_and_a_posture_stay_what_they_are(panda):
    target = Target(HAND, offset=[0, 0, 0.1, 0, 0, 0, 1.0], reference_link="panda_link1", free=["rz"])
    posture = IKObjectivePosture(panda.mid_joint_q, weight=0.01)
    solver = cpu_solver(panda, [target], objectives=[posture])
    joint_q = panda.random_free_joint_q(np.random.default_rng(5), 150, WORLD)
    targets = targets_of(panda, joint_q)
    result = solver.solve(*targets, world=WORLD, options=ONE_START | REPAIR)
    before = solver.solve(*targets, world=WORLD, options=ONE_START)
    assert result.success.sum() > before.success.sum()
    reached = targets_of(panda, result.joint_q[result.success].astype(float))
    assert np.linalg.norm(reached[0] - targets[0][result.success], axis=1).max() <= 1e-3
    judged(panda, result, WORLD)


def targets_of(robot, joint_q):
    """Poses of a tool of 0.1 m on the hand, as seen from a link."""
    poses = robot.forward_kinematics(joint_q, [HAND, "panda_link1"])
    rotate, multiply = (
        ik_service.mechanism.transforms.quaternion_rotate,
        ik_service.mechanism.transforms.quaternion_multiply,
    )
    hand, seen = poses.orientations_xyzw[:, 0], poses.orientations_xyzw[:, 1] * [-1, -1, -1, 1]
    tip = poses.positions[:, 0] + rotate(hand, np.tile([0, 0, 0.1], (len(hand), 1)))
    return rotate(seen, tip - poses.positions[:, 1]), multiply(seen, hand)


@pytest.mark.evidence
def test_tolerances_of_each_problem_are_its_own(panda):
    """Inside its tolerance a target has no slope; the device has the tolerances of the last solve."""
    joint_q = panda.random_free_joint_q(np.random.default_rng(6), 120, WORLD)
    poses = panda.forward_kinematics(joint_q, [HAND])
    wide = np.where(np.arange(120)[:, None] % 2, [0.05, 0.05, 0.05, 0.3, 0.3, 0.3], 0.0)
    solver = cpu_solver(panda, [Target(HAND, tolerance=wide)])
    given = poses.positions[:, 0], poses.orientations_xyzw[:, 0]
    before = solver.solve(*given, world=WORLD, options=ONE_START)
    result = solver.solve(*given, world=WORLD, options=ONE_START | REPAIR)
    assert result.success.sum() >= before.success.sum() + 3
    judged(panda, result, WORLD)
    off = np.linalg.norm(
        panda.forward_kinematics(result.joint_q.astype(float), [HAND]).positions[:, 0] - given[0], axis=1
    )
    assert off[result.success & (wide[:, 0] == 0.0)].max() <= 1e-3
    blocked = np.flatnonzero(before.status == IKStatus.BLOCKED_BY_COLLISION)
    assert len(blocked) >= 5
    for k in blocked:
        solver.set_target_data(0, tolerance=wide[k : k + 1])
        alone = solver.solve(*(one[k : k + 1] for one in given), world=WORLD, options=ONE_START | REPAIR)
        assert alone.joint_q.tobytes() == result.joint_q[k : k + 1].tobytes()


@pytest.mark.parametrize("weight", [1e-4, 1e4])
def test_weights_of_all_rows_change_nothing(panda, solver, weight):
    targets = free_targets(panda, 200, WORLD)
    heavy = cpu_solver(panda, [Target(HAND, row_weights=[weight] * 6)])
    counts = [own.solve(*targets, world=WORLD, options=ONE_START | REPAIR).success.sum() for own in (solver, heavy)]
    assert abs(int(counts[1]) - int(counts[0])) <= 3


def test_joints_that_no_row_moves_stay():
    robot = load_robot("dual_panda")
    solver = cpu_solver(robot, ["left_panda_hand"])
    joint_q = robot.random_free_joint_q(np.random.default_rng(7), 200)
    poses = robot.forward_kinematics(joint_q, ["left_panda_hand"])
    given = poses.positions[:, 0], poses.orientations_xyzw[:, 0]
    start = np.where([name.startswith("right") for name in robot.coordinate_names], joint_q, robot.mid_joint_q)
    before = solver.solve(*given, initial_joint_q=start, options=ONE_START)
    result = solver.solve(*given, initial_joint_q=start, options=ONE_START | REPAIR)
    repaired = result.success & ~before.success
    assert repaired.sum() >= 3
    others = [name.startswith("right") for name in robot.coordinate_names]
    np.testing.assert_array_equal(result.joint_q[:, others], start.astype(np.float32)[:, others])
    judged(robot, result)


def test_answers_keep_limits_exactly_and_are_the_nearest_turn():
    robot = load_robot("ur5e")
    solver, rng = cpu_solver(robot, ["tool0"]), np.random.default_rng(8)
    joint_q = robot.random_free_joint_q(rng, 300)
    poses = robot.forward_kinematics(joint_q, ["tool0"])
    given, start = (poses.positions[:, 0], poses.orientations_xyzw[:, 0]), robot.random_joint_q(rng, 300)
    world = World({"ball": Sphere(0.25, (0.4, 0.2, 0.4))})
    options = ONE_START | REPAIR
    before = solver.solve(*given, initial_joint_q=start, world=world, options=ONE_START)
    result = solver.solve(*given, initial_joint_q=start, world=world, options=options)
    repaired = result.success & ~before.success
    assert repaired.sum() >= 3
    q = result.joint_q[result.success].astype(float)
    assert (q >= robot.joint_limit_lower).all()
    assert (q <= robot.joint_limit_upper).all()
    gaps = q - start[result.success]
    nearer = q - 2.0 * np.pi * np.sign(gaps)
    inside = (nearer >= robot.joint_limit_lower) & (nearer <= robot.joint_limit_upper)
    assert not (inside & (np.abs(gaps) > np.pi + 1e-5)).any()


@pytest.mark.evidence
def test_without_targets_answers_stay(panda):
    """Beside targets rows decide nothing; alone, an answer must be at their minimum."""
    joint_q = panda.random_joint_q(np.random.default_rng(7), 60)
    posture = IKObjectivePosture(joint_q)
    posture.priority = 0
    solver = cpu_solver(panda, objectives=[posture])
    given = {"problem_count": 60, "initial_joint_q": joint_q, "world": WORLD}
    before = solver.solve(**given, options=ONE_START)
    result = solver.solve(**given, options=ONE_START | REPAIR)
    assert (before.status == IKStatus.BLOCKED_BY_COLLISION).sum() >= 10
    assert result.status_names == before.status_names
    assert result.joint_q.tobytes() == before.joint_q.tobytes()


def test_a_deadline_ends_the_search_after_a_step(panda, solver, monkeypatch):
    """What is left is asked for once before the first step, and then after each."""
    targets = free_targets(panda, 400, WORLD)
    options = ONE_START | {"deadline_s": 1000.0}
    steps, step = [], NearSpheres.of

    def counted(*arguments):
        steps.append(1)
        return step(*arguments)

    def with_time_left(options, began):
        return replace(options, deadline_s=TIME_LEFT_MIN_S if steps else 1000.0)

    monkeypatch.setattr(NearSpheres, "of", counted)
    whole = solver.solve(*targets, world=WORLD, options=options | REPAIR)
    assert len(steps) == STEPS_MAX
    before = solver.solve(*targets, world=WORLD, options=options)
    steps.clear()
    monkeypatch.setattr(second_tries, "with_time_left", with_time_left)
    result = solver.solve(*targets, world=WORLD, options=options | REPAIR)
    assert len(steps) == 1
    assert before.success.sum() == result.success.sum() < whole.success.sum()


@pytest.mark.evidence
@pytest.mark.parametrize("engine", ["compiled", "staged"])
def test_beside_a_loop_of_its_own_answers_stay(panda, engine):
    q = panda.random_free_joint_q(np.random.default_rng(0), 1)
    poses = panda.forward_kinematics(q, [HAND, "panda_link4"])
    hinge = np.concatenate([poses.positions[0, 0], poses.orientations_xyzw[0, 0]])
    loop = IKObjectiveLoop(HAND, None, "revolute", reference_offset=hinge, limits=(-1.0, 1.0))
    loop.is_constraint = True
    solver = cpu_solver(panda, ["panda_link4"], objectives=[loop], engine=engine)
    given = {"initial_joint_q": q[0], "world": World({"wall": HalfSpace((1.0, 0.0, 0.0), 5.0)})}
    before = solver.solve(poses.positions[:, 1], **given, options=ONE_START)
    result = solver.solve(poses.positions[:, 1], **given, options=ONE_START | REPAIR)
    assert before.status_names == result.status_names == ["blocked_by_collision"]
    assert result.joint_q.tobytes() == before.joint_q.tobytes()


def test_objectives_with_kernels_leave_it_out(panda):
    solver = cpu_solver(panda, [HAND], objectives=[Height(3, np.full(300, 0.5))])
    targets = free_targets(panda, 300, WORLD)
    before = solver.solve(*targets, world=WORLD, options=ONE_START)
    result = solver.solve(*targets, world=WORLD, options=ONE_START | REPAIR)
    assert (before.status == IKStatus.BLOCKED_BY_COLLISION).any()
    assert result.joint_q.tobytes() == before.joint_q.tobytes()


def test_what_does_not_go_with_it_is_refused(panda, solver):
    targets = free_targets(panda, 2, WORLD)
    with pytest.raises(InputError, match="Option repair is for one solution of each problem"):
        solver.solve(*targets, world=WORLD, options=REPAIR | {"solutions": 2})
    with pytest.raises(InputError, match="Option repair is 'yes'"):
        solver.solve(*targets, world=WORLD, options={"repair": "yes"})
