"""How many problems a batch holds: what fits into a quantum of time, whatever else has the core meanwhile."""

import itertools
from collections import Counter
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


def test_a_key_that_is_not_known_gets_a_guess():
    assert QUANTUM_S / 2 < BatchSizer(4096).budget("new") * FIRST_GUESS_S <= QUANTUM_S


def test_a_batch_holds_what_fits_into_a_quantum():
    sizer = BatchSizer(4096)
    sizer.record("key", 100, 100 * QUANTUM_S / 600)
    assert sizer.budget("key") == 512


def test_small_changes_of_pace_leave_the_size_of_batches():
    sizer = BatchSizer(4096)
    for _ in range(1 + DOUBLING_TRIES):
        sizer.record("key", 1024, 1024 * QUANTUM_S / 600)
    sizes = set()
    for per_quantum in (600, 650, 700, 580, 640):
        sizer.record("key", 512, 512 * QUANTUM_S / per_quantum)
        sizes.add(sizer.budget("key"))
    assert sizes == {512}


def test_a_batch_that_had_to_wait_for_the_core_changes_nothing():
    sizer = BatchSizer(4096)
    sizer.record("key", 600, QUANTUM_S)
    sizer.record("key", 600, 20 * QUANTUM_S)
    assert sizer.budget("key") == 512


def sizes_of(per_batch_s, per_problem_s, batches):
    """Sizes of batches that each take a time and a time per problem."""
    sizer, sizes = BatchSizer(16_384), []
    for _ in range(batches):
        sizes.append(sizer.budget("key"))
        sizer.record("key", sizes[-1], per_batch_s + per_problem_s * sizes[-1])
    return sizes


def test_batches_that_take_a_quantum_whatever_they_hold_are_doubled():
    sizes = sizes_of(0.8 * QUANTUM_S, 2e-5 * QUANTUM_S, 100)
    assert sizes[-1] == 16_384
    assert all(2 * before >= size for before, size in itertools.pairwise(sizes))


def test_what_the_first_batch_of_a_size_takes_besides_does_not_keep_it_from_being_doubled():
    sizer, sizes = BatchSizer(16_384), Counter()
    for _ in range(150):
        size = sizer.budget("key")
        sizes[size] += 1
        recording_s = 15.0 * QUANTUM_S * (sizes[size] in (1, 3))
        sizer.record("key", size, 0.8 * QUANTUM_S + 2e-5 * QUANTUM_S * size + recording_s)
    assert size == 16_384


def test_a_bound_holds_for_doubled_batches_too():
    sizer = BatchSizer(16_384)
    sizer.bound("key", 300)
    for _ in range(50):
        size = sizer.budget("key")
        sizer.record("key", size, 0.8 * QUANTUM_S)
        assert size <= 300


def test_where_time_grows_with_the_problems_doubling_is_tried_and_given_up():
    sizes = sizes_of(0.05 * QUANTUM_S, QUANTUM_S / 600, 100)
    assert sizes.count(512) > 80
    assert sizes.count(1024) >= 1
    assert set(sizes) <= {128, 256, 512, 1024}


@pytest.mark.parametrize("seed", range(10))
def test_single_batches_that_had_to_wait_for_the_core_do_not_keep_a_size_from_being_doubled(seed):
    sizer, random = BatchSizer(16_384), Random(seed)
    for _ in range(300):
        size = sizer.budget("key")
        waited = random.choice((1.0, 1.0, 3.0, 6.0))
        sizer.record("key", size, waited * (0.5 * QUANTUM_S + 3e-5 * QUANTUM_S * size))
    assert size >= 4096


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


def test_long_batches_are_not_doubled():
    sizer = BatchSizer(16_384)
    for _ in range(1 + DOUBLING_TRIES):
        sizer.record("key", BATCH_LEAST, 0.6 * DOUBLED_S)
    assert sizer.budget("key") == BATCH_LEAST
    for _ in range(BATCHES_KEPT):
        sizer.record("key", BATCH_LEAST, 0.4 * DOUBLED_S)
    assert sizer.budget("key") == 2 * BATCH_LEAST


@pytest.mark.parametrize("per_problem_s", [3e-5, 1e-4, 1e-3])
def test_doubled_batches_shrink_when_problems_become_slow(per_problem_s):
    sizer, fixed_s = BatchSizer(16_384), 0.8 * QUANTUM_S
    for _ in range(200):
        size = sizer.budget("key")
        sizer.record("key", size, fixed_s + 2e-8 * size)
    assert size == 16_384
    times = []
    for _ in range(2000):
        size = sizer.budget("key")
        times.append(fixed_s + per_problem_s * size)
        sizer.record("key", size, times[-1])
    assert max(times[1:]) < 1.2 * HOLD_S
    assert max(times[1 + BATCHES_KEPT :]) < 1.2 * max(DOUBLED_S, fixed_s + BATCH_LEAST * per_problem_s)


def test_batches_that_end_by_a_deadline_of_their_own_are_not_doubled():
    sizer = BatchSizer(16_384)
    sizer.set_timed("key")
    for _ in range(20):
        size = sizer.budget("key")
        sizer.record("key", size, QUANTUM_S)
    assert size == 128
    for _ in range(40):
        size = sizer.budget("other")
        sizer.record("other", size, 0.8 * QUANTUM_S)
    assert size > 1024


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


def test_problems_that_have_become_slow_shrink_the_batches():
    sizer = BatchSizer(4096)
    sizer.record("key", 1100, QUANTUM_S)
    for _ in range(BATCHES_KEPT):
        sizer.record("key", 1100, 5 * QUANTUM_S)
    assert sizer.budget("key") == 128


def test_a_batch_is_never_tiny_and_never_too_large():
    sizer = BatchSizer(1000)
    sizer.record("slow", 100, 100 * HOLD_S / BATCH_LEAST)
    sizer.record("fast", 100, 1e-9)
    assert sizer.budget("slow") == BATCH_LEAST
    assert sizer.budget("fast") == 1000


def test_of_problems_that_would_hold_up_everybody_a_batch_holds_few():
    sizer = BatchSizer(4096)
    sizer.record("slow", BATCH_LEAST, 20 * HOLD_S)
    assert sizer.budget("slow") == 2
    sizer.record("slower", BATCH_LEAST, 1000.0)
    assert sizer.budget("slower") == sizer.budget("slower", alone=True) == 1
    for _ in range(BATCHES_KEPT):
        sizer.record("slower", 1, HOLD_S / 600)  # now they say something
    assert sizer.budget("slower") == BATCH_LEAST


def test_what_is_known_to_take_long_at_worst_never_fills_a_batch():
    sizer = BatchSizer(4096)
    sizer.bound("key", 5)
    for _ in range(BATCHES_KEPT):
        sizer.record("key", BATCH_LEAST, 1e-6)
    assert sizer.budget("key") == sizer.budget("key", alone=True) == 5


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
    sizer = BatchSizer(10**6)
    sizer.record("key", 1000, QUANTUM_S)
    assert sizer.budget("key", alone=True) >= 0.5 * LONG_QUANTUM_S / QUANTUM_S * sizer.budget("key")


def test_a_few_problems_say_nothing():
    sizer = BatchSizer(4096)
    sizer.record("key", BATCH_LEAST - 1, 1.0)
    assert sizer.usual_seconds("key") == FIRST_GUESS_S
