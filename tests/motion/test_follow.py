"""Paths of robots: continuous where that is possible, told where not."""

import numpy as np
import pytest

import ik_service
from benchmarks.problems.tick_paths import LINK, panda_paths
from objectives import IKObjectivePosition, IKObjectivePosture, InputError, UnknownNameError
from tests.solver.conftest import PLANAR_2R, inside_limits

DT = 0.02
EXACT = 1e-8  # [m] the finish is in float64
ROUNDING = 1e-3  # share by which smoothing may change the largest step
MORE = 1.5  # a redundant arm follows some of its solutions, not all
FINE = 400  # waypoints
HANDS = ["left_panda_hand", "right_panda_hand"]
PANDA_HOME = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 0.7])
UR5E_HOME = np.array([0.2, -1.2, 1.5, -1.8, -1.5, 0.3])


@pytest.fixture(scope="module")
def panda():
    return ik_service.load_robot("panda", collision="ignore")


@pytest.fixture(scope="module")
def panda_solver(panda):
    return ik_service.IKSolver(panda, [LINK], device="cpu")


@pytest.fixture(scope="module")
def ur5e_solver():
    return ik_service.IKSolver(ik_service.load_robot("ur5e", collision="ignore"), ["tool0"], device="cpu")


def swing(home, n=FINE, reach=0.4):
    """Joints that swing, each in its own phase."""
    t = np.linspace(0.0, 2.0 * np.pi, n)
    return home + reach * (np.sin(t[:, None] + np.arange(len(home))) - np.sin(np.arange(len(home))))


def poses_of(solver, joint_q):
    poses = solver.robot.forward_kinematics(joint_q, links=[target.link for target in solver.targets])
    return poses.positions, poses.orientations_xyzw


def follow(solver, joint_q, dt=DT, **arguments):
    return solver.follow(*poses_of(solver, joint_q), dt, **arguments)


def largest(joint_q):
    return np.abs(np.diff(joint_q, axis=0)).max()


def check(solver, result, joint_q, error=EXACT):
    """What holds for every path that can be followed."""
    assert result.success.all()
    assert set(result.status_names) == {"converged"}
    assert inside_limits(solver.robot, result.joint_q).all()
    positions, orientations = poses_of(solver, result.joint_q)
    goal, turn = poses_of(solver, joint_q)
    np.testing.assert_allclose(positions, goal, atol=error)
    np.testing.assert_allclose(np.abs(np.sum(orientations * turn, axis=-1)), 1.0, atol=error)
    assert result.position_error.max() < error
    assert result.largest_joint_change == largest(result.joint_q)
    np.testing.assert_array_equal(result.joint_qd[1:], np.diff(result.joint_q, axis=0) / result.dt)


@pytest.mark.parametrize(("name", "reach"), [("panda_solver", 0.6), ("ur5e_solver", 0.8)])
def test_a_path_faster_than_the_joints_has_no_break_where_one_of_its_solutions_has_none(request, name, reach):
    solver = request.getfixturevalue(name)
    joint_q = swing(PANDA_HOME if name == "panda_solver" else UR5E_HOME, 300, reach)
    assert (np.abs(np.diff(joint_q, axis=0)) > 0.005 * solver.robot.joint_velocity_limit).any()
    result = follow(solver, joint_q, 0.005)
    check(solver, result, joint_q, error=1e-2)
    assert not result.within_limits.all()
    assert result.reconfigurations == 0
    positions, goal = poses_of(solver, result.joint_q)[0], poses_of(solver, joint_q)[0]
    exact = (np.abs(positions - goal) < EXACT).all(axis=(1, 2))
    assert exact.mean() > 0.5  # the others stand at the speed limit, off by less than the tolerance
    assert np.abs(positions - goal).max() < 1e-3


def test_a_path_of_pieces_of_one_waypoint_is_followed_by_the_staged_engine(panda):
    solver = ik_service.IKSolver(panda, [LINK], device="cpu", engine="staged")
    joint_q = swing(PANDA_HOME, 3)[:1] + np.array([[0.0] * 7, [1.5, 0, 0, 0.8, 0, 0, 0], [0.0] * 7])
    result = follow(solver, joint_q)
    assert result.success.all()
    assert result.reconfigurations == 2


