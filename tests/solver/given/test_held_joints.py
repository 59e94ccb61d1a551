"""Locked joints are held where the caller's start says, problem by problem; without a start, where they were locked."""

import numpy as np
import pytest

from ik_service import SolverOptions, Target, load_robot
from ik_service.mechanism.transforms import transform_inverse, transform_multiply
from objectives import InputError
from tests.objectives.conftest import scene
from tests.solver.conftest import bare_robot, cpu_solver, inside_limits, use_threads

COUNT = 24
HELD = ["panda_joint2", "panda_joint5"]
COLUMNS = [1, 4]
APART = 0.2  # [rad] at least so far from where the robot is locked, so that holding it there cannot succeed
TOLERANCE = SolverOptions().position_tolerance
KNOWN_POSE = 1e-6  # roundings of float32 joints, over an arm of about a metre


def held_elsewhere(robot, columns, random_seed=0):
    """Configurations whose held columns differ from problem to problem and from where the robot is locked."""
    free = bare_robot("panda")
    joint_q = free.random_joint_q(np.random.default_rng(random_seed), COUNT)
    away = joint_q[:, columns] - robot.mid_joint_q[columns]
    joint_q[:, columns] += np.where(np.abs(away) < APART, np.where(away < 0.0, -APART, APART), 0.0)
    return free.clamp_joint_q(joint_q).astype(np.float32)


@pytest.fixture(scope="module")
def locked():
    return load_robot("panda", collision="ignore", locked={"panda_joint2": 0.3, "panda_joint5": -0.4})


def check(robot, result, problems, columns=COLUMNS, link="panda_hand"):
    assert result.success.mean() > 0.9  # five joints from far away: some targets are hard to find
    np.testing.assert_array_equal(result.joint_q.astype(np.float32)[:, columns], problems[:, columns])
    reached = robot.forward_kinematics(result.joint_q, [link])
    wanted = robot.forward_kinematics(problems, [link])
    distance = np.linalg.norm(reached.positions - wanted.positions, axis=-1)[:, 0]
    assert distance[result.success].max() < TOLERANCE
    np.testing.assert_allclose(result.position_error[:, 0], distance, atol=KNOWN_POSE)
    assert inside_limits(robot, result.joint_q).all()


def starts(robot, problems, columns=COLUMNS):
    """Starts that say nothing but where the held joints are."""
    start = np.tile(robot.mid_joint_q, (len(problems), 1))
    start[:, columns] = problems[:, columns]
    return start


@pytest.mark.evidence_cases("threads")
@pytest.mark.parametrize("engine", ["compiled", "staged", "threads"])
def test_each_problem_holds_them_where_its_start_says(locked, engine, monkeypatch):
    if engine == "threads":
        use_threads(monkeypatch)
    solver = cpu_solver(locked, ["panda_hand"], engine=engine.replace("threads", "compiled"))
    problems = held_elsewhere(locked, COLUMNS)
    poses = locked.forward_kinematics(problems, ["panda_hand"])
    given = poses.positions, poses.orientations_xyzw
    check(locked, solver.solve(*given, initial_joint_q=starts(locked, problems)), problems)
    # where the robot is locked, hardly any of these targets can be met
    unheld = solver.solve(*given)
    np.testing.assert_array_equal(unheld.joint_q[:, COLUMNS], np.tile(np.float32([0.3, -0.4]), (COUNT, 1)))
    assert unheld.success.mean() < 0.2
    if engine != "staged":
        for _ in range(2):  # values are data: nothing stays behind from one solve to the next
            np.testing.assert_array_equal(solver.solve(*given).joint_q, unheld.joint_q)
            solver.solve(*given, initial_joint_q=starts(locked, problems))


@pytest.mark.evidence_cases("1-options0", "2-options0")
@pytest.mark.parametrize(
    "options",
    [{"precision": "float64"}, {"best_of": "cost"}, {"best_of": "nearest", "solutions": 3}, {"best_of": "nearest"}],
)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.usefixtures("small_parts")
def test_every_choice_of_answers_keeps_them(locked, options, threads):
    wanted = [1, 1, 1, 0, 0, 0] if "solutions" in options else None  # of poses there is but one solution
    target = Target("panda_hand", row_weights=wanted)
    solver = cpu_solver(locked, [target], threads=threads)
    problems = held_elsewhere(locked, COLUMNS, 1)
    poses = locked.forward_kinematics(problems, ["panda_hand"])
    start = starts(locked, problems)
    result = solver.solve(poses.positions, poses.orientations_xyzw, initial_joint_q=start, options=options)
    check(locked, result, problems)
    if options.get("solutions", 1) > 1:
        assert (result.solution_count > 1).any()
        there = np.arange(options["solutions"]) < result.solution_count[:, None]
        held = np.broadcast_to(problems[:, None], result.solutions.shape)[there]
        np.testing.assert_array_equal(result.solutions[there].astype(np.float32)[:, COLUMNS], held[:, COLUMNS])


