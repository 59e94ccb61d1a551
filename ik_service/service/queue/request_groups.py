"""Groups of requests with the same batch key, one queue per owner in each group, and batches from a group."""

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
        requests: Large requests, then small requests, each in order of arrival.
        problems: Number of waiting problems of large requests, then of small requests.
        used_s: Solver time used by the queue [s], from a start common to all queues of its owner.
    """

    def __init__(self, used_s: float) -> None:
        self.requests: tuple[OrderedDict[QueuedRequest, None], ...] = (OrderedDict(), OrderedDict())
        self.problems = [0, 0]
        self.used_s = used_s
        self._large_next = False

    def next_size(self) -> bool:
        """Return the kind of the next batch: small requests (True) or large requests (False), in turn if both wait."""
        small, large = map(bool, (self.requests[True], self.requests[False]))
        is_small = small and not (large and self._large_next)
        self._large_next = is_small and large
        return is_small


class RequestGroup:
    """Requests with the same batch key.

    Args:
        kinds: Cap on the number of queues; each queue is one unit.
        is_open: Whether the kernels are compiled, so batches may be taken.

    Attributes:
        queues: The requests, by owner.
        kinds: Cap on the number of queues.
        is_open: Whether batches may be taken.
    """

    def __init__(self, kinds: FairCap, *, is_open: bool) -> None:
        self.queues: dict[Owner, OwnerQueue] = {}
        self.kinds, self.is_open = kinds, is_open

    def next_batch(
        self, budget: int, first: OwnerQueue, others: Iterable[OwnerQueue]
    ) -> list[tuple[QueuedRequest, int]]:
        """Return the requests of the next batch, each with its number of problems: first queue first, then the others.

        Small requests are taken whole and in order. So, under overload, some requests are answered in time; with equal
        shares, all answers would be late. Large requests share a batch.

        Args:
            budget: Largest number of problems in the batch.
            first: Next queue by turn; this queue decides between small and large requests.
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
    """Return the requests of a batch, each with its number of problems.

    Args:
        queued_requests: Requests in order of arrival.
        budget: Largest number of problems in the batch.
        share: First share of each request [problems]; the rest of the budget is given out in order.
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