@pytest.mark.evidence_cases("circle")
@pytest.mark.parametrize(
    "name", ["circle", "figure of eight", "through a shoulder singularity", "into a joint limit and back"]
)
def test_a_thousand_waypoints_of_a_panda_come_back_smooth_and_within_its_speeds(panda, panda_solver, name):
    path = panda_paths(panda, 1000)[name]
    start = None if name.startswith("into") else path.joint_q
    result = panda_solver.follow(path.poses[:, :3], path.poses[:, 3:], 0.01, start_joint_q=start)
    assert result.success.all()
    assert result.position_error.max() < EXACT
    assert inside_limits(panda, result.joint_q).all()
    assert result.within_limits.all()
    assert np.abs(np.diff(result.joint_q, 2, axis=0)).max() < 0.1 * result.largest_joint_change
    warm, chain = path.joint_q, []
    for pose in path.poses[::10]:  # the same path, ten times faster
        warm = panda_solver.solve(pose[None, :3], pose[None, 3:], initial_joint_q=warm).joint_q[0]
        chain.append(warm)
    assert result.largest_joint_change < 0.15 * largest(chain)


def test_no_branch_is_left_where_the_arm_can_stay_on_it_though_every_waypoint_by_itself_would_flip(ur5e_solver):
    """An arm without spare joints cannot do better than the joints that the path was made from, and not worse."""
    joint_q = swing(UR5E_HOME)
    for start in (None, joint_q[0]):
        result = follow(ur5e_solver, joint_q, start_joint_q=start)
        check(ur5e_solver, result, joint_q)
        assert result.largest_joint_change <= largest(joint_q) * (1.0 + ROUNDING)
        assert result.within_limits.all()
    np.testing.assert_allclose(result.joint_q, joint_q, atol=1e-6)
    wide = swing(UR5E_HOME, reach=0.8)
    assert largest(ur5e_solver.solve(*poses_of(ur5e_solver, wide)).joint_q) > 1.0
    assert follow(ur5e_solver, wide).largest_joint_change <= MORE * largest(wide)  # it goes through singularities


@pytest.mark.evidence_cases("compiled")
@pytest.mark.parametrize("engine", ["compiled", "staged"])
def test_the_branch_that_will_meet_a_limit_is_not_taken(engine):
    """Both elbows reach the first waypoints; only the one below reaches the last."""
    robot = ik_service.load_robot(PLANAR_2R.format(elbow_lower=-2.5, elbow_upper=0.6))
    assert robot.joint_limit_upper.tolist() == [3.1, 0.6]
    solver = ik_service.IKSolver(robot, ["tip"], device="cpu", engine=engine)
    joint_q = np.column_stack([np.linspace(0.2, 0.5, 200), np.linspace(-0.3, -1.5, 200)])
    positions = poses_of(solver, joint_q)[0][:, 0]
    above = joint_q[0] + [-0.3, 0.6]
    warm, chain = above, []
    for position in positions:
        warm = solver.solve(position[None], initial_joint_q=warm).joint_q[0]
        chain.append(warm)
    assert chain[0][1] > 0.2
    assert largest(chain) > 0.5  # the greedy choice runs into the limit and flips
    result = solver.follow(positions, None, DT)
    assert result.success.all()
    assert result.largest_joint_change <= largest(joint_q) * (1.0 + ROUNDING) + 1e-6
    np.testing.assert_allclose(result.joint_q, joint_q, atol=1e-3 if engine == "staged" else EXACT)
    assert np.isnan(result.orientation_error).all()


def test_turns_are_begun_where_the_range_holds_them_and_where_none_does_the_path_says_where_it_breaks(ur5e_solver):
    """Ten radians of a wrist whose range is four pi: it has to begin near one end."""
    joint_q, farther = swing(UR5E_HOME), swing(UR5E_HOME)
    joint_q[:, 5] += np.linspace(0.0, 10.0, FINE)
    farther[:, 5] += np.linspace(0.0, 14.0, FINE)
    assert joint_q[:, 5].max() > ur5e_solver.robot.joint_limit_upper[5]
    result = follow(ur5e_solver, joint_q)
    check(ur5e_solver, result, joint_q)
    assert result.largest_joint_change <= largest(joint_q) * (1.0 + ROUNDING)
    assert result.joint_q[-1, 5] - result.joint_q[0, 5] == pytest.approx(10.0, abs=0.1)
    result = follow(ur5e_solver, farther, dt=0.05)
    check(ur5e_solver, result, farther, error=ur5e_solver.options.position_tolerance)
    broken = np.flatnonzero(~result.within_limits)
    assert 1 <= len(broken) <= 2
    assert result.over_velocity[broken].any()
    assert result.joint_change[broken].max() == result.largest_joint_change > 1.0


