"""Derivatives of answers, and their comparison with others."""

import numpy as np

from tests.solver.conftest import cpu_solver, poses_of

FIELDS = "joint_q", "by_targets", "by_offsets", "is_differentiable", "dof_state", "one_sided", "rank"


def values_at(robot, links, joint_q):
    """Values of targets that configurations reach."""
    return poses_of(robot, joint_q, links)


def derived(solver, values, start=None, **asked):
    """Derivatives of a solver's answers."""
    return solver.linearise(solver.solve(*values, initial_joint_q=start), *values, **asked)


def solved(robot, targets, values, start=None, **arguments):
    """Answers and their derivatives."""
    solver = cpu_solver(robot, targets, **arguments)
    result = solver.solve(*values, initial_joint_q=start)
    return result, solver.linearise(result, *values)


def assert_near(found, expected, tolerance):
    """Compare derivatives, by the largest of each answer."""
    scale = np.abs(expected).max(axis=tuple(range(1, expected.ndim)), keepdims=True)
    assert (scale > 0.0).all()
    np.testing.assert_allclose(found / scale, expected / scale, atol=tolerance)


def assert_same_bytes_alone(alone, together, k):
    """Compare derivatives of one answer with those among others."""
    for name in FIELDS:
        assert getattr(alone, name)[0].tobytes() == getattr(together, name)[k].tobytes(), name
