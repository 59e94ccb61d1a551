"""Work beside the event loop lets the loop go on."""

import asyncio
import gc
import sys
import threading
import time

import pytest

from ik_service.service.pool.side_threads import REST, SHORT_TURN_S, SideThreads
from tests.bounded import PATIENCE_S, run

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
