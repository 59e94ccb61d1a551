"""The solver thread and its shelf: reuse, bounds, order, closing."""

import threading

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.batching import solver_shelf
from ik_service.batching.errors import ClosedError, QueueFullError
from ik_service.batching.request import SolveRequest, TargetColumns, worst_over_targets
from ik_service.batching.solver_pool import SolverPool
from ik_service.batching.solver_shelf import SolverShelf


@pytest.fixture(scope="module")
def panda():
    return load_robot("panda")


def request_for(robot, count, *, link="panda_hand", offset=None, seed=0):
    joint_q = robot.random_joint_q(np.random.default_rng(seed), count)
    poses = robot.forward_kinematics(joint_q, links=[link])
    return SolveRequest((TargetColumns(link, poses.positions[:, 0], poses.orientations_xyzw[:, 0], offset),))


def test_requests_of_equal_structure_share_a_solver(panda):
    shelf = SolverShelf("cpu", capacity=2)
    for count, seed in ((3, 0), (5, 1), (2, 2)):
        assert shelf.solve(panda, request_for(panda, count, seed=seed)).joint_q.shape == (count, 7)
    assert len(shelf) == 1
    shelf.solve(panda, request_for(panda, 2, offset=np.array([0, 0, 0.1, 0, 0, 0, 1.0])))
    assert len(shelf) == 2


def test_the_least_recently_used_solver_goes(panda):
    shelf = SolverShelf("cpu", capacity=2)
    links = ["panda_hand", "panda_link7", "panda_hand", "panda_link6"]
    for link in links:
        shelf.solve(panda, request_for(panda, 1, link=link))
    kept = [key[1][0][0] for key in shelf._solvers]
    assert kept == ["panda_hand", "panda_link6"]


def test_parts_do_not_change_the_answer(panda, monkeypatch):
    offsets = np.zeros((7, 7))
    offsets[:, 6] = 1.0
    offsets[:, 2] = np.linspace(0.0, 0.1, 7)
    for offset in (None, offsets):
        request = request_for(panda, 7, offset=offset)
        whole = SolverShelf("cpu").solve(panda, request)
        monkeypatch.setattr(solver_shelf, "PART_SIZE", 3)
        parts, counts = SolverShelf("cpu"), []
        answer = parts.solve(panda, request, counts.append)
        monkeypatch.undo()
        assert counts == [3, 3, 1]
        assert answer.success.tolist() == whole.success.tolist()
        assert answer.joint_q.tobytes() == whole.joint_q.tobytes()


def test_problems_with_tools_of_their_own_leave_no_solver_behind(panda):
    shelf = SolverShelf("cpu")
    offset = np.tile([0, 0, 0.1, 0, 0, 0, 1.0], (2, 1))
    shelf.solve(panda, request_for(panda, 2, offset=offset))
    assert len(shelf) == 0


@pytest.fixture
def held_pool(panda, monkeypatch):
    pool = SolverPool("cpu", waiting_limit=2)
    started, release = threading.Event(), threading.Event()

    def wait(*_):
        started.set()
        assert release.wait(60)
        raise InterruptedError

    monkeypatch.setattr(pool._shelf, "solve", wait)
    yield pool, started, release
    release.set()
    pool.close()


def test_the_queue_is_bounded_and_frees_its_places(held_pool, panda):
    pool, _, release = held_pool
    futures = [pool.submit(panda, request_for(panda, 1)) for _ in range(2)]
    with pytest.raises(QueueFullError):
        pool.submit(panda, request_for(panda, 1))
    release.set()
    for future in futures:
        with pytest.raises(InterruptedError):
            future.result(60)
    with pytest.raises(InterruptedError):
        pool.solve(panda, request_for(panda, 1))


def test_a_cancelled_request_is_never_solved_and_frees_its_place(held_pool, panda):
    pool, started, _ = held_pool
    pool.submit(panda, request_for(panda, 1))
    assert started.wait(60)
    assert pool.submit(panda, request_for(panda, 1)).cancel()
    pool.submit(panda, request_for(panda, 1))


def test_closing_drops_what_waits_and_takes_no_more(held_pool, panda):
    pool, started, release = held_pool
    running = pool.submit(panda, request_for(panda, 1))
    waiting = pool.submit(panda, request_for(panda, 1))
    assert started.wait(60)
    closing = threading.Thread(target=pool.close)
    closing.start()
    release.set()
    closing.join(60)
    assert isinstance(running.exception(60), InterruptedError)
    assert waiting.cancelled()
    with pytest.raises(ClosedError):
        pool.submit(panda, request_for(panda, 1))


def test_the_worst_error_ignores_free_targets():
    errors = np.array([[1.0, np.nan], [np.nan, np.nan], [2.0, 3.0]])
    assert worst_over_targets(errors).tolist()[::2] == [1.0, 3.0]
    assert np.isnan(worst_over_targets(errors)[1])
