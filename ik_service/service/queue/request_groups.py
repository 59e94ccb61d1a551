"""Groups of requests that can be solved together, with a queue for each owner, and the batches made of them."""

from collections import OrderedDict
from collections.abc import Collection, Iterable
from itertools import islice

from ik_service.service.queue.fair_cap import FairCap, Owner
from ik_service.service.queue.queued_request import QueuedRequest

LARGE_AT_ONCE = 4
"""Large requests that share a batch at most."""


class OwnerQueue:
    """Requests of one owner in one group.

    Attributes:
        requests: Large requests and small ones, each in order of arrival.
        problems: Waiting problems of large requests and of small ones.
        used_s: Solver time that the queue has used [s], from a start common to all queues of its owner.
    """

    def __init__(self, used_s: float) -> None:
        self.requests: tuple[OrderedDict[QueuedRequest, None], ...] = (OrderedDict(), OrderedDict())
        self.problems = [0, 0]
        self.used_s = used_s
        self._large_next = False

    def next_size(self) -> bool:
        """Return whether the next batch is of small requests (True) or of large ones: in turn where both wait."""
        small, large = map(bool, (self.requests[True], self.requests[False]))
        is_small = small and not (large and self._large_next)
        self._large_next = is_small and large
        return is_small


class RequestGroup:
    """Requests with the same key, which can be solved together.

    Args:
        kinds: The cap of queues: each counts one unit of it.
        is_open: Whether batches may be taken, because the kernels are compiled.

    Attributes:
        queues: The requests, by owner.
        kinds: The cap.
        is_open: Whether batches may be taken.
    """

    def __init__(self, kinds: FairCap, *, is_open: bool) -> None:
        self.queues: dict[Owner, OwnerQueue] = {}
        self.kinds, self.is_open = kinds, is_open

    def next_batch(
        self, budget: int, first: OwnerQueue, others: Iterable[OwnerQueue]
    ) -> list[tuple[QueuedRequest, int]]:
        """Return requests and their numbers of problems: first those of one queue, then what fits of the others.

        Small requests are taken whole and in order. Under overload some are then answered in time, where equal shares
        would answer all of them too late. Large requests share a batch.

        Args:
            budget: Problems that the batch may hold.
            first: The queue whose turn it is; it decides between small and large requests.
            others: Further queues in order of their turns.
        """
        is_small, shares = first.next_size(), []
        for queue in (first, *others):
            if is_small:
                taken = share_out(queue.requests[True], budget)
            else:
                large = list(islice(queue.requests[False], LARGE_AT_ONCE))
                taken = share_out(large, budget, budget // max(1, len(large)))
            shares += taken
            budget -= sum(count for _, count in taken)
            if not budget:
                break
        return shares


def share_out(
    queued_requests: Collection[QueuedRequest], budget: int, share: int = 0
) -> list[tuple[QueuedRequest, int]]:
    """Return the requests that go into a batch and their numbers of problems.

    Args:
        queued_requests: Requests in order of arrival.
        budget: Problems that the batch may hold.
        share: Problems that each request may have before the rest of the budget is given out in order.
    """
    spare = budget - (sum(min(queued.remaining, share) for queued in queued_requests) if share else 0)
    shares = []
    for queued in queued_requests:
        if not spare and not share:
            break  # the queue may be long
        least = min(queued.remaining, share)
        more = min(spare, queued.remaining - least)
        spare -= more
        if least + more:
            shares.append((queued, least + more))
    return shares