def test_one_start_for_all_problems_holds_them_too(locked):
    problems = np.tile(held_elsewhere(locked, COLUMNS)[:1], (4, 1))
    poses = locked.forward_kinematics(problems, ["panda_hand"])
    solver = cpu_solver(locked, ["panda_hand"])
    result = solver.solve(poses.positions, poses.orientations_xyzw, initial_joint_q=starts(locked, problems)[0])
    check(locked, result, problems)


def test_a_start_beyond_a_limit_is_clamped_as_those_of_other_joints_are(locked):
    start = np.tile(locked.mid_joint_q, (2, 1))
    start[0, 1], start[1, 4] = 9.0, -9.0
    result = cpu_solver(locked, ["panda_hand"]).solve([[0.4, 0.1, 0.5]] * 2, initial_joint_q=start)
    assert result.joint_q[0, 1] == pytest.approx(locked.joint_limit_upper[1], abs=1e-6)
    assert result.joint_q[1, 4] == pytest.approx(locked.joint_limit_lower[4], abs=1e-6)
    assert inside_limits(locked, result.joint_q).all()


def test_an_order_of_joints_that_leaves_them_out_leaves_them_where_they_are_locked(locked):
    order = [name for name in locked.joint_names if name not in HELD]
    solver = cpu_solver(locked, ["panda_hand"], joint_order=order)
    poses = locked.forward_kinematics(locked.random_joint_q(np.random.default_rng(3), 4), ["panda_hand"])
    start = np.tile(locked.mid_joint_q[[0, 2, 3, 5, 6]], (4, 1))
    result = solver.solve(poses.positions, poses.orientations_xyzw, initial_joint_q=start)
    assert result.success.any()
    assert result.joint_q.shape == (4, 5)
    full = np.tile(locked.mid_joint_q, (4, 1))
    full[:, [0, 2, 3, 5, 6]] = result.joint_q
    reached = locked.forward_kinematics(full, ["panda_hand"]).positions[:, 0]
    distance = np.linalg.norm(reached - poses.positions[:, 0], axis=1)
    np.testing.assert_allclose(result.position_error[:, 0], distance, atol=KNOWN_POSE)


@pytest.mark.evidence_cases("compiled")
@pytest.mark.parametrize("engine", ["compiled", "staged"])
def test_a_base_may_float_to_another_place_in_each_problem(engine):
    robot = load_robot("panda", collision="ignore", floating_base=True).lock({"floating_base": [0, 0, 0, 0, 0, 0, 1]})
    rng = np.random.default_rng(5)
    problems = robot.random_joint_q(rng, COUNT)
    problems[:, :3] = rng.uniform(-2.0, 2.0, (COUNT, 3))
    turns = rng.normal(size=(COUNT, 4))
    problems[:, 3:7] = turns / np.linalg.norm(turns, axis=1, keepdims=True)
    poses = robot.forward_kinematics(problems, ["panda_hand"])
    start = starts(robot, problems, range(7))
    start[:, 3:7] *= 3.0  # quaternions come out unit
    solver = cpu_solver(robot, ["panda_hand"], engine=engine)
    result = solver.solve(poses.positions, poses.orientations_xyzw, initial_joint_q=start)
    assert result.success.all()
    np.testing.assert_allclose(result.joint_q[:, :7], problems[:, :7], atol=3e-7)
    reached = robot.forward_kinematics(result.joint_q, ["panda_hand"]).positions[:, 0]
    assert np.linalg.norm(reached - poses.positions[:, 0], axis=1).max() < TOLERANCE
    assert robot.trees.ntree == 1


@pytest.mark.evidence_cases("compiled")
@pytest.mark.parametrize("engine", ["compiled", "staged"])
def test_followers_of_a_held_joint_follow_it(engine):
    robot = scene("two_trees").robot.lock({"left_2": 0.9})
    leader, follower = (robot.coordinate_names.index(name) for name in ("left_2", "left_3"))
    rng = np.random.default_rng(1)
    problems = robot.random_joint_q(rng, COUNT)
    problems[:, leader] = rng.uniform(-0.5, 2.0, COUNT)
    problems = robot.complete_joint_q(problems)
    assert np.ptp(problems[:, leader]) > 1.0
    np.testing.assert_allclose(problems[:, follower], 0.2 - 0.5 * problems[:, leader])
    target = Target("l_tool", row_weights=[1, 1, 0, 0, 0, 0])
    solver = cpu_solver(robot, [target], engine=engine)
    start = problems.copy()
    start[:, follower] = 77.0 if engine == "compiled" else -5.0  # what is given for a follower is passed over
    start[:, robot.coordinate_names.index("left_1")] = 0.0
    positions = robot.forward_kinematics(problems, ["l_tool"]).positions[:, 0]
    result = solver.solve(positions, initial_joint_q=start)
    assert result.success.all()
    held = result.joint_q[:, [leader, follower]]
    np.testing.assert_array_equal(held[:, 0], problems[:, leader].astype(np.float32))
    np.testing.assert_allclose(held[:, 1], problems[:, follower], atol=1e-6)


