"""What a controller promises beyond paths: islands, robots, deadlines, soft rows, orders of joints, bad numbers."""

import time

import numpy as np
import pytest

from ik_service import Target, load_robot
from ik_service.compiler import Lanes
from ik_service.control import ControlLimits, IKController, LimitKind, tick_islands
from ik_service.control.tick import kernel
from ik_service.errors import EngineError
from ik_service.solver.lm.status import IKStatus
from objectives import IKObjective, IKObjectiveLookAt, InputError, UnknownNameError
from tests.control.conftest import follow, pose_of

LINK = "panda_hand"
HOME = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 0.7])
ARMS = ("left_panda_hand", "right_panda_hand")


def poses_of(robot, joint_q, links):
    return np.stack([pose_of(robot, joint_q, link) for link in links])


def near(robot, joint_q, link=LINK, by=0.02):
    target = pose_of(robot, joint_q, link)
    target[:3] += by
    return target


def test_the_command_is_where_the_next_step_starts(panda):
    controller = IKController(panda, [LINK])
    controller.reset(HOME)
    target = near(panda, HOME)
    by_itself = [controller.step(target).joint_q.copy() for _ in range(50)]
    other = IKController(panda, [LINK])
    q, told = HOME, []
    for _ in range(50):
        q = other.step(target, q).joint_q.copy()
        told.append(q)
    np.testing.assert_array_equal(by_itself, told)


