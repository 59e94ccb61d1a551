"""How many problems a batch holds: what fits into a quantum of time, whatever else has the core meanwhile."""

import itertools
from random import Random
from types import SimpleNamespace

import pytest

from ik_service.service.queue import batch_size
from ik_service.service.queue.batch_size import (
    BATCH_LEAST,
    BATCHES_KEPT,
    DOUBLED_S,
    DOUBLING_TRIES,
    FIRST_GUESS_S,
    HOLD_S,
    LONG_QUANTUM_S,
    QUANTUM_S,
    TRUSTED_S,
    BatchSizer,
)


def recorded(*batches, most=4096, key="key"):
    """A sizer that knows batches: number of problems and seconds."""
    sizer = BatchSizer(most)
    for count, seconds in batches:
        sizer.record(key, count, seconds)
    return sizer


def test_a_key_that_is_not_known_gets_a_guess():
    assert QUANTUM_S / 2 < BatchSizer(4096).budget("new") * FIRST_GUESS_S <= QUANTUM_S


VERY_SLOW = (BATCH_LEAST, 1000.0)
BUDGETS = {
    # batches, the most that a batch may hold; what the next one holds
    "what fits into a quantum": ([(100, 100 * QUANTUM_S / 600)], 4096, 512),
    "the same after one that had to wait for the core": ([(600, QUANTUM_S), (600, 20 * QUANTUM_S)], 4096, 512),
    "less once all have become slow": ([(1100, QUANTUM_S), *[(1100, 5 * QUANTUM_S)] * BATCHES_KEPT], 4096, 128),
    "never few": ([(100, 100 * HOLD_S / BATCH_LEAST)], 1000, BATCH_LEAST),
    "never too many": ([(100, 1e-9)], 1000, 1000),
    "few that would hold up everybody": ([(BATCH_LEAST, 20 * HOLD_S)], 4096, 2),
    "one that would hold up everybody for long": ([VERY_SLOW], 4096, 1),
    "more again once these say something": ([VERY_SLOW, *[(1, HOLD_S / 600)] * BATCHES_KEPT], 4096, BATCH_LEAST),
}


@pytest.mark.parametrize(("batches", "most", "budget"), BUDGETS.values(), ids=BUDGETS)
def test_a_batch_holds(batches, most, budget):
    sizer = recorded(*batches, most=most)
    assert sizer.budget("key") == budget
    assert budget > 1 or sizer.budget("key", alone=True) == 1


def test_small_changes_of_pace_leave_the_size_of_batches():
    sizer = recorded(*[(1024, 1024 * QUANTUM_S / 600)] * (1 + DOUBLING_TRIES))
    sizes = set()
    for per_quantum in (600, 650, 700, 580, 640):
        sizer.record("key", 512, 512 * QUANTUM_S / per_quantum)
        sizes.add(sizer.budget("key"))
    assert sizes == {512}


def sizes_of(seconds_of, batches, sizer=None, key="key"):
    """Sizes of batches that each take `seconds_of(size)`."""
    sizer, sizes = sizer or BatchSizer(16_384), []
    for _ in range(batches):
        sizes.append(sizer.budget(key))
        sizer.record(key, sizes[-1], seconds_of(sizes[-1]))
    return sizes


def test_batches_that_take_a_quantum_whatever_they_hold_are_doubled():
    sizes = sizes_of(lambda size: (0.8 + 2e-5 * size) * QUANTUM_S, 100)
    assert sizes[-1] == 16_384
    assert all(2 * before >= size for before, size in itertools.pairwise(sizes))


def test_where_time_grows_with_the_problems_doubling_is_tried_and_given_up():
    sizes = sizes_of(lambda size: (0.05 + size / 600) * QUANTUM_S, 100)
    assert sizes.count(512) > 80
    assert sizes.count(1024) >= 1
    assert set(sizes) <= {128, 256, 512, 1024}