@pytest.mark.evidence
def test_joints_without_limits_turn_on_and_on():
    text = PLANAR_2R.format(elbow_lower=-2.5, elbow_upper=2.5)
    robot = ik_service.load_robot(text.replace('"shoulder" type="revolute"', '"shoulder" type="continuous"'))
    solver = ik_service.IKSolver(robot, ["tip"], device="cpu")
    joint_q = np.column_stack([np.linspace(1.0, 31.0, 600), np.full(600, -1.2)])
    for start in (None, joint_q[0] + [-20.0 * np.pi, 0.0]):
        result = follow(solver, joint_q, dt=0.1, start_joint_q=start)
        assert result.success.all()
        assert result.largest_joint_change == pytest.approx(30.0 / 599, abs=1e-6)
        assert np.abs(result.joint_q[-1, 0] - result.joint_q[0, 0]) == pytest.approx(30.0, abs=1e-6)
    np.testing.assert_allclose(result.joint_q[0], start, atol=1e-6)


@pytest.mark.evidence
def test_arms_are_chosen_for_by_themselves():
    robot = ik_service.load_robot("dual_panda", collision="ignore")
    solver = ik_service.IKSolver(robot, HANDS, device="cpu")
    joint_q = swing(np.tile(PANDA_HOME, 2), reach=0.3)
    positions, orientations = poses_of(solver, joint_q)
    result = solver.follow(positions, orientations, DT)
    check(solver, result, joint_q)
    assert result.largest_joint_change <= MORE * largest(joint_q)
    away = positions.copy()
    away[150:250, 1, 2] += 5.0  # the right hand cannot go there
    beside = solver.follow(away, orientations, DT)
    assert (~beside.success).nonzero()[0].tolist() == list(range(150, 250))
    assert beside.position_error[:, 0].max() < EXACT
    assert largest(beside.joint_q[:, :7]) <= MORE * largest(joint_q)
    assert beside.within_limits.all()


def test_waypoints_out_of_reach_are_crossed_and_told(ur5e_solver):
    joint_q = swing(UR5E_HOME)
    positions, orientations = poses_of(ur5e_solver, joint_q)
    positions[100:140] += [0.0, 0.0, 2.0]
    result = ur5e_solver.follow(positions, orientations, DT)
    assert (~result.success).nonzero()[0].tolist() == list(range(100, 140))
    assert "converged" not in result.status_names[100:140]
    assert set(result.status_names[:100] + result.status_names[140:]) == {"converged"}
    assert (result.position_error[100:140] > 1.0).all()
    straight = np.linspace(result.joint_q[99], result.joint_q[140], 42)
    np.testing.assert_allclose(result.joint_q[99:141], straight, atol=1e-9)
    assert result.largest_joint_change <= 1.5 * largest(joint_q)
    assert inside_limits(ur5e_solver.robot, result.joint_q).all()


def test_both_ends_may_be_out_of_reach(ur5e_solver):
    joint_q = swing(UR5E_HOME, 60)
    positions, orientations = poses_of(ur5e_solver, joint_q)
    positions[[*range(10), *range(50, 60)]] += 3.0
    result = ur5e_solver.follow(positions, orientations, 0.1)
    assert result.success.nonzero()[0].tolist() == list(range(10, 50))
    assert (result.joint_q[:10] == result.joint_q[10]).all()
    assert (result.joint_q[50:] == result.joint_q[49]).all()
    began = ur5e_solver.follow(positions, orientations, 0.1, start_joint_q=joint_q[0])
    np.testing.assert_allclose(began.joint_q[:11], np.linspace(joint_q[0], began.joint_q[10], 12)[1:], atol=1e-9)


def test_an_arm_that_meets_no_waypoint_stands_still_and_a_log_line_names_it(caplog):
    robot = ik_service.load_robot("dual_panda", collision="ignore")
    solver = ik_service.IKSolver(robot, HANDS, device="cpu")
    joint_q = swing(np.tile(PANDA_HOME, 2), n=20, reach=0.02)
    positions, orientations = poses_of(solver, joint_q)
    positions[:, 1, 2] += 5.0  # the right hand cannot go there
    result = solver.follow(positions, orientations, DT)
    assert not result.success.any()
    assert result.position_error[:, 0].max() < EXACT < 1.0 < result.position_error[:, 1].min()
    assert (result.joint_q[:, 7:] == result.joint_q[0, 7:]).all()
    (told,) = caplog.messages
    assert "from 'right_panda_joint1' to 'right_panda_joint7': they stand still" in told


