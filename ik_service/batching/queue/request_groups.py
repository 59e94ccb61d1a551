"""What waits of one kind: a lane, and in it a line for each owner. How a batch is made of them."""

from collections import OrderedDict
from collections.abc import Collection, Iterable
from itertools import islice

from ik_service.batching.queue.fair_cap import FairCap, Owner
from ik_service.batching.queue.queued_request import Work

LARGE_AT_ONCE = 4
"""Large requests that are solved side by side."""


class Line:
    """Requests of one owner and one kind.

    Attributes:
        works: The requests, each size in the order in which it came: large ones, small ones.
        problems: Problems that wait: of large requests, of small ones.
        spent: Solver time that the line has had [s], from a start common to all lines of its owner.
    """

    def __init__(self, spent: float) -> None:
        self.works: tuple[OrderedDict[Work, None], ...] = (OrderedDict(), OrderedDict())
        self.problems = [0, 0]
        self.spent = spent
        self._large_next = False

    def next_size(self) -> bool:
        """Return whether its next batch is of small requests or of large ones: in turn where both wait."""
        small, large = map(bool, (self.works[True], self.works[False]))
        is_small = small and not (large and self._large_next)
        self._large_next = is_small and large
        return is_small


class Lane:
    """Requests of one kind, which can be solved together.

    Args:
        kinds: The cap on which its lines count.
        is_open: Whether its batches may be taken: kernels are there.

    Attributes:
        lines: The requests, by owner.
        kinds: The cap.
        is_open: Whether its batches may be taken.
    """

    def __init__(self, kinds: FairCap, *, is_open: bool) -> None:
        self.lines: dict[Owner, Line] = {}
        self.kinds, self.is_open = kinds, is_open

    def next_batch(self, budget: int, first: Line, others: Iterable[Line]) -> list[tuple[Work, int]]:
        """Return requests and how many problems of each: those of a line, and of the others what fits beside.

        Small requests go whole and in order: under overload that many are answered in time, where equal shares would
        answer all of them too late. The first few of the large ones share their batch.

        Args:
            budget: Problems that the batch may hold.
            first: The line whose turn it is; it decides between small and large requests.
            others: Further lines, who is to come next first.
        """
        is_small, shares = first.next_size(), []
        for line in (first, *others):
            if is_small:
                taken = share_out(line.works[True], budget)
            else:
                large = list(islice(line.works[False], LARGE_AT_ONCE))
                taken = share_out(large, budget, budget // max(1, len(large)))
            shares += taken
            budget -= sum(count for _, count in taken)
            if not budget:
                break
        return shares


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
