"""Derivatives of the rows of constraints against differences, and rows against rotation matrices."""

import numpy as np
import pytest

from ik_service.mechanism.transforms import quaternion_exp, transform_inverse, transform_multiply
from tests.constraints.mechanisms import COORDINATES, SEEN_CLOSED, VELOCITIES, branches
from tests.objectives.loop_rows import LOOP_ROWS, matrix_of
from tests.solver.test_loops import pose_of

STEP = 1e-6
DIFFERENCES = 2e-8
"""Central differences with a step of 1e-6 on numbers of a few metres: cancellation 1e-9."""
KINDS = tuple(SEEN_CLOSED)
NO_POSITION = [one.name for one in VELOCITIES]


@pytest.fixture(scope="module", params=[False, True], ids=["tail", "world"])
def case(request):
    """A robot with constraints of every kind; its loops are closed in the first of its configurations, and those."""
    start = branches().random_joint_q(np.random.default_rng(1), 5)
    robot = branches(closed_at=start[:1], world=request.param)
    robot = robot.with_velocity_constraints(VELOCITIES).with_coordinate_constraints(COORDINATES)
    rng = np.random.default_rng(2)
    rates = rng.standard_normal((2, 5, robot.joint_dof_count))
    return robot, robot.constraints, start, *rates


def along(constraints, whole_q, whole_qd, of):
    """Central difference of a function along a motion."""
    ahead, behind = (of(constraints.integrate(whole_q, way * STEP * whole_qd)) for way in (1.0, -1.0))
    return (ahead - behind) / (2.0 * STEP)


def by_columns(constraints, whole_q, of, count):
    return np.stack([along(constraints, whole_q, one, of) for one in np.eye(count)], axis=-1)


def whole_count(robot):
    return robot.joint_dof_count + len(robot.constraints.dof_names)


@pytest.mark.evidence_cases("world")
def test_rows_are_those_of_rotation_matrices(case):
    robot, constraints, joint_q, _, _ = case
    found = constraints.residual(joint_q)
    for loop in robot.loops:
        own, base = (np.tile(offset, (len(joint_q), 1)) for offset in (loop.offset, loop.reference_offset))
        own = transform_multiply(pose_of(robot, joint_q, loop.link), own)
        base = transform_multiply(pose_of(robot, joint_q, loop.reference_link), base)
        seen = transform_multiply(transform_inverse(base), own)
        rows = np.concatenate(LOOP_ROWS[loop.joint](seen[:, :3], matrix_of(seen[:, 3:]), seen[:, 3:]), axis=1)
        np.testing.assert_allclose(found[:, constraints.residual_rows(loop.name)], rows, atol=1e-12)
    of_loops = found[:, : constraints.residual_rows("roll").start]
    assert np.abs(of_loops[0]).max() < 1e-12
    assert (np.abs(of_loops[1:]).max(axis=1) > 0.1).all()
    assert (found[:, constraints.residual_rows("shafts")] == 0.0).all()
    slide, hinge = (joint_q[:, robot.coordinate_names.index(name)] for name in ("slide", "hinge"))
    cam = 0.1 - 0.5 * slide + 0.8 * slide**2 + 0.3 * slide**3
    np.testing.assert_allclose(found[:, constraints.residual_rows("cam")][:, 0], hinge - cam, atol=1e-12)


def test_errors_lead_from_the_ends_of_closing_joints_to_the_frames(case):
    _, constraints, joint_q, _, _ = case
    frames, ends = constraints.error_frames(joint_q)
    error = constraints.error(joint_q)[:, : 6 * frames.shape[1]].reshape(*frames.shape[:2], 6)
    way = np.concatenate([error[..., :3], quaternion_exp(error[..., 3:])], axis=-1)
    reached = transform_multiply(ends, way)
    reached[..., 3:] *= np.sign((reached[..., 3:] * frames[..., 3:]).sum(axis=-1, keepdims=True))
    np.testing.assert_allclose(reached, frames, atol=1e-12)
    assert np.abs(error[0]).max() < 1e-12
    assert (np.abs(error[1:]).max(axis=(1, 2)) > 0.1).all()


def test_gradient_of_the_error_is_its_derivative_off_closure(case):
    robot, constraints, joint_q, _, _ = case
    whole_q = constraints.with_closing_joints(joint_q[1:])
    gradient = constraints.error_gradient(whole_q)
    expected = by_columns(constraints, whole_q, constraints.error, whole_count(robot))
    np.testing.assert_allclose(gradient, expected, atol=50.0 * DIFFERENCES)
    assert np.abs(gradient - constraints.jacobian(whole_q)).max() > 0.1


def test_jacobian_is_the_derivative_of_the_error_on_closure(case):
    robot, constraints, joint_q, _, _ = case
    whole_q = constraints.with_closing_joints(joint_q[:1])
    places = [constraints.error_row_at(k) for k in range(constraints.error_count)]
    rows = [k for k, place in enumerate(places) if place.constraint not in NO_POSITION]
    jacobian = constraints.jacobian(whole_q)[:, rows]
    expected = by_columns(constraints, whole_q, constraints.error, whole_count(robot))[:, rows]
    np.testing.assert_allclose(jacobian, expected, atol=DIFFERENCES)
    np.testing.assert_allclose(jacobian, constraints.error_gradient(whole_q)[:, rows], atol=1e-11)


