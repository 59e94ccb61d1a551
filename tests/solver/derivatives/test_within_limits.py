"""Derivatives of answers within limits of their solve: narrower ranges, joints that stay and largest changes."""

import numpy as np
import pytest

from benchmarks.accuracy.minima import Minima, differences
from ik_service import SolverOptions
from ik_service.robots import load_urdf
from ik_service.solver.derivatives.linearisation import DofState
from ik_service.solver.result import join_results
from objectives import IKObjectivePosture
from tests.solver.conftest import EACH_ENGINE, cpu_solver
from tests.solver.derivatives.conftest import assert_near, derived, values_at

HAND = ["panda_hand"]
PRECISE = SolverOptions(precision="float64")
COUNT = 12
AT = (DofState.AT_LOWER, DofState.AT_UPPER)
GRIPPER = """<robot name="gripper"><link name="base"/><link name="arm"/><link name="left"/><link name="right"/>
  <joint name="turn" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/>
    <limit lower="-2" upper="2" effort="1" velocity="1"/></joint>
  <joint name="slide" type="prismatic"><parent link="arm"/><child link="left"/><axis xyz="1 0 0"/>
    <limit lower="0" upper="1" effort="1" velocity="1"/></joint>
  <joint name="jaw" type="prismatic"><parent link="arm"/><child link="right"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/><mimic joint="slide" multiplier="-0.5"/></joint></robot>"""


@pytest.fixture(scope="module")
def start(panda):
    middle, half = panda.mid_joint_q, 0.25 * (panda.joint_limit_upper - panda.joint_limit_lower)
    return middle + np.random.default_rng(5).uniform(-half, half, (COUNT, 7))


@pytest.fixture(scope="module")
def poses(panda, start):
    return values_at(panda, HAND, start)


def posture_solver(robot, weight=0.05):
    posture = [IKObjectivePosture(robot.mid_joint_q, weight=weight)] if weight else []
    return cpu_solver(robot, HAND, objectives=posture, options=PRECISE)


def near(start, by=0.02):
    """Limits of each problem so near its start that a posture presses joints against them."""
    return start - by, start + by


@pytest.mark.evidence
def test_joints_that_narrower_limits_hold_stay_and_the_others_follow(panda, start, poses):
    solver, (lower, upper) = posture_solver(panda), near(start)
    result = solver.solve(*poses, initial_joint_q=start, joint_limits=(lower, upper))
    found = solver.linearise(result, *poses)
    assert result.success.all()
    held = np.isin(found.dof_state, AT)
    assert held.any(axis=1).mean() > 0.8  # far within the limits of the robot
    good = found.is_differentiable & ~found.one_sided.any(axis=1) & held.any(axis=1)
    assert good.sum() > COUNT // 3
    minima = Minima(panda, HAND, panda.mid_joint_q)
    expected = minima.derivatives(*poses, found.joint_q, found.dof_state == DofState.FREE)
    assert_near(found.by_targets[good], expected[good], 1e-6)
    assert not found.by_targets[held].any()
    assert ((found.joint_q >= lower) & (found.joint_q <= upper)).all()
    assert np.abs(found.joint_q - derived(solver, poses, start).joint_q).max() > 0.05  # without them it is elsewhere
    assert solver.solve(*poses).limits is None


@pytest.mark.evidence
@pytest.mark.parametrize("weight", [0.0, 0.05], ids=["targets", "posture"])
def test_frozen_joints_are_as_locked_ones(panda, start, poses, weight):
    """About targets alone by compiled code, with a posture row by row."""
    solver = posture_solver(panda, weight)
    result = solver.solve(*poses, initial_joint_q=start, frozen=["panda_joint3"])
    frozen = solver.linearise(result, *poses)
    locked = derived(posture_solver(panda.lock({"panda_joint3": 0.0}), weight), poses, start)
    good = locked.is_differentiable & (np.abs(frozen.joint_q - locked.joint_q).max(axis=1) < 1e-6)
    assert good.sum() > COUNT // 2
    assert frozen.is_differentiable[good].all()
    assert_near(frozen.by_targets[good], locked.by_targets[good], 2e-5)
    assert not frozen.by_targets[:, 2].any()
    assert np.isin(frozen.dof_state[good, 2], AT).all()
    assert not frozen.one_sided[:, 2].any()


@pytest.mark.evidence
def test_a_limit_of_a_solve_takes_its_joint_with_it(panda, start, poses):
    solver, own = posture_solver(panda), [part[:1] for part in poses]
    result = solver.solve(*own, initial_joint_q=start[:1], joint_limits=near(start[:1]))
    found = solver.linearise(result, *own, limits=True)
    held = np.flatnonzero(np.isin(found.dof_state[0], AT))
    assert found.is_differentiable.all()
    assert held.size > 0

    def moved(axis, by):
        joint_q = found.joint_q + by * np.eye(7)[held[axis]]
        return Minima(panda, HAND, panda.mid_joint_q).at(*own, joint_q, found.dof_state == DofState.FREE)

    np.testing.assert_allclose(found.by_limits[:, :, held], differences(moved, range(len(held))), atol=1e-6)
    assert not np.delete(found.by_limits, held, axis=2).any()


def test_a_limit_of_a_follower_is_in_the_column_of_its_leader():
    robot = load_urdf(GRIPPER)
    solver = cpu_solver(robot, objectives=[IKObjectivePosture([0.1, 1.0, -0.5], weight=1.0)], options=PRECISE)
    result = solver.solve(problem_count=1, joint_limits={"jaw": (-0.2, 1.0)})
    np.testing.assert_allclose(result.joint_q, [[0.1, 0.4, -0.2]], atol=1e-6)
    found = solver.linearise(result, limits=True)
    assert found.dof_state[0, :2].tolist() == [DofState.FREE, DofState.AT_UPPER]
    np.testing.assert_allclose(found.by_limits[0, :, 1], [0.0, 1.0, -0.5])
    assert not found.by_limits[0, :, [0, 2]].any()


@EACH_ENGINE
def test_each_has_the_bytes_that_it_has_alone_and_in_results_that_are_joined(panda, start, poses, engine):
    solver, most = cpu_solver(panda, HAND, engine=engine), np.linspace(0.05, 0.4, COUNT)[:, None] * np.ones(7)

    def solve(own=slice(None)):
        given = {"initial_joint_q": start[own] + 0.03, "max_change": most[own], "options": {"sensitivity": "target"}}
        return solver.solve(*(part[own] for part in poses), **given)

    whole = solve()
    assert whole.is_differentiable.sum() > COUNT // 2
    joined = join_results([(solve(slice(0, 5)), slice(0, 5)), (solve(slice(5, COUNT)), slice(0, COUNT - 5))])
    found = solver.linearise(joined, *poses)
    for one in (joined, solve()):
        assert one.joint_q_by_targets.tobytes() == whole.joint_q_by_targets.tobytes()
        assert one.is_differentiable.tolist() == whole.is_differentiable.tolist()
    assert found.by_targets.tobytes() == whole.joint_q_by_targets.tobytes()  # joints are all of the coordinates
