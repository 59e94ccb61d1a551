"""Derivatives of a tick: beside the inverse Jacobian, at limits of speed, at kinks; the controller stays as it is."""

from dataclasses import fields

import numpy as np
import pytest

from ik_service import Target, load_robot
from ik_service.control import ControlLimits, IKController, LimitKind
from ik_service.control.tick.derivatives import TickAnswer, tick_derivatives
from ik_service.robots import Sphere, World, load_urdf
from ik_service.solver.lm.status import IKStatus
from objectives import InputError
from tests.control.conftest import HOME, LINK, begun, gantry_text, pose_of, poses_of
from tests.export.conftest import TWO_ARMS

START = np.array([0.3, -1.2, 1.1, -0.5, 0.4, 0.2])
LONG, SHORT = 0.5, 1e-3


@pytest.fixture(scope="module")
def arm():
    return load_robot("ur5e", collision="ignore")


def near(robot, by=0.01):
    return pose_of(robot, START + by * np.array([1.0, -1.0, 0.5, 1.0, -0.5, 0.7]), "tool0")


@pytest.mark.evidence
def test_a_tick_that_meets_its_target_follows_it_by_the_inverse_jacobian(arm):
    controller = IKController(arm, ["tool0"], damping_weight=0.0)
    found = controller.linearise(near(arm), START, LONG)
    assert found.is_differentiable.all()
    inverse = np.linalg.inv(arm.jacobian(found.joint_q, ["tool0"])[0, 0])
    np.testing.assert_allclose(found.joint_q_by_targets[0, :, 0], inverse, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(found.joint_q_by_start[0], np.zeros((6, 6)), atol=1e-7)
    np.testing.assert_allclose(found.joint_qd_by_start[0], -np.eye(6) / LONG, atol=1e-7)
    np.testing.assert_allclose(found.joint_qd_by_targets[0, :, 0], inverse / LONG, rtol=1e-7, atol=1e-8)


def test_joints_at_their_speed_follow_their_start_alone(arm):
    controller = IKController(arm, ["tool0"])
    far = pose_of(arm, START + 0.5, "tool0")
    found = controller.linearise(far, START, SHORT)
    fast = np.abs(found.joint_qd[0]) > 0.999 * arm.joint_velocity_limit
    assert fast.any()
    assert found.is_differentiable.all()
    np.testing.assert_allclose(found.joint_q_by_start[0][fast], np.eye(6)[fast], atol=1e-9)
    assert not found.joint_q_by_targets[0][fast].any()
    assert np.abs(found.joint_qd_by_start[0][fast]).max() < 1e-5


def test_accelerations_let_speeds_go_on(arm):
    controller = IKController(arm, ["tool0"], limits=ControlLimits(acceleration=5.0))
    speeds = np.full(6, 0.3)
    found = controller.linearise(pose_of(arm, START + 0.5, "tool0"), START, SHORT, joint_qd=speeds)
    free = np.abs(found.joint_qd[0] - speeds - 5.0 * SHORT) < 1e-9  # as fast as accelerations allow
    assert free.any()
    np.testing.assert_allclose(found.joint_qd_by_speed[0][free], np.eye(6)[free], atol=1e-8)
    np.testing.assert_allclose(found.joint_q_by_speed[0][free], SHORT * np.eye(6)[free], atol=1e-9)


def test_a_tick_in_which_a_limit_begins_to_hold_has_none(arm):
    slider = arm.activate(["wrist_3_joint"])
    limit = float(arm.joint_velocity_limit[5])
    controller = IKController(slider, ["tool0"], damping_weight=0.0)
    reached = START + np.array([0.0, 0.0, 0.0, 0.0, 0.0, limit * SHORT])
    found = controller.linearise(pose_of(slider, reached, "tool0"), START, SHORT)
    assert not found.is_differentiable.any()
    reached[5] = START[5] + 0.5 * limit * SHORT
    assert controller.linearise(pose_of(slider, reached, "tool0"), START, SHORT).is_differentiable.all()


def slopes_of(values):
    """Derivatives of a tick, of which a speed is a function of where the first joint starts."""

    def tick(joint_q, joint_qd, targets):
        fast = 1000.0 * joint_q  # as large as the derivatives of a tick of 1 ms are
        fast[:, 1] += values(joint_q[:, 0])
        return TickAnswer(joint_q, fast, np.ones(len(joint_q), dtype=bool))

    still, targets = np.zeros((1, 4)), np.array([[[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]])
    return tick_derivatives(tick, load_urdf(gantry_text()), np.arange(4), still, still.copy(), targets, 1e-3)


SLOPES = {  # a change of one answer whose row is about 1000, and its derivative; None where it has none
    "straight": (lambda x: 3.0 * x, 3.0),
    "curved": (lambda x: 3.0 * x + 1e6 * x * x, 3.0),
    "curved thrice": (lambda x: 3.0 * x + 1e9 * x**3, 3.0),
    "kink": (lambda x: 3.0 * np.abs(x), None),
    "kink beside it": (lambda x: 12.0 * np.maximum(x - 0.7e-6, 0.0), None),
    "jump": (lambda x: 1e-4 * np.sign(x), None),
    "small kink": (lambda x: 0.1 * np.abs(x), 0.0),
}


@pytest.mark.parametrize("name", SLOPES)
def test_kinks_and_jumps_are_told_from_curves(name):
    values, expected = SLOPES[name]
    found = slopes_of(values)
    assert found.is_differentiable.tolist() == [expected is not None]
    if expected is not None:
        assert found.joint_qd_by_start[0, 1, 0] == pytest.approx(expected, abs=1e-5)
        np.testing.assert_allclose(np.diag(found.joint_qd_by_start[0]), 1000.0, rtol=1e-8)


@pytest.fixture(scope="module")
def two_arms():
    return load_urdf(TWO_ARMS + "</robot>")


@pytest.mark.evidence
def test_a_kink_of_one_island_is_seen_beside_large_derivatives_of_another(two_arms):
    """One arm reaches its speed just so; the other is on its target after the tick, and follows it at 1/dt."""
    limits, dt = ControlLimits(acceleration=5.0), 1e-2
    targets = [Target(link, row_weights=(1.0, 1.0, 1.0, 0.0, 0.0, 0.0)) for link in ("a_tip", "b_tip")]
    controller = IKController(two_arms, targets, limits=limits)
    start = two_arms.mid_joint_q
    goal = start + np.where([name.startswith("a_") for name in two_arms.dof_names], 0.4, 2e-4)
    poses = poses_of(two_arms, two_arms.complete_joint_q(goal)[0], ("a_tip", "b_tip"))
    speeds = np.zeros(len(start))
    for below, smooth in ((0.0, False), (0.01, True)):
        speeds[0] = 1.0 - 5.0 * dt - below
        found = controller.linearise(poses, start, dt, joint_qd=speeds)
        assert found.joint_qd[0, 0] == pytest.approx(1.0 - below)
        assert found.joint_qd_by_speed[0, 0, 0] == pytest.approx(1.0 if smooth else 0.5, abs=1e-6)
        assert np.abs(found.joint_qd_by_targets).max() > 100.0
        assert found.is_differentiable.tolist() == [smooth]


@pytest.mark.evidence
def test_ticks_of_numbers_that_are_none_or_with_open_loops_have_none(arm):
    lost = near(arm)
    lost[0] = np.nan
    assert not IKController(arm, ["tool0"]).linearise(lost, START).is_differentiable.any()
    four_bar = load_robot("four_bar")
    controller = IKController(four_bar, [Target("coupler", row_weights=(1.0, 1.0, 1.0, 0.0, 0.0, 0.0))])
    closed, answers = np.array([0.861, -0.354, 1.401]), {}
    for name, start in (("open", four_bar.mid_joint_q), ("closed", closed)):
        controller.reset(start)
        at = controller.step(pose_of(four_bar, start, "coupler"), dt=LONG).joint_q[0].copy()
        target = pose_of(four_bar, start, "coupler", 1e-3)
        answers[name] = controller.linearise(target, at, 1e-2)
        controller.reset(at)
        status = controller.step(target, dt=1e-2).status[0]
        assert (status == IKStatus.LOOP_OPEN) == (name == "open")
    assert answers["closed"].is_differentiable.all()
    assert np.abs(answers["closed"].joint_q_by_targets).max() > 1.0
    assert not answers["open"].is_differentiable.any()


def everything(controller):
    """What the next tick starts from, and what a caller sees of the last one, as bytes."""
    arrays, result = controller._arrays, controller._caller.result
    names = ("targets", "joint_q", "joint_qd", "numbers", "clearance")
    found = {name: getattr(arrays, name).host for name in names}
    found |= {f"answer {name}": array.host for name, array in arrays.answers.items()}
    found |= {f"own {name}": array.numpy() for name, array in arrays._own.items()}
    found |= {f"task {k}": task.numpy() for k, task in enumerate(controller._islands.last_tasks())}
    found |= {f"result {field.name}": getattr(result, field.name) for field in fields(result)}
    return {name: value.tobytes() if hasattr(value, "tobytes") else value for name, value in found.items()}


def ball_beside(panda, joint_q, far):
    """A ball beside the hand, so far from it."""
    return World({"ball": Sphere(0.05, tuple(pose_of(panda, joint_q, LINK, [0.0, far, 0.0])[:3]))})


def controllers(name, panda):
    """Two controllers that are alike, with a configuration and a pose, in their order, of which one is near another."""
    given = {
        "accelerations": {"limits": ControlLimits(acceleration=5.0), "posture": panda.mid_joint_q},
        "clearance": {"limits": ControlLimits(clearance=0.02), "world": ball_beside(panda, HOME, 0.25)},
        "direction": {"limits": ControlLimits(acceleration=50.0), "scale_direction": True},
        "order": {"joint_order": panda.joint_names[::-1], "wxyz": True, "limits": ControlLimits(acceleration=5.0)},
    }[name]
    made = [IKController(panda, [LINK], robots=2, **given) for _ in range(2)]
    place = HOME[made[0]._order.coordinates]

    def pose(by):
        found = pose_of(panda, HOME + by, LINK)
        return np.r_[found[:3], np.roll(found[3:], 1)] if "wxyz" in given else found

    return *made, np.stack([place, place + 0.01]), pose


CONTROLLERS = ("accelerations", "clearance", "direction", "order")


@pytest.mark.evidence_cases("accelerations")
@pytest.mark.parametrize("name", CONTROLLERS)
def test_a_controller_goes_on_as_if_nobody_had_asked(panda, name):
    asked, other, start, pose = controllers(name, panda)
    asked.linearise(pose(0.1), start)
    with pytest.raises(InputError, match="does not know where the robots are"):
        asked.step(pose(0.1))
    for controller in (asked, other):
        controller.reset(start)
    for k in range(8):
        target = pose(0.1 * np.sin(0.2 * k))
        one, two = (controller.step(target, dt=SHORT) for controller in (asked, other))
        before = everything(asked)
        asked.linearise(pose(0.2), start + 0.05, 2e-3, joint_qd=0.1)
        with pytest.raises(InputError):
            asked.linearise(pose(0.2), start[:, :2])
        after = everything(asked)
        assert [key for key in before if before[key] != after[key]] == []
        one, two = asked.step(), other.step()
        for column in fields(one):
            if column.name not in ("seconds", "dof_names"):
                assert getattr(one, column.name).tobytes() == getattr(two, column.name).tobytes(), column.name


def test_ticks_that_clearance_holds_back_have_none(panda):
    """Distances are in float32: what they hold back moves by steps."""
    target, found = pose_of(panda, HOME + 0.05, LINK), []
    for far in (0.25, 0.5):
        limits = ControlLimits(clearance=0.02)
        controller = begun(panda, [LINK], HOME, limits=limits, world=ball_beside(panda, HOME, far))
        found.append(controller.linearise(target, HOME, 1e-2))
        controller.reset(HOME)
        is_held = bool((controller.step(target, dt=1e-2).active_limits == LimitKind.CLEARANCE).any())
        assert is_held == (far < 0.3)
        assert found[-1].is_differentiable.tolist() == [not is_held]
    plain = IKController(panda, [LINK]).linearise(target, HOME, 1e-2)
    np.testing.assert_allclose(found[1].joint_q_by_targets, plain.joint_q_by_targets, atol=1e-8)
    assert np.abs(plain.joint_q_by_targets).max() > 0.5


@pytest.mark.evidence_cases("accelerations")
@pytest.mark.parametrize("name", [name for name in CONTROLLERS if name != "clearance"])
def test_derivatives_are_those_of_its_steps(panda, name):
    """Along random directions of starts, speeds and targets, beside steps that are a hundred times as far apart."""
    controller, _, start, pose = controllers(name, panda)
    target, rng, apart = pose(0.05), np.random.default_rng(1), 1e-4
    speed = 0.05 * np.ones((2, len(controller.dof_names)))
    way_q, way_qd, way_x = rng.normal(size=start.shape), rng.normal(size=speed.shape), rng.normal(size=3)
    found = controller.linearise(target, start, 1e-2, joint_qd=speed)

    def stepped(by):
        controller.reset(start + by * way_q, speed + by * way_qd)
        result = controller.step(np.r_[target[:3] + by * way_x, target[3:]], dt=1e-2)
        return result.joint_q.copy(), result.joint_qd.copy()

    assert found.is_differentiable.all()
    for part, after, before in zip(("joint_q", "joint_qd"), stepped(apart), stepped(-apart), strict=True):
        expected = (after - before) / (2.0 * apart)
        by_start, by_speed, by_targets = (getattr(found, f"{part}_by_{what}") for what in ("start", "speed", "targets"))
        own = np.einsum("nqd,nd->nq", by_start, way_q) + np.einsum("nqd,nd->nq", by_speed, way_qd)
        own += by_targets[:, :, 0, :3] @ way_x
        np.testing.assert_allclose(own, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
        assert np.abs(expected).max() > 0.1


@pytest.mark.evidence
def test_by_followers_they_are_zero(two_arms):
    controller = IKController(two_arms, ["a_tip"])
    start = two_arms.mid_joint_q
    found = controller.linearise(pose_of(two_arms, start + 0.05, "a_tip"), start, SHORT)
    follows = np.array([name.endswith("follow") for name in two_arms.dof_names])
    assert follows.any()
    assert not found.joint_q_by_start[:, :, follows].any()
    assert found.joint_q_by_start[:, :, ~follows].any(axis=1).all()
    assert found.joint_q_by_start[:, follows].any(axis=2).all()


def test_several_robots_orders_and_quaternions(arm):
    own, order = IKController(arm, ["tool0"], robots=2), arm.joint_names[::-1]
    other = IKController(arm, ["tool0"], robots=2, joint_order=order, wxyz=True)
    starts, target = np.stack([START, START + 0.1]), near(arm)
    found = own.linearise(target, starts, LONG)
    again = other.linearise(target[[0, 1, 2, 6, 3, 4, 5]], starts[:, ::-1], LONG)
    np.testing.assert_array_equal(again.joint_q, found.joint_q[:, ::-1])
    np.testing.assert_array_equal(again.joint_q_by_start, found.joint_q_by_start[:, ::-1, ::-1])
    np.testing.assert_array_equal(again.joint_q_by_targets, found.joint_q_by_targets[:, ::-1])
    alone = IKController(arm, ["tool0"]).linearise(target, starts[1], LONG)
    np.testing.assert_array_equal(alone.joint_q_by_targets[0], found.joint_q_by_targets[1])