def test_ticks_of_so_many_iterations_are_the_same_every_time(panda):
    target = near(panda, HOME)
    runs = [follow(IKController(panda, [LINK]), HOME, [target] * 100)]
    used = IKController(panda, [LINK])
    follow(used, panda.random_joint_q(np.random.default_rng(0), 1)[0], [target] * 20)  # a reset leaves nothing of it
    runs.append(follow(used, HOME, [target] * 100))
    for one, other in zip(vars(runs[0]).values(), vars(runs[1]).values(), strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.evidence
@pytest.mark.parametrize("accelerations", [None, 20.0])
def test_robots_do_not_disturb_each_other(panda, accelerations):
    """Each of 7 robots, of which the last packet holds fewer than it could, does what it does alone."""
    rng = np.random.default_rng(5)
    starts = panda.random_joint_q(rng, 7)
    targets = np.stack([near(panda, q, by=rng.uniform(-0.1, 0.1)) for q in starts])[:, None]
    limits = ControlLimits(acceleration=accelerations)
    together = IKController(panda, [LINK], robots=7, limits=limits)
    together.reset(starts)
    alone = [IKController(panda, [LINK], limits=limits) for _ in starts]
    for controller, start in zip(alone, starts, strict=True):
        controller.reset(start)
    for _ in range(100):
        result = together.step(targets)
        singles = [controller.step(target) for controller, target in zip(alone, targets, strict=True)]
        np.testing.assert_array_equal(result.joint_q, [r.joint_q[0] for r in singles])
        np.testing.assert_array_equal(result.status, [r.status[0] for r in singles])


@pytest.mark.evidence
def test_one_arm_in_a_limit_does_not_slow_the_other():
    robot = load_robot("dual_panda")
    q = robot.mid_joint_q
    targets = poses_of(robot, q, ARMS)
    targets[0, 0] += 2.0  # out of reach
    targets[1, :3] += 0.03
    both, one = IKController(robot, ARMS), IKController(robot, ARMS[1:])
    for controller in (both, one):
        controller.reset(q)
    for _ in range(300):
        result, alone = both.step(targets), one.step(targets[1:])
        np.testing.assert_array_equal(result.joint_q[0, 7:], alone.joint_q[0, 7:])
        assert result.sigma_min[0, 1] == alone.sigma_min[0, 0]
    assert result.island_status.tolist() == [[IKStatus.BLOCKED_BY_LIMITS, IKStatus.CONVERGED]]
    assert {name.split("_")[0] for name in result.blocking()} == {"left"}
    assert result.status[0] == IKStatus.BLOCKED_BY_LIMITS
    assert not result.success[0]


def test_what_holds_a_joint_back_is_named(panda):
    controller = IKController(panda, [LINK], limits=ControlLimits(velocity={"panda_joint1": 1e-6}, joint_step=1e-4))
    controller.reset(HOME)
    result = controller.step(near(panda, HOME, by=0.3))
    found = result.blocking()
    assert found["panda_joint1"] is LimitKind.VELOCITY
    assert LimitKind.JOINT_STEP in found.values()
    assert result.active_limits[0, 0] in (LimitKind.VELOCITY, -LimitKind.VELOCITY)


def test_what_one_joint_may_not_do_others_make_up_for(panda):
    """With the first joint held by its speed limit the hand still follows, sideways too."""
    target, goal = pose_of(panda, HOME, LINK), pose_of(panda, HOME, LINK)
    goal[1] += 0.05
    path = target + np.linspace(0, 1, 500)[:, None] * (goal - target)
    slow = follow(IKController(panda, [LINK], limits=ControlLimits(velocity={"panda_joint1": 1e-3})), HOME, path)
    assert slow.position_error.max() < 1e-4
    assert np.abs(slow.joint_qd[:, 0]).max() <= 1e-3 * (1 + 1e-9)


def test_a_step_can_be_shortened_as_a_whole(panda):
    start, target = pose_of(panda, HOME, LINK), near(panda, HOME, by=0.2)
    controller = IKController(panda, [LINK], scale_direction=True)
    controller.reset(HOME)
    result = controller.step(target)
    moved = pose_of(panda, result.joint_q, LINK)[:3] - start[:3]
    assert 0.0 < result.scaling[0, 0] < 1.0
    assert (np.abs(result.joint_qd[0]) <= panda.joint_velocity_limit * (1 + 1e-12)).all()
    direction = (target - start)[:3] / np.linalg.norm((target - start)[:3])
    assert moved @ direction / np.linalg.norm(moved) > 0.98
    assert result.status[0] == IKStatus.BLOCKED_BY_LIMITS
    assert len(result.blocking()) == 1


@pytest.mark.evidence
def test_the_posture_draws_joints_that_tasks_leave_free(panda):
    """The hand stays; of the way that is left, each tick covers p^2 / (p^2 + d^2)."""
    posture = HOME + np.array([0.3, 0.0, -0.3, 0.0, 0.2, 0.0, 0.0])
    target = pose_of(panda, HOME, LINK)
    plain = follow(IKController(panda, [LINK]), HOME, [target] * 400)
    drawn = follow(IKController(panda, [LINK], posture=posture, posture_weight=2e-3), HOME, [target] * 400)
    assert np.abs(plain.joint_q[-1] - HOME).max() < 1e-12
    assert drawn.position_error.max() < 1e-4
    before, after = (np.linalg.norm(q - posture) for q in (HOME, drawn.joint_q[-1]))
    assert after < 0.9 * before
    assert np.abs(np.diff(drawn.joint_q[-2:], axis=0)).max() < 1e-6  # it has arrived


@pytest.mark.parametrize("budget_us", [0, 20, 200])
def test_a_deadline_gives_the_best_so_far(panda, budget_us):
    controller = IKController(panda, [LINK])
    controller.reset(HOME)
    target = near(panda, HOME, by=0.01)
    for _ in range(200):
        result = controller.step(target, deadline_ns=time.monotonic_ns() + 1000 * budget_us)
        assert (np.abs(result.joint_qd[0]) <= panda.joint_velocity_limit * (1 + 1e-9)).all()
        assert result.status[0] in (IKStatus.CONVERGED, IKStatus.DEADLINE, IKStatus.BLOCKED_BY_LIMITS)
    assert result.success[0]


def test_a_deadline_that_has_passed_still_gives_an_answer_within_the_limits(panda):
    controller = IKController(panda, [LINK])
    controller.reset(HOME)
    result = controller.step(near(panda, HOME, by=0.5), dt=0.05, deadline_ns=0)
    assert result.status[0] == IKStatus.DEADLINE
    assert result.iterations[0, 0] == 2
    assert (np.abs(result.joint_qd) <= panda.joint_velocity_limit * (1 + 1e-9)).all()


def test_with_limits_of_acceleration_one_step_may_be_all_that_a_tick_can_do(panda):
    """They leave a joint so little room that the first step ends at its end: that is the answer, late or not."""
    late, counted = (IKController(panda, [LINK], limits=ControlLimits(acceleration=10.0)) for _ in range(2))
    for controller in (late, counted):
        controller.reset(HOME, joint_qd=0.5)
    result = late.step(near(panda, HOME, by=0.5), dt=1e-3, deadline_ns=0)
    assert result.status[0] == IKStatus.BLOCKED_BY_LIMITS
    np.testing.assert_allclose(np.abs(result.joint_qd - 0.5), 10.0 * 1e-3, rtol=1e-9)
    np.testing.assert_array_equal(result.joint_q, counted.step(near(panda, HOME, by=0.5), dt=1e-3).joint_q)


def test_enough_time_gives_the_answer_of_enough_iterations(panda):
    target = near(panda, HOME, by=1e-4)
    timed, counted = IKController(panda, [LINK]), IKController(panda, [LINK], iterations=99)
    for controller in (timed, counted):
        controller.reset(HOME)
    answer = timed.step(target, deadline_ns=time.monotonic_ns() + 10**10)
    np.testing.assert_array_equal(answer.joint_q, counted.step(target).joint_q)


@pytest.mark.parametrize("where", ["targets", "quaternion", "joint_q", "joint_qd"])
def test_numbers_that_are_not_finite_stop_their_robot_and_no_other(panda, where):
    controller = IKController(panda, [LINK], robots=2, limits=ControlLimits(acceleration=10.0))
    controller.reset(HOME)
    targets = np.tile(near(panda, HOME), (2, 1, 1))
    for _ in range(20):
        good = controller.step(targets).copy()
    joint_q, joint_qd, broken = good.joint_q.copy(), good.joint_qd.copy(), targets.copy()
    if where == "targets":
        broken[0, 0, 1] = np.nan
    elif where == "quaternion":
        broken[0, 0, 3:] *= 0.5
    elif where == "joint_q":
        joint_q[0, 2] = np.inf
    else:
        joint_qd[0, 2] = np.nan
    result = controller.step(broken, joint_q, joint_qd=joint_qd)
    assert result.status[0] == IKStatus.INVALID
    assert result.status[1] != IKStatus.INVALID
    assert np.isfinite(result.joint_q).all()
    assert (result.joint_q >= panda.joint_limit_lower).all()
    after = controller.step(targets, good.joint_q, joint_qd=good.joint_qd)
    assert (after.status != IKStatus.INVALID).all()


def test_other_orders_of_joints_and_quaternions(panda):
    names = list(panda.joint_names[::-1])
    mine, other = IKController(panda, [LINK]), IKController(panda, [LINK], joint_order=names, wxyz=True)
    mine.reset(HOME)
    other.reset(HOME[::-1])
    target = near(panda, HOME)
    for _ in range(30):
        result = mine.step(target)
        turned = other.step(target[[0, 1, 2, 6, 3, 4, 5]])
        np.testing.assert_array_equal(turned.joint_q[0, ::-1], result.joint_q[0])
        np.testing.assert_array_equal(turned.joint_qd[0, ::-1], result.joint_qd[0])
        np.testing.assert_array_equal(turned.active_limits[0, ::-1], result.active_limits[0])
    assert other.coordinate_names == tuple(names)
    assert set(turned.blocking()) == set(result.blocking())


@pytest.mark.evidence
def test_followers_move_with_their_leaders():
    robot = load_robot("panda_gripper")
    leader, follower = robot.joint_index("panda_finger_joint1"), robot.joint_index("panda_finger_joint2")
    posture = robot.mid_joint_q.copy()
    posture[leader] = posture[follower] = 0.01
    controller = IKController(robot, [LINK], posture=posture, posture_weight=0.1, limits=ControlLimits(velocity=0.2))
    controller.reset(robot.mid_joint_q)
    target = pose_of(robot, robot.mid_joint_q, LINK)
    for _ in range(400):
        result = controller.step(target)
        assert result.joint_q[0, follower] == pytest.approx(result.joint_q[0, leader], abs=1e-15)
    assert result.joint_q[0, leader] == pytest.approx(0.01, abs=1e-6)
    assert result.joint_qd[0, follower] == pytest.approx(result.joint_qd[0, leader], abs=1e-12)


def test_joints_that_no_task_moves_stay_where_they_are():
    robot = load_robot("dual_panda")
    controller = IKController(robot, ARMS[1:], damping_weight=0.0)
    q = robot.mid_joint_q + 0.1
    result = controller.step(near(robot, q, ARMS[1]), q)
    np.testing.assert_array_equal(result.joint_q[0, :7], q[:7])
    assert (result.joint_q[0, 7:] != q[7:]).any()


@pytest.mark.evidence
def test_offsets_reference_links_and_free_axes():
    robot = load_robot("dual_panda")
    tool = np.array([0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0])
    targets = [Target(ARMS[0], offset=tool), Target(ARMS[1], reference_link=ARMS[0], row_weights=[1, 1, 1, 0, 0, 0])]
    controller = IKController(robot, targets)
    q = robot.mid_joint_q
    controller.reset(q)
    assert controller.step(np.zeros((2, 7))).status[0] == IKStatus.INVALID  # no unit quaternion
    with_tool = robot.with_frame("tip", ARMS[0], tool)
    tip = pose_of(with_tool, q, "tip")
    tip[:3] += [0.02, 0.03, -0.02]
    goal = seen_from(robot, q, ARMS[1], ARMS[0]) + np.array([0.05, -0.04, 0.03])
    for _ in range(500):
        result = controller.step(np.stack([tip, [*goal, 0, 0, 0, 1]]))
    assert result.success[0]
    assert np.isnan(result.orientation_error[0, 1])
    assert result.island_status.shape == (1, 1)  # the relative target joins both arms
    np.testing.assert_allclose(pose_of(with_tool, result.joint_q, "tip"), tip, atol=1e-6)
    np.testing.assert_allclose(seen_from(robot, result.joint_q, ARMS[1], ARMS[0]), goal, atol=1e-6)


def seen_from(robot, joint_q, link, reference):
    """Position of a link in the frame of another."""
    there, here = pose_of(robot, joint_q, link), pose_of(robot, joint_q, reference)
    x, y, z, w = here[3:]
    d = there[:3] - here[:3]
    v = np.array([-x, -y, -z])
    return d + 2 * np.cross(v, np.cross(v, d) + w * d)


@pytest.mark.evidence
def test_further_objectives_may_change_their_data(panda):
    gaze = IKObjectiveLookAt(LINK, np.array([0.6, 0.0, 0.0]))
    controller = IKController(panda, objectives=[gaze])
    controller.reset(HOME)
    for point in (np.array([0.6, 0.0, 0.0]), np.array([0.5, 0.3, 0.1])):
        gaze.set_targets(point)
        for _ in range(1500):
            result = controller.step()
        pose = panda.forward_kinematics(result.joint_q, links=[LINK])
        x, y, z, w = pose.orientations_xyzw[0, 0]
        axis = np.array([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)])
        direction = point - pose.positions[0, 0]
        assert axis @ direction / np.linalg.norm(direction) > 1 - 1e-6
    assert result.success[0]


