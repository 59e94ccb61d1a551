"""Parts of the problems of a solve, one per thread: ranges of problem numbers, the same in every launch.

The launches of one part run one after another; launches of different parts run side by side and do not wait for each
other. So a launch of a part reads and writes only lines of the part's own problems. A launch over a list of problems
takes the listed problems in the range.
"""

import typing

import warp as wp

from ik_service.solver.lm.codes import PROBLEM_COUNT

PART_MIN = 256  # least number of problems per thread: fewer leave lanes idle at the end of a part


@wp.func
@typing.no_type_check
def first_problem(settings: wp.array[wp.int32], part: int, parts: int):
    """Return the first problem of a part: floor(problems * part / parts), without overflow of a product."""
    if part == 0:
        return 0
    each = settings[PROBLEM_COUNT] / parts
    return each * part + (settings[PROBLEM_COUNT] - each * parts) * part / parts


@wp.func
@typing.no_type_check
def first_place(
    settings: wp.array[wp.int32], count: wp.array[wp.int32], problem: wp.array[wp.int32], part: int, parts: int
):
    """Return the first place of a part in an ascending list of `count[0]` problems; the list's end for part `parts`."""
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
    """Return the number of parts: one if there are too few problems for several threads."""
    return threads if problem_count >= threads * PART_MIN else 1


def part_sizes(problem_count: int, parts: int) -> list[int]:
    """Return the number of problems of each part."""
    return [problem_count * (part + 1) // parts - problem_count * part // parts for part in range(parts)]
