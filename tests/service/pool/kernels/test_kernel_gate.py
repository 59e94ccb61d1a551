"""The pool and its kernels: other work goes on while code is compiled, once each, and answers stay the same."""

import errno
import threading
from dataclasses import replace

import numpy as np
import pytest

from ik_service.errors import KernelBuildError, KernelCacheError
from ik_service.kernels.kernel_loading import explained_cache_error
from ik_service.service.pool import kernel_status
from ik_service.service.pool.build import BuildEnd
from ik_service.service.pool.pool_limits import PoolLimits
from ik_service.service.pool.solver_pool import SolverPool
from ik_service.service.queue.errors import CompileFailedError, CompilingError, ExpiredError
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import Target
from tests.service.pool.conftest import numbered, numbers_of, solved_by

PATIENCE = 60


class SlowBuilder:
    """Compiles nothing until it is told to, or has everything compiled."""

    def __init__(self, *, at_once=False):
        self.asked, self._at_once = [], at_once

    def build(self, robot, request, done, owners, *, owner):
        if self._at_once:
            done(BuildEnd.COMPILED)
        else:
            self.asked.append((robot, request, done, owners))

    def seconds_left(self, owner):
        return 6.5

    def close(self):
        for _, _, done, _ in self.asked:
            done(BuildEnd.COMPILED)


def test_other_kinds_go_on_while_one_is_compiled(make_pool, panda):
    pool, _ = make_pool()
    assert numbers_of(solved_by(pool, panda, numbered(1, 1))) == [1]
    pool._gate.builder = builder = SlowBuilder()
    waiting = [pool.submit(panda, numbered(k, 1, link="panda_link6")) for k in range(3)]
    waiting.append(pool.submit(panda, numbered(3, 1, link="panda_link6", seeds=5)))  # another group, the same code
    assert numbers_of(solved_by(pool, panda, numbered(2, 1))) == [2]
    assert len(builder.asked) == 1
    assert not any(future.done() for future in waiting)
    builder.asked.pop()[2](BuildEnd.COMPILED)
    assert [numbers_of(future.result(PATIENCE)) for future in waiting] == [[0], [1], [2], [3]]
    assert numbers_of(solved_by(pool, panda, numbered(5, 1, link="panda_link6"))) == [5]
    assert not builder.asked  # compiled once


def test_a_request_whose_kernels_come_too_late_expires(make_pool, panda):
    pool, cache = make_pool()
    pool._gate.builder = builder = SlowBuilder()
    late = pool.submit(panda, numbered(0, 1), timeout_s=0.05)
    with pytest.raises(CompilingError, match="is being compiled") as caught:
        late.result(PATIENCE)
    assert caught.value.retry_after_s == 7  # what the builder has left, in whole seconds
    builder.asked.pop()[2](BuildEnd.COMPILED)
    assert numbers_of(solved_by(pool, panda, numbered(1, 1))) == [1]
    assert cache.batches == [[1.0]]


class FailingBuilder(SlowBuilder):
    """Cannot even be asked."""

    def build(self, robot, request, done, owners, *, owner):
        self.asked.append((robot, request, lambda _: None, owners))
        raise OSError(24, "Too many open files")


def test_where_no_process_can_be_asked_the_solver_compiles_itself(make_pool, panda, caplog):
    pool, _ = make_pool()
    pool._gate.builder = builder = FailingBuilder()
    assert numbers_of(pool.submit(panda, numbered(1, 1)).result(PATIENCE)) == [1]
    assert numbers_of(pool.submit(panda, numbered(2, 1)).result(PATIENCE)) == [2]
    with pool.submit_together():
        others = [pool.submit(panda, numbered(k, 1, link="panda_link6")) for k in range(2)]
    assert [numbers_of(future.result(PATIENCE)) for future in others] == [[0], [1]]
    assert len(builder.asked) == 2  # once for each code
    assert caplog.text.count("the solver compiles itself") == 2


def test_a_process_is_asked_without_the_lock_of_the_pool(make_pool, panda):
    """Starting one takes longer than many solves."""
    pool, _ = make_pool()

    class OtherThreadSolves(SlowBuilder):
        def build(self, robot, request, done, owners, *, owner):
            self.asked.append((robot, request, done, owners))
            other = threading.Thread(target=lambda: got.append(numbers_of(solved_by(pool, panda, numbered(1, 1)))))
            other.start()
            other.join(5)

    got = [numbers_of(solved_by(pool, panda, numbered(0, 1)))]
    pool._gate.builder = builder = OtherThreadSolves()
    with pool.submit_together():
        waiting = pool.submit(panda, numbered(5, 1, link="panda_link6"))
    assert got == [[0], [1]]
    builder.asked.pop()[2](BuildEnd.COMPILED)
    assert numbers_of(waiting.result(PATIENCE)) == [5]


