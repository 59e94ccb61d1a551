"""Moves of a tick near contact: bounds of the joints' moves, braking included, and the best move within bounds."""

import typing
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import warp as wp

from ik_service.compiler import Lanes
from ik_service.control.clearance.look import ROWS
from ik_service.control.clearance.task import ClearanceTaskRef
from ik_service.control.limits import KINDS
from ik_service.control.tick.packet_text import PacketText, fragments
from ik_service.control.tick.task import DT
from ik_service.kernels import typed_warp
from ik_service.kernels.typed_warp import reference_to
from ik_service.template_files import TemplateFolder

ZERO, ONE = wp.constant(wp.float64(0.0)), wp.constant(wp.float64(1.0))
TEMPLATES = TemplateFolder("ik_service.control.clearance")
BOUND_TOLERANCE = 1e-12  # allowed violation of a bound [m or rad]
RIDGE = 1e-6  # regularisation of joints in the null space of the tasks, relative to the square of the joint's lever
DIAGONAL_ROUNDING = 1e-12  # relative addition to the diagonal that keeps the matrix positive definite despite rounding
_ARITHMETIC = PacketText(Lanes(1, "float64"), {**KINDS, "DT": int(DT)}, {}).arithmetic()
_BRAKING = [*_ARITHMETIC, *fragments("braking_move")]


def _body(lines: Sequence[str], template: str) -> str:
    return "\n".join(["{", *lines, TEMPLATES.filled(f"{template}.cpp", {}), "}"])


@typed_warp.func_native(_body([*_BRAKING, *fragments("joint_box")], "bound_moves"))
def bound_moves(task: ClearanceTaskRef, r: int) -> None:
    """Write the bounds of the joints' moves, and the move with the hardest braking."""


@typed_warp.func_native(_body(_BRAKING, "brake"))
def brake(task: ClearanceTaskRef, r: int) -> None:
    """Write the wanted move: the largest part of the planned path with all joints able to stop at its end."""


@wp.func
@typing.no_type_check
def bound_ways(task: ClearanceTaskRef, r: int):
    """Write bounds of the joints' paths: the braking distance from full speed."""
    for c in range(task.leader.shape[0]):
        if task.leader[c] == c:
            a = task.active[c]
            q = task.joint_q[r, c]
            way = task.velocity[a] * (wp.float64(0.5) * task.velocity[a] / task.acceleration[a] + task.numbers[DT])
            if not wp.isfinite(task.velocity[a]):
                way = task.velocity[a]
            task.least[r, c] = wp.max(wp.min(task.limit_lower[a], q) - q, -way)
            task.most[r, c] = wp.min(wp.max(task.limit_upper[a], q) - q, way)


@wp.func
@typing.no_type_check
def take_proposal(task: ClearanceTaskRef, r: int):
    """Take the move of the tasks."""
    for c in range(task.leader.shape[0]):
        if task.leader[c] == c:
            task.move[r, c] = task.proposal[r, c] - task.joint_q[r, c]


@wp.func
@typing.no_type_check
def take_stopping(task: ClearanceTaskRef, r: int):
    """Take the move with the hardest braking."""
    for c in range(task.leader.shape[0]):
        if task.leader[c] == c:
            task.move[r, c] = task.stopping[r, c]


@lru_cache
@typing.no_type_check
def way_function(coordinates: int) -> Any:
    """Return the Warp function (task, r, ticks, joint_q, speeds): coordinates after ticks, and largest moves then."""
    Configuration: Any = reference_to(wp.types.vector(coordinates, wp.float32))
    text = TEMPLATES.filled("way.cpp", {"dt": int(DT)})

    @wp.func_native("\n".join(["{", text, "}"]))
    def way(task: ClearanceTaskRef, r: int, ticks: wp.float64, joint_q: Configuration, speeds: Configuration): ...

    return way


@wp.func
@typing.no_type_check
def ticks_to_rest(task: ClearanceTaskRef, r: int):
    """Return the number of ticks until all joints rest, this tick included."""
    most = ONE
    dt = task.numbers[DT]
    for c in range(task.leader.shape[0]):
        if task.leader[c] == c:
            unit = task.acceleration[task.active[c]] * dt * dt
            speed = wp.abs(task.move[r, c])
            if unit < speed:
                most = wp.max(most, wp.floor(speed / unit) + ONE)
    return most


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
