"""The queue in front of a solver: bounded, and fair to owners, to small requests and to every kind of request.

    put -> a group per key, a queue per owner in it -> take: the owner with the least solver time, of its queues the one
    with the least, a batch of that queue, filled up with requests of others in the same group

Requests with the same key share a group and batches, whatever their owners. Small requests, which fit into a batch, are
taken whole and in order of arrival; large ones advance by a part in every other batch. A batch is made of what waits at
the moment, without a delay. The queue is bounded in requests, problems and groups, and owners share each bound.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass

from ik_service.service.queue.fair_cap import FairCap, Owner
from ik_service.service.queue.queued_request import BatchShare, QueuedRequest
from ik_service.service.queue.request_groups import OwnerQueue, RequestGroup


@dataclass(slots=True)
class OwnerAccount:
    """The solver time of one owner.

    Attributes:
        used_s: Solver time that it has used [s], from a start common to all owners.
        start_s: Solver time with which its new queues start [s].
    """

    used_s: float = 0.0
    start_s: float = 0.0


class FairQueue:
    """Requests that wait for one solver.

    Args:
        request_limit: Requests that may wait.
        problem_limit: Problems that may wait. A single larger request is accepted, and counts as the share of an owner.
        group_limit: Keys with waiting requests: so many with kernels, and so many without.
        is_shared: Whether there are several owners, each with a share of these limits.
    """

    def __init__(self, *, request_limit: int, problem_limit: int, group_limit: int, is_shared: bool = False) -> None:
        self._requests = FairCap(request_limit, "requests waiting", "requests", is_shared=is_shared)
        self._problems = FairCap(problem_limit, "problems waiting", "problems", is_shared=is_shared)
        self._open_kinds = FairCap(group_limit, "kinds of requests waiting", "kinds", is_shared=is_shared)
        self._shut_kinds = FairCap(
            group_limit, "kinds of requests waiting to be compiled", "kinds", is_shared=is_shared
        )
        self._groups: dict[Hashable, RequestGroup] = {}
        self._accounts: dict[Owner, OwnerAccount] = {}  # never removed: owners are API keys
        self._common_start = 0.0

    @property
    def requests(self) -> int:
        """Waiting requests, those of which a part is being solved included."""
        return self._requests.used

    @property
    def problems(self) -> int:
        """Waiting problems."""
        return sum(sum(queue.problems) for _, _, queue in self._queues())

    def seconds_until(
        self, owner: Owner, key: Hashable, per_problem: Callable[[Hashable], float], *, is_small: bool
    ) -> float:
        """Return the estimated time until a request would be solved [s].

        In its own queue all small requests come first, and large ones in turn with them. The other queues of the owner
        get as much of the solver meanwhile as its own queue, and every other owner as much as this owner.

        Args:
            owner: Owner of the request.
            key: Its key.
            per_problem: Solver time of a problem of a key [s].
            is_small: Whether it is a small request.
        """
        if not self._groups:
            return 0.0
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

    def put(self, queued: QueuedRequest, *, is_open: bool = False) -> bool:
        """Add a request; return whether it is the first of a group.

        Args:
            queued: The request.
            is_open: Whether batches of a new group may be taken at once. A group that is not open counts under a limit
                of its own for as long as it exists, so that kinds without kernels take no room from the others.

        Raises:
            QueueFullError: Too much waits already; a ShareExhaustedError where too much of the same owner's does.
        """
        owner = queued.owner
        self.require_room(owner, queued.problem_count)
        group, is_new = self._groups.get(queued.key), queued.key not in self._groups
        if group is None:
            group = RequestGroup(self._open_kinds if is_open else self._shut_kinds, is_open=is_open)
        if owner not in group.queues:
            group.kinds.acquire(owner)
            account = self._accounts.setdefault(owner, OwnerAccount())
            if not self._requests.used_by(owner):
                account.used_s = max(account.used_s, self._common_start)
            group.queues[owner] = OwnerQueue(account.start_s)
        self._groups[queued.key] = group
        queue = group.queues[owner]
        queued.is_compiled = group.is_open
        queue.requests[queued.is_small][queued] = None
        queue.problems[queued.is_small] += queued.remaining
        self._requests.add(owner)
        self._problems.add(owner, self._counted(queued.remaining))
        return is_new

    def require_room(self, owner: Owner, problem_count: int) -> None:
        """Check that a request would find room now.

        Raises:
            QueueFullError: Too much waits already; a ShareExhaustedError where too much of the same owner's does.
        """
        self._requests.require(owner)
        self._problems.require(owner, self._counted(problem_count))

    def has_group(self, key: Hashable) -> bool:
        """Return whether requests with a key wait."""
        return key in self._groups

    def open_group(self, key: Hashable) -> None:
        """Allow batches of a group from now on."""
        if key in self._groups:
            self._groups[key].is_open = True
            for queued in self.waiting((key,)):
                queued.is_compiled = True

    def is_open(self, key: Hashable) -> bool:
        """Return whether batches of a group may be taken."""
        return key in self._groups and self._groups[key].is_open

    def waiting(self, keys: Collection[Hashable]) -> Iterator[QueuedRequest]:
        """Give the requests of some groups."""
        groups = (self._groups[key] for key in keys if key in self._groups)
        return (
            queued for group in groups for queue in group.queues.values() for size in queue.requests for queued in size
        )

    def take(self, budget: Callable[[Hashable], int]) -> tuple[BatchShare, ...]:
        """Return the next batch, of one key; empty where no open group has requests.

        Args:
            budget: How many problems a batch of a key may hold.
        """
        ready = [(key, owner, queue) for key, owner, queue in self._queues() if self._groups[key].is_open]
        if not ready:
            return ()
        key, owner, first = min(ready, key=lambda each: (self._accounts[each[1]].used_s, each[2].used_s))
        account, group = self._accounts[owner], self._groups[key]
        self._common_start, account.start_s = account.used_s, first.used_s
        further = sorted((each for each in group.queues if each != owner), key=lambda each: self._accounts[each].used_s)
        shares = []
        for queued, count in group.next_batch(budget(key), first, [group.queues[each] for each in further]):
            before = self._counted(queued.remaining)
            shares.append(queued.take(count))
            group.queues[queued.owner].problems[queued.is_small] -= count
            self._problems.release(queued.owner, before - self._counted(queued.remaining))
            if queued.remaining == 0:
                del group.queues[queued.owner].requests[queued.is_small][queued]
                self._requests.release(queued.owner)
        return tuple(shares)

    def charge(self, shares: Sequence[BatchShare], seconds: float) -> None:
        """Charge the owners of a batch with solver time, by their problems; remove queues that are empty."""
        key, counts = shares[0].queued.key, dict.fromkeys((share.queued.owner for share in shares), 0)
        for share in shares:
            counts[share.queued.owner] += share.count
        total, group = sum(counts.values()), self._groups.get(key)
        for owner, count in counts.items():
            self._accounts[owner].used_s += seconds * count / total
            if group is not None and owner in group.queues:
                group.queues[owner].used_s += seconds * count / total
                self._forget_if_empty(key, owner)

    def discard(self, queued: QueuedRequest) -> bool:
        """Remove a request; return whether it was in the queue."""
        group = self._groups.get(queued.key)
        queue = None if group is None else group.queues.get(queued.owner)
        if queue is None or queued not in queue.requests[queued.is_small]:
            return False
        del queue.requests[queued.is_small][queued]
        queue.problems[queued.is_small] -= queued.remaining
        self._requests.release(queued.owner)
        self._problems.release(queued.owner, self._counted(queued.remaining))
        self._forget_if_empty(queued.key, queued.owner)
        return True

    def clear(self) -> list[QueuedRequest]:
        """Remove all requests and return them."""
        queued_requests = list(self)
        for queued in queued_requests:
            self.discard(queued)
        return queued_requests

    def drop_stale(self, now: float) -> list[QueuedRequest]:
        """Remove the requests that are cancelled or past their deadline, and return them."""
        stale = [queued for queued in self if queued.is_stale(now)]
        for queued in stale:
            self.discard(queued)
        return stale

    def __iter__(self) -> Iterator[QueuedRequest]:
        """Give all requests."""
        queues = [queue for _, _, queue in self._queues()]
        return (queued for queue in queues for queued_requests in queue.requests for queued in list(queued_requests))

    def _queues(self) -> Iterator[tuple[Hashable, Owner, OwnerQueue]]:
        return ((key, owner, queue) for key, group in self._groups.items() for owner, queue in group.queues.items())

    def _counted(self, problem_count: int) -> int:
        """Number of problems that a request counts: a request above the limit of an owner would never be accepted."""
        return min(problem_count, self._problems.limit_alone)

    def _forget_if_empty(self, key: Hashable, owner: Owner) -> None:
        group = self._groups[key]
        if not any(group.queues[owner].requests):
            del group.queues[owner]
            group.kinds.release(owner)
            if not group.queues:
                del self._groups[key]
