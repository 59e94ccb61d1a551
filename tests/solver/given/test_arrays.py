"""Arrays of other libraries in and out: the same answers, and the same memory where the host sees it."""

from functools import partial

import numpy as np
import pytest
import warp as wp

from ik_service.control import IKController
from ik_service.solver.given.arrays import as_numpy
from objectives import InputError
from tests.solver.conftest import cpu_solver

LINK = "panda_hand"


class Foreign:
    """An array of another library: DLPack is all that it has."""

    def __init__(self, array, device=None):
        self.array, self.device = array, device

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.device or self.array.__dlpack_device__()


class Kept(Foreign):
    """One that gives nothing away, like a tensor that is part of a gradient."""

    def __dlpack__(self, **_):
        raise BufferError("it requires a gradient")


KINDS = {
    "dlpack": Foreign,
    "dlpack float32": lambda array: Foreign(array.astype(np.float32)),
    "warp": lambda array: wp.array(array, dtype=wp.float32, device="cpu"),
    "warp float64": lambda array: wp.array(array, dtype=wp.float64, device="cpu"),
    "lists": lambda array: array.tolist(),
}


@pytest.fixture(scope="module")
def given(panda, panda_targets):
    """What goes in, with numbers that float32 holds exactly."""
    start = panda.random_joint_q(np.random.default_rng(3), 6)
    arrays = *(one[:6, 0] for one in panda_targets.targets), start
    return [array.astype(np.float32).astype(np.float64) for array in arrays]


def solved(solver, given, kind=lambda array: array):
    positions, orientations, start = map(kind, given)
    return solver.solve(positions, orientations, initial_joint_q=start)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_array_gives_the_same_bytes(panda, given, kind):
    solver = cpu_solver(panda, [LINK])
    plain, foreign = solved(solver, given), solved(solver, given, KINDS[kind])
    assert plain.success.all()
    for name in ("joint_q", "status", "position_error", "seed_index"):
        assert getattr(plain, name).tobytes() == getattr(foreign, name).tobytes(), name


@pytest.mark.parametrize("kind", KINDS)
def test_a_controller_takes_every_kind_of_array(panda, given, kind):
    positions, orientations, start = given
    target = np.concatenate([positions[0], orientations[0]])
    plain, foreign = IKController(panda, [LINK]), IKController(panda, [LINK])
    for _ in range(5):
        expected = plain.step(target, start[0], joint_qd=np.zeros(7))
        found = foreign.step(KINDS[kind](target), KINDS[kind](start[0]), joint_qd=KINDS[kind](np.zeros(7)))
        np.testing.assert_array_equal(found.joint_q, expected.joint_q)
    foreign.reset(KINDS[kind](start[0]), KINDS[kind](np.zeros(7)))
    np.testing.assert_array_equal(foreign.step(target).joint_q, plain.step(target, start[0]).joint_q)


def test_memory_of_the_host_is_seen_and_not_copied(dual_panda):
    array = np.arange(6.0).reshape(2, 3)
    warp = wp.array(array, dtype=wp.float64, device="cpu")
    for value, memory in ((array, array), (Foreign(array), array), (warp, warp.numpy())):
        seen = as_numpy("positions", value)
        assert type(seen) is np.ndarray
        assert np.shares_memory(seen, memory)
    one, none = as_numpy("positions", [Foreign(array), None])
    assert np.shares_memory(one, array)
    assert none is None
    solver = cpu_solver(dual_panda, ["left_panda_hand", "right_panda_hand"])
    left, right = np.array([[0.4, 0.5, 0.5]]), np.array([[0.4, -0.5, 0.5]])
    plain, mixed = (
        solver.solve([left, right]),
        solver.solve((Foreign(left), wp.array(right, dtype=wp.vec3, device="cpu"))),
    )
    assert plain.success.all()
    np.testing.assert_allclose(mixed.joint_q, plain.joint_q, atol=1e-5)


def test_an_array_that_is_not_given_away_is_bad_input(panda):
    solve, step = cpu_solver(panda, [LINK]).solve, IKController(panda, [LINK]).step
    masked = np.ma.array(np.zeros((2, 3)), mask=[[False] * 3, [True] * 3])
    for call, given, words in (
        (solve, [Kept(np.zeros((1, 3)))], "positions is not an array of numbers: it requires a gradient"),
        (partial(solve, initial_joint_q=Kept(np.zeros(7))), [np.zeros((1, 3))], "initial_joint_q is not an array"),
        (solve, [masked], "positions is not an array of numbers: some of its numbers are masked"),
        (step, [Kept(np.zeros(7))], "targets is not an array of numbers"),
        (step, [np.zeros(7), ["a"] * 7], "joint_q is not an array of numbers"),
    ):
        with pytest.raises(InputError, match=words):
            call(*given)


def test_columns_of_a_result_are_taken_without_a_copy(panda, given):
    result = solved(cpu_solver(panda, [LINK]), given)
    for name, column in result.to_warp().items():
        mine = getattr(result, name)
        assert column.ptr == mine.ctypes.data, name
        np.testing.assert_array_equal(column.numpy(), mine)
    takes_booleans = np.lib.NumpyVersion(np.__version__) >= "2.0.0"
    for name in ("joint_q", "success", "active_limits") if takes_booleans else ("joint_q",):
        mine = getattr(result, name)
        shared = np.from_dlpack(Foreign(mine))
        mine[0] = ~mine[0] if mine.dtype == bool else 2.0 * mine[0]
        np.testing.assert_array_equal(shared, mine)
        assert shared.ctypes.data == mine.ctypes.data


@pytest.mark.parametrize("backwards", [False, True], ids=["own order", "another order"])
def test_a_view_of_a_command_sees_every_later_tick(panda, given, backwards):
    order = panda.joint_names[::-1] if backwards else None
    controller = IKController(panda, [LINK], joint_order=order)
    controller.reset(panda.mid_joint_q if order is None else panda.mid_joint_q[::-1])
    target = np.concatenate([given[0][0], given[1][0]])
    first = controller.step(target)
    views = {name: np.from_dlpack(Foreign(getattr(first, name))) for name in ("joint_q", "joint_qd", "island_status")}
    before = views["joint_q"].copy()
    for _ in range(3):
        result = controller.step(target)
        for name, view in views.items():
            assert view.ctypes.data == getattr(result, name).ctypes.data
            np.testing.assert_array_equal(view, getattr(result, name))
    assert (views["joint_q"] != before).any()
