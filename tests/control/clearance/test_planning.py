"""The quadratic program of a move, by the conditions that its minimum has."""

import numpy as np
import pytest
import warp as wp

from ik_service.control.clearance.moves import ROWS, ClearanceTask, planning_function

SIZE = 7


@wp.kernel(module="unique", enable_backward=False)
def solve_all(task: ClearanceTask, towards: int, added_out: wp.array[int]):
    r = wp.tid()
    added_out[r] = plan(task, r, towards)


plan = planning_function(SIZE)


def planned(hessian, gradient, slopes, room, lower, upper, wanted=None, leads=None):
    """Solutions of programs side by side, [n, coordinates], and how many bounds were met on the way."""
    count, size = gradient.shape
    leader = np.arange(size) if leads is None else np.where(leads, np.arange(size), -1)
    task = ClearanceTask()

    def doubles(values):
        return wp.array(np.asarray(values, dtype=float), dtype=wp.float64, device="cpu")

    task.leader = wp.array(leader, dtype=wp.int32, device="cpu")
    task.lever = doubles(np.linspace(0.2, 1.0, size))
    task.hessian, task.gradient = doubles(hessian.reshape(count, -1)), doubles(gradient)
    task.least, task.most, task.room = doubles(lower), doubles(upper), doubles(room)
    task.slopes = wp.array(slopes, dtype=wp.float32, device="cpu")
    task.count = wp.array([slopes.shape[1]] * count, dtype=wp.int32, device="cpu")
    task.wanted = doubles(np.zeros((count, size)) if wanted is None else wanted)
    task.move = wp.zeros((count, size), dtype=wp.float64, device="cpu")
    added = wp.zeros(count, dtype=int, device="cpu")
    wp.launch(solve_all, count, [task, int(wanted is not None)], [added], device="cpu")
    return task.move.numpy(), added.numpy()


def drawn(count, rows, seed=0):
    """Programs that have a feasible point, the origin or one near it."""
    rng = np.random.default_rng(seed)
    jacobian = rng.normal(size=(count, 6, SIZE)) * rng.uniform(0.01, 1.0, (count, 1, 1))
    hessian = jacobian.transpose(0, 2, 1) @ jacobian + 1e-4 * np.eye(SIZE)
    gradient = np.einsum("nij,ni->nj", jacobian, rng.normal(size=(count, 6)))
    slopes = rng.normal(size=(count, rows, SIZE)).astype(np.float32)
    inside = rng.uniform(-0.005, 0.005, (count, SIZE))
    room = rng.uniform(0.0, 1e-3, (count, rows)) - np.einsum("nij,nj->ni", slopes.astype(float), inside)
    return hessian, gradient, slopes, room, np.full((count, SIZE), -0.01), np.full((count, SIZE), 0.01)


def check(x, hessian, gradient, slopes, room, lower, upper):
    """It is feasible, and its slope is a sum of bounds that it is at, none of which pulls."""
    left = slopes.astype(float) @ x + room
    assert left.min(initial=0.0) > -1e-9
    assert ((x >= lower) & (x <= upper)).all()
    slope = hessian @ x + gradient
    normals = [*slopes[left < 1e-9].astype(float), *np.eye(SIZE)[x <= lower + 1e-9], *-np.eye(SIZE)[x >= upper - 1e-9]]
    matrix = np.array(normals).reshape(-1, SIZE).T
    multipliers = np.linalg.lstsq(matrix, slope, rcond=None)[0]
    np.testing.assert_allclose(matrix @ multipliers, slope, atol=1e-6 * max(1.0, np.abs(slope).max()))
    if normals and np.linalg.matrix_rank(matrix) == len(normals):  # else there are others that sum up to it
        assert multipliers.min(initial=0.0) > -1e-6 * max(1.0, np.abs(multipliers).max(initial=0.0))


@pytest.mark.parametrize("rows", [0, 1, 4, ROWS])
def test_the_move_is_a_minimum(rows):
    problems = drawn(300, rows)
    moves, added = planned(*problems)
    assert (added >= 0).all()
    assert (added > 0).mean() > 0.9
    for x, *problem in zip(moves, *problems, strict=True):
        check(x, *problem)


def test_the_move_is_the_one_nearest_to_what_is_wanted():
    hessian, gradient, slopes, room, lower, upper = drawn(300, 4, seed=1)
    wanted = np.random.default_rng(2).uniform(-0.02, 0.02, gradient.shape)
    moves, _ = planned(hessian, gradient, slopes, room, lower, upper, wanted=wanted)
    weight = np.diag(np.linspace(0.2, 1.0, SIZE) ** 2)
    for x, goal, *problem in zip(moves, wanted, slopes, room, lower, upper, strict=True):
        check(x, weight, -weight @ goal, *problem)


def test_coordinates_that_do_not_lead_stay():
    problems = drawn(50, 3, seed=3)
    leads = np.arange(SIZE) != 2
    moves, _ = planned(*problems, leads=leads)
    assert (moves[:, 2] == 0.0).all()
    assert (moves[:, leads] != 0.0).all()


def test_bounds_that_contradict_each_other_are_told_and_any_task_has_a_move_within_bounds():
    """Also a singular J'J of 1e12, and one of numbers that are none: what that moves stays."""
    hessian, gradient, slopes, room, lower, upper = drawn(20, 2, seed=4)
    slopes[:, 1], room[:] = -slopes[:, 0], -0.001
    torn, added = planned(hessian, gradient, slopes, room, lower, upper)
    assert (added < 0).all()
    hessian, gradient, slopes, room, lower, upper = drawn(40, 2, seed=5)
    hessian -= 1e-4 * np.eye(SIZE)
    hessian[:20] *= 1e12
    gradient[:20] *= 1e12
    hessian[20:, 3], hessian[20:, :, 3], gradient[20:, 3] = np.nan, np.nan, np.nan
    moves, _ = planned(hessian, gradient, slopes, np.abs(room), lower, upper)
    assert np.abs(moves[:, :3]).max(axis=1).min() > 1e-4
    for found in (torn, moves):
        assert np.isfinite(found).all()
        assert ((found >= lower[0]) & (found <= upper[0])).all()
