"""Motions in the queue and in the thread of the solver: whole, alone, compiled once, and given up in time."""

import time
from dataclasses import replace

import numpy as np
import pytest

from ik_service.service.documents.solve_any import read_solve_any
from ik_service.service.pool.builder_process import need_kernels
from ik_service.service.pool.kernel_builder import Build
from ik_service.service.pool.kernel_marks import mark_of
from ik_service.service.queue.errors import ExpiredError
from ik_service.service.queue.solve_request import MOTION_MOST_S, SAMPLE_FRAMES, QueuedRequest
from ik_service.solver.deadline import TIME_CHECK
from tests.bounded import PATIENCE_S
from tests.service.pool.queue.queues import put, queue, work
from tests.service.routes.test_motion import CALLS, COUNT, READERS, body, circle


@pytest.fixture(scope="module")
def poses():
    return circle()


@pytest.mark.parametrize("name", [*CALLS, "choice"])
def test_a_motion_or_a_choice_is_whole_and_alone_in_its_batch(panda, poses, name):
    document = body([one.tolist() for one in poses])
    if name == "choice":
        document, read = {"targets": document["targets"], "group": [0] * COUNT}, read_solve_any
    else:
        read = READERS[name]
    asked = [read(document, panda, {}).request for _ in range(2)]
    assert asked[0].batch_key == asked[1].batch_key is not None
    assert asked[0].batch_key != replace(asked[0], motion=None, choice=None).batch_key
    first, other = (QueuedRequest(panda, one, 0.0, 100.0, owner=owner) for one, owner in zip(asked, "ab", strict=True))
    waiting = queue()
    put(waiting, first, other, work(panda, 3))
    taken = []
    while shares := waiting.take(lambda _: 8):
        taken.append(shares)
        waiting.charge(shares, 1e-3)
    assert sorted(len(shares) for shares in taken) == [1, 1, 1]
    alone = {shares[0].queued: shares[0].rows for shares in taken}
    assert alone[first] == alone[other] == slice(0, first.problem_count)


@pytest.mark.parametrize("name", CALLS)
def test_kernels_of_a_motion_are_compiled_by_its_first_frames_in_one_step(panda, poses, name):
    many = [np.tile(one, (2, 1)).tolist() for one in poses]
    held = {"held": {"panda_hand": [True] * 2 * COUNT}, "clip_start": [0, COUNT]} if name == "clip" else {}
    asked = READERS[name](body(many, **held), panda, {}).request
    plain, sample = replace(asked, motion=None), asked.sample()
    assert asked.code_key != plain.code_key
    assert sample.code_key == asked.code_key
    assert mark_of(panda, sample, "cpu") == mark_of(panda, asked, "cpu") != mark_of(panda, plain, "cpu")
    assert (sample.problem_count, sample.solves) == (SAMPLE_FRAMES, [sample])
    assert Build(panda, sample, None, None, print, list).left == 1
    calls = []
    token = TIME_CHECK.set(lambda: calls.append(None))
    try:
        need_kernels(panda, sample, "cpu")
    finally:
        TIME_CHECK.reset(token)
    assert len(calls) > 1


@pytest.mark.parametrize("name", CALLS)
def test_a_motion_ends_with_its_deadline_or_with_the_end_of_its_caller(client, panda, poses, name):
    asked = READERS[name](body([one.tolist() for one in poses]), panda, {}).request
    now, used = time.monotonic(), time.thread_time()  # of the CPU: code that is compiled elsewhere does not count
    queued = QueuedRequest(panda, asked, now, now + 1000.0)
    queued.require_time(used)
    with pytest.raises(ExpiredError, match="10 s that the solver has"):
        queued.require_time(used - MOTION_MOST_S)
    late = QueuedRequest(panda, asked, now, now)
    with pytest.raises(ExpiredError, match="deadline passed"):
        late.require_time(used)
    QueuedRequest(panda, replace(asked, motion=None), now, now).require_time(used)  # waits for its batch
    queued.future.cancel()
    with pytest.raises(ExpiredError):
        queued.require_time(used)


@pytest.mark.parametrize("name", CALLS)
def test_a_motion_is_given_up_between_two_solves_and_the_next_is_answered(client, panda, poses, monkeypatch, name):
    asked, pool = READERS[name](body([one.tolist() for one in poses]), panda, {}).request, client.app.state.service.pool
    solves = []

    def gone(self, started_at):
        """The caller is gone after the first solve."""
        solves.append(self.request)
        if self.request is asked and solves.count(asked) == 2:
            self.future.cancel()
        return require_time(self, started_at)

    require_time = QueuedRequest.require_time
    monkeypatch.setattr(QueuedRequest, "require_time", gone)
    first, other = pool.submit(panda, asked), pool.submit(panda, replace(asked, motion=None))
    assert len(other.result(PATIENCE_S).result) == COUNT
    assert first.cancelled()
    assert solves.count(asked) == 2
