"""The loop of a kernel that works through attempts, parted by its branches: refill, iteration, and what is neither.

Threads of a warp run together: where they part, the warp goes through both sides, one after the other. So a part of the
loop is one sequence of instructions, with everything in it that any thread may need. Left out is what solves with
default options hardly ever come to, by the lines of the sources: calls of long divisions, draws by other samplers, and
what is done about numbers of which float32 loses digits.
"""

import linecache
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from benchmarks.gpu_model.cards import LOADS
from benchmarks.gpu_model.sass import Instruction, Listing

ENDS = ("EXIT", "RET")
RARE = (
    "nearly_normal(",  # samplers that are no default
    "draw_otherwise(",
    "= storage.joint_q[k, row]",  # what it has drawn
    "put_limits(",  # once per thread
    "if not wp.isfinite(gradient) or not wp.isfinite(diagonal)",  # of `squared_cosine`, once its short way is left
    "if diagonal <= COLUMN_MIN2",
    "return (gradient / diagonal) * (gradient / norm2)",
    "status_in_full(",
    "        row = wp.atomic_add(storage.next_row, 0, 1)",  # after a row whose problem has been solved meanwhile
)
"""Texts of source lines that are rare."""
FAR = (
    "task.problem[place]",
    "storage.listed[place]",
    "load_number(",
    "number_at(given",
    "task.tree_hash[p, TREE[k]]",
    "hash_step(tree_hash[p, ranges.tree[a]]",
    "put_inputs(",
    "start = task.start_joint_q[p, task.coordinate[c]]",
)
"""Texts of source lines that load what belongs to one problem; all else the first cache has soon."""
ATOMIC = ("ATOM", "ATOMG", "ATOMS")  # the counter of rows, which a refill takes the next from


@dataclass(frozen=True)
class Parts:
    """The loop, as sequences of instructions.

    Attributes:
        refill: From one attempt to the next: how one ended, and where the next starts.
        iteration: One step of an attempt.
        rest: What every pass through the loop has beside them.
        left_out: Instructions of the refill that no solve with default options comes to.
    """

    refill: tuple[Instruction, ...]
    iteration: tuple[Instruction, ...]
    rest: tuple[Instruction, ...]
    left_out: int


class Flow:
    """Blocks of straight code, and where each leads to.

    Args:
        listing: The code.

    Attributes:
        blocks: Their instructions, in the order of addresses.
        after: The blocks that may follow each.
    """

    def __init__(self, listing: Listing) -> None:
        code, labels = listing.instructions, listing.labels
        starts = {0, *(place for place in labels.values() if place < len(code))}
        starts |= {k + 1 for k, one in enumerate(code[:-1]) if one.name in ("BRA", *ENDS)}
        edges = sorted(starts)
        number = {place: k for k, place in enumerate(edges)}
        self.blocks = [code[a:b] for a, b in pairwise([*edges, len(code)])]
        self.after: list[tuple[int, ...]] = []
        for k, block in enumerate(self.blocks):
            last = block[-1]
            found = [number[labels[last.target]]] if last.name == "BRA" else []
            is_last = last.name in ("BRA", *ENDS) and not _is_conditional(last)
            if not is_last and k + 1 < len(self.blocks):
                found.append(k + 1)
            self.after.append(tuple(dict.fromkeys(found)))

    def largest_loop(self) -> tuple[int, set[int]]:
        """Return the block where the largest loop begins, and its blocks."""
        best: tuple[int, set[int]] = (0, set())
        for end, targets in enumerate(self.after):
            for first in targets:
                if first <= end and len(found := self._loop(first, end)) > len(best[1]):
                    best = first, found
        return best

    def _loop(self, first: int, end: int) -> set[int]:
        """The blocks from which `end` is reached without passing `first`, if `first` is before all of them."""
        before: list[list[int]] = [[] for _ in self.blocks]
        for k, targets in enumerate(self.after):
            for target in targets:
                before[target].append(k)
        found, todo = {first}, [end]
        while todo:
            k = todo.pop()
            if k not in found:
                found.add(k)
                todo += before[k]
        return found if min(found) == first else set()


