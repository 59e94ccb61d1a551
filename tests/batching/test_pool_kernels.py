"""The pool and its kernels: other work goes on while code is compiled, once each, and answers stay the same."""

import os
import threading
from concurrent.futures import Future

import numpy as np
import pytest

from ik_service.batching import kernel_builder
from ik_service.batching.errors import ExpiredError
from ik_service.batching.request import SolveRequest, TargetColumns
from ik_service.batching.solver_pool import SolverPool
from tests.batching.conftest import numbered, numbers_of

PATIENCE = 60


class SlowBuilder:
    """Compiles nothing until it is told to, or has everything compiled."""

    def __init__(self, *, at_once=False):
        self.asked, self._at_once = [], at_once

    def build(self, robot, request, done):
        if self._at_once:
            done()
        else:
            self.asked.append((robot, request, done))

    def close(self):
        for _, _, done in self.asked:
            done()


def test_other_kinds_go_on_while_one_is_compiled(make_pool, panda):
    pool, _ = make_pool()
    assert numbers_of(pool.solve(panda, numbered(1, 1))) == [1]
    pool._builder = builder = SlowBuilder()
    waiting = [pool.submit(panda, numbered(k, 1, link="panda_link6")) for k in range(3)]
    waiting.append(pool.submit(panda, numbered(3, 1, link="panda_link6", seeds=5)))  # another lane, the same code
    assert numbers_of(pool.solve(panda, numbered(2, 1))) == [2]
    assert len(builder.asked) == 1
    assert not any(future.done() for future in waiting)
    builder.asked.pop()[2]()
    assert [numbers_of(future.result(PATIENCE)) for future in waiting] == [[0], [1], [2], [3]]
    assert numbers_of(pool.solve(panda, numbered(5, 1, link="panda_link6"))) == [5]
    assert not builder.asked  # compiled once


def test_a_request_whose_kernels_come_too_late_expires(make_pool, panda):
    pool, shelf = make_pool()
    pool._builder = builder = SlowBuilder()
    late = pool.submit(panda, numbered(0, 1), timeout_s=0.05)
    with pytest.raises(ExpiredError):
        late.result(PATIENCE)
    builder.asked.pop()[2]()
    assert numbers_of(pool.solve(panda, numbered(1, 1))) == [1]
    assert shelf.batches == [[1.0]]


class FailingBuilder(SlowBuilder):
    """Cannot even be asked."""

    def build(self, robot, request, done):
        self.asked.append((robot, request, lambda: None))
        raise OSError(24, "Too many open files")


def test_where_no_process_can_be_asked_the_solver_compiles_itself(make_pool, panda, caplog):
    pool, _ = make_pool()
    pool._builder = builder = FailingBuilder()
    assert numbers_of(pool.submit(panda, numbered(1, 1)).result(PATIENCE)) == [1]
    assert numbers_of(pool.submit(panda, numbered(2, 1)).result(PATIENCE)) == [2]
    with pool.together():
        others = [pool.submit(panda, numbered(k, 1, link="panda_link6")) for k in range(2)]
    assert [numbers_of(future.result(PATIENCE)) for future in others] == [[0], [1]]
    assert len(builder.asked) == 2  # once for each code
    assert caplog.text.count("the solver compiles itself") == 2


def test_a_process_is_asked_without_the_lock_of_the_pool(make_pool, panda):
    """Starting one takes longer than many solves."""
    pool, _ = make_pool()

    class OtherThreadSolves(SlowBuilder):
        def build(self, robot, request, done):
            self.asked.append((robot, request, done))
            other = threading.Thread(target=lambda: got.append(numbers_of(pool.solve(panda, numbered(1, 1)))))
            other.start()
            other.join(5)

    got = [numbers_of(pool.solve(panda, numbered(0, 1)))]
    pool._builder = builder = OtherThreadSolves()
    with pool.together():
        waiting = pool.submit(panda, numbered(5, 1, link="panda_link6"))
    assert got == [[0], [1]]
    builder.asked.pop()[2]()
    assert numbers_of(waiting.result(PATIENCE)) == [5]


