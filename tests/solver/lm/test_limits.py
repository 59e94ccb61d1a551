"""Limits hold exactly wherever a number of the result's precision lies between them."""

import numpy as np
import pytest

from ik_service import SolverOptions
from ik_service.mechanism.coupling import inwards
from ik_service.robots import load_urdf
from tests.solver.conftest import Reachable, bare_robot, cpu_solver, use_engine

STILL = 0.677750143761  # between two float32
ONLY = float(np.float32(0.3))
OUT_OF_REACH = np.random.default_rng(1).uniform(-4, 4, (50, 3)) * [1, 1, 0]  # most of them
HALF_STEP = 2.0**-24  # of a float32, of its value at most
CHAIN = """
<robot name="chain"><link name="base"/><link name="a"/><link name="b"/><link name="c"/><link name="d"/>
  <link name="tip"/><joint name="turning" type="revolute"><parent link="base"/><child link="a"/><axis xyz="0 0 1"/>
    <limit lower="-3" upper="3"/></joint>
  <joint name="still" type="revolute"><parent link="a"/><child link="b"/><origin xyz="1 0 0"/><axis xyz="0 0 1"/>
    <limit lower="{still}" upper="{still}"/></joint>
  <joint name="narrow" type="revolute"><parent link="b"/><child link="c"/><origin xyz="1 0 0"/><axis xyz="0 0 1"/>
    <limit lower="{low!r}" upper="{high!r}"/></joint>
  <joint name="follower" type="prismatic"><parent link="c"/><child link="d"/><axis xyz="1 0 0"/>
    <limit lower="{led!r}" upper="{led!r}"/><mimic joint="{leader}" multiplier="{multiplier}" offset="0.1"/></joint>
  <joint name="mount" type="fixed"><parent link="d"/><child link="tip"/><origin xyz="1 0 0"/></joint>
</robot>
"""


def chain(leader="still"):
    """A joint that turns, one that cannot, one between whose limits lies one float32, and a follower that is held."""
    multiplier, at = (0.7, STILL) if leader == "still" else (0.5, ONLY)
    numbers = {"still": STILL, "low": ONLY - 1e-9, "high": ONLY + 1.2e-8, "led": multiplier * at + 0.1}
    return load_urdf(CHAIN.format(leader=leader, multiplier=multiplier, **numbers))


def outside(robot, joint_q):
    """How far every coordinate is outside its limits, [n, coordinates]."""
    q = joint_q.astype(np.float64)
    return np.maximum(np.maximum(robot.joint_limit_lower - q, q - robot.joint_limit_upper), 0.0)


@pytest.mark.quick_cases("staged-still", "staged-narrow", "threads-narrow")
@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("leader", ["still", "narrow"])
def test_float32_is_outside_only_where_none_lies_between_the_limits(leader):
    robot = chain(leader)
    for start in (None, np.full((50, 4), 9.0)):
        check_outside(robot, cpu_solver(robot, ["tip"]).solve(OUT_OF_REACH, initial_joint_q=start))


def check_outside(robot, result):
    assert np.ptp(result.joint_q[:, 0]) > 0
    far = outside(robot, result.joint_q)
    assert (far[:, [0, 2]] == 0.0).all()
    np.testing.assert_array_equal(result.joint_q[:, 1], np.float32(STILL))
    assert (far[:, 1] > 0.0).all()
    assert (far <= HALF_STEP * np.abs(result.joint_q)).all()
    np.testing.assert_array_equal(result.joint_q[:, 2], np.float32(ONLY))


@pytest.mark.quick_cases("staged-float32")
@pytest.mark.parametrize(
    ("way", "precision"), [("auto", "float32"), ("staged", "float32"), ("threads", "float32"), ("auto", "float64")]
)
def test_the_margin_is_the_least_distance_of_a_free_coordinate_from_its_limits(monkeypatch, way, precision):
    use_engine(way, monkeypatch)
    robot = bare_robot("panda_gripper").lock({"panda_joint4": -2.0})
    positions = Reachable.draw(robot, ["panda_leftfinger"], 60, random_seed=2).positions
    positions += np.random.default_rng(3).normal(0.0, 0.2, positions.shape)
    result = cpu_solver(robot, ["panda_leftfinger"]).solve(positions, options={"precision": precision})
    q, active = result.joint_q.astype(np.float64), robot.dof_active >= 0
    assert 0 < active.sum() < robot.joint_dof_count
    margins = np.minimum(q - robot.joint_limit_lower, robot.joint_limit_upper - q)[:, active]
    assert np.ptp(margins) > 0
    np.testing.assert_array_equal(result.limit_margin, margins.min(axis=1))


def test_limits_that_are_off_may_have_a_margin_below_zero_and_a_robot_without_limits_has_none(panda):
    far, outside = np.full((5, 3), 2.0), panda.joint_limit_upper[None] + 0.5
    off = cpu_solver(panda, ["panda_hand"], options=SolverOptions(joint_limits="off"))
    reached = panda.forward_kinematics(outside, ["panda_hand"])
    result = off.solve(reached.positions, reached.orientations_xyzw, initial_joint_q=outside)
    assert result.success.all()
    np.testing.assert_allclose(result.limit_margin, -0.5, atol=1e-5)
    assert (cpu_solver(panda, ["panda_hand"]).solve(far).limit_margin >= 0.0).all()
    free = load_urdf(
        b'<robot name="free"><link name="a"/><link name="b"/><joint name="j" type="continuous"><parent link="a"/>'
        b'<child link="b"/><axis xyz="0 0 1"/></joint></robot>'
    )
    assert np.isnan(cpu_solver(free, ["b"]).solve(far).limit_margin).all()


@pytest.mark.evidence_cases("auto-off", "auto-soft", "threads-soft")
@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("joint_limits", ["off", "soft"])
def test_followers_go_beyond_limits_that_are_not_enforced(joint_limits):
    robot, start = chain("narrow"), [[0.5, 0.2, 2.0, 1.1]]
    solver = cpu_solver(robot, ["tip"], options=SolverOptions(joint_limits=joint_limits))
    bent = robot.forward_kinematics(start, ["tip"]).positions
    joint_q = solver.solve(bent, initial_joint_q=start).joint_q.astype(np.float64)
    assert joint_q[0, 3] > 0.5 * robot.joint_limit_upper[2] + 0.1 + 0.05  # that the limits of its leader leave it
    assert joint_q[0, 3] == pytest.approx(0.5 * joint_q[0, 2] + 0.1, abs=1e-6)


def test_rounded_limits_are_inside_wherever_a_float32_is():
    rng = np.random.default_rng(2)
    lower = rng.uniform(-4.0, 4.0, 20_000)
    step = np.abs(np.spacing(np.float32(lower))).astype(np.float64)
    upper = lower + step * rng.uniform(0.0, 2.5, lower.shape)
    low, high = (ends.astype(np.float64) for ends in inwards(lower, upper))
    up = np.float32(lower)
    up = np.where(up < lower, np.nextafter(up, np.float32(np.inf)), up).astype(np.float64)
    fits = up <= upper
    assert 0.3 < fits.mean() < 0.9
    assert ((low >= lower) & (high <= upper) & (low <= high))[fits].all()
    middle = (0.5 * (lower + upper)[~fits]).astype(np.float32)
    np.testing.assert_array_equal(low[~fits], middle)
    np.testing.assert_array_equal(high[~fits], middle)
