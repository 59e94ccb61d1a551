"""The pool and its kernels: other work goes on while code is compiled, once each, and answers stay the same."""

import errno
import threading

import numpy as np
import pytest

from ik_service.errors import KernelBuildError, KernelCacheError
from ik_service.kernels.kernel_loading import explained_cache_error
from ik_service.service.pool import kernel_gate
from ik_service.service.pool.kernel_builder import BuildEnd
from ik_service.service.pool.solver_pool import PoolLimits, SolverPool
from ik_service.service.queue.errors import CompileFailedError, CompilingError, ExpiredError
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import Target
from tests.bounded import PATIENCE_S
from tests.service.pool.conftest import SlowBuilder, answers, numbered, numbers_of, solved_by


def test_other_kinds_go_on_while_one_is_compiled(make_pool, panda):
    pool, _ = make_pool()
    assert numbers_of(solved_by(pool, panda, numbered(1, 1))) == [1]
    builder = pool._gate.builder = SlowBuilder()
    waiting = [pool.submit(panda, numbered(k, 1, link="panda_link6")) for k in range(3)]
    waiting.append(pool.submit(panda, numbered(3, 1, link="panda_link6", seeds=5)))  # another group, the same code
    assert numbers_of(solved_by(pool, panda, numbered(2, 1))) == [2]
    assert len(builder.asked) == pool.compiling_kinds == 1
    assert not any(future.done() for future in waiting)
    builder.end()
    assert answers(*waiting) == [[0], [1], [2], [3]]
    assert pool.compiling_kinds == 0
    assert numbers_of(solved_by(pool, panda, numbered(5, 1, link="panda_link6"))) == [5]
    assert not builder.asked  # compiled once


class FailingBuilder(SlowBuilder):
    """Cannot even be asked."""

    def build(self, robot, request, done, owners, *, owner):
        self.asked.append((robot, request, lambda _: None, owners))
        raise OSError(24, "Too many open files")


def test_where_no_process_can_be_asked_the_solver_compiles_itself(make_pool, panda, caplog):
    pool, _ = make_pool(builder=(builder := FailingBuilder()))
    assert answers(*(pool.submit(panda, numbered(k, 1)) for k in (1, 2))) == [[1], [2]]
    with pool.submit_together():
        others = [pool.submit(panda, numbered(k, 1, link="panda_link6")) for k in range(2)]
    assert answers(*others) == [[0], [1]]
    assert len(builder.asked) == 2  # once for each code
    assert caplog.text.count("the solver compiles itself") == 2


def test_a_process_is_asked_without_the_lock_of_the_pool(make_pool, panda):
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
    builder.end()
    assert answers(waiting) == [[5]]


def test_a_request_whose_kernels_come_too_late_expires_and_these_are_built_for_who_comes_next(make_pool, panda):
    pool, cache = make_pool(builder=(builder := SlowBuilder()))
    late = pool.submit(panda, numbered(0, 1), timeout_s=0.05)
    assert builder.asked[0][3]() == {None}  # it is wanted
    with pytest.raises(CompilingError, match="is being compiled") as caught:
        late.result(PATIENCE_S)
    assert caught.value.retry_after_s == 7  # what the builder has left, in whole seconds
    assert not builder.asked[0][3]()
    builder.end(BuildEnd.ABANDONED)
    assert not builder.asked
    waiting = pool.submit(panda, numbered(1, 1))
    builder.end()
    assert answers(waiting) == [[1]]
    assert cache.batches == [[1.0]]


def test_what_took_too_long_is_built_again_for_those_who_still_wait(make_pool, panda):
    pool, _ = make_pool(builder=(builder := SlowBuilder()))
    gone, waiting = (pool.submit(panda, numbered(k, 1)) for k in range(2))
    gone.cancel()
    builder.end(BuildEnd.ABANDONED)
    _, request, done, _ = builder.asked.pop()
    assert request.batch.positions[0][0, 0] == 1.0
    done(BuildEnd.COMPILED)
    assert answers(waiting) == [[1]]


def test_a_lane_of_stale_requests_does_not_keep_new_ones_from_being_built_for(held, panda):
    pool, cache, first = held()  # nothing is swept
    builder = pool._gate.builder = SlowBuilder()
    stale = pool.submit(panda, numbered(1, 1, link="panda_link6"))
    stale.cancel()
    builder.end(BuildEnd.ABANDONED)
    waiting = pool.submit(panda, numbered(2, 1, link="panda_link6"))
    builder.end()
    cache.gate.set()
    assert answers(first, waiting) == [[-1], [2]]


def test_once_kernels_are_there_a_late_answer_is_not_one_of_the_compiler(held, panda, clock):
    pool, cache, first = held()
    builder = pool._gate.builder = SlowBuilder()
    late = pool.submit(panda, numbered(1, 1, link="panda_link6"), timeout_s=PATIENCE_S / 2)
    builder.end()
    clock.passed_s += PATIENCE_S / 2
    cache.gate.set()
    with pytest.raises(ExpiredError) as caught:
        late.result(PATIENCE_S)
    assert not isinstance(caught.value, CompilingError)
    assert answers(first) == [[-1]]