@pytest.mark.parametrize("seed", range(10))
def test_single_batches_that_had_to_wait_for_the_core_do_not_keep_a_size_from_being_doubled(seed):
    random = Random(seed)
    sizes = sizes_of(lambda size: random.choice((1.0, 1.0, 3.0, 6.0)) * (0.5 + 3e-5 * size) * QUANTUM_S, 301)
    assert sizes[-1] >= 4096


def test_doubling_is_tried_again_later():
    sizer = BatchSizer(16_384)
    for _ in range(1 + DOUBLING_TRIES):
        sizer.record("key", 512, 512 * QUANTUM_S / 600)
        sizer.record("key", 1024, 3 * QUANTUM_S)  # the core had other work
    tried = 0
    while sizer.budget("key") == 512 and tried < 2000:
        tried += 1
        sizer.record("key", 512, 512 * QUANTUM_S / 600)
    assert sizer.budget("key") > 512
    assert 100 < tried < 2000


@pytest.mark.parametrize("per_problem_s", [3e-5, 1e-4, 1e-3])
def test_doubled_batches_shrink_when_problems_become_slow(per_problem_s):
    sizer, fixed_s = BatchSizer(16_384), 0.8 * QUANTUM_S
    assert sizes_of(lambda size: fixed_s + 2e-8 * size, 200, sizer)[-1] == 16_384
    sizes = sizes_of(lambda size: fixed_s + per_problem_s * size, 2000, sizer)
    times = [fixed_s + per_problem_s * size for size in sizes]
    assert max(times[1:]) < 1.2 * HOLD_S
    assert max(times[1 + BATCHES_KEPT :]) < 1.2 * max(DOUBLED_S, fixed_s + BATCH_LEAST * per_problem_s)


def test_batches_that_end_by_a_deadline_of_their_own_are_not_doubled():
    sizer = BatchSizer(16_384)
    sizer.set_timed("key")
    assert sizes_of(lambda _: QUANTUM_S, 20, sizer)[-1] == 128
    assert sizes_of(lambda _: 0.8 * QUANTUM_S, 40, sizer, "other")[-1] > 1024


def test_what_a_problem_takes_at_least_is_known_of_several_batches_lately(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(batch_size, "time", SimpleNamespace(monotonic=lambda: now[0]))
    sizer = BatchSizer(4096)
    for count in range(BATCHES_KEPT):
        assert sizer.least_seconds("key") == 0.0, count
        sizer.record("key", 100, 0.01 * (1 + count))
    assert sizer.least_seconds("key") == 1e-4
    now[0] += 0.9 * TRUSTED_S
    assert sizer.least_seconds("key") == 1e-4
    now[0] += 0.2 * TRUSTED_S
    assert sizer.least_seconds("key") == 0.0
    assert sizer.usual_seconds("key") == 2.5e-4


def test_what_is_known_to_take_long_at_worst_never_fills_a_batch():
    sizer = recorded(*[(BATCH_LEAST, 1e-6)] * BATCHES_KEPT)
    sizer.bound("key", 5)
    assert sizer.budget("key") == sizer.budget("key", alone=True) == 5
    assert max(sizes_of(lambda _: 0.8 * QUANTUM_S, 50, sizer)) == 5


def test_a_kind_that_may_be_slow_begins_with_single_problems():
    sizer = BatchSizer(4096)
    sizer.start_small("key")
    assert sizer.budget("key", alone=True) == 1
    sizer.record("key", 1, 10.0)  # which has made the solver
    assert sizer.usual_seconds("key") == FIRST_GUESS_S
    assert sizer.budget("key") == 1
    sizer.record("key", 1, QUANTUM_S)
    sizer.start_small("key")
    assert sizer.budget("key") == BATCH_LEAST


def test_who_is_alone_gets_long_batches():
    sizer = recorded((1000, QUANTUM_S), most=10**6)
    assert sizer.budget("key", alone=True) >= 0.5 * LONG_QUANTUM_S / QUANTUM_S * sizer.budget("key")


def test_a_few_problems_say_nothing():
    assert recorded((BATCH_LEAST - 1, 1.0)).usual_seconds("key") == FIRST_GUESS_S
