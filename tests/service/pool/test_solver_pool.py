"""The pool: what waits is solved together, nothing is lost, errors stay with their requests, closing is orderly."""

import math
import threading
from concurrent.futures import CancelledError
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from ik_service.service.pool.solver_pool import PoolLimits
from ik_service.service.queue.batch_size import BATCHES_KEPT, TRUSTED_S
from ik_service.service.queue.errors import ClosedError, ExpiredError, QueueFullError, SolverLostError
from ik_service.service.queue.solve_request import Expected, QueuedRequest
from ik_service.solver.given.options import SolverOptions
from objectives.errors import InputError
from tests.bounded import PATIENCE_S, until
from tests.service.pool.conftest import SlowBuilder, answers, numbered, numbers_of, solved_by


def is_empty(pool):
    return pool.waiting_requests == pool.waiting_problems == 0


@pytest.mark.parametrize(("most", "batches"), [(10_000, [1, 15]), (2, [1, *[2] * 7, 1])])
def test_what_waits_is_solved_together_up_to_a_bound(held, panda, most, batches):
    pool, cache, first = held(limits=PoolLimits(batch_problems=most))
    futures = [pool.submit(panda, numbered(10 * k, 3)) for k in range(5)]
    cache.gate.set()
    assert answers(first, *futures) == [[-1], *([10 * k, 10 * k + 1, 10 * k + 2] for k in range(5))]
    assert [len(batch) for batch in cache.batches] == batches


def test_problems_with_weights_of_their_own_are_solved_together_where_the_same_rows_are_on(held, panda):
    pool, cache, _ = held()
    less, mixed = np.ones((2, 6)), np.ones((2, 6))
    less[:, 5] = mixed[1, 5] = 0.0
    given = (np.ones((2, 6)), 2.0 * np.ones((2, 6)), less, mixed, mixed)
    futures = [pool.submit(panda, numbered(10 * k, 2, weights=weights)) for k, weights in enumerate(given)]
    others = ({"seeds": 2}, {"seeds": 3}, {"link": "panda_link6"})
    further = [pool.submit(panda, numbered(50, 2, **other)) for other in others]
    cache.gate.set()
    assert answers(*futures) == [[10 * k, 10 * k + 1] for k in range(5)]
    assert answers(*further) == [[50, 51]] * 3
    assert sorted(map(len, cache.batches)) == [1, 2, 2, 2, 2, 2, 2, 4]
    assert sorted(max(cache.batches, key=len)) == [0, 1, 10, 11]


def test_a_large_request_is_split_and_put_together_again(held, panda):
    pool, cache, _ = held()
    large, small = pool.submit(panda, numbered(0, 20_000)), pool.submit(panda, numbered(50_000, 1))
    cache.gate.set()
    assert answers(small, large) == [[50_000], list(range(20_000))]
    assert len(cache.batches) > 2
    assert 50_000 in cache.batches[1]  # the small one did not wait for the large one
    assert len(large.result().result.islands) == 20_000


def test_a_request_that_is_alone_is_not_cut_up_until_others_come(make_pool, panda):
    pool, cache = make_pool(seconds_per_problem=4e-6)
    solved_by(pool, panda, numbered(0, 4000))
    assert [len(batch) for batch in cache.batches] == [4000]
    large = pool.submit(panda, numbered(0, 60_000))
    until(lambda: len(cache.batches) > 1)
    solved_by(pool, panda, numbered(-1, 1))
    before = len(cache.batches)
    assert answers(large) == [list(range(60_000))]
    assert max(map(len, cache.batches[before : before + 20])) <= 1000


def test_many_threads_get_their_own_answers(make_pool, panda):
    pool, cache = make_pool(seconds=0.001)
    wrong = []

    def client(k):
        rng = np.random.default_rng(k)
        for _ in range(40):
            first, count = int(rng.integers(0, 10**6)), int(rng.integers(1, 50))
            if numbers_of(solved_by(pool, panda, numbered(first, count))) != list(range(first, first + count)):
                wrong.append(first)

    clients = [threading.Thread(target=client, args=(k,)) for k in range(16)]
    for each in clients:
        each.start()
    for each in clients:
        each.join(PATIENCE_S)
    assert not wrong
    assert len(cache.batches) < 16 * 40 / 2  # batched
    assert is_empty(pool)


def test_the_queue_is_bounded_and_says_when_to_come_back(held, panda):
    pool, cache, first = held(limits=PoolLimits(requests=2))
    futures = [pool.submit(panda, numbered(k, 1)) for k in range(2)]
    with pytest.raises(QueueFullError) as caught:
        pool.submit(panda, numbered(9, 1))
    assert caught.value.retry_after_s >= 1
    with pytest.raises(QueueFullError):
        pool.require_room()
    cache.gate.set()
    answers(first, *futures)
    pool.require_room()
    assert numbers_of(solved_by(pool, panda, numbered(9, 1))) == [9]


