"""The queue: bounds, order, fairness, and that every problem is handed out once."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ik_service import load_robot
from ik_service.service.queue.errors import QueueFullError
from ik_service.service.queue.fair_queue import LARGE_AT_ONCE
from tests.service.pool.queue.queues import LINKS, put, queue, waits, work

ROOM = {"request_limit": 12, "problem_limit": 200, "group_limit": 2}


def large(robot, count, link="panda_hand"):
    return work(robot, count, link, is_large=True)


@pytest.mark.parametrize("count", [1, 600])
def test_small_requests_are_the_next_batch_behind_any_number_of_large_ones(panda, count):
    one, many, small = queue(), [large(panda, 100_000 // count) for _ in range(count)], [work(panda) for _ in range(40)]
    put(one, *many)
    assert [share.queued for share in one.take(lambda _: 64)] == many[:LARGE_AT_ONCE]
    put(one, *small)
    assert waits(one, lambda _: 1.0)(work(panda)) == 2 * 40.0
    assert [share.queued for share in one.take(lambda _: 64)] == small
    assert [share.queued for share in one.take(lambda _: 64)] == many[:LARGE_AT_ONCE]


def test_large_requests_advance_side_by_side_and_later_ones_wait(panda):
    one, many = queue(), [large(panda, 1000) for _ in range(6)]
    put(one, *many)
    for _ in range(5):
        one.take(lambda _: 100)
    assert [each.problem_count - each.remaining for each in many] == [125, 125, 125, 125, 0, 0]


def test_large_requests_have_their_turn_beside_any_number_of_small_ones(panda):
    one, many = queue(), large(panda, 1000)
    put(one, many)
    for _ in range(10):
        put(one, *(work(panda, 10) for _ in range(20)))
        assert not any(share.queued is many for share in one.take(lambda _: 100))
        assert [(share.queued, share.count) for share in one.take(lambda _: 100)] == [(many, 100)]


def test_how_long_a_request_would_wait(panda):
    one = queue()
    put(one, large(panda, 10_000), work(panda, 300), work(panda, 100, "panda_link7"))
    per_problem = {work(panda, 1).key: 0.001, work(panda, 1, "panda_link7").key: 0.01}
    wait = waits(one, lambda key: per_problem.get(key, 1.0))
    assert wait(work(panda, 1)) == pytest.approx(2 * 0.3 + min(2 * 0.3, 1.0))
    assert wait(large(panda, 500)) == pytest.approx(0.3 + 10.0 + 1.0)
    assert wait(work(panda, 1, "panda_link6")) == 0.0  # a group of its own


def test_lanes_share_the_time_of_the_solver(panda):
    """A group of slow problems gets fewer batches, not more time."""
    one, time_had = queue(), {}
    for link, seconds in (("panda_hand", 0.003), ("panda_link7", 0.001)):
        each = work(panda, 10**5, link)
        put(one, each)
        time_had[each.key] = [seconds, 0.0]
    for _ in range(400):
        shares = one.take(lambda _: 10)
        key = shares[0].queued.key
        seconds = time_had[key][0]
        time_had[key][1] += seconds
        one.charge(shares, seconds)
    slow, fast = (had for _, had in time_had.values())
    assert slow == pytest.approx(fast, rel=0.02)


def test_a_new_lane_gets_no_credit_for_time_before_it_came(panda):
    one, old = queue(), work(panda, 10**5)
    put(one, old)
    for _ in range(100):
        one.charge(one.take(lambda _: 10), 1.0)
    new = work(panda, 10**5, "panda_link7")
    put(one, new)
    served = []
    for _ in range(20):
        shares = one.take(lambda _: 10)
        one.charge(shares, 1.0)
        served.append(shares[0].queued.key)
    assert 9 <= served.count(old.key) <= 11


def test_a_lane_is_closed_until_its_kernels_are_there(panda):
    one, each = queue(), work(panda, 1)
    assert not one.put(each)
    assert not one.put(work(panda, 1))
    assert one.take(lambda _: 10) == ()
    one.open_group(each.key)
    shares = one.take(lambda _: 10)
    assert len(shares) == 2
    one.charge(shares, 1.0)
    assert each.key not in one.groups  # the group was forgotten with its last request
    assert one.put(work(panda, 1), is_open=True)


def test_bounds(panda):
    one = queue(**ROOM)
    put(one, work(panda, 150))
    with pytest.raises(QueueFullError, match="51 more would exceed 200"):
        put(one, work(panda, 51))
    put(one, work(panda, 1, "panda_link7"))
    with pytest.raises(QueueFullError, match="2 kinds"):
        put(one, work(panda, 1, "panda_link6"))
    put(one, *(work(panda, 1) for _ in range(10)))
    with pytest.raises(QueueFullError, match="12 requests"):
        put(one, work(panda, 1))
    one = queue(**ROOM)
    put(one, work(panda, 5000))  # an empty queue takes one that is larger than the bound
    with pytest.raises(QueueFullError):
        put(one, work(panda, 1))


def test_stale_requests_go(panda):
    one = queue()
    late, cancelled, good = work(panda, 5, deadline=1.0), work(panda, 5), work(panda, 5)
    put(one, late, cancelled, good)
    cancelled.future.cancel()
    assert one.drop_stale(1.0) == [late, cancelled]
    assert (one.request_cap.used, one.problems) == (1, 5)
    assert not one.discard(late)
    assert [share.queued for share in one.take(lambda _: 10)] == [good]


class Model(RuleBasedStateMachine):
    """Random traffic: counts agree, nothing is handed out twice, bounds hold, a small request is never starved."""

    owners = (None,)

    def __init__(self):
        super().__init__()
        self.robot, self.queue = load_robot("panda"), queue(**ROOM, is_shared=len(self.owners) > 1)
        self.waiting, self.handed = {}, {}

    @rule(count=st.integers(1, 120), link=st.sampled_from(LINKS[:3]), who=st.integers(0, 2))
    def put(self, count, link, who):
        each = work(self.robot, count, link, owner=self.owners[who % len(self.owners)], is_large=count >= 30)
        try:
            put(self.queue, each)
        except QueueFullError:
            return
        self.waiting[each] = count
        self.handed[each] = 0

    @rule(budget=st.integers(1, 150), seconds=st.floats(1e-4, 1.0))
    def take(self, budget, seconds):
        shares = self.queue.take(lambda _: budget)
        assert bool(shares) == bool(self.waiting)
        assert sum(share.count for share in shares) <= budget
        if shares:
            ((key, is_small),) = {(share.queued.key, share.queued.is_small) for share in shares}
            kind = [each for each in self.waiting if (each.key, each.is_small) == (key, is_small)]
            if len(self.owners) == 1:
                there = sum(self.waiting[each] for each in kind[: None if is_small else LARGE_AT_ONCE])
                assert sum(share.count for share in shares) == min(budget, there)  # greedy
                assert not is_small or [share.queued for share in shares] == kind[: len(shares)]  # in order
            self.queue.charge(shares, seconds)
        for share in shares:
            assert share.rows.start == self.handed[share.queued]  # in order, none twice
            self.handed[share.queued] = share.rows.stop
            self.waiting[share.queued] -= share.count
            if self.waiting[share.queued] == 0:
                del self.waiting[share.queued]

    @rule(data=st.data())
    def discard(self, data):
        if self.waiting:
            each = data.draw(st.sampled_from(list(self.waiting)))
            assert self.queue.discard(each)
            del self.waiting[each]

    @invariant()
    def counts_agree(self):
        assert self.queue.request_cap.used == len(self.waiting) <= ROOM["request_limit"]
        assert (self.queue.problems, set(self.queue)) == (sum(self.waiting.values()), set(self.waiting))
        assert len({each.key for each in self.waiting}) <= ROOM["group_limit"]

    def teardown(self):
        for each in self.waiting:
            assert self.queue.discard(each)
        assert (self.queue.request_cap.used, self.queue.problems) == (0, 0)
        assert not any(work(self.robot, link=link).key in self.queue.groups for link in LINKS[:3])
        for owner in self.owners:  # nothing is held any more
            put(self.queue, each := work(self.robot, owner=owner))
            assert self.queue.discard(each)


class OwnersModel(Model):
    """The same of several owners, who share what may wait."""

    owners = ("a", "b", "c")


TestModel, TestOwnersModel = Model.TestCase, OwnersModel.TestCase
TestModel.settings = TestOwnersModel.settings = settings(max_examples=60, stateful_step_count=40)