def _is_conditional(one: Instruction) -> bool:
    """Whether a branch may go on to the next instruction; a second predicate stands before its target."""
    return bool(one.predicate) or ", `(" in one.text


def parts_of(listing: Listing) -> Parts:
    """Return the parts of a kernel's loop.

    Args:
        listing: The kernel, with the places of its source.

    Raises:
        ValueError: The loop has no two sides of which one counts rows and the other has most of the products.
    """
    flow = Flow(listing)
    first, loop = flow.largest_loop()
    refill: set[int] = set()
    iteration: set[int] = set()
    most = 0
    for branch in _trunk(flow, first, loop):
        sides = _sides(flow, branch, loop, first)
        code = [one for k in sides for one in flow.blocks[k]]
        products = sum(one.name in ("FFMA", "FMUL") for one in code)
        if any(one.name in ATOMIC for one in code):
            refill |= sides
        elif products > most:
            most, iteration = products, sides
    if not refill or not iteration:
        raise ValueError("The loop of this kernel has no refill and iteration that a branch leads around.")
    parts = [[one for k in sorted(part) for one in flow.blocks[k]] for part in (refill, iteration)]
    rest = [one for k in sorted(loop - refill - iteration) for one in flow.blocks[k]]
    taken = [tuple(one for one in part if not _is_rare(one)) for part in parts]
    return Parts(taken[0], taken[1], tuple(rest), len(parts[0]) - len(taken[0]))


def _trunk(flow: Flow, first: int, loop: Collection[int]) -> list[int]:
    """The blocks that every pass through a loop comes to, in order."""
    found = [first]
    while (joined := _join(flow, found[-1], loop, first)) is not None:
        found.append(joined)
    return found


def _reached(flow: Flow, start: int, loop: Collection[int], first: int, without: int) -> set[int]:
    """The blocks of a loop that a pass may come to from `start`, if it does not pass `without`."""
    found: set[int] = set()
    todo = [start]
    while todo:
        k = todo.pop()
        if k in found or k == without:
            continue
        found.add(k)
        todo += [n for n in flow.after[k] if n in loop and n != first]
    return found


def _ends(flow: Flow, first: int, loop: Collection[int]) -> set[int]:
    """The blocks that end a pass."""
    return {k for k in loop if first in flow.after[k]}


def _join(flow: Flow, start: int, loop: Collection[int], first: int) -> int | None:
    """The first block after `start` that every pass comes to."""
    ends, after = _ends(flow, first, loop), [n for n in flow.after[start] if n in loop and n != first]
    ways = [_reached(flow, n, loop, first, -1) for n in after]
    if not ways or start in ends:
        return None
    common = set.intersection(*ways)
    needed = [k for k in common if all(not ends & _reached(flow, n, loop, first, k) for n in after)]
    # of those that every pass comes to, the one from which all others are reached
    return next((k for k in needed if set(needed) <= _reached(flow, k, loop, first, -1)), None)


def _sides(flow: Flow, branch: int, loop: Collection[int], first: int) -> set[int]:
    """The blocks between one that every pass comes to and the next."""
    joined = _join(flow, branch, loop, first)
    if joined is None:
        return set()
    return _reached(flow, branch, loop, first, joined) - {branch}


def _is_rare(one: Instruction) -> bool:
    """Whether an instruction comes from a source line that is rare, or from a call of one."""
    return one.name == "CALL" or any(text in _line(*place) for place in one.places for text in RARE)


def is_far(one: Instruction) -> bool:
    """Return whether an instruction loads what belongs to one problem, or the address of it."""
    return one.name in LOADS and any(text in _line(*place) for place in one.places for text in FAR)


@cache
def _line(file: str, number: int) -> str:
    return linecache.getline(file, number)