@pytest.mark.evidence_cases("compiled")
@pytest.mark.parametrize("engine", ["compiled", "staged"])
def test_relative_poses_reach_over_them(locked, engine):
    """Both links of a target in another link's frame may stand before or behind a held joint."""
    target = Target("panda_link6", reference_link="panda_link1", row_weights=[1, 1, 0, 0, 0, 0])
    solver = cpu_solver(locked, [target], engine=engine)
    problems = held_elsewhere(locked, COLUMNS)
    ends = locked.forward_kinematics(problems, ["panda_link1", "panda_link6"])
    T_world_ends = np.concatenate(ends, axis=-1)
    positions = transform_multiply(transform_inverse(T_world_ends[:, 0]), T_world_ends[:, 1])[:, :3]
    result = solver.solve(positions, initial_joint_q=starts(locked, problems))
    assert result.success.all()
    ends = locked.forward_kinematics(result.joint_q, ["panda_link1", "panda_link6"])
    T_world_ends = np.concatenate(ends, axis=-1)
    reached = transform_multiply(transform_inverse(T_world_ends[:, 0]), T_world_ends[:, 1])[:, :3]
    distance = np.linalg.norm((reached - positions)[:, :2], axis=1)
    np.testing.assert_allclose(result.position_error[:, 0], distance, atol=KNOWN_POSE)
    np.testing.assert_array_equal(result.joint_q.astype(np.float32)[:, COLUMNS], problems[:, COLUMNS])


@pytest.mark.evidence
def test_only_the_arm_behind_a_held_joint_goes_with_it():
    """Two arms on a torso that is locked are two islands, wherever each problem holds it."""
    robot = scene("two_trees").robot.lock({"right_1": [0.0, 0.0, 0.0, 1.0]})
    assert robot.trees.ntree == 2
    rng = np.random.default_rng(2)
    problems = robot.random_joint_q(rng, COUNT)
    ball = [robot.coordinate_names.index(f"right_1/{c}") for c in ("qx", "qy", "qz", "qw")]
    turns = rng.normal(size=(COUNT, 4))
    problems[:, ball] = turns / np.linalg.norm(turns, axis=1, keepdims=True)
    targets = [Target(link, row_weights=[1, 1, 0, 0, 0, 0]) for link in ("l_tool", "r_tool")]
    poses = robot.forward_kinematics(problems, ["l_tool", "r_tool"])
    solver = cpu_solver(robot, targets)
    result = solver.solve(poses.positions, initial_joint_q=starts(robot, problems, ball))
    reached = robot.forward_kinematics(result.joint_q, ["l_tool", "r_tool"]).positions
    distance = np.linalg.norm((reached - poses.positions)[..., :2], axis=-1)
    np.testing.assert_allclose(result.position_error, distance, atol=KNOWN_POSE)
    assert result.success.all()
    np.testing.assert_allclose(result.joint_q[:, ball], problems[:, ball], atol=1e-7)


@pytest.mark.evidence
def test_a_path_holds_them_where_its_start_does(locked):
    problems = held_elsewhere(locked, COLUMNS)[:1].astype(np.float64)
    ends = np.repeat(problems, 30, axis=0)
    ends[:, [0, 2, 3, 5, 6]] += np.linspace(0.0, 0.2, 30)[:, None]
    ends = locked.clamp_joint_q(ends)
    poses = locked.forward_kinematics(ends, ["panda_hand"])
    solver = cpu_solver(locked, ["panda_hand"])
    path = solver.follow(poses.positions, poses.orientations_xyzw, 0.1, start_joint_q=ends[0])
    assert path.success.all()
    np.testing.assert_allclose(path.joint_q[:, COLUMNS], np.tile(problems[:, COLUMNS], (30, 1)), atol=1e-7)


def test_starts_that_are_no_numbers_are_refused_there_too(locked):
    solver = cpu_solver(locked, ["panda_hand"])
    for number in (np.nan, 1e12):
        start = locked.mid_joint_q.copy()
        start[1] = number
        with pytest.raises(InputError, match=r"initial_joint_q\[1\] is .* Allowed: finite numbers up to 1e\+09"):
            solver.solve([[0.4, 0.1, 0.5]], initial_joint_q=start)