def test_jacobian_dot_is_its_derivative_along_a_motion(case):
    _, constraints, joint_q, joint_qd, _ = case
    whole_q = constraints.with_closing_joints(joint_q)
    rng = np.random.default_rng(3)
    whole_qd = np.column_stack([joint_qd, rng.standard_normal((len(joint_q), len(constraints.dof_names)))])
    found = constraints.jacobian_dot(whole_q, whole_qd)
    np.testing.assert_allclose(found, along(constraints, whole_q, whole_qd, constraints.jacobian), atol=DIFFERENCES)
    assert np.abs(found).max() > 1.0


def test_error_velocity_and_acceleration_are_made_of_the_jacobian(case):
    _, constraints, joint_q, joint_qd, joint_qdd = case
    rng = np.random.default_rng(4)
    more = rng.standard_normal((2, len(joint_q), len(constraints.dof_names)))
    whole_q = constraints.with_closing_joints(joint_q)
    qd, qdd = np.column_stack([joint_qd, more[0]]), np.column_stack([joint_qdd, more[1]])
    jacobian, jacobian_dot = constraints.jacobian(whole_q), constraints.jacobian_dot(whole_q, qd)
    expected = np.einsum("nrd,nd->nr", jacobian, qd)
    np.testing.assert_allclose(constraints.error_velocity(whole_q, qd), expected, atol=1e-12)
    expected = np.einsum("nrd,nd->nr", jacobian, qdd) + np.einsum("nrd,nd->nr", jacobian_dot, qd)
    np.testing.assert_allclose(constraints.error_acceleration(whole_q, qd, qdd), expected, atol=1e-11)


def test_closing_joints_move_as_closes_best_where_nothing_is_said(case):
    robot, constraints, joint_q, joint_qd, joint_qdd = case
    tree = robot.joint_dof_count
    jacobian = constraints.jacobian(joint_q)
    left = constraints.error_velocity(joint_q, joint_qd)
    # No other rates of closing joints make it smaller: what is left is orthogonal to what they can do.
    columns = jacobian[:, :, tree:]
    np.testing.assert_allclose(np.einsum("nrd,nr->nd", columns, left), 0.0, atol=1e-10)
    accelerations = constraints.error_acceleration(joint_q, joint_qd, joint_qdd)
    np.testing.assert_allclose(np.einsum("nrd,nr->nd", columns, accelerations), 0.0, atol=1e-9)
    assert np.abs(left).max() > 0.1


def test_residual_jacobian_is_the_derivative_of_the_rows(case):
    robot, constraints, joint_q, _, _ = case
    steps = STEP * np.eye(robot.joint_dof_count)
    ahead, behind = (
        np.stack([constraints.residual(robot.integrate(joint_q, way * step)) for step in steps], axis=-1)
        for way in (1.0, -1.0)
    )
    places = [constraints.residual_row_at(k) for k in range(constraints.residual_count)]
    rows = [k for k, place in enumerate(places) if place.constraint not in NO_POSITION]
    found = constraints.residual_jacobian(joint_q)[:, rows]
    np.testing.assert_allclose(found, ((ahead - behind) / (2.0 * STEP))[:, rows], atol=50.0 * DIFFERENCES)
    assert (np.abs(found).max(axis=(0, 2)) > 0.05).all()


def test_accelerations_of_rows_are_derivatives_of_their_rates(case):
    robot, constraints, joint_q, joint_qd, joint_qdd = case
    found = constraints.acceleration(joint_q, joint_qd, joint_qdd, frozen=robot.joint_names)
    np.testing.assert_array_equal(found.joint_qdd, joint_qdd)

    def rates(way):
        moved = robot.integrate(joint_q, way * STEP * joint_qd)
        return np.einsum("nrd,nd->nr", constraints.residual_jacobian(moved), joint_qd + way * STEP * joint_qdd)

    np.testing.assert_allclose(found.residual, (rates(1.0) - rates(-1.0)) / (2.0 * STEP), rtol=1e-6, atol=1e-5)
    assert (np.abs(found.residual).max(axis=0) > 0.1).all()


@pytest.mark.parametrize("joint", KINDS)
def test_both_packings_leave_the_same_motions_free_on_closure(joint):
    start = branches().random_joint_q(np.random.default_rng(7), 1)
    robot = branches([joint], closed_at=start)
    constraints, tree = robot.constraints, robot.joint_dof_count
    jacobian = constraints.jacobian(start)[0]
    closing = jacobian[:, tree:]
    left = np.linalg.svd(closing)[0] if closing.size else np.eye(6)
    selected = left[:, np.linalg.matrix_rank(closing) if closing.size else 0 :].T @ jacobian[:, :tree]
    rows = constraints.residual_jacobian(start)[0]
    assert np.linalg.matrix_rank(selected) == len(rows) == constraints.residual_count
    assert np.linalg.matrix_rank(np.concatenate([selected, rows]), tol=1e-9) == len(rows)
