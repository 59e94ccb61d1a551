"""The move that serves the tasks best within bounds of joints and of the nearest pairs: a small quadratic program."""

import typing
from functools import lru_cache
from typing import Any

import warp as wp

from ik_service.control.clearance.look import ROWS
from ik_service.control.clearance.task import ClearanceTaskRef
from ik_service.template_files import TemplateFolder

TEMPLATES = TemplateFolder("ik_service.control.clearance")
BOUND_TOLERANCE = 1e-12
"""By how much a bound may be missed [m or rad]."""
RIDGE = 1e-6
"""Share of the square of its lever by which a joint is held where the tasks leave it open."""

DIAGONAL_ROUNDING = 1e-12
"""Share of its own entry by which a joint is held besides, so that rounding leaves the matrix definite."""


@lru_cache
@typing.no_type_check
def planning_function(leaders: int) -> Any:
    """Return the function of Warp: (task, r, towards) -> how many bounds were met, below 0 where they contradict."""
    # It makes `move` the best x with `least` <= x <= `most` and pairs that come nearer by no more than their `room`:
    # with `towards` 0 the minimum of x'Hx / 2 + g'x, where H and g are J'J and J'r of the tasks; else the x nearest to
    # `wanted`, by the joints' levers. `leaders` is the number of coordinates that lead, at most.
    words = {
        "rounding": repr(DIAGONAL_ROUNDING),
        "size": max(leaders, 1),
        "rows": ROWS,
        "tolerance": repr(BOUND_TOLERANCE),
        "ridge": repr(RIDGE),
    }
    text = "\n".join(
        ["{", *(TEMPLATES.filled(f"{name}.cpp", words) for name in ("plan", "quadratic_program", "planned")), "}"]
    )

    @wp.func_native(text)
    def plan(task: ClearanceTaskRef, r: int, towards: int) -> int: ...

    return plan
