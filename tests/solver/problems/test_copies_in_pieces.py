"""Large arrays are copied in pieces, by several threads: nothing is left out, and answers stay as they are."""

import threading

import numpy as np
import pytest

import ik_service
from ik_service.solver.problems import host_device_array
from ik_service.solver.problems.host_device_array import PIECE_BYTES, PIECES_LEAST, copy_in_pieces
from tests.solver.conftest import Reachable, assert_same_bytes, use_threads

RNG = np.random.default_rng(3)


@pytest.fixture
def copying(monkeypatch):
    """Names of the threads that copy."""
    names, copy = [], host_device_array._copy

    def named(piece):
        names.append(threading.current_thread().name)
        copy(piece)

    monkeypatch.setattr(host_device_array, "_copy", named)
    return names


def pairs_of(lines):
    """Arrays of several types and shapes, one of them a part of a larger one, with what they are to hold."""
    staged = np.full((lines + 5, 2, 3), 9.0)
    given = [
        (staged[:lines, 1], RNG.random((lines, 3), dtype=np.float32)),
        (np.empty((lines, 7), np.float32), RNG.random((lines, 7), dtype=np.float32)),
        (np.empty(lines, np.bool_), RNG.random(lines) < 0.5),
        (np.empty((lines, 0)), np.empty((lines, 0))),
    ]
    return staged, given


@pytest.mark.parametrize("lines", [0, 1, 100_003])
def test_every_line_is_copied_and_no_other(lines):
    staged, pairs = pairs_of(lines)
    copy_in_pieces(pairs)
    for to, source in pairs:
        np.testing.assert_array_equal(to, source)
    assert (staged[:, 0] == 9.0).all()
    assert (staged[lines:] == 9.0).all()


def test_large_arrays_are_copied_by_other_threads_and_small_ones_by_the_callers(copying):
    for count, others in ((PIECES_LEAST * PIECE_BYTES - 8, False), (PIECES_LEAST * PIECE_BYTES, True)):
        copying.clear()
        copy_in_pieces([(np.empty(count // 8), np.ones(count // 8))])
        assert all(name.startswith("ik-copies") == others for name in copying)
        assert len(copying) == (PIECES_LEAST if others else 1)


def test_an_error_in_a_thread_reaches_the_caller():
    with pytest.raises(ValueError, match="broadcast"):
        copy_in_pieces([(np.empty((200_000, 3)), np.empty((200_000, 4)))])


def test_answers_have_the_same_bytes(monkeypatch, copying):
    robot = ik_service.load_robot("panda", collision="ignore")
    problems = Reachable.draw(robot, ["panda_hand"], 40, random_seed=4)
    start = robot.random_joint_q(np.random.default_rng(5), 40)
    use_threads(monkeypatch)
    results = []
    for piece in (PIECE_BYTES, 100):
        monkeypatch.setattr(host_device_array, "PIECE_BYTES", piece)
        solver = ik_service.IKSolver(robot, ["panda_hand"], device="cpu", engine="compiled")
        copying.clear()
        results.append(solver.solve(problems.positions[:, 0], problems.orientations_xyzw[:, 0], initial_joint_q=start))
        assert any(name.startswith("ik-copies") for name in copying) == (piece == 100)
    assert_same_bytes(*results)
    assert results[0].success.all()