@pytest.mark.evidence
def test_rows_that_yield_move_the_arm_away_from_the_start_within_its_speeds(panda):
    posture = IKObjectivePosture(np.subtract(PANDA_HOME, [-0.8, 0.0, 0.8, 0.0, 0.0, 0.0, 0.0]), weight=0.1)
    solver = ik_service.IKSolver(panda, [LINK], objectives=[posture], device="cpu")
    positions, orientations = poses_of(solver, np.tile(PANDA_HOME, (5, 1)))
    result = solver.follow(positions, orientations, DT, start_joint_q=PANDA_HOME)
    assert result.success.all()
    assert np.abs(result.joint_q[-1] - PANDA_HOME).max() > 0.1
    assert result.within_limits.all()


@pytest.mark.evidence
def test_a_path_that_is_out_of_reach_stays_where_it_is(ur5e_solver, caplog):
    positions = np.full((5, 3), 9.0)
    result = ur5e_solver.follow(positions, None, DT, start_joint_q=UR5E_HOME)
    assert not result.success.any()
    np.testing.assert_allclose(result.joint_q, np.tile(UR5E_HOME, (5, 1)), atol=1e-12)
    assert not ur5e_solver.follow(positions, None, DT).success.any()
    assert [": they stand still." in message for message in caplog.messages] == [True, True]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_short_paths(panda_solver, count):
    joint_q = swing(PANDA_HOME)[:count]
    result = follow(panda_solver, joint_q)
    check(panda_solver, result, joint_q) if count > 1 else None
    assert len(result) == count
    assert result.success.all()
    assert (result.joint_qd[0] == 0.0).all()
    began = follow(panda_solver, joint_q, start_joint_q=joint_q[0])
    np.testing.assert_allclose(began.joint_q[0], joint_q[0], atol=1e-6)
    assert np.abs(began.joint_qd[0]).max() < 1e-3


def test_limits_are_those_asked_for(panda_solver):
    joint_q = swing(PANDA_HOME)
    free = follow(panda_solver, joint_q)
    assert free.within_limits.all()
    other = follow(panda_solver, joint_q, velocity={"panda_joint1": 0.01})
    assert np.abs(free.joint_qd[:, 0]).max() > 0.1
    assert np.abs(other.joint_qd[:, 0]).max() <= 0.01 * (1 + 1e-6)  # the other joints go round it
    assert other.within_limits.all()
    slow = follow(panda_solver, joint_q, velocity=0.01)
    assert slow.success.all()
    np.testing.assert_array_equal(slow.over_velocity, np.abs(slow.joint_qd) > 0.01 * (1 + 1e-6))
    assert slow.over_velocity.any()
    assert len(slow.breaks) == 0  # too fast, but continuous
    bound = follow(panda_solver, joint_q, acceleration=1e-3)
    np.testing.assert_array_equal(bound.over_acceleration, np.abs(bound.joint_qdd) > 1e-3 * (1 + 1e-6))
    np.testing.assert_allclose(bound.joint_qdd[2:], np.diff(bound.joint_q, 2, axis=0) / DT**2, atol=1e-9)
    assert (bound.joint_qdd[:2] == 0.0).all()
    assert not bound.over_velocity.any()


def test_the_same_path_gives_the_same_bytes(panda, panda_solver, small_parts):
    joint_q = swing(PANDA_HOME, 80)
    first = follow(panda_solver, joint_q)
    panda_solver.solve([[0.4, 0.1, 0.5]])
    again = follow(panda_solver, joint_q)
    other = follow(ik_service.IKSolver(panda, [LINK], device="cpu", threads=2), joint_q)
    for result in (again, other):
        assert result.joint_q.tobytes() == first.joint_q.tobytes()


def test_tolerances_below_float32_are_those_of_the_finish(panda_solver):
    joint_q = swing(panda_solver.robot.mid_joint_q, n=40, reach=0.2)
    tolerances = {"position_tolerance": 1e-8, "orientation_tolerance": 1e-8}
    result = follow(panda_solver, joint_q, options=tolerances)
    check(panda_solver, result, joint_q, error=1e-8)
    exact = follow(panda_solver, joint_q, options={"precision": "float64"})
    np.testing.assert_array_equal(result.joint_q, exact.joint_q)


