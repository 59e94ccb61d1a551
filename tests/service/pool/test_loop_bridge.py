"""The event loop and threads: requests of two turns are one batch, futures end, the loop goes on."""

import asyncio
import gc
import sys
import threading
import time

import pytest

from ik_service.service.pool.loop_bridge import LoopBridge
from ik_service.service.pool.side_threads import REST, SHORT_TURN_S, SideThreads
from ik_service.service.pool.solver_pool import PoolLimits
from ik_service.service.queue.errors import ExpiredError, QueueFullError
from objectives.errors import InputError
from tests.bounded import PATIENCE_S, run
from tests.service.pool.conftest import numbered, numbers_of


@pytest.fixture
def make_bridge(make_pool):
    def make(**arguments):
        pool, cache = make_pool(**arguments)
        return LoopBridge(pool), cache

    return make


@pytest.fixture
def slow_bridge(make_bridge):
    """A bridge to a solver that waits until a gate opens; whether it has begun can be waited for."""
    bridge, cache = make_bridge(gate=threading.Event())

    async def begun():
        await asyncio.to_thread(cache.entered.wait, PATIENCE_S)

    return bridge, cache, begun


def test_requests_of_one_turn_and_of_the_next_are_one_batch(make_bridge, panda, monkeypatch):
    bridge, cache = make_bridge()
    submit = bridge._pool.submit

    def submit_and_rest(*arguments, **options):
        submitted = submit(*arguments, **options)
        time.sleep(0.001)  # in which the solver's thread would begin
        return submitted

    monkeypatch.setattr(bridge._pool, "submit", submit_and_rest)

    async def ask():
        early = [bridge.solve(panda, numbered(k, 1)) for k in range(15)]
        await asyncio.sleep(0)
        time.sleep(0.01)  # the same
        late = [bridge.solve(panda, numbered(k, 1)) for k in range(15, 20)]
        return [numbers_of(answer) for answer in await asyncio.gather(*early, *late)]

    assert run(ask()) == [[k] for k in range(20)]
    assert [len(batch) for batch in cache.batches] == [20]


def test_errors_go_to_those_whose_they_are(make_bridge, panda):
    bridge, _ = make_bridge(limits=PoolLimits(requests=2), refused=1.0)

    async def ask():
        futures = [bridge.solve(panda, numbered(k, 1)) for k in range(3)]
        return await asyncio.gather(*futures, return_exceptions=True)

    first, refused, too_many = run(ask())
    assert numbers_of(first) == [0]
    assert isinstance(refused, InputError)
    assert isinstance(too_many, QueueFullError)


def test_what_is_cancelled_before_its_turn_ends_is_never_submitted(make_bridge, panda):
    bridge, cache = make_bridge()

    async def ask():
        cancelled, kept = bridge.solve(panda, numbered(7, 1)), bridge.solve(panda, numbered(8, 1))
        cancelled.cancel()
        return numbers_of(await kept)

    assert run(ask()) == [8]
    assert cache.batches == [[8.0]]


def test_what_is_cancelled_while_it_waits_is_dropped(slow_bridge, panda):
    bridge, cache, begun = slow_bridge

    async def ask():
        first = bridge.solve(panda, numbered(0, 1))
        await begun()
        cancelled, kept = bridge.solve(panda, numbered(7, 1)), bridge.solve(panda, numbered(8, 1))
        await asyncio.sleep(0.01)
        cancelled.cancel()
        await asyncio.sleep(0.01)
        cache.gate.set()
        return [numbers_of(await one) for one in (first, kept)]

    assert run(ask()) == [[0], [8]]
    assert 7 not in cache.solved


def test_a_deadline_holds_while_the_solver_hangs(slow_bridge, panda):
    bridge, cache, begun = slow_bridge

    async def ask():
        hung = bridge.solve(panda, numbered(0, 1), timeout_s=0.05)
        await begun()
        waiting, kept = (bridge.solve(panda, numbered(k, 1), timeout_s=t) for k, t in ((1, 0.05), (2, 50.0)))
        late = await asyncio.wait_for(asyncio.gather(hung, waiting, return_exceptions=True), 30)
        assert not kept.done()
        cache.gate.set()
        return late, numbers_of(await kept)

    late, kept = run(ask())
    assert [type(error) for error in late] == [ExpiredError, ExpiredError]
    assert kept == [2]
    assert 1 not in cache.solved  # given up, and so dropped


def test_nothing_is_looked_after_once_all_is_answered(make_bridge, panda):
    bridge, _ = make_bridge()

    async def ask():
        await bridge.solve(panda, numbered(0, 1))
        cancelled = bridge.solve(panda, numbered(1, 1))
        await asyncio.sleep(0)
        cancelled.cancel()
        async with asyncio.timeout(30):
            while bridge._sweeping_loop is not None:
                await asyncio.sleep(0.01)
        return numbers_of(await bridge.solve(panda, numbered(2, 1)))

    assert run(ask()) == [2]
    assert not bridge._open


def test_a_loop_that_has_ended_does_not_disturb_the_pool(slow_bridge, panda):
    bridge, cache, begun = slow_bridge

    async def leave():
        bridge.solve(panda, numbered(0, 1))
        await begun()

    async def ask():
        return numbers_of(await LoopBridge(bridge._pool).solve(panda, numbered(1, 1)))

    run(leave())
    cache.gate.set()
    assert run(ask()) == [1]


# ---------------------------------------------------------------------- threads beside the loop
WORK_S = 0.002


def python_settings():
    return sys.getswitchinterval(), gc.isenabled()


def test_threads_change_often_and_no_garbage_is_collected_while_anybody_works():
    before = python_settings()
    assert before[0] > SHORT_TURN_S
    assert before[1]
    first_runs, first_may_end = threading.Event(), threading.Event()

    def first():
        first_runs.set()
        assert first_may_end.wait(PATIENCE_S)
        return python_settings()

    async def both():
        one, other = SideThreads(1, "one"), SideThreads(1, "other")
        try:
            running = one.run(None, first)
            assert first_runs.wait(PATIENCE_S)
            short = await other.run(None, python_settings)
            between = python_settings()
            first_may_end.set()
            return short, between, await running
        finally:
            first_may_end.set()
            one.close()
            other.close()

    short, between, long = run(both())
    for seen in (short, between, long):
        assert seen == (pytest.approx(SHORT_TURN_S), False)
    assert python_settings() == before


def test_after_work_that_failed_python_is_as_it_was_and_its_owner_rests_while_others_go_on():
    before = python_settings()

    def fail():
        until = time.thread_time() + WORK_S
        while time.thread_time() < until:
            pass
        raise ValueError("as it must")

    async def failing(is_shared):
        loop = asyncio.get_running_loop()
        work, rests = SideThreads(2, "failing", is_shared=is_shared), []
        loop.call_later = lambda delay, call, *given: rests.append((delay, lambda: call(*given)))
        try:
            with pytest.raises(ValueError, match="as it must"):
                await work.run("hog", fail)
            next_of_hog = work.run("hog", int)
            assert await work.run("other", int) == 0
            await work.run("other", int)  # by its turn the thread of the first has been free
            waited = not next_of_hog.done()
            for _, end in rests:
                end()
            assert await next_of_hog == 0
            return waited, [delay for delay, _ in rests]
        finally:
            work.close()

    waited, (rest,) = run(failing(True))
    assert waited
    assert rest >= REST * WORK_S
    assert run(failing(False))[1] == []
    assert python_settings() == before