def test_a_gpus_code_gives_the_same_commands(panda, monkeypatch):
    """Width 1, as on a GPU, one thread per robot; only rounding differs."""
    target = near(panda, HOME, by=0.05)
    limits = ControlLimits(acceleration=10.0)
    runs = [follow(IKController(panda, [LINK], limits=limits), HOME, [target] * 200)]
    monkeypatch.setattr(tick_islands, "lanes_on", lambda device, robots: Lanes(1, "float64"))
    runs.append(follow(IKController(panda, [LINK], limits=limits), HOME, [target] * 200))
    np.testing.assert_allclose(runs[1].joint_q, runs[0].joint_q, atol=1e-7)
    np.testing.assert_allclose(runs[1].sigma_min, runs[0].sigma_min, rtol=1e-6)


def test_time_can_be_told(panda):
    controller = IKController(panda, [LINK])
    controller.reset(HOME)
    assert 0.0 < controller.step(near(panda, HOME)).seconds < 1.0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"targets": np.zeros((2, 7))}, InputError),
        ({"targets": np.zeros(6)}, InputError),
        ({"joint_q": np.zeros(6)}, InputError),
        ({"joint_qd": np.zeros((2, 7))}, InputError),
        ({"dt": 0.0}, InputError),
        ({"dt": float("nan")}, InputError),
        ({"deadline_ns": 1.5}, InputError),
    ],
)
def test_wrong_shapes_are_errors(panda, arguments, error):
    controller = IKController(panda, [LINK])
    with pytest.raises(error):
        controller.step(**arguments)


