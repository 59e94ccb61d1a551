"""Limits of joints that close loops: answers keep them, in both engines, in ticks and in exports.

The oracle of the four-bar is its curve: all its closed configurations, by closing from a fine grid of crank angles.
"""

from typing import NamedTuple

import numpy as np
import pytest

from ik_service import EngineError, IKStatus, Target, load_robot
from ik_service.control import ControlLimits, IKController
from ik_service.export import export_controller
from ik_service.robots import LoopConstraint
from objectives import InputError
from tests.solver.conftest import EACH_ENGINE, bare_robot, cpu_solver
from tests.solver.test_loops import HELD, LEFT, RIGHT

pytestmark = pytest.mark.evidence

LOWER, UPPER = 0.8, 1.3
POINT = "coupler_point"
COUNT = 100
CLOSED = 1e-10


def four_bar(limits):
    """Give the four-bar with its pin as a revolute joint."""
    robot = load_robot("four_bar")
    pin = robot.loops[0]
    frames = pin.link, pin.reference_link, pin.offset, pin.reference_offset
    return robot.with_loops([LoopConstraint("pin", "revolute", *frames, limits=limits)])


class Curve(NamedTuple):
    joint_q: np.ndarray
    angle: np.ndarray
    point: np.ndarray

    @property
    def within(self):
        return (self.angle >= LOWER) & (self.angle <= UPPER)


@pytest.fixture(scope="module")
def curve():
    """Give closed configurations all along the curve of the four-bar, its pin's angle and the point that it moves."""
    robot = four_bar(None)
    starts = np.zeros((2000, 3))
    starts[:, 0] = np.linspace(-np.pi, np.pi, len(starts), endpoint=False)
    modes = robot.constraints.close(starts, frozen=["crank_joint"], solutions=2).solutions.reshape(-1, 3)
    joint_q = modes[np.isfinite(modes).all(axis=1)]
    angle = robot.constraints.with_closing_joints(joint_q)[:, -1]
    return Curve(joint_q, angle, robot.forward_kinematics(joint_q, [POINT]).positions[:, 0])


def drawn(curve, which, seed=0):
    return curve.point[np.random.default_rng(seed).choice(np.flatnonzero(which), COUNT)]


def check_kept(result):
    """Check that no answer has a loop open or the pin beyond its limits, by the float64 oracle of the free robot."""
    robot = four_bar(None)
    joint_q = result.joint_q.astype(np.float64)
    angle = robot.constraints.with_closing_joints(joint_q)[:, -1]
    beyond = np.maximum(angle - UPPER, LOWER - angle)
    assert beyond.max() <= CLOSED
    assert np.abs(robot.constraints.residual(joint_q)).max() <= CLOSED
    return angle


@EACH_ENGINE
def test_targets_beyond_the_limits_are_come_to_as_near_as_these_allow(curve, engine):
    targets = drawn(curve, ~curve.within)
    result = cpu_solver(four_bar((LOWER, UPPER)), [POINT], engine=engine).solve(targets)
    angle = check_kept(result)
    least = np.linalg.norm(targets[:, None] - curve.point[curve.within][None], axis=2).min(axis=1)
    assert (result.position_error[:, 0] <= 1.01 * least + 1e-3).mean() >= 0.99  # the grid is some 1 mm wide
    assert (least[result.success] < 3e-3).all()
    at_limit = np.minimum(np.abs(angle - UPPER), np.abs(angle - LOWER)) < 1e-9
    assert at_limit.mean() > 0.5  # else the limits would not have been tried
    assert np.allclose(result.closing_joint_q[:, 0], angle, rtol=0.0, atol=1e-12)


HAND_LIMITS = {
    "revolute": (-0.3, 0.4),
    "prismatic": (-0.05, 0.05),
    "helical": (-1.0, 2.0),
    "cylindrical": ((-0.05, np.inf), (-0.3, 0.3)),
    "universal": ((-0.4, 0.4), (-0.2, 0.6)),
    "planar": ((-0.05, 0.05), (-np.inf, 0.05), (3.0, 3.5)),
}


def hands(joint, limits):
    """Give two arms whose hands are joined, and joined to the world by a plane whose place is limited as well."""
    pitch = {"pitch": 0.02} if joint == "helical" else {}
    plane = (0.0, 0.0, 0.4, 0.0, 0.0, 0.0, 1.0)
    table = None if limits is None else ((0.2, 0.6), (-np.inf, np.inf), (-np.inf, np.inf))
    return bare_robot("dual_panda").with_loops(
        [
            LoopConstraint("held", joint, RIGHT, LEFT, reference_offset=HELD, limits=limits, **pitch),
            LoopConstraint("table", "planar", LEFT, None, reference_offset=plane, limits=table),
        ]
    )