def expected(robot, request):
    return Expected((robot.content_hash, request.batch_key), request.problem_count)


def test_a_request_that_would_wait_beyond_its_deadline_is_refused_at_once(held, panda):
    pool, _, _ = held()
    small, large = (expected(panda, numbered(0, count)) for count in (1, 200))
    first = pool.submit(panda, numbered(0, 900))
    for group in pool._queue.groups:
        pool._batch_sizer.record(group, 100, 100 * 0.02)  # 20 ms a problem
    submit = partial(pool.submit, panda, numbered(0, 200))
    for refusing in (submit, partial(pool.require_room, large)):
        with pytest.raises(QueueFullError, match="18 s would pass") as caught:
            refusing(timeout_s=10.0)
        assert (caught.value.reason, caught.value.retry_after_s) == ("wait", 9)
    pool.require_room(large, timeout_s=40.0)
    pool.require_room(small, timeout_s=10.0)
    pool.require_room(None, timeout_s=10.0)
    pool.require_room(expected(panda, numbered(0, 200, link="panda_link6")), timeout_s=10.0)  # a group of its own
    with pytest.raises(QueueFullError) as caught:
        pool.require_room(None, timeout_s=10.0, lag_s=6.0)
    assert caught.value.reason == "lag"
    with pytest.raises(ExpiredError):
        pool.require_room(small, timeout_s=0.0)
    pool.submit(panda, numbered(0, 200), timeout_s=40.0)
    pool.submit(panda, numbered(0, 1), timeout_s=0.1)  # small ones do not wait for large ones
    assert not first.done()


def test_who_is_given_up_because_of_slow_batches_is_tried_again_after_a_while(make_pool, panda):
    pool, cache = make_pool()
    solved_by(pool, panda, numbered(0, 100))
    sizer = pool._batch_sizer
    (key,) = sizer.paces
    for _ in range(BATCHES_KEPT):
        sizer.record(key, 100, 100.0)  # 1 s a problem
    with pytest.raises(ExpiredError):
        pool.submit(panda, numbered(200, 100), timeout_s=20.0).result(PATIENCE_S)
    assert 200 not in cache.solved
    sizer.paces[key].at -= 2.0 * TRUSTED_S
    assert numbers_of(pool.submit(panda, numbered(200, 100), timeout_s=20.0).result(PATIENCE_S))[0] == 200


def test_searches_with_a_deadline_have_no_doubled_batches(make_pool, panda):
    pool, _ = make_pool()
    for deadline_s in (None, 0.004):
        options = SolverOptions(deadline_s=deadline_s)
        solved_by(pool, panda, replace(numbered(0, 10), options=options))
    assert sum(pace.is_timed for pace in pool._batch_sizer.paces.values()) == 1


@pytest.mark.parametrize("why", ["cancelled", "late", "cannot be in time"])
def test_a_request_that_is_given_up_is_never_solved_and_frees_its_place(held, panda, clock, why):
    pool, cache, _ = held(limits=PoolLimits(requests=2))
    lost = pool.submit(panda, numbered(100, 64), timeout_s=PATIENCE_S)
    kept = pool.submit(panda, numbered(200, 64), timeout_s=30 * PATIENCE_S)
    if why == "cancelled":
        assert lost.cancel()
    elif why == "late":
        clock.passed_s += PATIENCE_S
    else:
        pool._batch_sizer.least_seconds = lambda key: PATIENCE_S / 60
    cache.gate.set()
    with pytest.raises(CancelledError if why == "cancelled" else ExpiredError):
        lost.result(PATIENCE_S)
    assert answers(kept) == [list(range(200, 264))]
    assert not {100, 163} & cache.solved
    assert is_empty(pool)


def test_a_large_request_is_given_up_when_it_is_cancelled_half_way(make_pool, panda):
    pool, cache = make_pool(gate=threading.Event())
    large = pool.submit(panda, numbered(0, 100_000))
    assert cache.entered.wait(PATIENCE_S)
    assert large.cancel()
    cache.gate.set()
    assert numbers_of(solved_by(pool, panda, numbered(-5, 1))) == [-5]
    assert sum(map(len, cache.batches)) < 50_000
    assert pool.waiting_problems == 0


def test_an_answer_that_comes_after_its_deadline_is_an_error(make_pool, panda, clock):
    pool, cache = make_pool(gate=threading.Event())
    late = pool.submit(panda, numbered(7, 1), timeout_s=PATIENCE_S)
    assert cache.entered.wait(PATIENCE_S)
    clock.passed_s += PATIENCE_S
    cache.gate.set()
    with pytest.raises(ExpiredError, match="while"):
        late.result(PATIENCE_S)


def test_only_the_request_that_the_solver_refuses_fails(held, panda):
    pool, cache, _ = held(refused=13.0)
    futures = [pool.submit(panda, numbered(k, 2)) for k in (10, 12, 14)]
    cache.gate.set()
    assert answers(futures[0], futures[2]) == [[10, 11], [14, 15]]
    assert isinstance(futures[1].exception(PATIENCE_S), InputError)


