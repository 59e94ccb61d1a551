"""Which space an island's step is solved for in."""

import numpy as np
import pytest

from ik_service.compiler import IterationSource, Lanes, StepSpace
from tests.compiler.island_cases import island
from tests.compiler.reference_iteration import DAMPING, program_of

ROWS = {"panda pose", "dual relative", "humanoid centre of mass", "floating plane, axis and posture"}
DOFS = {"panda seen from a link", "humanoid hands, feet and head", "panda three targets and posture", "two trees ball"}


def chain(dofs, *further):
    """Which rows depend on which DOFs: six rows of a target at the end of a chain, and further ones."""
    return np.vstack([np.ones((6, dofs), bool), *further])


@pytest.mark.parametrize("name", sorted(ROWS | DOFS))
def test_it_is_that_of_fewer_operations(name):
    source = IterationSource(program_of(island(name), Lanes(8)), Lanes(8), DAMPING)
    assert source.space.in_rows == (name in ROWS)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_whoever_needs_the_columns_is_in_the_space_of_the_dofs(name):
    program = program_of(island(name), Lanes(8))
    source = IterationSource(program, Lanes(8), DAMPING, in_dofs=True)
    assert not source.space.in_rows
    assert len(source.step.lengths2()) == len(program.dofs)


@pytest.mark.parametrize(
    ("depends", "in_rows", "entries"),
    [
        (chain(6), True, 6 * 6 + 21),
        (chain(5), False, 15),  # six rows of five DOFs are never independent
        (chain(200), True, 6 * 200 + 21),
        (chain(7, np.eye(7, dtype=bool)), False, 28),  # rows of one DOF cost J'J nothing
        (chain(100, np.eye(100, dtype=bool)), True, 6 * 100 + 21),  # nor do they couple rows
        (np.eye(9, dtype=bool), False, 9),
    ],
    ids=["arm", "short arm", "chain", "arm and posture", "chain and posture", "posture"],
)
def test_entries_that_it_is_solved_with(depends, in_rows, entries):
    space = StepSpace.of(range(depends.shape[1]), depends)
    assert (space.in_rows, space.entries) == (in_rows, entries)
