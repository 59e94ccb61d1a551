"""Parts of the problems of a solve, one per thread: ranges of problem numbers, the same in every launch.

The launches of one part run one after another; those of different parts run side by side and do not wait for each
other. So a launch of a part reads and writes lines of the part's own problems and of no others. A launch that works
through a list of problems takes those of the list that are in the range.
"""

import typing

import warp as wp

from ik_service.solver.lm.codes import PROBLEM_COUNT

PART_MIN = 256  # problems a thread is worth: fewer leave lanes idle at the end of a part


@wp.func
@typing.no_type_check
def first_problem(settings: wp.array[wp.int32], part: int, parts: int):
    """Return the first problem of a part: problems * part / parts, rounded down, without a product that overflows."""
    if part == 0:
        return 0
    each = settings[PROBLEM_COUNT] / parts
    return each * part + (settings[PROBLEM_COUNT] - each * parts) * part / parts


@wp.func
@typing.no_type_check
def first_place(
    settings: wp.array[wp.int32], count: wp.array[wp.int32], problem: wp.array[wp.int32], part: int, parts: int
):
    """Return where a part begins in a list of `count[0]` problems in ascending order; at part `parts` the list ends."""
    if part == 0:
        return 0
    if part == parts:
        return count[0]
    first = first_problem(settings, part, parts)
    low = int(0)
    high = int(count[0])
    while low < high:
        middle = (low + high) / 2
        if problem[middle] < first:
            low = middle + 1
        else:
            high = middle
    return low


def part_count(problem_count: int, threads: int) -> int:
    """Return how many parts there are: one where the problems are not worth several threads."""
    return threads if problem_count >= threads * PART_MIN else 1


def part_sizes(problem_count: int, parts: int) -> list[int]:
    """Return how many problems each part has."""
    return [problem_count * (part + 1) // parts - problem_count * part // parts for part in range(parts)]
