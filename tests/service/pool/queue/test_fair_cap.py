"""The shared cap: nobody can use it up alone, who is alone may have what the rule says, counts agree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ik_service.service.queue.errors import QueueFullError, ShareExhaustedError
from ik_service.service.queue.fair_cap import FairCap

MOST = 60
OWNERS = ["a", "b", "c", None]


def cap(most=MOST, *, is_shared=True):
    return FairCap(most, "requests waiting", "requests", is_shared=is_shared)


def fill(one, owner):
    """Take as often as it goes; return what the owner holds then."""
    while True:
        try:
            one.acquire(owner)
        except QueueFullError:
            return one.held.get(owner, 0)


def settle(one, owners):
    """What busy owners hold in the end, where each asks anew for what is taken from it now and then."""
    for _ in range(4 * MOST):
        for owner in owners:
            if one.held.get(owner, 0) > MOST // (len(owners) + 1):
                one.release(owner)
            else:
                fill(one, owner)
    return [one.held.get(owner, 0) for owner in owners]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_busy_owners_have_equal_shares_and_leave_one_for_who_comes_new(count):
    one, owners = cap(), [f"key{k}" for k in range(count)]
    assert settle(one, owners) == [MOST // (count + 1)] * count
    one.acquire("new")
    assert one.limit_alone == MOST // 2


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
    for owner, amount, gives in steps:
        if gives:
            back = min(amount, used[owner])
            one.release(owner, back)
            used[owner] -= back
        else:
            left = most - sum(used.values()) - amount
            allowed = left >= 0 and (
                not is_shared or used[owner] + amount <= left or (used[owner] == 0 and amount == 1)
            )
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
