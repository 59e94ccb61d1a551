"""Velocities and accelerations that keep loops closed: against paths of closed configurations, with joints frozen."""

import numpy as np
import pytest

from benchmarks.problems.mechanisms import MECHANISMS
from ik_service import load_robot
from tests.constraints.mechanisms import four_bar
from tests.constraints.test_partition import closed

STEP = 1e-4


@pytest.fixture(scope="module", params=MECHANISMS, ids=[one.name for one in MECHANISMS])
def driven(request):
    """A mechanism, its drives, closed configurations, and wanted rates."""
    robot, rng = load_robot(request.param.name), np.random.default_rng(5)
    joint_q = request.param.configurations(10, rng)
    return robot, request.param.drives, joint_q, *rng.standard_normal((2, len(joint_q), robot.joint_dof_count))


def test_driven_velocities_and_accelerations_are_those_of_closed_paths(driven):
    """With drives frozen the motion is determined: it is that of configurations closed a step before and after."""
    robot, drives, joint_q, wanted_qd, wanted_qdd = driven
    constraints = robot.constraints
    own = [robot.dof_names.index(name) for name in drives]
    velocity = constraints.velocity(joint_q, wanted_qd, frozen=drives)
    acceleration = constraints.acceleration(joint_q, velocity.joint_qd, wanted_qdd, frozen=drives)
    assert velocity.joint_qd[:, own].tobytes() == np.ascontiguousarray(wanted_qd[:, own]).tobytes()
    assert acceleration.joint_qdd[:, own].tobytes() == np.ascontiguousarray(wanted_qdd[:, own]).tobytes()
    assert velocity.constraint_error.max() <= 1e-9
    assert acceleration.constraint_error.max() <= 1e-8
    drive = robot.dof_coordinate[own]
    scalar = robot.dof_coordinate >= 0
    path = []
    for t in (-STEP, 0.0, STEP):
        start = joint_q.copy()
        start[:, drive] += t * wanted_qd[:, own] + 0.5 * t**2 * wanted_qdd[:, own]
        found = constraints.close(start, frozen=drives)
        assert found.closed.all()
        path.append(found.joint_q[:, robot.dof_coordinate[scalar]])
    np.testing.assert_allclose(velocity.joint_qd[:, scalar], (path[2] - path[0]) / (2.0 * STEP), rtol=1e-4, atol=1e-4)
    bend = (path[2] - 2.0 * path[1] + path[0]) / STEP**2
    np.testing.assert_allclose(acceleration.joint_qdd[:, scalar], bend, rtol=1e-2, atol=2e-2)
    assert np.abs(velocity.joint_qd[:, scalar]).max() > 0.1


def test_rates_are_the_nearest_feasible_ones(driven):
    robot, _, joint_q, wanted_qd, _ = driven
    found = robot.constraints.velocity(joint_q, wanted_qd)
    rows = robot.constraints.residual_jacobian(joint_q)
    np.testing.assert_allclose(np.einsum("nrd,nd->nr", rows, found.joint_qd), 0.0, atol=1e-9)
    away = found.joint_qd - wanted_qd
    basis = robot.constraints.partition(joint_q).reduced_map
    np.testing.assert_allclose(np.einsum("ndk,nd->nk", basis, away), 0.0, atol=1e-8)  # orthogonal to what is feasible
    assert np.abs(away).max() > 0.1


def test_closing_joints_move_with_the_rest(driven):
    robot, _, joint_q, wanted_qd, wanted_qdd = driven
    constraints = robot.constraints
    velocity = constraints.velocity(joint_q, wanted_qd)
    whole_qd = np.column_stack([velocity.joint_qd, velocity.closing_joint_qd])
    whole_q = constraints.with_closing_joints(joint_q)
    np.testing.assert_allclose(constraints.error_velocity(whole_q, whole_qd), 0.0, atol=1e-8)
    acceleration = constraints.acceleration(joint_q, velocity.joint_qd, wanted_qdd)
    whole_qdd = np.column_stack([acceleration.joint_qdd, acceleration.closing_joint_qdd])
    np.testing.assert_allclose(constraints.error_acceleration(whole_q, whole_qd, whole_qdd), 0.0, atol=1e-7)
    assert whole_qd.shape[1] == robot.joint_dof_count + len(constraints.dof_names)


def test_what_frozen_joints_do_not_allow_is_left():
    robot = four_bar()
    joint_q = closed(robot)[:1]
    still = robot.constraints.velocity(joint_q, [1.0, 0.0, 0.0], frozen=robot.joint_names)
    np.testing.assert_array_equal(still.joint_qd, [[1.0, 0.0, 0.0]])
    assert still.constraint_error[0, 0] > 0.05
    free = robot.constraints.velocity(joint_q, [1.0, 0.0, 0.0], frozen=robot.joint_names, enabled=[False])
    np.testing.assert_array_equal(free.joint_qd, [[1.0, 0.0, 0.0]])
    locked = robot.lock({"drive": 0.2}).constraints.velocity(joint_q, [1.0, 0.0, 0.0])
    np.testing.assert_allclose(locked.joint_qd, 0.0, atol=1e-12)


def test_one_velocity_counts_for_all_configurations():
    robot = four_bar()
    joint_q = closed(robot)
    one = robot.constraints.velocity(joint_q, [1.0, 0.0, 0.0], frozen=["drive"])
    assert one.joint_qd.shape == (len(joint_q), 3)
    many = robot.constraints.velocity(joint_q, np.tile([1.0, 0.0, 0.0], (len(joint_q), 1)), frozen=["drive"])
    np.testing.assert_array_equal(one.joint_qd, many.joint_qd)
