"""Owners in the queue: time is shared between them first, nobody uses up what may wait, batches are of all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ik_service.service.queue.errors import QueueFullError, ShareExhaustedError
from ik_service.service.queue.fair_cap import FairCap
from tests.service.pool.queue import queues
from tests.service.pool.queue.queues import LINKS, put, waits

BATCH = 64


def queue(**limits):
    return queues.queue(**{"is_shared": True, **limits})


def work(robot, owner, count=1, link="panda_hand", **options):
    return queues.work(robot, count, link, owner=owner, **options)


def serve(one, turns, seconds=1.0, budget=BATCH):
    """Take batches; return the solver time that each owner has had."""
    had = {}
    for _ in range(turns):
        shares = one.take(lambda _: budget)
        total = sum(share.count for share in shares)
        for share in shares:
            had[share.queued.owner] = had.get(share.queued.owner, 0.0) + seconds * share.count / total
        one.charge(shares, seconds)
    return had


def test_an_owner_of_many_kinds_has_no_more_of_the_solver_than_one_of_a_single_kind(panda):
    one = queue()
    for link in LINKS:
        for seeds in range(1, 5):
            put(one, work(panda, "many", 10**4, link, is_large=True, seeds=seeds))
    put(one, work(panda, "few", 10**4, is_large=True))
    had = serve(one, 100)
    assert had["few"] == pytest.approx(had["many"], abs=1.0)  # of one batch


def test_a_request_is_in_the_next_batch_whatever_another_owner_has_waiting_of_that_kind(panda):
    one, theirs, own = queue(), [work(panda, "flood") for _ in range(300)], work(panda, "calm")
    put(one, *theirs)
    one.charge(one.take(lambda _: BATCH), 1.0)
    put(one, own)
    shares = one.take(lambda _: BATCH)
    assert shares[0].queued is own
    assert [share.queued for share in shares[1:]] == theirs[BATCH : 2 * BATCH - 1]  # full, and in order


def test_a_batch_holds_requests_of_several_owners_and_each_pays_for_its_own(panda):
    one = queue()
    put(one, work(panda, "a", 30), work(panda, "b", 10), work(panda, "a", 20))
    assert serve(one, 1, seconds=6.0) == {"a": pytest.approx(5.0), "b": pytest.approx(1.0)}
    put(one, *(work(panda, owner, 10, link) for owner, link in zip("abc", LINKS[:3], strict=True)))
    assert [next(iter(serve(one, 1, seconds=0.1))) for _ in range(3)] == ["c", "b", "a"]  # who has had least first


def test_who_has_gone_for_a_moment_still_owes_what_it_has_had(panda):
    """One slow batch at a time, asked for anew each time, is no way to have the solver every other time."""
    one, had = queue(), {"slow": 0.0, "quick": 0.0}
    put(one, work(panda, "quick", 10**5, is_large=True))
    for _ in range(200):
        if not any(each.owner == "slow" for each in one):
            put(one, work(panda, "slow", 1, "panda_link1"))
        shares = one.take(lambda _: BATCH)
        owner = shares[0].queued.owner
        seconds = 6.0 if owner == "slow" else 0.1
        had[owner] += seconds
        one.charge(shares, seconds)
    assert had["quick"] == pytest.approx(had["slow"], abs=6.0)  # of one batch


def test_who_comes_new_or_comes_back_has_no_credit(panda):
    one = queue()
    put(one, work(panda, "a", 10**5, is_large=True))
    serve(one, 100)
    put(one, work(panda, "b", 10**5, "panda_link1", is_large=True))
    had = serve(one, 20)
    assert had["b"] == pytest.approx(had["a"], abs=2.0)  # of the batch before b came, and of the last one


def test_the_wait_of_a_request_is_that_of_its_owners_place(panda):
    one = queue()
    put(one, *(work(panda, "flood", 100, link) for link in ("panda_hand", *LINKS)))
    own = work(panda, "calm", 10)
    wait = waits(one, lambda _: 0.01)
    assert wait(own) == 0.0
    put(one, own)
    assert wait(work(panda, "calm", 10)) == pytest.approx(0.1 + 0.1)  # its own, and as much of the other owner's
    assert wait(work(panda, "calm", 1, "panda_link1")) == 0.0
    assert wait(work(panda, "flood", 1)) == pytest.approx(8 * 1.0 + 0.1)


@pytest.mark.parametrize(("limits", "size"), [({"request_limit": 20}, 1), ({"problem_limit": 2000}, 100)])
def test_one_owner_uses_up_at_most_half_of_what_may_wait(panda, limits, size):
    one = queue(**limits)
    put(one, *(work(panda, "flood", size) for _ in range(10)))
    with pytest.raises(ShareExhaustedError):
        put(one, work(panda, "flood", size))
    put(one, work(panda, "calm", size))


def test_one_request_alone_may_be_larger_than_a_share_and_still_leaves_room(panda):
    one = queue(problem_limit=100)
    many = work(panda, "a", 5000, is_large=True)
    put(one, many, work(panda, "b", 20))
    with pytest.raises(ShareExhaustedError):
        put(one, work(panda, "a"))
    assert one.problems == 5020
    one.discard(many)
    put(one, work(panda, "a", 20), work(panda, "b", 5))


def test_kinds_of_which_kernels_are_not_there_do_not_take_the_place_of_those_that_are(panda):
    one = queue(group_limit=3, is_shared=False)
    shut = [work(panda, None, link=link) for link in LINKS[:3]]
    for each in shut:
        one.put(each)
    with pytest.raises(QueueFullError, match="3 kinds of requests waiting to be compiled"):
        one.put(work(panda, None, link=LINKS[3]))
    put(one, work(panda, None, link=LINKS[3]))
    for each in shut:
        one.open_group(each.key)  # takes no place of another
    put(one, *(work(panda, None, link=link) for link in LINKS[4:6]))
    with pytest.raises(QueueFullError, match="3 kinds of requests waiting, "):
        put(one, work(panda, None, link=LINKS[6]))


def test_kinds_are_shared_too(panda):
    one = queue(group_limit=6)
    put(one, *(work(panda, "many", link=link) for link in LINKS[:3]))
    with pytest.raises(ShareExhaustedError, match="3 kinds of requests waiting"):
        put(one, work(panda, "many", link=LINKS[3]))
    put(one, work(panda, "few", link=LINKS[0]))  # a kind that others wait for counts for each


# ---------------------------------------------------------------------- the cap of several owners
OWNERS = ["a", "b", "c", None]


def cap(most=60, *, is_shared=True):
    return FairCap(most, "requests waiting", "requests", is_shared=is_shared)


def test_who_is_refused_is_told_why():
    one = cap(100)
    one.acquire("a", 40)
    one.acquire("b", 20)
    text = "has 40 requests waiting, and 1 more would exceed its share, which is 40 of 100"
    with pytest.raises(ShareExhaustedError, match=text) as caught:
        one.acquire("a")
    assert caught.value.reason == "share"
    with pytest.raises(ShareExhaustedError, match="has 0 requests waiting, and 30 more"):
        one.acquire("c", 30)
    one = cap(3, is_shared=False)
    one.acquire("a", one.limit_alone)
    with pytest.raises(QueueFullError, match="3 requests waiting, and 1 more would exceed 3") as caught:
        one.acquire("d")
    assert (type(caught.value), caught.value.reason) == (QueueFullError, "requests")


def test_nothing_is_given_back_that_was_not_held():
    one = cap()
    one.acquire("a", 3)
    with pytest.raises(ValueError, match="only 3 were held"):
        one.release("a", 4)
    with pytest.raises(ValueError, match="only 0 were held"):
        one.release("b")
    assert (one.used, one.held.get("a", 0)) == (3, 3)


steps = st.lists(st.tuples(st.sampled_from(OWNERS), st.integers(1, 40), st.booleans()), max_size=60)


@given(most=st.integers(1, 80), is_shared=st.booleans(), steps=steps)
def test_whatever_is_taken_and_given_the_rule_holds(most, is_shared, steps):
    one, used = cap(most, is_shared=is_shared), dict.fromkeys(OWNERS, 0)
    assert one.limit_alone == (max(1, most // 2) if is_shared else most)
    for owner, amount, gives in steps:
        if gives:
            back = min(amount, used[owner])
            one.release(owner, back)
            used[owner] -= back
        else:
            left = most - sum(used.values()) - amount
            is_first = used[owner] == 0 and amount == 1
            allowed = left >= 0 and (not is_shared or used[owner] + amount <= left or is_first)
            try:
                one.acquire(owner, amount)
            except ShareExhaustedError:
                assert is_shared
                assert not allowed
            except QueueFullError:
                assert left < 0
                assert not is_shared or used[owner] == 0
            else:
                assert allowed
                used[owner] += amount
        assert one.used == sum(used.values()) <= most
        assert {owner: one.held.get(owner, 0) for owner in OWNERS} == used
