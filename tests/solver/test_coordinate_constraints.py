"""Constraints between coordinates of joints: gears and cams, met by every answer, beside loops and by themselves."""

import pickle

import numpy as np
import pytest

from ik_service import IKStatus
from ik_service.robots import CoordinateConstraint, LoopConstraint
from objectives import IKObjectiveCoupling, InputError, UnknownNameError
from tests.solver.conftest import EACH_ENGINE, bare_robot, cpu_solver
from tests.solver.test_loops import CLOSED, four_bar, gaps

GEAR = CoordinateConstraint("gear", "panda_joint6", "panda_joint4", (0.3, -0.8))
CAM = CoordinateConstraint("cam", "panda_joint3", "panda_joint1", (0.1, 0.5, -0.4, 0.2))
COUNT = 60


def misses(robot, joint_q):
    """By how much each constraint is missed, [n, constraints]."""
    columns = dict(zip(robot.coordinate_names, joint_q.T, strict=True))
    return np.abs([columns[one.joint] - driven(one, columns) for one in robot.coordinate_constraints]).T


def driven(constraint, columns):
    return np.polynomial.Polynomial(constraint.coefficients)(columns[constraint.reference_joint])


@pytest.fixture(scope="module")
def geared():
    """A Panda with a gear and a cam, and positions that its hand reaches with both."""
    robot = bare_robot("panda").with_coordinate_constraints([GEAR, CAM])
    joint_q = robot.random_joint_q(np.random.default_rng(2), 40 * COUNT)
    columns = dict(zip(robot.coordinate_names, joint_q.T, strict=True))
    for one in robot.coordinate_constraints:
        columns[one.joint][:] = driven(one, columns)
    inside = (joint_q >= robot.joint_limit_lower) & (joint_q <= robot.joint_limit_upper)
    joint_q = joint_q[inside.all(axis=1)][:COUNT]
    assert len(joint_q) == COUNT
    return robot, robot.forward_kinematics(joint_q, ["panda_hand"]).positions


@pytest.mark.evidence
@EACH_ENGINE
def test_targets_are_met_with_gear_and_cam(geared, engine):
    robot, positions = geared
    result = cpu_solver(robot, ["panda_hand"], engine=engine).solve(positions)
    assert result.success.mean() >= 0.98
    assert misses(robot, result.joint_q).max() <= CLOSED
    np.testing.assert_allclose(result.constraint_error, misses(robot, result.joint_q), atol=1e-12)
    assert result.constraint_names == ("gear", "cam")
    reached = robot.forward_kinematics(result.joint_q, ["panda_hand"]).positions
    assert np.linalg.norm(reached - positions, axis=-1)[result.success].max() <= 1e-3


@pytest.mark.evidence_cases("staged")
@EACH_ENGINE
def test_a_gear_and_a_loop_leave_a_linkage_one_configuration_of_each_mode(engine):
    gear = CoordinateConstraint("gear", "swing", "drive", (1.2, 0.5))
    robot = four_bar().with_coordinate_constraints([gear])
    solver = cpu_solver(robot, engine=engine)
    result = solver.solve(problem_count=40, initial_joint_q=robot.random_joint_q(np.random.default_rng(4), 40))
    closed = result.success
    assert closed.mean() >= 0.9
    assert gaps(robot, result.joint_q)[closed].max() <= CLOSED >= misses(robot, result.joint_q)[closed].max()
    assert (result.status[~closed] == IKStatus.LOOP_OPEN).all()
    assert [island.rows for island in solver.islands().islands] == [("constraint pin", "constraint gear")]


def test_what_is_not_between_two_scalar_joints_is_refused():
    robot = bare_robot("humanoid")
    ball = next(name for name, kind in zip(robot.joint_names, robot.joint_type, strict=True) if kind == 4)
    scalar = [name for name, kind in zip(robot.joint_names, robot.joint_type, strict=True) if kind == 0]
    with pytest.raises(InputError, match=f"about joint '{ball}', which has several coordinates"):
        robot.with_coordinate_constraints([CoordinateConstraint("one", ball, scalar[0], (0.0, 1.0))])
    with pytest.raises(InputError, match="about joint 'elbow', which is not in the robot"):
        robot.with_coordinate_constraints([CoordinateConstraint("one", scalar[0], "elbow", (0.0, 1.0))])
    one = CoordinateConstraint("one", *scalar[:2], (0.0, 1.0))
    with pytest.raises(InputError, match="Two constraints have the name 'one'"):
        robot.with_coordinate_constraints([one, one])
    with pytest.raises(InputError, match="Two constraints have the name 'one'"):
        robot.with_coordinate_constraints([one]).with_loops([LoopConstraint("one", "weld", robot.link_names[5])])


@pytest.mark.parametrize("coefficients", [(1.0,), (0.0, np.nan), ((0.0, 1.0), (1.0, 2.0)), range(17)])
def test_couplings_have_coefficients_of_a_polynomial_and_two_joints_that_are_there(panda, coefficients):
    with pytest.raises(InputError, match="allowed: 2 to 16 finite numbers"):
        IKObjectiveCoupling("a", "b", coefficients)
    with pytest.raises(InputError, match=r"Constraint 'gear': .* to itself"):
        CoordinateConstraint("gear", "a", "a", (0.0, 1.0))
    with pytest.raises(UnknownNameError, match="joint 'elbow' is not in the robot"):
        cpu_solver(panda, objectives=[IKObjectiveCoupling("elbow", "panda_joint1", (0.0, 1.0))])


def test_a_robot_carries_its_constraints(geared):
    robot, _ = geared
    plain = robot.with_coordinate_constraints([])
    assert robot.content_hash != plain.content_hash == bare_robot("panda").content_hash
    assert pickle.loads(pickle.dumps(robot)).coordinate_constraints == robot.coordinate_constraints
    assert robot.lock({"panda_joint2": 0.1}).coordinate_constraints == robot.coordinate_constraints
    part = robot.subrobot("panda_link2")
    assert part.coordinate_constraints == (GEAR,)
    assert part.dropped_constraints == ("cam",)
    assert robot.subrobot("panda_link2", constraints=[]).constraint_names == ()
