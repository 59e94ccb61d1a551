"""Rank, freedoms and the reduced map of mechanisms, and the rows that say nothing new or contradict others."""

import numpy as np
import pytest

from benchmarks.problems.mechanisms import MECHANISMS
from ik_service import load_robot
from ik_service.robots import LoopConstraint
from objectives.errors import InputError
from tests.constraints.mechanisms import COUPLER, CRANK, GROUND, at, four_bar

RANK_MIN = 1e-9


def closed(robot, seed=0, count=20):
    start = np.tile(robot.mid_joint_q, (count, 1))
    start = robot.integrate(start, np.random.default_rng(seed).normal(scale=0.2, size=(count, robot.joint_dof_count)))
    found = robot.constraints.close(robot.clamp_joint_q(start))
    assert found.closed.all()
    return found.joint_q


@pytest.mark.parametrize(
    ("robot", "freedoms"),
    [("revolute", 1), ("spherical", 1), ("weld", 0), ("five_bar", 2), ("stewart", 6), ("delta", 3)],
)
def test_freedoms_are_those_of_the_rows(robot, freedoms):
    robot = load_robot(robot) if freedoms > 1 else four_bar(robot)
    joint_q = closed(robot)
    found = robot.constraints.partition(joint_q)
    rank = [np.linalg.matrix_rank(rows, tol=RANK_MIN) for rows in robot.constraints.residual_jacobian(joint_q)]
    np.testing.assert_array_equal(found.rank, rank)
    assert robot.active_dof_count - found.rank[0] == freedoms == len(found.independent) == found.reduced_map.shape[2]
    assert sorted(found.independent + found.dependent) == sorted(robot.dof_names)
    assert (found.rank + found.redundant.sum(axis=1) == robot.constraints.residual_count).all()
    assert not found.conflicting.any()


@pytest.mark.parametrize("name", ["four_bar", "stewart", "delta"])
def test_the_reduced_map_moves_along_closure(name):
    robot = four_bar() if name == "four_bar" else load_robot(name)
    joint_q = closed(robot)
    found = robot.constraints.partition(joint_q)
    own = [robot.dof_names.index(name) for name in found.independent]
    np.testing.assert_allclose(found.reduced_map[:, own], np.tile(np.eye(len(own)), (len(joint_q), 1, 1)), atol=1e-12)
    rows = robot.constraints.residual_jacobian(joint_q) @ found.reduced_map
    np.testing.assert_allclose(rows, 0.0, atol=1e-9)
    step = 1e-5
    moved = robot.integrate(joint_q, step * found.reduced_map.sum(axis=2))
    most = 100.0 * step**2 * (1.0 + np.abs(found.reduced_map).max() ** 2)
    assert np.abs(robot.constraints.residual(moved)).max() <= most
    assert np.isfinite(found.condition).all()
    assert found.condition.max() < 1e4


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=[one.name for one in MECHANISMS])
def test_a_mechanism_is_driven_by_its_drives(mechanism):
    robot = load_robot(mechanism.name)
    found = robot.constraints.partition(mechanism.configurations(20, np.random.default_rng(0)), mechanism.drives)
    assert sorted(found.independent) == sorted(mechanism.drives)
    assert np.isfinite(found.condition).all()


def test_a_choice_that_does_not_drive_is_refused_with_its_rank():
    robot = load_robot("stewart")
    with pytest.raises(InputError, match=r"names 2 DOFs that can move\. Allowed: 6, since the rows have rank 18"):
        robot.constraints.partition(closed(robot), ["leg1_length", "leg2_length"])
    six = [f"leg{k}_{part}" for part in ("swing", "tilt", "length") for k in (1, 2)]
    with pytest.raises(InputError, match=r"in configuration 0 the rows have rank 17 over the other 18 DOFs"):
        robot.constraints.partition(closed(robot), six)


def test_condition_grows_towards_a_dead_centre():
    """Where coupler and rocker lie in one line, the crank drives no longer."""
    bar = four_bar(rocker=0.15)
    dead = np.arccos((CRANK**2 + GROUND**2 - (COUPLER + 0.15) ** 2) / (2.0 * CRANK * GROUND))
    angles = dead - np.array([0.3, 0.03, 0.003])
    joint_q = np.column_stack([angles, np.zeros((3, 2))])
    found = bar.constraints.close(joint_q, frozen=["drive"])
    assert found.closed.all()
    condition = bar.constraints.partition(found.joint_q, ["drive"]).condition
    assert (np.diff(condition) > 0.0).all()
    assert condition[-1] > 10.0 * condition[0] / 4.0


def test_redundant_rows_are_named_and_locked_joints_are_in_neither_part():
    bar = four_bar("revolute")
    found = bar.constraints.partition(closed(bar))
    names = [(row.constraint, row.component) for row in found.redundant_rows()]
    assert names == [("pin", "pz"), ("pin", "zx"), ("pin", "zy")]
    assert found.conflicting_rows() == []
    robot = load_robot("stewart").lock({"leg1_length": 0.7})
    found = robot.constraints.partition(closed(robot))
    assert "leg1_length" not in found.independent + found.dependent
    assert len(found.independent) == 5
    assert (found.reduced_map[:, robot.dof_names.index("leg1_length")] == 0.0).all()


def test_a_repeated_loop_is_redundant_and_one_beside_it_conflicts():
    robot = four_bar("spherical")
    pin = robot.loops[0]
    again = LoopConstraint("again", "revolute", "coupler", "rocker", pin.offset, pin.reference_offset)
    both = robot.with_loops([pin, again])
    found = both.constraints.partition(closed(both))
    assert {row.constraint for row in found.redundant_rows()} == {"pin", "again"}
    first = [row for row in found.redundant_rows() if row.constraint == "again"][:2]
    assert first == [("again", "px"), ("again", "py")]
    beside = LoopConstraint("beside", "spherical", "coupler", "rocker", at(0.51), pin.reference_offset)
    torn = robot.with_loops([pin, beside])
    closed_q = torn.constraints.close(closed(robot), enabled=[True, False]).joint_q
    found = torn.constraints.partition(closed_q)
    assert {row.constraint for row in found.conflicting_rows()} == {"beside"}
    alone = torn.constraints.partition(closed_q, enabled=torn.constraints.enabled(["pin"]))
    assert alone.conflicting_rows() == []
    assert {row.constraint for row in alone.redundant_rows()} == {"pin"}
