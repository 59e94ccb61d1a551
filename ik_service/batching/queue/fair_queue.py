"""The queue in front of a solver: bounded, and fair to every owner, to small requests and to every kind of request.

    put -> a lane per kind, a line per owner in it -> take: the owner that has had least of the solver, of its lines the
    one that has had least, a batch of what waits there, and beside it what others have in that lane

Requests of equal keys share a lane and batches, whoever sends them. Small ones, which fit into a batch, are taken
whole and in the order in which they came; large ones move on batch by batch in turn with them. Problems are counted,
not requests. Nothing waits for company: a batch is whatever is there. What may wait is bounded, and each owner has a
share of every bound. It holds no lock and reads no clock; whoever owns it does.
"""

import math
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass

from ik_service.batching.errors import CompilingError, ExpiredError
from ik_service.batching.queue.fair_cap import FairCap, Owner
from ik_service.batching.queue.queued_request import Share, Work
from ik_service.batching.queue.request_groups import Lane, Line

RETRY_MOST_S = 60
"""Longest time after which a caller is asked to try again [s]."""


@dataclass(slots=True)
class Account:
    """What one owner has had.

    Attributes:
        spent: Solver time [s], from a start common to all owners.
        common_start: Where its new lines start.
    """

    spent: float = 0.0
    common_start: float = 0.0


