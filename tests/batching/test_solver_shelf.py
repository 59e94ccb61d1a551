"""The shelf: solvers that are reused, bounded and left out; parts and batches do not change answers."""

import numpy as np

from ik_service.batching import solver_shelf
from ik_service.batching.answer import SolveAnswer, worst_over_targets
from ik_service.batching.request import SolveRequest, TargetColumns
from ik_service.batching.solver_shelf import SolverShelf


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


def test_a_batch_of_several_requests_gives_each_what_it_gets_alone(panda):
    shelf = SolverShelf("cpu")
    requests = [request_for(panda, count, seed=count) for count in (1, 5, 3)]
    together, row = shelf.solve_together(panda, requests), 0
    for request in requests:
        alone, rows = shelf.solve(panda, request), slice(row, row + request.problem_count)
        row = rows.stop
        cut = SolveAnswer.joined([(together, rows)], 0.0, 0.0)
        for name in ("joint_q", "success", "status", "position_error", "iterations", "seed_index", "active_limits"):
            assert getattr(cut, name).tobytes() == getattr(alone, name).tobytes(), name
        assert list(cut.islands) == list(alone.islands)


def test_the_worst_error_ignores_free_targets():
    errors = np.array([[1.0, np.nan], [np.nan, np.nan], [2.0, 3.0]])
    assert worst_over_targets(errors).tolist()[::2] == [1.0, 3.0]
    assert np.isnan(worst_over_targets(errors)[1])
