"""The queue in front of a solver: bounded, and fair to small requests and to every kind of request.

    put -> a lane per key -> take: the lane that has had least of the solver, a batch of what waits in it

Requests of equal keys share a lane. Small ones, which fit into a batch, are taken whole and in the order in which they
came; large ones move on batch by batch in turn with them. Problems are counted, not requests. Nothing waits for
company: a batch is whatever is there. It holds no lock and reads no clock; whoever owns it does.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator
from itertools import islice

from ik_service.batching.errors import ExpiredError, QueueFullError
from ik_service.batching.work import Share, Work

LARGE_AT_ONCE = 4
"""Large requests that are solved side by side."""


class Lane:
    """Requests of one key.

    Attributes:
        works: The requests, each kind in the order in which it came: large ones, small ones.
        problems: Problems that wait: of large requests, of small ones.
        is_open: Whether their batches may be taken: kernels are there.
        spent: Solver time that the lane has had [s], from a start common to all lanes.
    """

    def __init__(self, spent: float) -> None:
        self.works: tuple[OrderedDict[Work, None], ...] = (OrderedDict(), OrderedDict())
        self.problems = [0, 0]
        self.is_open = False
        self.spent = spent
        self._large_next = False

    def next_batch(self, budget: int) -> list[tuple[Work, int]]:
        """Return requests and how many problems of each: small ones or large ones, in turn where both wait.

        Small requests go whole and in order: under overload that many are answered in time, where equal shares would
        answer all of them too late. The first few of the large ones share their batch.
        """
        small, large = self.works[True], list(islice(self.works[False], LARGE_AT_ONCE))
        if small and not (large and self._large_next):
            self._large_next = bool(large)
            return share_out(small, budget)
        self._large_next = False
        return share_out(large, budget, budget // len(large))


class FairQueue:
    """Requests that wait for one solver.

    Args:
        request_limit: Requests that may wait.
        problem_limit: Problems that may wait; one request alone may have more.
        lane_limit: Keys with waiting requests.

    Attributes:
        requests: Requests that wait, those partly handed out included.
    """

    def __init__(self, *, request_limit: int, problem_limit: int, lane_limit: int) -> None:
        self._request_limit, self._problem_limit, self._lane_limit = request_limit, problem_limit, lane_limit
        self._lanes: dict[Hashable, Lane] = {}
        self._common_start = 0.0
        self.requests = 0

    @property
    def problems(self) -> int:
        """Problems that wait."""
        return sum(sum(lane.problems) for lane in self._lanes.values())

    def seconds_until(self, key: Hashable, per_problem: Callable[[Hashable], float], *, is_small: bool) -> float:
        """Return how long a request would wait before it is solved, about [s].

        Args:
            key: Its key.
            per_problem: Solver time of a problem of a key [s].
            is_small: Whether it is a small one. Before that there are the small ones of its lane, and large ones in
                turn with them; beside its lane, the others have as much of the solver.
        """
        seconds = {each: [n * per_problem(each) for n in lane.problems] for each, lane in self._lanes.items()}
        large, small = seconds.pop(key, (0.0, 0.0))
        own = small + min(large, small) if is_small else small + large
        return own + sum(min(own, sum(other)) for other in seconds.values())

    def put(self, work: Work) -> bool:
        """Let a request wait; return whether it opened a lane.

        Raises:
            QueueFullError: Too much waits already.
        """
        self.require_room(work.request.problem_count)
        opened = work.key not in self._lanes
        if opened:
            if len(self._lanes) >= self._lane_limit:
                raise QueueFullError(f"Requests of {self._lane_limit} kinds are waiting. Try again later.", "kinds")
            self._lanes[work.key] = Lane(self._common_start)
        self._lanes[work.key].works[work.is_small][work] = None
        self.requests += 1
        self._lanes[work.key].problems[work.is_small] += work.remaining
        return opened

    def require_room(self, problem_count: int) -> None:
        """Refuse a request that would not find room now.

        Raises:
            QueueFullError: Too much waits already.
        """
        if self.requests >= self._request_limit:
            raise QueueFullError(
                f"{self.requests} requests are waiting, which is the most allowed. Try again later.", "requests"
            )
        if self.problems > 0 and self.problems + problem_count > self._problem_limit:
            raise QueueFullError(
                f"{self.problems} problems are waiting, and {problem_count} more would exceed {self._problem_limit}. "
                "Try again later.",
                "problems",
            )

    def open(self, key: Hashable) -> None:
        """Let batches of a lane be taken from now on."""
        if key in self._lanes:
            self._lanes[key].is_open = True

    def is_open(self, key: Hashable) -> bool:
        """Tell whether batches of a lane may be taken."""
        return key in self._lanes and self._lanes[key].is_open

    def first_live(self, keys: Collection[Hashable], now: float) -> Work | None:
        """Return a request of some lanes that somebody still waits for, None where there is none."""
        lanes = (self._lanes[key] for key in keys if key in self._lanes)
        works = (work for lane in lanes for kind in lane.works for work in kind)
        return next((work for work in works if not is_stale(work, now)), None)

    def take(self, budget: Callable[[Hashable], int]) -> tuple[Share, ...]:
        """Return the next batch: problems of one key; nothing where nothing waits in an open lane.

        Args:
            budget: How many problems a batch of a key may hold.
        """
        open_lanes = [(lane.spent, key) for key, lane in self._lanes.items() if lane.is_open]
        if not open_lanes:
            return ()
        self._common_start, key = min(open_lanes, key=lambda pair: pair[0])
        lane = self._lanes[key]
        shares = []
        for work, count in lane.next_batch(budget(key)):
            shares.append(work.take(count))
            lane.problems[work.is_small] -= count
            if work.remaining == 0:
                del lane.works[work.is_small][work]
                self.requests -= 1
        return tuple(shares)

    def spend(self, key: Hashable, seconds: float) -> None:
        """Charge a lane with solver time; a lane without requests is forgotten."""
        lane = self._lanes.get(key)
        if lane is not None:
            lane.spent += seconds
            if not any(lane.works):
                del self._lanes[key]

    def discard(self, work: Work) -> bool:
        """Forget a request that waits; return whether it was there."""
        lane = self._lanes.get(work.key)
        if lane is None or work not in lane.works[work.is_small]:
            return False
        del lane.works[work.is_small][work]
        self.requests -= 1
        lane.problems[work.is_small] -= work.remaining
        if not any(lane.works):
            del self._lanes[work.key]
        return True

    def clear(self) -> list[Work]:
        """Forget all requests that wait, and return them."""
        works = list(self)
        self._lanes.clear()
        self.requests = 0
        return works

    def drop_stale(self, now: float) -> list[Work]:
        """Take out the requests that are cancelled or past their deadline."""
        stale = [work for work in self if is_stale(work, now)]
        for work in stale:
            self.discard(work)
        return stale

    def __iter__(self) -> Iterator[Work]:
        """Go through the requests that wait."""
        return (work for lane in list(self._lanes.values()) for works in lane.works for work in list(works))


def is_stale(work: Work, now: float) -> bool:
    """Return whether a request is cancelled or past its deadline."""
    return work.future.cancelled() or work.deadline <= now


def expired(work: Work, now: float) -> ExpiredError:
    """Return the error of a request whose deadline has passed."""
    waited = now - work.queued_at
    return ExpiredError(f"The deadline passed after {waited:.3g} s in the queue. Nothing was solved; try again later.")


def share_out(works: Collection[Work], budget: int, share: int = 0) -> list[tuple[Work, int]]:
    """Return the requests that go into a batch, and how many problems of each.

    Args:
        works: Requests in the order in which they came.
        budget: Problems that the batch may hold.
        share: How many each may have before those in front get what is left.
    """
    spare = budget - (sum(min(work.remaining, share) for work in works) if share else 0)
    shares = []
    for work in works:
        if not spare and not share:
            break  # hundreds may wait behind those that fit
        least = min(work.remaining, share)
        more = min(spare, work.remaining - least)
        spare -= more
        if least + more:
            shares.append((work, least + more))
    return shares
