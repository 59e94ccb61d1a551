"""The structure of a factorisation is that of NumPy's Cholesky factor, and limbs stay apart in it."""

import numpy as np
import pytest

from ik_service.compiler import Elimination
from tests.compiler.island_cases import island


def pairs(matrix):
    return [(int(a), int(b)) for a, b in np.argwhere(np.tril(matrix, -1))]


def stated(elimination, n):
    """Entries that the structure holds, bool [n, n]."""
    held = np.eye(n, dtype=bool)
    for a, rows in elimination.later.items():
        held[list(rows), a] = True
    return held


@pytest.mark.parametrize("seed", range(30))
def test_entries_are_those_of_a_factor_of_random_numbers(seed):
    rng = np.random.default_rng(seed)
    n, density = int(rng.integers(1, 20)), rng.uniform(0.0, 0.7)
    jacobian = rng.normal(size=(3 * n, n)) * (rng.random((3 * n, n)) < density / 3)
    matrix = jacobian.T @ jacobian
    elimination = Elimination.of(range(n), pairs(matrix != 0.0))
    place, factor = np.ix_(elimination.order, elimination.order), np.zeros_like(matrix)
    factor[place] = np.linalg.cholesky((matrix + np.eye(n))[place])
    held = stated(elimination, n)
    np.testing.assert_array_equal(held, np.abs(factor) > 1e-14)  # no entry is missing, none is superfluous
    assert elimination.size == held.sum()
    assert sorted(elimination.order) == list(range(n))
    assert all(held[a, b] for a, columns in elimination.earlier.items() for b in columns)
    assert sum(map(len, elimination.earlier.values())) == held.sum() - n


def test_limbs_stay_apart():
    """A trunk of DOFs 0 and 1, and limbs 2 to 4 and 5 to 8."""
    limbs = [[0, 1, 2, 3, 4], [0, 1, 5, 6, 7, 8]]
    coupled = [(a, b) for limb in limbs for a in limb for b in limb if a > b]
    elimination = Elimination.of(range(9), coupled)
    assert not any(stated(elimination, 9)[2:5, 5:9].flat)
    assert not any(stated(elimination, 9)[5:9, 2:5].flat)
    assert elimination.size == 9 + len(set(coupled))  # no more than J'J has


@pytest.mark.parametrize(
    "name", ["humanoid hands, feet and head", "panda three targets and posture", "dual relative", "floating relative"]
)
def test_programs_state_what_their_rows_couple(name):
    case = island(name)
    program = case.program()
    joint_q = case.robot.random_joint_q(np.random.default_rng(1), 20)
    jacobian = case.active(case.oracle.jacobian(joint_q))[..., list(program.dofs)]
    hessian = np.abs(np.einsum("nra,nrb->nab", jacobian, jacobian)).max(axis=0)
    place = {a: k for k, a in enumerate(program.dofs)}
    stated_pairs = {(place[a], place[b]) for a, b in program.coupled}
    assert set(pairs(hessian > 1e-9)) <= stated_pairs
    assert len(stated_pairs) <= len(pairs(hessian > 1e-9)) * 1.2  # rows may cancel for some DOFs


def test_a_humanoid_has_a_factor_without_fill():
    program = island("humanoid hands, feet and head").program()
    elimination = Elimination.of(program.dofs, program.coupled)
    assert elimination.size == len(program.dofs) + len(program.coupled) < 0.6 * 34 * 35 / 2
