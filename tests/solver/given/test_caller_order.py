"""Joints in an order of the caller's own, and quaternions that begin with w."""

import numpy as np
import pytest

from ik_service import EngineError, IKSolver
from ik_service.control import IKController
from objectives import InputError, UnknownNameError
from tests.solver.conftest import cpu_solver

LINK = "panda_hand"
WXYZ = [3, 0, 1, 2]


@pytest.fixture(scope="module")
def given(panda, panda_targets):
    start = panda.random_joint_q(np.random.default_rng(3), 6)
    return *(one[:6, 0] for one in panda_targets.targets), start


def test_another_order_of_joints_permutes_columns_and_nothing_else(panda, given):
    positions, orientations, start = given
    order = np.array([3, 0, 6, 1, 5, 2, 4])
    mine = cpu_solver(panda, [LINK])
    other = cpu_solver(panda, [LINK], joint_order=[panda.joint_names[k] for k in order])
    options = {"solutions": 3, "seeds": 16}
    expected = mine.solve(positions, orientations, initial_joint_q=start, options=options)
    found = other.solve(positions, orientations, initial_joint_q=start[:, order], options=options)
    for name in ("joint_q", "active_limits", "solutions"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name)[..., order])
    for name in ("status", "seed_index", "position_error", "solution_count"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    names = tuple(panda.joint_names[k] for k in order)
    assert found.joint_names == found.coordinate_names == found.dof_names == other.coordinate_names == names
    one, alone = (
        solver.solve(positions[:1], orientations[:1], initial_joint_q=first)
        for solver, first in ((other, start[0, order]), (mine, start[0]))
    )
    np.testing.assert_array_equal(one.joint_q[0], alone.joint_q[0, order])


def test_coordinates_of_a_floating_base_keep_their_own_order(humanoid):
    feet = [next(name for name in humanoid.link_names if "foot" in name)]
    result = cpu_solver(humanoid, feet, joint_order=humanoid.joint_names[::-1]).solve(np.zeros((1, 3)))
    base = [k for k, name in enumerate(result.coordinate_names) if "/" in name]
    assert [result.coordinate_names[k].rpartition("/")[2] for k in base] == ["px", "py", "pz", "qx", "qy", "qz", "qw"]
    assert np.linalg.norm(result.joint_q[0, base[3:]]) == pytest.approx(1.0, abs=1e-6)


def test_quaternions_may_begin_with_w(panda, given):
    positions, orientations, _ = given
    plain = cpu_solver(panda, [LINK]).solve(positions, orientations)
    solver = cpu_solver(panda, [LINK], wxyz=True)
    for turned in (orientations[:, WXYZ], orientations[:, WXYZ].tolist(), [orientations[:, WXYZ]]):
        np.testing.assert_array_equal(solver.solve(positions, turned).joint_q, plain.joint_q)
    np.testing.assert_array_equal(solver.solve(positions).joint_q.shape, (6, 7))
    with pytest.raises(InputError, match=r"line 2 is \[2.0, 0.0, 0.0, 0.0\]"):
        solver.solve(None, np.array([[1, 0, 0, 0], [0, 1, 0, 0], [2, 0, 0, 0]], float))


def test_faulty_numbers_are_named_where_the_caller_has_them(panda):
    solver = cpu_solver(panda, [LINK], joint_order=panda.joint_names[::-1])
    start = np.zeros((2, 7))
    start[1, 2] = np.nan
    with pytest.raises(InputError, match=r"initial_joint_q\[1, 2\] is nan"):
        solver.solve(np.zeros((2, 3)), initial_joint_q=start)
    with pytest.raises(InputError, match=r"shape \[6\]"):
        solver.solve(np.zeros((2, 3)), initial_joint_q=np.zeros(6))


@pytest.mark.parametrize("make", [IKSolver, IKController])
@pytest.mark.parametrize(
    ("order", "error", "message"),
    [
        (["panda_joint1"], InputError, "lacks panda_joint2"),
        (["panda_joint1"] * 7, InputError, "twice"),
        (["elbow"], UnknownNameError, "elbow"),
        ("panda_joint1", InputError, "a list of names"),
    ],
)
def test_orders_that_are_none_say_why(panda, make, order, error, message):
    with pytest.raises(error, match=message):
        make(panda, [LINK], joint_order=order)


@pytest.mark.parametrize("backwards", [False, True])
def test_what_is_exported_has_the_order_of_the_robot(panda, backwards):
    arguments = {"joint_order": panda.joint_names[::-1]} if backwards else {"wxyz": True}
    with pytest.raises(EngineError, match="own joint_order"):
        cpu_solver(panda, [LINK], **arguments).recorded()
