"""Queue in front of a solver: bounded, and fair to owners, to small requests and to every kind of request.

    put -> one group per key, with one queue per owner -> take: the owner with the least solver time -> its queue with
    the least solver time -> a batch of this queue, filled up with requests of other owners in the same group

Requests with the same key share a group and batches, whatever their owners. Small requests fit into a batch; a batch
takes them whole and in order of arrival. Large requests advance by a part in every other batch. A batch takes the
requests waiting at the moment, without a delay. The queue is bounded in requests, problems and groups; owners share
each bound.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from ik_service.service.queue.fair_cap import FairCap, Owner
from ik_service.service.queue.solve_request import BatchShare, QueuedRequest

LARGE_AT_ONCE = 4
"""Large requests that share a batch at most."""


@dataclass(slots=True)
class OwnerAccount:
    """Solver time of one owner."""

    used_s: float = 0.0  # solver time used by the owner [s], from a start common to all owners
    start_s: float = 0.0  # initial solver time of the owner's new queues [s]


@dataclass(slots=True)
class OwnerQueue:
    """Requests of one owner in one group."""

    used_s: float  # solver time used by the queue [s], from a start common to all queues of its owner
    # large requests, then small requests, each in order of arrival
    requests: tuple[OrderedDict[QueuedRequest, None], ...] = field(
        default_factory=lambda: (OrderedDict(), OrderedDict())
    )
    # number of waiting problems of large requests, then of small requests
    problems: list[int] = field(default_factory=lambda: [0, 0])
    large_next: bool = False  # whether the next batch is one of large requests if both kinds wait


@dataclass(slots=True)
class RequestGroup:
    """Requests with the same batch key."""

    kinds: FairCap  # cap on the number of queues; each queue is one unit
    is_open: bool  # whether the kernels are compiled, so batches may be taken
    queues: dict[Owner, OwnerQueue] = field(default_factory=dict)  # the requests, by owner


class FairQueue:
    """Requests waiting for one solver, within limits shared by several owners if `is_shared`.

    A single request above `problem_limit` is accepted and counts as the full share of its owner. `group_limit` is the
    largest number of waiting keys with kernels, and equally many keys without kernels.
    """

    def __init__(self, *, request_limit: int, problem_limit: int, group_limit: int, is_shared: bool = False) -> None:
        # partly solved requests count too
        self.request_cap = FairCap(request_limit, "requests waiting", "requests", is_shared=is_shared)
        self._problems = FairCap(problem_limit, "problems waiting", "problems", is_shared=is_shared)
        self._open_kinds = FairCap(group_limit, "kinds of requests waiting", "kinds", is_shared=is_shared)
        self._shut_kinds = FairCap(
            group_limit, "kinds of requests waiting to be compiled", "kinds", is_shared=is_shared
        )
        self._counted_most = self._problems.limit_alone  # so that any request fits into an empty queue
        self.groups: dict[Hashable, RequestGroup] = {}  # by key, while requests with this key are waiting
        self._accounts: dict[Owner, OwnerAccount] = {}  # never removed: owners are API keys
        self._common_start = 0.0

    @property
    def problems(self) -> int:
        """Number of waiting problems."""
        return sum(sum(queue.problems) for _, _, queue in self._queues())

    def seconds_until(
        self, owner: Owner, key: Hashable, per_problem: Callable[[Hashable], float], *, is_small: bool
    ) -> float:
        """Return the estimated time until the start of a new request's solve [s].

        In the request's own queue, all small requests, which fit into a batch, come before a small request, and large
        requests take turns with small requests. Each other queue of the owner gets at most as much solver time as this
        queue, and each other owner at most as much as this owner. `per_problem` gives the time per problem of a key
        [s].
        """
        large = small = 0.0
        own: list[float] = []
        others: dict[Owner, float] = {}
        for each, whose, queue in self._queues():
            per = per_problem(each)
            if whose != owner:
                others[whose] = others.get(whose, 0.0) + sum(queue.problems) * per
            elif each == key:
                large, small = (n * per for n in queue.problems)
            else:
                own.append(sum(queue.problems) * per)
        before = small + min(large, small) if is_small else small + large
        before += sum(min(before, seconds) for seconds in own)
        return before + sum(min(before, seconds) for seconds in others.values())

    def require_room(self, owner: Owner, problem_count: int) -> None:
        """Check for room for a new request.

        QueueFullError if the queue is full; ShareExhaustedError if only the owner's share is full.
        """
        self.request_cap.require(owner)
        self._problems.require(owner, min(problem_count, self._counted_most))

    def put(self, queued: QueuedRequest, *, is_open: bool = False) -> bool:
        """Add a request, after `require_room`; return whether batches may take the request at once.

        With `is_open`, batches may take a new group's requests at once. A closed group counts under a limit of its own
        for its whole life, so that kinds without kernels take no room from other kinds. QueueFullError if too many
        kinds wait, ShareExhaustedError if only the owner has too many.
        """
        owner, group = queued.owner, self.groups.get(queued.key)
        if group is None:
            group = RequestGroup(self._open_kinds if is_open else self._shut_kinds, is_open)
        if owner not in group.queues:
            group.kinds.acquire(owner)
            account = self._accounts.setdefault(owner, OwnerAccount())
            if owner not in self.request_cap.held:
                account.used_s = max(account.used_s, self._common_start)
            group.queues[owner] = OwnerQueue(account.start_s)
            self.groups[queued.key] = group
        queue = group.queues[owner]
        queued.is_compiled = group.is_open
        queue.requests[queued.is_small][queued] = None
        queue.problems[queued.is_small] += queued.remaining
        self.request_cap.acquire(owner)
        self._problems.acquire(owner, min(queued.remaining, self._counted_most))
        return group.is_open

    def open_group(self, key: Hashable) -> None:
        """Allow batches of a group: its kernels are compiled."""
        if key in self.groups:
            self.groups[key].is_open = True
            for queued in self.waiting((key,)):
                queued.is_compiled = True

    def waiting(self, keys: Collection[Hashable]) -> Iterator[QueuedRequest]:
        """Yield the waiting requests of some groups."""
        groups = (self.groups[key] for key in keys if key in self.groups)
        return (
            queued for group in groups for queue in group.queues.values() for size in queue.requests for queued in size
        )

    def take(self, budget: Callable[[Hashable], int]) -> tuple[BatchShare, ...]:
        """Return the next batch, of one key, within the `budget` of the key; empty if no open group has requests."""
        ready = [
            (key, owner, queue)
            for key, group in self.groups.items()
            if group.is_open
            for owner, queue in group.queues.items()
        ]
        if not ready:
            return ()
        key, owner, first = min(ready, key=lambda each: (self._accounts[each[1]].used_s, each[2].used_s))
        account, group = self._accounts[owner], self.groups[key]
        self._common_start, account.start_s = account.used_s, first.used_s
        further = sorted((each for each in group.queues if each != owner), key=lambda each: self._accounts[each].used_s)
        shares = []
        for queued, count in next_batch([first, *(group.queues[each] for each in further)], budget(key)):
            queue, before = group.queues[queued.owner], min(queued.remaining, self._counted_most)
            start = queued.problem_count - queued.remaining
            shares.append(BatchShare(queued, slice(start, start + count), count))
            queued.remaining -= count
            queue.problems[queued.is_small] -= count
            self._problems.release(queued.owner, before - min(queued.remaining, self._counted_most))
            if queued.remaining == 0:
                del queue.requests[queued.is_small][queued]
                self.request_cap.release(queued.owner)
        return tuple(shares)

    def charge(self, shares: Sequence[BatchShare], seconds: float) -> None:
        """Charge the owners of a batch with solver time, in proportion to their problems; remove empty queues."""
        key, counts = shares[0].queued.key, dict.fromkeys((share.queued.owner for share in shares), 0)
        for share in shares:
            counts[share.queued.owner] += share.count
        total, group = sum(counts.values()), self.groups.get(key)
        for owner, count in counts.items():
            self._accounts[owner].used_s += seconds * count / total
            if group is not None and owner in group.queues:
                group.queues[owner].used_s += seconds * count / total
                self._forget_if_empty(key, owner)

    def discard(self, queued: QueuedRequest) -> bool:
        """Remove a request; return whether the queue had the request."""
        group = self.groups.get(queued.key)
        queue = None if group is None else group.queues.get(queued.owner)
        if queue is None or queued not in queue.requests[queued.is_small]:
            return False
        del queue.requests[queued.is_small][queued]
        queue.problems[queued.is_small] -= queued.remaining
        self.request_cap.release(queued.owner)
        self._problems.release(queued.owner, min(queued.remaining, self._counted_most))
        self._forget_if_empty(queued.key, queued.owner)
        return True

    def clear(self) -> list[QueuedRequest]:
        """Remove all requests and return them."""
        return self.drop_stale(math.inf)

    def drop_stale(self, now: float) -> list[QueuedRequest]:
        """Remove and return all cancelled and expired requests."""
        stale = [queued for queued in self if queued.is_stale(now)]
        for queued in stale:
            self.discard(queued)
        return stale

    def __iter__(self) -> Iterator[QueuedRequest]:
        return self.waiting(self.groups)

    def _queues(self) -> Iterator[tuple[Hashable, Owner, OwnerQueue]]:
        return ((key, owner, queue) for key, group in self.groups.items() for owner, queue in group.queues.items())

    def _forget_if_empty(self, key: Hashable, owner: Owner) -> None:
        group = self.groups[key]
        if not any(group.queues[owner].requests):
            del group.queues[owner]
            group.kinds.release(owner)
            if not group.queues:
                del self.groups[key]


def next_batch(queues: Sequence[OwnerQueue], budget: int) -> list[tuple[QueuedRequest, int]]:
    """Return the requests of the next batch, of up to `budget` problems, each with its number of problems.

    Small requests are taken whole and in order. So, under overload, some requests are answered in time; with equal
    shares, all answers would be late. Large requests share a batch: each gets an equal share first, and the rest of the
    budget is given out in order. The queues of one group are in order of their turns; the first one decides between
    small and large requests, which take turns if both wait. A choice or a motion is a batch, of any size.
    """
    first, shares = queues[0], []
    is_small = bool(first.requests[True]) and not (first.requests[False] and first.large_next)
    first.large_next = is_small and bool(first.requests[False])
    for queue in queues:
        waiting = queue.requests[True] if is_small else list(islice(queue.requests[False], LARGE_AT_ONCE))
        share = 0 if is_small else budget // max(1, len(waiting))
        budget -= sum(min(queued.remaining, share) for queued in waiting) if share else 0
        for queued in waiting:
            if queued.request.is_alone:
                return [(queued, queued.remaining)]  # of this group all are choices, or motions
            if not budget and not share:
                break  # the queue may be long
            least = min(queued.remaining, share)
            more = min(budget, queued.remaining - least)
            budget -= more
            if least + more:
                shares.append((queued, least + more))
        if not budget:
            break
    return shares
