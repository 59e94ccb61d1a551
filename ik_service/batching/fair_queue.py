"""The queue in front of a solver: bounded, and fair to small requests and to every kind of request.

    put -> a lane per key -> take: the lane that has had least of the solver, a batch of what waits in it

Requests of equal keys share a lane, and a lane's next batch holds an equal share of each: a small request is in the
first batch whole, a large one moves on batch by batch. Problems are counted, not requests. Nothing waits for company:
a batch is whatever is there. It holds no lock and reads no clock; whoever owns it does.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import islice

from ik_service.batching.errors import ExpiredError, QueueFullError
from ik_service.batching.work import Share, Work


class Lane:
    """Requests of one key, in the order in which they will be served.

    Attributes:
        works: The requests.
        is_open: Whether their batches may be taken: kernels are there.
        spent: Solver time that the lane has had [s], from a start common to all lanes.
    """

    def __init__(self, spent: float) -> None:
        self.works: OrderedDict[Work, None] = OrderedDict()
        self.is_open = False
        self.spent = spent


class FairQueue:
    """Requests that wait for one solver.

    Args:
        request_limit: Requests that may wait.
        problem_limit: Problems that may wait; one request alone may have more.
        lane_limit: Keys with waiting requests.

    Attributes:
        requests: Requests that wait, those partly handed out included.
        problems: Problems that wait.
    """

    def __init__(self, *, request_limit: int, problem_limit: int, lane_limit: int) -> None:
        self._request_limit, self._problem_limit, self._lane_limit = request_limit, problem_limit, lane_limit
        self._lanes: dict[Hashable, Lane] = {}
        self._common_start = 0.0
        self.requests, self.problems = 0, 0

    def put(self, work: Work) -> bool:
        """Let a request wait; return whether it opened a lane.

        Raises:
            QueueFullError: Too much waits already.
        """
        self.require_room(work.request.problem_count)
        opened = work.key not in self._lanes
        if opened:
            if len(self._lanes) >= self._lane_limit:
                raise QueueFullError(f"Requests of {self._lane_limit} kinds are waiting. Try again later.")
            self._lanes[work.key] = Lane(self._common_start)
        self._lanes[work.key].works[work] = None
        self.requests += 1
        self.problems += work.remaining
        return opened

    def require_room(self, problem_count: int) -> None:
        """Refuse a request that would not find room now.

        Raises:
            QueueFullError: Too much waits already.
        """
        if self.requests >= self._request_limit:
            raise QueueFullError(f"{self.requests} requests are waiting, which is the most allowed. Try again later.")
        if self.problems > 0 and self.problems + problem_count > self._problem_limit:
            raise QueueFullError(
                f"{self.problems} problems are waiting, and {problem_count} more would exceed {self._problem_limit}. "
                "Try again later."
            )

    def open(self, key: Hashable) -> None:
        """Let batches of a lane be taken from now on."""
        if key in self._lanes:
            self._lanes[key].is_open = True

    def is_ready(self) -> bool:
        """Return whether there is something to take."""
        return any(lane.is_open for lane in self._lanes.values())

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
        counts = _shares(lane.works, budget(key))
        for work, count in zip(list(islice(lane.works, len(counts))), counts, strict=True):
            shares.append(work.take(count))
            lane.works.pop(work)
            self.problems -= count
            if work.remaining > 0:
                lane.works[work] = None  # to the end
            else:
                self.requests -= 1
        return tuple(shares)

    def spend(self, key: Hashable, seconds: float) -> None:
        """Charge a lane with solver time; a lane without requests is forgotten."""
        lane = self._lanes.get(key)
        if lane is not None:
            lane.spent += seconds
            if not lane.works:
                del self._lanes[key]

    def discard(self, work: Work) -> bool:
        """Forget a request that waits; return whether it was there."""
        lane = self._lanes.get(work.key)
        if lane is None or work not in lane.works:
            return False
        del lane.works[work]
        self.requests -= 1
        self.problems -= work.remaining
        if not lane.works:
            del self._lanes[work.key]
        return True

    def drop_stale(self, now: float) -> list[Work]:
        """Take out the requests that are cancelled or past their deadline."""
        stale = [work for work in self if work.future.cancelled() or work.deadline <= now]
        for work in stale:
            self.discard(work)
        return stale

    def drop_lane(self, key: Hashable) -> list[Work]:
        """Take out all requests of a key."""
        works = list(self._lanes[key].works) if key in self._lanes else []
        for work in works:
            self.discard(work)
        return works

    def __iter__(self) -> Iterator[Work]:
        """Go through the requests that wait."""
        return (work for lane in list(self._lanes.values()) for work in list(lane.works))


def expired(work: Work, now: float) -> ExpiredError:
    """Return the error of a request whose deadline has passed."""
    waited = now - work.queued_at
    return ExpiredError(f"The deadline passed after {waited:.3g} s in the queue. Nothing was solved; try again later.")


def _shares(works: Iterable[Work], budget: int) -> list[int]:
    """Problems of each of the first requests: equal shares, and what some do not need goes to the first."""
    waiting = [work.remaining for work in islice(works, budget)]
    share = budget // len(waiting)
    counts = [min(share, count) for count in waiting]
    spare = budget - sum(counts)
    for k, count in enumerate(waiting):
        more = min(spare, count - counts[k])
        counts[k] += more
        spare -= more
    return counts