def test_what_nobody_waits_for_is_given_up_and_built_for_who_comes_next(make_pool, panda):
    pool, cache = make_pool()
    pool._gate.builder = builder = SlowBuilder()
    late = pool.submit(panda, numbered(0, 1), timeout_s=0.05)
    assert builder.asked[0][3]() == {None}  # it is wanted
    with pytest.raises(ExpiredError):
        late.result(PATIENCE)
    _, _, done, owners = builder.asked.pop()
    assert not owners()
    done(BuildEnd.ABANDONED)
    assert not builder.asked
    waiting = pool.submit(panda, numbered(1, 1))
    builder.asked.pop()[2](BuildEnd.COMPILED)
    assert numbers_of(waiting.result(PATIENCE)) == [1]
    assert cache.batches == [[1.0]]


def test_what_took_too_long_is_built_again_for_those_who_still_wait(make_pool, panda):
    pool, _ = make_pool()
    pool._gate.builder = builder = SlowBuilder()
    gone, waiting = (pool.submit(panda, numbered(k, 1)) for k in range(2))
    gone.cancel()
    builder.asked.pop()[2](BuildEnd.ABANDONED)
    _, request, done, _ = builder.asked.pop()
    assert request.batch.positions[0][0, 0] == 1.0
    done(BuildEnd.COMPILED)
    assert numbers_of(waiting.result(PATIENCE)) == [1]


def test_a_lane_of_stale_requests_does_not_keep_new_ones_from_being_built_for(make_pool, panda):
    pool, cache = make_pool(gate=threading.Event())
    first = pool.submit(panda, numbered(0, 1))
    assert cache.entered.wait(PATIENCE)  # from here on nothing is swept
    pool._gate.builder = builder = SlowBuilder()
    stale = pool.submit(panda, numbered(1, 1, link="panda_link6"))
    stale.cancel()
    builder.asked.pop()[2](BuildEnd.ABANDONED)
    waiting = pool.submit(panda, numbered(2, 1, link="panda_link6"))
    builder.asked.pop()[2](BuildEnd.COMPILED)
    cache.gate.set()
    assert [numbers_of(one.result(PATIENCE)) for one in (first, waiting)] == [[0], [2]]


def test_once_kernels_are_there_a_late_answer_is_not_one_of_the_compiler(make_pool, panda, clock):
    pool, cache = make_pool(gate=threading.Event())
    first = pool.submit(panda, numbered(0, 1))
    assert cache.entered.wait(PATIENCE)
    pool._gate.builder = builder = SlowBuilder()
    late = pool.submit(panda, numbered(1, 1, link="panda_link6"), timeout_s=PATIENCE / 2)
    builder.asked.pop()[2](BuildEnd.COMPILED)
    clock.passed_s += PATIENCE / 2
    cache.gate.set()
    with pytest.raises(ExpiredError) as caught:
        late.result(PATIENCE)
    assert not isinstance(caught.value, CompilingError)
    assert numbers_of(first.result(PATIENCE)) == [0]


def test_the_builder_is_told_all_who_wait_for_the_same_code(make_pool, panda):
    pool, _ = make_pool(limits=PoolLimits(is_shared=True))
    pool._gate.builder = builder = SlowBuilder()
    queued_requests = [
        pool.submit(panda, numbered(k, 1, seeds=k + 1), owner=owner) for k, owner in enumerate(("a", "b"))
    ]
    assert [owners() for _, _, _, owners in builder.asked] == [{"a", "b"}]
    queued_requests[0].cancel()
    assert builder.asked[0][3]() == {"b"}


def test_what_cannot_be_compiled_is_told_to_all_who_wait_and_not_tried_again(make_pool, panda):
    pool, cache = make_pool()
    pool._gate.builder = builder = SlowBuilder()
    waiting = [pool.submit(panda, numbered(k, 1, seeds=k + 1)) for k in range(3)]
    builder.asked.pop()[2](BuildEnd.FAILED)
    for one in waiting:
        with pytest.raises(CompileFailedError, match="robot 'panda' cannot be compiled"):
            one.result(PATIENCE)
    with pytest.raises(CompileFailedError):
        pool.submit(panda, numbered(9, 1, seeds=7))
    assert not builder.asked
    assert pool.waiting_requests == 0
    other = pool.submit(panda, numbered(1, 1, link="panda_link6"))  # other code is compiled as ever
    builder.asked.pop()[2](BuildEnd.COMPILED)
    assert numbers_of(other.result(PATIENCE)) == [1]
    assert cache.batches == [[1.0]]