def test_the_builder_is_told_all_who_wait_for_the_same_code(make_pool, panda):
    pool, _ = make_pool(limits=PoolLimits(is_shared=True))
    builder = pool._gate.builder = SlowBuilder()
    queued = [pool.submit(panda, numbered(k, 1, seeds=k + 1), owner=owner) for k, owner in enumerate(("a", "b"))]
    assert [owners() for _, _, _, owners in builder.asked] == [{"a", "b"}]
    queued[0].cancel()
    assert builder.asked[0][3]() == {"b"}


def test_what_cannot_be_compiled_is_told_to_all_who_wait_and_tried_again_after_a_while(make_pool, panda, clock):
    pool, cache = make_pool(builder=(builder := SlowBuilder()))
    waiting = [pool.submit(panda, numbered(k, 1, seeds=k + 1)) for k in range(3)]
    builder.end(BuildEnd.FAILED)
    for one in waiting:
        with pytest.raises(CompileFailedError, match="robot 'panda' cannot be compiled"):
            one.result(PATIENCE_S)
    with pytest.raises(CompileFailedError):
        pool.submit(panda, numbered(9, 1, seeds=7))
    assert not builder.asked
    assert pool.waiting_requests == 0
    other = pool.submit(panda, numbered(1, 1, link="panda_link6"))  # other code is compiled as ever
    builder.end()
    assert answers(other) == [[1]]
    assert cache.batches == [[1.0]]
    clock.passed_s += kernel_gate.FAILED_S
    again = pool.submit(panda, numbered(2, 1))
    builder.end()
    assert answers(again) == [[2]]


def test_failures_that_are_remembered_are_bounded(make_pool, panda, monkeypatch):
    monkeypatch.setattr(kernel_gate, "FAILED_MOST", 2)
    pool, _ = make_pool(builder=(builder := SlowBuilder()))

    def ask(number):
        return pool.submit(panda, numbered(1, 1, link=f"panda_link{number}"))

    for number in (1, 2, 3):
        waiting = ask(number)
        builder.end(BuildEnd.FAILED)
        with pytest.raises(CompileFailedError):
            waiting.result(PATIENCE_S)
    for number in (2, 3):
        with pytest.raises(CompileFailedError):
            ask(number)
    assert not builder.asked
    again = ask(1)
    builder.end()
    assert answers(again) == [[1]]


def test_an_error_of_a_write_to_the_cache_is_one_of_the_cache():
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        error = explained_cache_error(OSError(number, "no"))  # writes name no file
        assert isinstance(error, KernelCacheError)
        assert "no" in str(error)
    assert explained_cache_error(OSError(errno.ENOENT, "no")) is None


REFUSED = "CPU kernel build failed with error code 1"


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (Exception(REFUSED), CompileFailedError),
        (KernelBuildError(REFUSED), CompileFailedError),
        (KernelCacheError("no room"), KernelCacheError),
    ],
)
def test_what_the_solvers_thread_cannot_compile_or_keep_is_not_tried_again(make_pool, panda, caplog, error, refusal):
    pool, cache = make_pool(error=error)
    tried, solve = [], cache.solve_together
    cache.solve_together = lambda *given: tried.append(given) or solve(*given)
    for k in range(2):
        with pytest.raises(refusal):
            solved_by(pool, panda, numbered(k, 1))
    assert len(tried) == 1
    assert caplog.text.count(f"cannot be compiled. {REFUSED}") == (refusal is CompileFailedError)


def test_codes_differ_by_rows_and_not_by_values(panda):
    def code(positions=None, orientations_xyzw=None, link="panda_hand", options=None, **changes):
        arrays = Batch.of([np.zeros((2, 3)) if positions is None else positions], [orientations_xyzw])
        return SolveRequest((Target(link, **changes),), arrays, options=options or SolverOptions()).code_key

    one = np.array([0.1, 0, 0, 0, 0, 0, 1.0])
    assert code() == code(positions=np.ones((5, 3)))
    assert code(offset=one) == code(offset=2 * one)
    assert code(row_weights=np.ones(6)) == code(row_weights=np.full((2, 6), 3.0))
    different = [code(), code(link="panda_link6"), code(reference_link="panda_link1"), code(offset=one)]
    different += [code(orientations_xyzw=np.tile(one[3:], (2, 1))), code(row_weights=np.array([1.0, 0, 1, 1, 1, 1]))]
    choices = ({"best_of": "cost"}, {"precision": "float64"}, {"candidates": 2}, {"repair": True})
    different += [code(options=SolverOptions(**choice)) for choice in choices]
    assert len(set(different)) == len(different)


def test_answers_of_a_process_that_compiles_apart_are_the_same(panda):
    poses = panda.forward_kinematics(panda.random_joint_q(np.random.default_rng(1), 3), links=["panda_link5"])
    arrays = Batch.of([poses.positions[:, 0]], [poses.orientations_xyzw[:, 0]])
    answers = []
    for apart in (True, False):
        pool = SolverPool("cpu", compile_apart=apart)
        try:
            answers.append(solved_by(pool, panda, SolveRequest((Target("panda_link5"),), arrays)).result)
        finally:
            pool.close()
    assert answers[0].success.all()
    assert answers[0].joint_q.tobytes() == answers[1].joint_q.tobytes()