def test_a_process_that_could_not_start_is_forgotten(panda, tmp_path, monkeypatch):
    made = []

    class Executor:
        """The first of them refuses its first task; later ones have it done at once."""

        def __init__(self, *_, **__):
            self.is_down = False
            made.append(self)

        def submit(self, *_):
            if self is made[0]:
                raise OSError(24, "Too many open files")
            done = Future()
            done.set_result(None)
            return done

        def shutdown(self, **_):
            self.is_down = True

    monkeypatch.setattr(kernel_builder, "ProcessPoolExecutor", Executor)
    monkeypatch.setattr(kernel_builder, "MARKS", str(tmp_path))
    builder, told = kernel_builder.KernelBuilder("cpu"), []
    with pytest.raises(OSError, match="Too many"):
        builder.build(panda, numbered(0, 1), lambda: told.append("first"))
    builder.build(panda, numbered(0, 1), lambda: told.append("second"))
    assert told == ["second"]
    assert [one.is_down for one in made] == [False, True]  # the second ends as soon as nothing is left for it


def test_codes_differ_by_rows_and_not_by_values(panda):
    def code(**changes):
        target = TargetColumns(**{"link": "panda_hand", "positions": np.zeros((2, 3)), **changes})
        return SolveRequest((target,)).code_key

    one = np.array([0.1, 0, 0, 0, 0, 0, 1.0])
    assert code() == code(positions=np.ones((5, 3)))
    assert code(offset=one) == code(offset=2 * one)
    assert code(row_weights=np.ones(6)) == code(row_weights=np.full((2, 6), 3.0))
    different = [code(), code(link="panda_link6"), code(reference_link="panda_link1"), code(offset=one)]
    different += [
        code(orientations_xyzw=np.tile([0, 0, 0, 1.0], (2, 1))),
        code(row_weights=np.array([1.0, 0, 1, 1, 1, 1])),
    ]
    assert len(set(different)) == len(different)


def test_answers_of_a_process_that_compiles_apart_are_the_same(panda, tmp_path):
    poses = panda.forward_kinematics(panda.random_joint_q(np.random.default_rng(1), 3), links=["panda_link5"])
    request = SolveRequest((TargetColumns("panda_link5", poses.positions[:, 0], poses.orientations_xyzw[:, 0]),))
    answers = []
    for apart in (True, False):
        pool = SolverPool("cpu", compile_apart=apart)
        try:
            answers.append(pool.submit(panda, request).result(PATIENCE))
        finally:
            pool.close()
    assert answers[0].success.all()
    assert answers[0].joint_q.tobytes() == answers[1].joint_q.tobytes()


def test_kernels_that_are_marked_as_there_need_no_process(panda, tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_builder, "MARKS", str(tmp_path))
    builder, compiled = kernel_builder.KernelBuilder("cpu"), threading.Event()
    builder.build(panda, numbered(0, 1, link="panda_link5"), compiled.set)
    assert compiled.wait(PATIENCE)
    builder.close()
    assert len(list(tmp_path.iterdir())) == 1

    monkeypatch.setattr(kernel_builder, "ProcessPoolExecutor", None)  # from here on none can be made
    builder, at_once = kernel_builder.KernelBuilder("cpu"), threading.Event()
    builder.build(panda, numbered(5, 3, link="panda_link5", seeds=7), at_once.set)
    assert at_once.is_set()
    with pytest.raises(TypeError):
        builder.build(panda, numbered(5, 3, link="panda_link6"), at_once.set)  # of these there is no mark


def test_a_process_that_dies_leaves_the_work_to_the_solver(panda, monkeypatch, caplog):
    monkeypatch.setattr("ik_service.batching.kernel_builder.fill_cache", die)
    poses = panda.forward_kinematics(panda.mid_joint_q, links=["panda_link4"])
    request = SolveRequest((TargetColumns("panda_link4", poses.positions[0], poses.orientations_xyzw[0]),))
    pool = SolverPool("cpu")
    try:
        assert pool.submit(panda, request).result(PATIENCE).success.all()
    finally:
        pool.close()
    assert "has died" in caplog.text


def die(*_):
    os._exit(1)