def test_orders_of_joints_and_quaternions_are_the_callers(panda, panda_solver):
    order = np.array([6, 2, 0, 1, 3, 5, 4])
    names = [panda.joint_names[k] for k in order]
    solver = ik_service.IKSolver(panda, [LINK], device="cpu", joint_order=names, wxyz=True)
    joint_q = swing(PANDA_HOME, 60)
    positions, orientations = poses_of(panda_solver, joint_q)
    mine = panda_solver.follow(positions, orientations, DT, start_joint_q=PANDA_HOME)
    result = solver.follow(positions, orientations[..., [3, 0, 1, 2]], DT, start_joint_q=PANDA_HOME[order])
    for name in ("joint_q", "joint_qd", "joint_qdd", "over_velocity"):
        np.testing.assert_array_equal(getattr(result, name), getattr(mine, name)[:, order])
    assert result.coordinate_names == result.dof_names == tuple(names)


@pytest.mark.evidence
def test_a_floating_base_and_objectives_besides_targets():
    robot = ik_service.load_robot("humanoid", collision="ignore")
    feet = [name for name in robot.link_names if "foot" in name][:2]
    posture = IKObjectivePosture(robot.mid_joint_q, weight=1e-3)
    solver = ik_service.IKSolver(robot, feet, objectives=[posture], device="cpu")
    poses = robot.forward_kinematics(robot.mid_joint_q, links=feet)
    positions = np.repeat(poses.positions, 30, axis=0)
    positions[:, 0, 0] += np.linspace(0.0, 0.1, 30)
    orientations = np.repeat(poses.orientations_xyzw, 30, axis=0)
    result = solver.follow(positions, orientations, 0.05, start_joint_q=robot.mid_joint_q)
    assert result.success.all()
    assert result.largest_joint_change < 0.05
    assert result.joint_qd.shape == (30, robot.joint_dof_count)
    base = robot.joint_q_start[0]
    quaternion = result.joint_q[:, base + 3 : base + 7]
    np.testing.assert_allclose(np.linalg.norm(quaternion, axis=1), 1.0, atol=1e-6)


@pytest.mark.evidence
def test_joints_that_no_target_moves_stay_where_they_are():
    robot = ik_service.load_robot("dual_panda", collision="ignore")
    solver = ik_service.IKSolver(robot, HANDS[1:], device="cpu")
    start = np.tile(PANDA_HOME, 2)
    joint_q = swing(start, 40)
    result = follow(solver, joint_q, start_joint_q=start)
    assert result.success.all()
    np.testing.assert_allclose(result.joint_q[:, :7], np.tile(start[:7], (40, 1)), atol=1e-6)


BAD = {
    "dt": ({"dt": 0.0}, InputError, "dt is 0"),
    "dt nan": ({"dt": float("nan")}, InputError, "dt is nan"),
    "solutions": ({"solutions": 0}, InputError, "solutions is 0"),
    "velocity": ({"velocity": 0.0}, InputError, "velocity is 0 for a joint"),
    "velocity shape": ({"velocity": [1.0, 2.0]}, InputError, "velocity has shape"),
    "joint": ({"velocity": {"elbow": 1.0}}, UnknownNameError, "elbow"),
    "acceleration": ({"acceleration": -1.0}, InputError, "acceleration holds -1"),
    "start": ({"start_joint_q": np.zeros(6)}, InputError, "start_joint_q has shape"),
    "start nan": ({"start_joint_q": np.full(7, np.nan)}, InputError, "start_joint_q"),
    "nan": ({"positions": np.array([[0.4, np.nan, 0.5]])}, InputError, r"positions\[0, 1\] is nan"),
    "quaternion": ({"orientations_xyzw": np.zeros((1, 4))}, InputError, "length 0"),
    "empty": ({"positions": np.zeros((0, 3))}, InputError, "empty"),
    "nothing": ({"positions": None}, InputError, "how many problems"),
    "option": ({"options": {"joint_limits": "off"}}, InputError, "fixed when the solver is made"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(panda_solver, case):
    arguments, error, message = BAD[case]
    given = {"positions": [[0.4, 0.0, 0.5]], "orientations_xyzw": None, "dt": DT} | arguments
    with pytest.raises(error, match=message):
        panda_solver.follow(**given)


def test_data_per_waypoint_are_refused(panda):
    point = IKObjectivePosition("panda_link5", np.zeros((3, 3)), weight=1e-6)
    several = ik_service.Target(LINK, row_weights=np.ones((3, 6)))
    for targets, objectives in (([several], []), ([LINK], [point])):
        solver = ik_service.IKSolver(panda, targets, objectives=objectives, device="cpu")
        with pytest.raises(InputError, match="one line for all waypoints"):
            solver.follow(np.zeros((3, 3)), None, DT)
