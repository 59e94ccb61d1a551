"""Block-decomposed normal equations and steps against NumPy in float64."""

import numpy as np
import pytest
import warp as wp

from ik_service.linear_solve.block import damped_steps, normal_equations
from ik_service.linear_solve.factors import ActiveDofs, allocate_equations
from ik_service.linear_solve.islands import RowStructure, allocate_islands
from tests.linear_solve.conftest import discover_islands

FLOAT32 = 1e-4  # relative: rounding of J'J, amplified by a condition number of some hundreds
DAMPING = 0.05
TWO_ISLANDS = np.tile([1, 1, 0], (4, 1))


def system(random, coupled=False):
    """A problem of three trees with 3, 2 and 4 DOFs and two islands {0, 2} and {1}, rows interleaved."""
    dof_tree = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
    incidence = np.zeros((11, 3), dtype=bool)
    incidence[[0, 3, 7], 0] = True
    incidence[[1, 4, 8, 10], 1] = True
    incidence[[2, 5, 6], 2] = True
    incidence[9, [0, 2]] = True
    jacobian = random.standard_normal((4, 11, 9)) * incidence[:, dof_tree]
    residuals = random.standard_normal((4, 11))
    structure = RowStructure(incidence, dof_tree, np.zeros(0, np.int32))
    islands = allocate_islands(structure, 1, "cpu")
    discover_islands(structure, np.ones((1, 11)), islands, join=coupled)
    return islands, jacobian, residuals


def integers(values, shape=None):
    return wp.array(np.reshape(values, shape or np.shape(values)), dtype=wp.int32, device="cpu")


def active_dofs(dofs, follower_start, follower_dof=(), follower_multiplier=()):
    active = ActiveDofs()
    active.dof, active.follower_start, active.follower_dof = map(integers, (dofs, follower_start, follower_dof))
    active.follower_multiplier = wp.array(follower_multiplier, dtype=float, device="cpu")
    return active


def one_to_one(dofs):
    return active_dofs(np.arange(dofs), np.zeros(dofs + 1))


def solve(islands, jacobian, residuals, active, running, held=(), factors=(1.0,), scales=(1.0,)):
    equations = allocate_equations(islands, len(jacobian), len(factors))
    for name in ("jacobian", "hessian", "gradient", "factor", "step"):
        getattr(equations, name).fill_(np.nan)  # whatever is read must have been written
    instances = (wp.zeros(len(jacobian), dtype=wp.int32, device="cpu"), integers(running))
    given = (wp.array(residuals, dtype=float, device="cpu"), wp.array(jacobian, dtype=float, device="cpu"))
    normal_equations(active, islands, instances, given, equations)
    marks = np.zeros(equations.at_bound.shape)
    marks[:, list(held)] = 1
    equations.at_bound.assign(marks.astype(np.int32))
    damping = wp.full(instances[1].shape, DAMPING, dtype=wp.float32, device="cpu")
    candidates = (wp.array(factors, dtype=float, device="cpu"), wp.array(scales, dtype=float, device="cpu"))
    damped_steps(islands, instances, (damping, *candidates), equations)
    return equations


def expected_steps(jacobian, residuals, held=(), factor=1.0):
    """Steps of the whole system at once, float64."""
    free = [a for a in range(jacobian.shape[2]) if a not in held]
    steps = np.zeros((len(jacobian), jacobian.shape[2]))
    for i, (matrix, r) in enumerate(zip(jacobian[:, :, free], residuals, strict=True)):
        steps[i, free] = np.linalg.solve(matrix.T @ matrix + factor * DAMPING * np.eye(len(free)), -matrix.T @ r)
    return steps


@pytest.mark.parametrize("join", [False, True])
def test_steps_of_all_islands_are_those_of_the_whole_system(join):
    islands, jacobian, residuals = system(np.random.default_rng(0), join)
    count = 1 if join else 2
    assert islands.nisland.numpy()[0] == count
    running = np.tile(np.arange(3) < count, (4, 1))
    equations = solve(islands, jacobian, residuals, one_to_one(9), running)
    order = islands.dof.numpy()[0]
    assert order.tolist() == (list(range(9)) if join else [0, 1, 2, 5, 6, 7, 8, 3, 4])
    np.testing.assert_allclose(equations.step.numpy(), expected_steps(jacobian, residuals)[:, order], rtol=FLOAT32)
    gradient = np.einsum("irk,ir->ik", jacobian, residuals)[:, order]
    np.testing.assert_allclose(equations.gradient.numpy(), gradient, rtol=FLOAT32, atol=1e-5)