def test_what_could_not_be_compiled_is_tried_again_after_a_while(make_pool, panda, monkeypatch):
    monkeypatch.setattr(kernel_status, "FAILED_S", 0.0)
    pool, _ = make_pool()
    pool._gate.builder = builder = SlowBuilder()
    waiting = pool.submit(panda, numbered(0, 1))
    builder.asked.pop()[2](BuildEnd.FAILED)
    with pytest.raises(CompileFailedError):
        waiting.result(PATIENCE)
    again = pool.submit(panda, numbered(1, 1))
    builder.asked.pop()[2](BuildEnd.COMPILED)
    assert numbers_of(again.result(PATIENCE)) == [1]


def test_failures_that_are_remembered_are_bounded(monkeypatch):
    monkeypatch.setattr(kernel_status, "FAILED_MOST", 2)
    codes = kernel_status.KernelStatus()
    for code in "abc":
        codes.set_failed(code, BuildEnd.FAILED, 0.0)
    assert [codes.failure(code, 1.0) for code in "abc"] == [None, BuildEnd.FAILED, BuildEnd.FAILED]
    assert codes.failure("c", kernel_status.FAILED_S) is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_an_error_of_a_write_to_the_cache_is_one_of_the_cache(number):
    error = explained_cache_error(OSError(number, "no"))  # writes name no file
    assert isinstance(error, KernelCacheError)
    assert "no" in str(error)
    assert explained_cache_error(OSError(errno.ENOENT, "no")) is None


def test_what_the_cache_does_not_take_from_the_solver_is_not_tried_again_at_once(make_pool, panda):
    pool, cache = make_pool(error=KernelCacheError("no room"))
    tried = []
    solve = cache.solve_together
    cache.solve_together = lambda *given: tried.append(given) or solve(*given)
    for k in range(2):
        with pytest.raises(KernelCacheError):
            solved_by(pool, panda, numbered(k, 1))
    assert len(tried) == 1


@pytest.mark.parametrize("kind", [Exception, KernelBuildError])
def test_what_the_solvers_own_thread_cannot_compile_is_not_tried_again_either(make_pool, panda, caplog, kind):
    pool, cache = make_pool(error=kind("CPU kernel build failed with error code 1"))
    tried = []
    solve = cache.solve_together
    cache.solve_together = lambda *given: tried.append(given) or solve(*given)
    with pytest.raises(CompileFailedError):
        solved_by(pool, panda, numbered(0, 1))
    with pytest.raises(CompileFailedError):
        solved_by(pool, panda, numbered(1, 1))
    assert len(tried) == 1
    assert caplog.text.count("cannot be compiled. CPU kernel build failed") == 1


def test_codes_differ_by_rows_and_not_by_values(panda):
    def code(positions=None, orientations_xyzw=None, link="panda_hand", **changes):
        positions = np.zeros((2, 3)) if positions is None else positions
        return SolveRequest((Target(link, **changes),), Batch.of([positions], [orientations_xyzw])).code_key

    one = np.array([0.1, 0, 0, 0, 0, 0, 1.0])
    assert code() == code(positions=np.ones((5, 3)))
    assert code(offset=one) == code(offset=2 * one)
    assert code(row_weights=np.ones(6)) == code(row_weights=np.full((2, 6), 3.0))
    different = [code(), code(link="panda_link6"), code(reference_link="panda_link1"), code(offset=one)]
    plain = SolveRequest((Target("panda_hand"),), Batch.of([np.zeros((2, 3))]))
    choices = ({"best_of": "cost"}, {"precision": "float64"}, {"candidates": 2}, {"repair": True})
    different += [replace(plain, options=SolverOptions(**one)).code_key for one in choices]
    different += [
        code(orientations_xyzw=np.tile([0, 0, 0, 1.0], (2, 1))),
        code(row_weights=np.array([1.0, 0, 1, 1, 1, 1])),
    ]
    assert len(set(different)) == len(different)


def test_answers_of_a_process_that_compiles_apart_are_the_same(panda, tmp_path):
    poses = panda.forward_kinematics(panda.random_joint_q(np.random.default_rng(1), 3), links=["panda_link5"])
    request = SolveRequest((Target("panda_link5"),), Batch.of([poses.positions[:, 0]], [poses.orientations_xyzw[:, 0]]))
    answers = []
    for apart in (True, False):
        pool = SolverPool("cpu", compile_apart=apart)
        try:
            answers.append(pool.submit(panda, request).result(PATIENCE))
        finally:
            pool.close()
    assert answers[0].result.success.all()
    assert answers[0].result.joint_q.tobytes() == answers[1].result.joint_q.tobytes()