def test_a_further_controller_of_an_equal_signature_generates_no_code(panda, monkeypatch):
    IKController(panda, [LINK], posture=HOME)
    monkeypatch.setattr(kernel, "build_program", None)
    controller = IKController(load_robot("panda"), [LINK], limits=ControlLimits(acceleration=5.0), posture=HOME + 0.1)
    controller.reset(HOME)
    assert controller.step(near(panda, HOME)).joint_q.shape == (1, 7)


class NotStated(IKObjective):
    def residual_dim(self):
        return 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"targets": ["no_link"]}, UnknownNameError),
        ({"targets": []}, InputError),
        ({"targets": ["panda_link0"]}, InputError),
        ({"targets": [LINK, "panda_link0"]}, InputError),
        ({"limits": ControlLimits(velocity={"no_joint": 1.0})}, UnknownNameError),
        ({"limits": ControlLimits(velocity=-1.0)}, InputError),
        ({"limits": ControlLimits(acceleration=0.0)}, InputError),
        ({"limits": ControlLimits(position_margin=4.0)}, InputError),
        ({"limits": ControlLimits(joint_step=np.ones(3))}, InputError),
        ({"joint_order": ["panda_joint1"]}, InputError),
        ({"joint_order": ["panda_joint1"] * 7}, InputError),
        ({"posture": np.zeros(3)}, InputError),
        ({"objectives": [NotStated()]}, EngineError),
        ({"robots": 0}, InputError),
        ({"iterations": -1}, InputError),
        ({"damping_weight": -1.0}, InputError),
        ({"position_tolerance": 0.0}, InputError),
    ],
)
def test_wrong_arguments_are_errors(panda, arguments, error):
    with pytest.raises(error):
        IKController(panda, **{"targets": [LINK], **arguments})
