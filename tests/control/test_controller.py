"""What a controller promises beyond paths: islands, robots, deadlines, soft rows, orders of joints, bad numbers."""

import time

import numpy as np
import pytest

from ik_service import Target, load_robot
from ik_service.compiler import Lanes
from ik_service.control import ControlLimits, IKController, LimitKind, tick_islands
from ik_service.control.tick import kernel
from ik_service.errors import EngineError
from ik_service.mechanism.transforms import transform_inverse, transform_multiply
from ik_service.solver.lm.status import IKStatus
from objectives import IKObjective, InputError, UnknownNameError
from tests.control.conftest import ARMS, HOME, LINK, begun, follow, last_of, pose_of, poses_of

SPEED_ROUNDING = 1 + 1e-9


def near(robot, joint_q, link=LINK, by=0.02):
    return pose_of(robot, joint_q, link, by)


def test_the_command_is_where_the_next_step_starts(panda):
    target, other, q = near(panda, HOME), IKController(panda, [LINK]), HOME
    by_itself, told = follow(IKController(panda, [LINK]), HOME, [target] * 50).joint_q, []
    for _ in range(50):
        q = other.step(target, q).joint_q.copy()
        told.append(q[0])
    np.testing.assert_array_equal(by_itself, told)


def test_ticks_of_so_many_iterations_are_the_same_every_time(panda):
    target, used = near(panda, HOME), IKController(panda, [LINK])
    runs = [follow(IKController(panda, [LINK]), HOME, [target] * 100)]
    follow(used, panda.random_joint_q(np.random.default_rng(0), 1)[0], [target] * 20)  # a reset leaves nothing of it
    runs.append(follow(used, HOME, [target] * 100))
    for one, other in zip(vars(runs[0]).values(), vars(runs[1]).values(), strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.evidence
def test_one_arm_in_a_limit_does_not_slow_the_other(dual):
    q = dual.mid_joint_q
    targets = poses_of(dual, q, ARMS)
    targets[0, 0] += 2.0  # out of reach
    targets[1, :3] += 0.03
    both, one = begun(dual, ARMS, q), begun(dual, ARMS[1:], q)
    for _ in range(300):
        result, alone = both.step(targets), one.step(targets[1:])
        np.testing.assert_array_equal(result.joint_q[0, 7:], alone.joint_q[0, 7:])
        assert result.sigma_min[0, 1] == alone.sigma_min[0, 0]
    assert result.island_status.tolist() == [[IKStatus.BLOCKED_BY_LIMITS, IKStatus.CONVERGED]]
    assert {name.split("_")[0] for name in result.blocking()} == {"left"}
    assert result.status[0] == IKStatus.BLOCKED_BY_LIMITS
    assert not result.success[0]


def test_what_holds_a_joint_back_is_named(panda):
    controller = begun(panda, [LINK], HOME, limits=ControlLimits(velocity={"panda_joint1": 1e-6}, joint_step=1e-4))
    result = controller.step(near(panda, HOME, by=0.3))
    found = result.blocking()
    assert found["panda_joint1"] is LimitKind.VELOCITY
    assert LimitKind.JOINT_STEP in found.values()
    assert np.isinf(result.clearance).all()
    assert result.active_limits[0, 0] in (LimitKind.VELOCITY, -LimitKind.VELOCITY)
    assert 0.0 < result.seconds < 1.0


def test_what_one_joint_may_not_do_others_make_up_for(panda):
    """With the first joint held by its speed limit the hand still follows, sideways too."""
    shifts = np.linspace(0.0, [0.0, 0.05, 0.0], 500)
    path = [pose_of(panda, HOME, LINK, shift) for shift in shifts]
    slow = follow(IKController(panda, [LINK], limits=ControlLimits(velocity={"panda_joint1": 1e-3})), HOME, path)
    assert slow.position_error.max() < 1e-4
    assert np.abs(slow.joint_qd[:, 0]).max() <= 1e-3 * SPEED_ROUNDING


def test_a_step_can_be_shortened_as_a_whole(panda):
    start, target = pose_of(panda, HOME, LINK), near(panda, HOME, by=0.2)
    result = begun(panda, [LINK], HOME, scale_direction=True).step(target)
    moved, way = pose_of(panda, result.joint_q, LINK)[:3] - start[:3], (target - start)[:3]
    assert 0.0 < result.scaling[0, 0] < 1.0
    assert (np.abs(result.joint_qd[0]) <= panda.joint_velocity_limit * (1 + 1e-12)).all()
    assert moved @ way / np.linalg.norm(moved) / np.linalg.norm(way) > 0.98
    assert result.status[0] == IKStatus.BLOCKED_BY_LIMITS
    assert len(result.blocking()) == 1


@pytest.mark.parametrize("budget_us", [0, 20, 200])
def test_a_deadline_gives_the_best_so_far(panda, budget_us):
    controller, target = begun(panda, [LINK], HOME), near(panda, HOME, by=0.01)
    for _ in range(200):
        result = controller.step(target, deadline_ns=time.monotonic_ns() + 1000 * budget_us)
        assert (np.abs(result.joint_qd[0]) <= panda.joint_velocity_limit * SPEED_ROUNDING).all()
        assert result.status[0] in (IKStatus.CONVERGED, IKStatus.DEADLINE, IKStatus.BLOCKED_BY_LIMITS)
    assert result.success[0]


def test_a_deadline_that_has_passed_still_gives_an_answer_within_the_limits(panda):
    """Limits of acceleration leave so little room that the first step is all that a tick can do, late or not."""
    target = near(panda, HOME, by=0.5)
    result = begun(panda, [LINK], HOME).step(target, dt=0.05, deadline_ns=0)
    assert (result.status[0], result.iterations[0, 0]) == (IKStatus.DEADLINE, 2)
    assert (np.abs(result.joint_qd) <= panda.joint_velocity_limit * SPEED_ROUNDING).all()
    late, counted = (begun(panda, [LINK], HOME, 0.5, limits=ControlLimits(acceleration=10.0)) for _ in range(2))
    result = late.step(target, dt=1e-3, deadline_ns=0)
    assert result.status[0] == IKStatus.BLOCKED_BY_LIMITS
    np.testing.assert_allclose(np.abs(result.joint_qd - 0.5), 10.0 * 1e-3, rtol=1e-9)
    np.testing.assert_array_equal(result.joint_q, counted.step(target, dt=1e-3).joint_q)


def test_enough_time_gives_the_answer_of_enough_iterations(panda):
    target = near(panda, HOME, by=1e-4)
    answer = begun(panda, [LINK], HOME).step(target, deadline_ns=time.monotonic_ns() + 10**10)
    counted = begun(panda, [LINK], HOME, iterations=99).step(target)
    np.testing.assert_array_equal(answer.joint_q, counted.joint_q)


@pytest.mark.parametrize("where", ["targets", "quaternion", "joint_q", "joint_qd"])
def test_numbers_that_are_not_finite_stop_their_robot_and_no_other(panda, where):
    controller = begun(panda, [LINK], HOME, robots=2, limits=ControlLimits(acceleration=10.0))
    targets = np.tile(near(panda, HOME), (2, 1, 1))
    good = last_of(controller, 20, targets).copy()
    given = {"targets": targets.copy(), "joint_q": good.joint_q.copy(), "joint_qd": good.joint_qd.copy()}
    if where == "quaternion":
        given["targets"][0, 0, 3:] *= 0.5
    else:
        given[where].reshape(2, -1)[0, 2] = np.inf if where == "joint_q" else np.nan
    result = controller.step(**given)
    assert result.status[0] == IKStatus.INVALID
    assert result.status[1] != IKStatus.INVALID
    assert np.isfinite(result.joint_q).all()
    assert (result.joint_q >= panda.joint_limit_lower).all()
    after = controller.step(targets, good.joint_q, joint_qd=good.joint_qd)
    assert (after.status != IKStatus.INVALID).all()


def test_other_orders_of_joints_and_quaternions(panda):
    names, target = panda.joint_names[::-1], near(panda, HOME)
    mine, other = begun(panda, [LINK], HOME), begun(panda, [LINK], HOME[::-1], joint_order=list(names), wxyz=True)
    for _ in range(30):
        result, turned = mine.step(target), other.step(target[[0, 1, 2, 6, 3, 4, 5]])
        for name in ("joint_q", "joint_qd", "active_limits"):
            np.testing.assert_array_equal(getattr(turned, name)[0, ::-1], getattr(result, name)[0])
    assert other.coordinate_names == names
    assert set(turned.blocking()) == set(result.blocking())


def test_joints_that_no_task_moves_stay_where_they_are(dual):
    q = dual.mid_joint_q + 0.1
    result = IKController(dual, ARMS[1:], damping_weight=0.0).step(near(dual, q, ARMS[1]), q)
    np.testing.assert_array_equal(result.joint_q[0, :7], q[:7])
    assert (result.joint_q[0, 7:] != q[7:]).any()


@pytest.mark.evidence
def test_offsets_reference_links_and_free_axes(dual):
    tool, q = np.array([0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0]), dual.mid_joint_q
    targets = [Target(ARMS[0], offset=tool), Target(ARMS[1], reference_link=ARMS[0], row_weights=[1, 1, 1, 0, 0, 0])]
    controller = begun(dual, targets, q)
    assert controller.step(np.zeros((2, 7))).status[0] == IKStatus.INVALID  # no unit quaternion
    with_tool = dual.with_frame("tip", ARMS[0], tool)
    tip = pose_of(with_tool, q, "tip", [0.02, 0.03, -0.02])
    goal = seen_from(dual, q, *ARMS[::-1]) + np.array([0.05, -0.04, 0.03])
    result = last_of(controller, 500, np.stack([tip, [*goal, 0, 0, 0, 1]]))
    assert result.success[0]
    assert np.isnan(result.orientation_error[0, 1])
    assert result.island_status.shape == (1, 1)  # the relative target joins both arms
    np.testing.assert_allclose(pose_of(with_tool, result.joint_q, "tip"), tip, atol=1e-6)
    np.testing.assert_allclose(seen_from(dual, result.joint_q, *ARMS[::-1]), goal, atol=1e-6)


def seen_from(robot, joint_q, link, reference):
    there, here = (pose_of(robot, joint_q, name)[None] for name in (link, reference))
    return transform_multiply(transform_inverse(here), there)[0, :3]


def test_a_gpus_code_gives_the_same_commands(panda, monkeypatch):
    """Width 1, as on a GPU, one thread per robot; only rounding differs."""
    target, limits = near(panda, HOME, by=0.05), ControlLimits(acceleration=10.0)
    runs = [follow(IKController(panda, [LINK], limits=limits), HOME, [target] * 200)]
    monkeypatch.setattr(tick_islands, "lanes_on", lambda device, robots: Lanes(1, "float64"))
    runs.append(follow(IKController(panda, [LINK], limits=limits), HOME, [target] * 200))
    np.testing.assert_allclose(runs[1].joint_q, runs[0].joint_q, atol=1e-7)
    np.testing.assert_allclose(runs[1].sigma_min, runs[0].sigma_min, rtol=1e-6)


def test_a_further_controller_of_an_equal_signature_generates_no_code(panda, monkeypatch):
    IKController(panda, [LINK], posture=HOME)
    monkeypatch.setattr(kernel, "build_program", None)
    limits = ControlLimits(acceleration=5.0)
    controller = begun(load_robot("panda"), [LINK], HOME, limits=limits, posture=HOME + 0.1)
    assert controller.step(near(panda, HOME)).joint_q.shape == (1, 7)


@pytest.mark.parametrize(
    "arguments",
    [
        {"targets": np.zeros((2, 7))},
        {"targets": np.zeros(6)},
        {"joint_q": np.zeros(6)},
        {"joint_qd": np.zeros((2, 7))},
        {"deadline_ns": 1.5},
        *({"dt": dt} for dt in (0.0, 5e-324, 1e-170, -1e-3, 1e160, float("nan"))),  # or their squares are no numbers
    ],
    ids=repr,
)
def test_wrong_arguments_of_a_step_are_errors(panda, arguments):
    controller = begun(panda, [LINK], HOME, limits=ControlLimits(acceleration=10.0))
    with pytest.raises(InputError, match="dt is" if "dt" in arguments else None):
        controller.step(**arguments)


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
