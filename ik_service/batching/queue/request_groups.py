"""What waits of one kind: a group, and in it a queue for each owner. How a batch is made of them."""

from collections import OrderedDict
from collections.abc import Collection, Iterable
from itertools import islice

from ik_service.batching.queue.fair_cap import FairCap, Owner
from ik_service.batching.queue.queued_request import QueuedRequest

LARGE_AT_ONCE = 4
"""Large requests that are solved side by side."""


class OwnerQueue:
    """Requests of one owner and one kind.

    Attributes:
        requests: The requests, each size in the order in which it came: large ones, small ones.
        problems: Problems that wait: of large requests, of small ones.
        used_s: Solver time that the queue has had [s], from a start common to all queues of its owner.
    """

    def __init__(self, used_s: float) -> None:
        self.requests: tuple[OrderedDict[QueuedRequest, None], ...] = (OrderedDict(), OrderedDict())
        self.problems = [0, 0]
        self.used_s = used_s
        self._large_next = False

    def next_size(self) -> bool:
        """Return whether its next batch is of small requests or of large ones: in turn where both wait."""
        small, large = map(bool, (self.requests[True], self.requests[False]))
        is_small = small and not (large and self._large_next)
        self._large_next = is_small and large
        return is_small


class RequestGroup:
    """Requests of one kind, which can be solved together.

    Args:
        kinds: The cap on which its queues count.
        is_open: Whether its batches may be taken: kernels are there.

    Attributes:
        queues: The requests, by owner.
        kinds: The cap.
        is_open: Whether its batches may be taken.
    """

    def __init__(self, kinds: FairCap, *, is_open: bool) -> None:
        self.queues: dict[Owner, OwnerQueue] = {}
        self.kinds, self.is_open = kinds, is_open

    def next_batch(
        self, budget: int, first: OwnerQueue, others: Iterable[OwnerQueue]
    ) -> list[tuple[QueuedRequest, int]]:
        """Return requests and how many problems of each: those of a queue, and of the others what fits beside.

        Small requests go whole and in order: under overload that many are answered in time, where equal shares would
        answer all of them too late. The first few of the large ones share their batch.

        Args:
            budget: Problems that the batch may hold.
            first: The queue whose turn it is; it decides between small and large requests.
            others: Further queues, who is to come next first.
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
    """Return the requests that go into a batch, and how many problems of each.

    Args:
        queued_requests: Requests in the order in which they came.
        budget: Problems that the batch may hold.
        share: How many each may have before those in front get what is left.
    """
    spare = budget - (sum(min(queued.remaining, share) for queued in queued_requests) if share else 0)
    shares = []
    for queued in queued_requests:
        if not spare and not share:
            break  # hundreds may wait behind those that fit
        least = min(queued.remaining, share)
        more = min(spare, queued.remaining - least)
        spare -= more
        if least + more:
            shares.append((queued, least + more))
    return shares
