"""Warp modules of the kernels independent of the robot, and parts of the problems, one per thread.

Loops with a run-time bound are `while` loops: on a CPU `range` loops take three times as long. An index that cannot be
negative, by `wp.max`, is faster. The launches of one part run one after another; launches of different parts run side
by side and do not wait for each other. So a launch of a part reads and writes only lines of the part's own problems. A
launch over a list of problems takes the listed problems in the range.
"""

import typing
from typing import Any

import warp as wp

from ik_service.compiler import cpu_target
from ik_service.solver.lm.codes import PROBLEM_COUNT

# One module for the kernels of every solve: a fresh cache compiles them in one go. Others for rare kernels.
SOLVE_IO: Any = wp.get_module("ik_service_solve_io")
SOLVE_EXTRAS: Any = wp.get_module("ik_service_solve_extras")
SOLVE_BRANCHES: Any = wp.get_module("ik_service_solve_branches")
SOLVE_ON_DEVICE: Any = wp.get_module("ik_service_solve_on_device")
DERIVED_ON_DEVICE: Any = wp.get_module("ik_service_derived_on_device")
for module in (SOLVE_IO, SOLVE_EXTRAS, SOLVE_BRANCHES, SOLVE_ON_DEVICE, DERIVED_ON_DEVICE):
    module.options |= {"cpu_compiler_flags": cpu_target().flags, "enable_backward": False}


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
