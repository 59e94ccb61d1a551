"""Which space an island's step is solved for in."""

import numpy as np
import pytest

from ik_service.compiler import IterationSource, Lanes, StepSpace
from ik_service.compiler.code.elimination import Elimination
from tests.compiler.island_cases import island
from tests.compiler.reference_iteration import DAMPING, program_of

ROWS = {"panda pose", "dual relative", "humanoid centre of mass", "floating plane, axis and posture"}
DOFS = {"panda seen from a link", "humanoid hands, feet and head", "panda three targets and posture", "two trees ball"}


def chain(dofs, *further):
    """Which rows depend on which DOFs: six rows of a target at the end of a chain, and further ones."""
    return np.vstack([np.ones((6, dofs), bool), *further])


@pytest.mark.parametrize("name", sorted(ROWS | DOFS))
def test_it_is_that_of_fewer_operations_or_of_the_dofs_for_whoever_needs_their_columns(name):
    program = program_of(island(name), Lanes(8))
    assert IterationSource(program, Lanes(8), DAMPING).space.in_rows == (name in ROWS)
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


@pytest.mark.parametrize(("most", "alone", "beside_many"), [(240, 36, 21), (1250, 204, 49)], ids=["GPU", "CPU"])
def test_the_largest_chains_that_there_is_room_for(most, alone, beside_many):
    """With one target, and with any number of rows that depend on all DOFs."""
    for dofs in {*range(7, 210, 29), alone, alone + 1}:
        assert (StepSpace.of(range(dofs), chain(dofs), most=most).entries <= most) == (dofs <= alone)
    for rows in (1, 6, 21, 56):
        further = np.ones((rows, beside_many), bool)
        assert StepSpace.of(range(beside_many), chain(beside_many, further), most=most).entries <= most
    too_many = beside_many + 1
    depends = chain(too_many, np.ones((60, too_many), bool))
    assert StepSpace.of(range(too_many), depends, most=most).entries > most


def test_many_rows_of_few_dofs_are_not_factored_to_see_that_they_take_longer(monkeypatch):
    factored, of = list[int](), Elimination.of

    def noted(dofs, coupled):
        factored.append(len(dofs))
        return of(dofs, coupled)

    monkeypatch.setattr(Elimination, "of", noted)
    assert not StepSpace.of(range(7), chain(7, np.ones((1000, 7), bool))).in_rows
    assert factored == [7]


def test_rows_that_yield_are_kept_apart_while_there_is_room():
    asked = {}, {"has_levels": True}, {"has_levels": True, "most": 60}, {"has_levels": True, "in_dofs": True}
    depends = chain(7, np.ones((3, 7), bool))
    assert [StepSpace.of(range(7), depends, **one).in_rows for one in asked] == [False, True, False, False]