@pytest.mark.parametrize(("engine", "joint"), [*(("compiled", one) for one in HAND_LIMITS), ("staged", "universal")])
def test_hands_keep_the_limits_of_every_joint_that_joins_them(engine, joint):
    robot, free = hands(joint, HAND_LIMITS[joint]), hands(joint, None)
    closed = robot.constraints.close(robot.random_joint_q(np.random.default_rng(5), 60)).joint_q
    positions = robot.forward_kinematics(closed, [LEFT]).positions
    solver = cpu_solver(robot, [LEFT], engine=engine)
    result = solver.solve(positions)
    kept = result.joint_q[result.status != IKStatus.LOOP_OPEN]
    assert len(kept) >= 0.9 * len(positions)
    assert np.abs(robot.constraints.close(kept, attempts=1).joint_q - kept).max() < 1e-6  # there is nothing to close
    assert free.constraints.close(kept, attempts=1).constraint_error.max() <= CLOSED
    assert result.success.mean() >= (0.9 if engine == "compiled" else 0.7)
    assert solver.solve(positions[7:8]).joint_q.tobytes() == result.joint_q[7:8].tobytes()


def test_a_range_of_one_value_is_a_further_row(curve):
    inside = np.flatnonzero(curve.within)[::40]
    value = float(curve.angle[inside[0]])
    solver = cpu_solver(four_bar((value, value)), [POINT])
    result = solver.solve(curve.point[inside])
    assert np.abs(result.closing_joint_q[:, 0] - value).max() <= 1e-6
    assert result.success[0]


def test_a_pin_whose_axes_are_opposite_has_an_angle_of_zero_and_no_slope():
    pin = load_robot("four_bar").loops[0]
    turned = (*pin.offset[:3], 1.0, 0.0, 0.0, 0.0)
    loop = LoopConstraint("pin", "revolute", pin.link, pin.reference_link, turned, pin.reference_offset, limits=(-1, 1))
    robot = load_robot("four_bar").with_loops([loop])
    result = cpu_solver(robot, [POINT]).solve([[0.2, 0.2, 0.0]], initial_joint_q=np.zeros(3))
    assert np.isfinite(result.joint_q).all()
    assert result.status_names == ["loop_open"]  # no turn about z brings the axes together


def test_a_loop_that_is_not_enabled_has_no_limits(curve):
    targets = drawn(curve, ~curve.within)
    solver = cpu_solver(four_bar((LOWER, UPPER)), [POINT])
    on = np.arange(COUNT) % 2 == 0
    mixed = solver.solve(targets, constraint_enabled=on[:, None])
    assert (mixed.success == ~on).all()
    alone = solver.solve(targets[on], constraint_enabled=np.ones((int(on.sum()), 1), dtype=bool))
    assert alone.joint_q.tobytes() == mixed.joint_q[on].tobytes()


def test_an_answer_beyond_a_limit_says_that_its_loop_is_open(curve):
    beyond = np.flatnonzero(curve.angle > UPPER + 0.05)[0]
    locked = dict(zip(("crank_joint", "rocker_joint"), curve.joint_q[beyond, [0, 2]], strict=True))
    result = cpu_solver(four_bar((LOWER, UPPER)).lock(locked), [POINT]).solve(curve.point[[beyond]])
    assert result.status_names == ["loop_open"]
    assert not result.success[0]
    assert result.constraint_error[0, 0] > 1e-3
    free = cpu_solver(four_bar(None).lock(locked), [POINT]).solve(curve.point[[beyond]])
    assert free.success[0]


def test_ticks_keep_the_limits(curve):
    robot = four_bar((LOWER, UPPER))
    inside = np.flatnonzero((curve.angle > LOWER + 0.1) & (curve.angle < UPPER - 0.1))[0]
    controller = IKController(robot, [Target(POINT, row_weights=[1, 1, 1, 0, 0, 0])], device="cpu")
    controller.reset(curve.joint_q[inside])
    target, angles = np.array([*curve.point[inside], 0, 0, 0, 1.0]), []
    for turn in np.linspace(0.0, 4.0 * np.pi, 1000):
        target[:2] = curve.point[inside, :2] + 0.3 * np.array([np.sin(turn), 1.0 - np.cos(turn)])
        joint_q = controller.step(target, dt=0.002).joint_q[0].copy()
        assert np.abs(robot.constraints.residual(joint_q)).max() <= CLOSED
        angles.append(robot.constraints.with_closing_joints(joint_q)[0, -1])
    assert LOWER - CLOSED <= min(angles) < max(angles) <= UPPER + CLOSED
    assert min(UPPER - max(angles), min(angles) - LOWER) < 1e-6  # one is come to


def test_what_does_not_know_such_limits_says_so(curve):
    robot = four_bar((LOWER, UPPER))
    with pytest.raises(InputError, match="closing joints have limits"):
        IKController(robot, [POINT], device="cpu", limits=ControlLimits(acceleration=10.0))
    with pytest.raises(EngineError, match="Ticks of robots whose closing joints have limits cannot be exported"):
        export_controller(IKController(robot, [POINT], device="cpu"))
    solver, targets = cpu_solver(robot, [POINT]), drawn(curve, curve.within)
    with pytest.raises(EngineError, match="no derivatives where joints that close loops have limits"):
        solver.linearise(solver.solve(targets), targets)