def test_the_thread_survives_any_error_which_ends_a_whole_request(make_pool, panda):
    pool, cache = make_pool(error=RuntimeError("broken"))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="broken"):
            solved_by(pool, panda, numbered(0, 3))
    cache.error, cache.refused = None, 5000.0
    with pytest.raises(InputError):
        solved_by(pool, panda, numbered(0, 50_000))
    assert is_empty(pool)
    assert numbers_of(solved_by(pool, panda, numbered(4, 1))) == [4]
    assert 40_000 not in cache.solved


def test_an_answer_that_cannot_be_kept_fails_alone(held, panda, monkeypatch):
    pool, cache, _ = held()
    keep = QueuedRequest.keep

    def keep_most(work, *arguments):
        if work.future is futures[1]:
            raise MemoryError
        keep(work, *arguments)

    monkeypatch.setattr(QueuedRequest, "keep", keep_most)
    futures = [pool.submit(panda, numbered(k, 1)) for k in range(3)]
    cache.gate.set()
    assert isinstance(futures[1].exception(PATIENCE_S), MemoryError)
    assert answers(futures[0], futures[2]) == [[0], [2]]
    assert numbers_of(solved_by(pool, panda, numbered(4, 1))) == [4]


def test_a_thread_that_fails_leaves_nobody_waiting(held, panda, monkeypatch, caplog):
    pool, cache, running = held()
    waiting = [pool.submit(panda, numbered(k, 1, seeds=k + 1)) for k in range(3)]
    monkeypatch.setattr(pool._batch_sizer, "record", lambda *_: 1 / 0)  # after the first batch
    cache.gate.set()
    assert answers(running) == [[-1]]
    for future in waiting:
        assert isinstance(future.exception(PATIENCE_S), SolverLostError)
    with pytest.raises(SolverLostError, match="has failed"):
        pool.submit(panda, numbered(1, 1))
    assert is_empty(pool)
    pool._thread.join(PATIENCE_S)
    assert pool.solving_s == math.inf
    assert "ZeroDivisionError" in caplog.text


def test_a_device_that_works_no_more_ends_the_thread_and_is_told_in_a_line(held, panda, caplog):
    pool, cache, running = held()
    cache.error, cache.lost = RuntimeError("launch failure"), "cuda:0"
    waiting = pool.submit(panda, numbered(1, 1))
    cache.gate.set()
    for future in (running, waiting):
        assert isinstance(future.exception(PATIENCE_S), SolverLostError)
    pool._thread.join(PATIENCE_S)
    assert pool.solving_s == math.inf
    told = "Device cuda:0 works no more: launch failure. Nothing is solved any more; start the service again."
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [told]


def test_closing_drops_what_waits_and_takes_no_more(held, panda):
    pool, cache, running = held()
    waiting = pool.submit(panda, numbered(1, 1))
    closing = threading.Thread(target=pool.close)
    closing.start()
    with pytest.raises(CancelledError):
        waiting.result(PATIENCE_S)
    cache.gate.set()
    closing.join(PATIENCE_S)
    assert answers(running) == [[-1]]
    with pytest.raises(ClosedError):
        pool.submit(panda, numbered(1, 1))


class Record:
    def __init__(self):
        self.solved_problems, self.dropped_requests, self.refusals = [], 0, []

    def solved(self, robot, shares, result, seconds):
        assert 0.0 < seconds < PATIENCE_S
        assert len(result) == sum(share.count for share in shares)
        self.solved_problems.append(len(result))

    def dropped(self, queued_requests):
        self.dropped_requests += len(queued_requests)

    def refused(self, reason):
        self.refusals.append(reason)


def test_an_observer_is_told(held, panda):
    seen = Record()
    pool, cache, _ = held(observer=seen, limits=PoolLimits(requests=2))
    late = pool.submit(panda, numbered(7, 1), timeout_s=0.0)
    good = pool.submit(panda, numbered(8, 4))
    with pytest.raises(QueueFullError):
        pool.submit(panda, numbered(8, 1))
    cache.gate.set()
    answers(good)
    with pytest.raises(ExpiredError):
        late.result(PATIENCE_S)
    pool.close()
    assert (seen.solved_problems, seen.dropped_requests, seen.refusals) == ([1, 4], 1, ["requests"])


def test_an_observer_that_fails_harms_nobody(make_pool, panda, caplog):
    class Broken(Record):
        def solved(self, robot, shares, result, seconds):
            raise RuntimeError("observer")

        def compiled(self, work, seconds):
            raise RuntimeError("observer")

    pool, _ = make_pool(observer=Broken())
    pool._gate.builder = SlowBuilder(at_once=True)
    for k in range(2):
        assert numbers_of(solved_by(pool, panda, numbered(k, 1))) == [k]
    pool.close()
    assert "has failed" in caplog.text
