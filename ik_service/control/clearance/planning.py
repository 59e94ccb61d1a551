"""Best move for the tasks within bounds of joints and of the nearest pairs: a small quadratic program."""

import typing
from functools import lru_cache
from typing import Any

import warp as wp

from ik_service.control.clearance.look import ROWS
from ik_service.control.clearance.task import ClearanceTaskRef
from ik_service.template_files import TemplateFolder

TEMPLATES = TemplateFolder("ik_service.control.clearance")
BOUND_TOLERANCE = 1e-12  # allowed violation of a bound [m or rad]
RIDGE = 1e-6  # regularisation of joints in the null space of the tasks, relative to the square of the joint's lever
DIAGONAL_ROUNDING = 1e-12  # relative addition to the diagonal that keeps the matrix positive definite despite rounding


@lru_cache
@typing.no_type_check
def planning_function(leaders: int) -> Any:
    """Return the Warp function (task, r, towards) -> the count of active bounds, negative for contradictory bounds.

    The function sets `move` to the best x with `least` <= x <= `most` and each pair's approach <= its `room`. With
    `towards` 0, x minimises x'Hx / 2 + g'x, where H = J'J and g = J'r of the tasks; otherwise x is the point nearest
    to `wanted`, in the metric of the joints' levers. `leaders` bounds the number of leading coordinates.
    """
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