def test_blocks_of_islands_hold_their_own_products_and_nothing_else():
    islands, jacobian, residuals = system(np.random.default_rng(1))
    equations = solve(islands, jacobian, residuals, one_to_one(9), TWO_ISLANDS)
    hessian = equations.hessian.numpy()
    for first, members in ((0, [0, 1, 2, 5, 6, 7, 8]), (49, [3, 4])):
        n = len(members)
        block = hessian[:, first : first + n * n].reshape(4, n, n)
        expected = np.einsum("ira,irb->iab", jacobian[:, :, members], jacobian[:, :, members])
        lower, upper = (slice(None), *np.tril_indices(n)), (slice(None), *np.triu_indices(n, 1))
        np.testing.assert_allclose(block[lower], expected[lower], rtol=FLOAT32, atol=1e-5)
        assert np.isnan(block[upper]).all()  # the upper triangle is never formed
    assert np.isnan(hessian[:, 53:]).all()  # 81 entries of the whole system, 53 of the islands


def test_held_dofs_keep_still_and_the_others_step_as_without_them():
    islands, jacobian, residuals = system(np.random.default_rng(2))
    order = islands.dof.numpy()[0]
    held_dofs = [0, 6, 3]
    places = [int(np.flatnonzero(order == dof)[0]) for dof in held_dofs]
    equations = solve(islands, jacobian, residuals, one_to_one(9), TWO_ISLANDS, held=places)
    expected = expected_steps(jacobian, residuals, held=held_dofs)[:, order]
    np.testing.assert_allclose(equations.step.numpy(), expected, rtol=FLOAT32, atol=1e-6)
    assert (equations.step.numpy()[:, places] == 0.0).all()


def test_candidates_have_a_damping_and_a_length_of_their_own():
    islands, jacobian, residuals = system(np.random.default_rng(3))
    order = islands.dof.numpy()[0]
    factors, scales = (1.0, 10.0, 0.1), (1.0, 0.5, 2.0)
    equations = solve(islands, jacobian, residuals, one_to_one(9), TWO_ISLANDS, factors=factors, scales=scales)
    steps = equations.step.numpy().reshape(4, 3, 9)
    for k, (factor, scale) in enumerate(zip(factors, scales, strict=True)):
        expected = scale * expected_steps(jacobian, residuals, factor=factor)[:, order]
        np.testing.assert_allclose(steps[:, k], expected, rtol=1e-3, atol=1e-5)


def test_islands_that_do_not_run_are_left_alone():
    islands, jacobian, residuals = system(np.random.default_rng(4))
    running = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]])
    step = solve(islands, jacobian, residuals, one_to_one(9), running).step.numpy()
    assert np.isfinite(step).tolist() == [[bool(a)] * 7 + [bool(b)] * 2 for a, b, _ in running]


def test_followers_add_to_their_leaders_column():
    random = np.random.default_rng(5)
    incidence = np.ones((6, 1), dtype=bool)
    structure = RowStructure(incidence, np.zeros(3, np.int32), np.zeros(0, np.int32))
    islands = allocate_islands(structure, 1, "cpu")
    discover_islands(structure, np.ones((1, 6)), islands, join=False)
    jacobian, residuals = random.standard_normal((4, 6, 6)), random.standard_normal((4, 6))
    # active DOFs 1, 2, 5; DOF 0 follows DOF 2 with -1.5, DOF 4 follows DOF 5 with 0.5; DOF 3 is locked
    active = active_dofs([1, 2, 5], [0, 0, 1, 2], [0, 4], [-1.5, 0.5])
    mapped = np.stack(
        [jacobian[..., 1], jacobian[..., 2] - 1.5 * jacobian[..., 0], jacobian[..., 5] + 0.5 * jacobian[..., 4]], -1
    )
    equations = solve(islands, jacobian, residuals, active, np.ones((4, 1)))
    np.testing.assert_allclose(equations.step.numpy(), expected_steps(mapped, residuals), rtol=FLOAT32, atol=1e-6)