class FairQueue:
    """Requests that wait for one solver.

    Args:
        request_limit: Requests that may wait.
        problem_limit: Problems that may wait; one request alone may have more, and counts as what an owner may have.
        lane_limit: Keys with waiting requests: so many whose kernels are there, and so many more whose kernels are not.
        is_shared: Whether there are several owners, each with a share of these limits.
    """

    def __init__(self, *, request_limit: int, problem_limit: int, lane_limit: int, is_shared: bool = False) -> None:
        self._requests = FairCap(request_limit, "requests waiting", "requests", is_shared=is_shared)
        self._problems = FairCap(problem_limit, "problems waiting", "problems", is_shared=is_shared)
        self._open_kinds = FairCap(lane_limit, "kinds of requests waiting", "kinds", is_shared=is_shared)
        self._shut_kinds = FairCap(lane_limit, "kinds of requests waiting to be compiled", "kinds", is_shared=is_shared)
        self._lanes: dict[Hashable, Lane] = {}
        self._accounts: dict[Owner, Account] = {}  # for good: there are as many owners as API keys
        self._common_start = 0.0

    @property
    def requests(self) -> int:
        """Requests that wait, those partly handed out included."""
        return self._requests.held

    @property
    def problems(self) -> int:
        """Problems that wait."""
        return sum(sum(line.problems) for _, _, line in self._lines())

    def seconds_until(
        self, owner: Owner, key: Hashable, per_problem: Callable[[Hashable], float], *, is_small: bool
    ) -> float:
        """Return how long a request would wait before it is solved, about [s].

        Args:
            owner: Whose it is.
            key: Its key.
            per_problem: Solver time of a problem of a key [s].
            is_small: Whether it is a small one. Before that there are the small ones of its line, and large ones in
                turn with them; beside its line, the owner's others have as much of the solver, and beside all of its
                lines, other owners have.
        """
        if not self._lanes:
            return 0.0
        large = small = 0.0
        own: list[float] = []
        others: dict[Owner, float] = {}
        for each, whose, line in self._lines():
            per = per_problem(each)
            if whose != owner:
                others[whose] = others.get(whose, 0.0) + sum(line.problems) * per
            elif each == key:
                large, small = (n * per for n in line.problems)
            else:
                own.append(sum(line.problems) * per)
        before = small + min(large, small) if is_small else small + large
        before += sum(min(before, seconds) for seconds in own)
        return before + sum(min(before, seconds) for seconds in others.values())

    def put(self, work: Work, *, is_open: bool = False) -> bool:
        """Let a request wait; return whether it opened a lane.

        Args:
            work: The request.
            is_open: Whether a lane that it opens is open from the start. One that is not counts among the kinds that
                wait to be compiled as long as it is there, so that those never take the place of kinds that are.

        Raises:
            QueueFullError: Too much waits already; a ShareExhaustedError where too much of the same owner's does.
        """
        owner = work.owner
        self.require_room(owner, work.problem_count)
        lane, is_new = self._lanes.get(work.key), work.key not in self._lanes
        if lane is None:
            lane = Lane(self._open_kinds if is_open else self._shut_kinds, is_open=is_open)
        if owner not in lane.lines:
            lane.kinds.take(owner)
            account = self._accounts.setdefault(owner, Account())
            if not self._requests.held_by(owner):
                account.spent = max(account.spent, self._common_start)
            lane.lines[owner] = Line(account.common_start)
        self._lanes[work.key] = lane
        line = lane.lines[owner]
        work.is_compiled = lane.is_open
        line.works[work.is_small][work] = None
        line.problems[work.is_small] += work.remaining
        self._requests.add(owner)
        self._problems.add(owner, self._counted(work.remaining))
        return is_new

    def require_room(self, owner: Owner, problem_count: int) -> None:
        """Refuse a request that would not find room now.

        Raises:
            QueueFullError: Too much waits already; a ShareExhaustedError where too much of the same owner's does.
        """
        self._requests.require(owner)
        self._problems.require(owner, self._counted(problem_count))

    def has_lane(self, key: Hashable) -> bool:
        """Tell whether requests of a key wait."""
        return key in self._lanes

    def open(self, key: Hashable) -> None:
        """Let batches of a lane be taken from now on."""
        if key in self._lanes:
            self._lanes[key].is_open = True
            for work in self.waiting((key,)):
                work.is_compiled = True

    def is_open(self, key: Hashable) -> bool:
        """Tell whether batches of a lane may be taken."""
        return key in self._lanes and self._lanes[key].is_open

    def waiting(self, keys: Collection[Hashable]) -> Iterator[Work]:
        """Go through the requests of some lanes."""
        lanes = (self._lanes[key] for key in keys if key in self._lanes)
        return (work for lane in lanes for line in lane.lines.values() for size in line.works for work in size)

    def take(self, budget: Callable[[Hashable], int]) -> tuple[Share, ...]:
        """Return the next batch: problems of one key; nothing where nothing waits in an open lane.

        Args:
            budget: How many problems a batch of a key may hold.
        """
        ready = [(key, owner, line) for key, owner, line in self._lines() if self._lanes[key].is_open]
        if not ready:
            return ()
        key, owner, first = min(ready, key=lambda each: (self._accounts[each[1]].spent, each[2].spent))
        account, lane = self._accounts[owner], self._lanes[key]
        self._common_start, account.common_start = account.spent, first.spent
        further = sorted((each for each in lane.lines if each != owner), key=lambda each: self._accounts[each].spent)
        shares = []
        for work, count in lane.next_batch(budget(key), first, [lane.lines[each] for each in further]):
            before = self._counted(work.remaining)
            shares.append(work.take(count))
            lane.lines[work.owner].problems[work.is_small] -= count
            self._problems.give(work.owner, before - self._counted(work.remaining))
            if work.remaining == 0:
                del lane.lines[work.owner].works[work.is_small][work]
                self._requests.give(work.owner)
        return tuple(shares)

    def spend(self, shares: Sequence[Share], seconds: float) -> None:
        """Charge the owners of a batch with solver time, by their problems; a line without requests is forgotten."""
        key, counts = shares[0].work.key, dict.fromkeys((share.work.owner for share in shares), 0)
        for share in shares:
            counts[share.work.owner] += share.count
        total, lane = sum(counts.values()), self._lanes.get(key)
        for owner, count in counts.items():
            self._accounts[owner].spent += seconds * count / total
            if lane is not None and owner in lane.lines:
                lane.lines[owner].spent += seconds * count / total
                self._forget_if_empty(key, owner)

    def discard(self, work: Work) -> bool:
        """Forget a request that waits; return whether it was there."""
        lane = self._lanes.get(work.key)
        line = None if lane is None else lane.lines.get(work.owner)
        if line is None or work not in line.works[work.is_small]:
            return False
        del line.works[work.is_small][work]
        line.problems[work.is_small] -= work.remaining
        self._requests.give(work.owner)
        self._problems.give(work.owner, self._counted(work.remaining))
        self._forget_if_empty(work.key, work.owner)
        return True

    def clear(self) -> list[Work]:
        """Forget all requests that wait, and return them."""
        works = list(self)
        for work in works:
            self.discard(work)
        return works

    def drop_stale(self, now: float) -> list[Work]:
        """Take out the requests that are cancelled or past their deadline."""
        stale = [work for work in self if is_stale(work, now)]
        for work in stale:
            self.discard(work)
        return stale

    def __iter__(self) -> Iterator[Work]:
        """Go through the requests that wait."""
        lines = [line for _, _, line in self._lines()]
        return (work for line in lines for works in line.works for work in list(works))

    def _lines(self) -> Iterator[tuple[Hashable, Owner, Line]]:
        return ((key, owner, line) for key, lane in self._lanes.items() for owner, line in lane.lines.items())

    def _counted(self, problem_count: int) -> int:
        """What the problems of one request count: never more than their owner may have, or it would never get in."""
        return min(problem_count, self._problems.alone)

    def _forget_if_empty(self, key: Hashable, owner: Owner) -> None:
        lane = self._lanes[key]
        if not any(lane.lines[owner].works):
            del lane.lines[owner]
            lane.kinds.give(owner)
            if not lane.lines:
                del self._lanes[key]


def is_stale(work: Work, now: float) -> bool:
    """Return whether a request is cancelled or past its deadline."""
    return work.future.cancelled() or work.deadline <= now


def expired(work: Work, now: float, compile_s: float) -> ExpiredError:
    """Return the error of a request whose deadline has passed.

    Args:
        work: The request.
        now: The time [s].
        compile_s: How long it takes until all kernels that its owner wants now are there, about [s].
    """
    waited = now - work.queued_at
    if not work.is_compiled:
        retry_s = max(1, min(RETRY_MOST_S, math.ceil(compile_s)))
        return CompilingError(
            f"Code for requests of this kind is being compiled, which happens once, and it was not there after "
            f"{waited:.3g} s. Ask again in some {retry_s} s, or wait longer.",
            retry_s,
        )
    return ExpiredError(f"The deadline passed after {waited:.3g} s in the queue. Nothing was solved; try again later.")
