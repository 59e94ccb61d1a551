"""Moves of a tick: the moves that joints may make, braking included, and the moves wanted near contact."""

import typing
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import warp as wp

from ik_service.compiler import Lanes
from ik_service.control.clearance.task import ClearanceTaskRef
from ik_service.control.limits import KINDS
from ik_service.control.tick.packet_text import PacketText, fragments
from ik_service.control.tick.task import DT
from ik_service.kernels import typed_warp
from ik_service.kernels.typed_warp import reference_to
from ik_service.template_files import TemplateFolder

ZERO = wp.constant(wp.float64(0.0))
TEMPLATES = TemplateFolder("ik_service.control.clearance")
_ARITHMETIC = PacketText(Lanes(1, "float64"), {**KINDS, "DT": int(DT)}, {}).arithmetic()
_BRAKING = [*_ARITHMETIC, *fragments("braking_move")]


def _body(lines: Sequence[str], template: str) -> str:
    return "\n".join(["{", *lines, TEMPLATES.filled(f"{template}.cpp", {}), "}"])


@typed_warp.func_native(_body([*_BRAKING, *fragments("joint_box")], "bound_moves"))
def bound_moves(task: ClearanceTaskRef, r: int) -> None:
    """Write the moves that the joints may make, and the one that brakes as hard as they may."""


@typed_warp.func_native(_body(_BRAKING, "brake"))
def brake(task: ClearanceTaskRef, r: int) -> None:
    """Write which move is wanted: so much of the way that the joints are led that all can stop at its end."""


@wp.func
@typing.no_type_check
def bound_ways(task: ClearanceTaskRef, r: int):
    """Write how far the joints may be led: as far as it takes to brake from their speed."""
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
    """Take the move that the tasks lead to."""
    for c in range(task.leader.shape[0]):
        if task.leader[c] == c:
            task.move[r, c] = task.proposal[r, c] - task.joint_q[r, c]


@wp.func
@typing.no_type_check
def take_stopping(task: ClearanceTaskRef, r: int):
    """Take the move that brakes as hard as the joints may."""
    for c in range(task.leader.shape[0]):
        if task.leader[c] == c:
            task.move[r, c] = task.stopping[r, c]


ONE = wp.constant(wp.float64(1.0))


@lru_cache
@typing.no_type_check
def way_function(coordinates: int) -> Any:
    """Return the function of Warp: (task, r, ticks, joint_q, speeds), of which it writes the last two.

    They are where the coordinates are after so many ticks, and how far each moves at most in a tick from then on.
    """
    Configuration: Any = reference_to(wp.types.vector(coordinates, wp.float32))
    text = TEMPLATES.filled("way.cpp", {"dt": int(DT)})

    @wp.func_native("\n".join(["{", text, "}"]))
    def way(task: ClearanceTaskRef, r: int, ticks: wp.float64, joint_q: Configuration, speeds: Configuration): ...

    return way


@wp.func
@typing.no_type_check
def ticks_to_rest(task: ClearanceTaskRef, r: int):
    """Return in how many ticks all joints stand, the first of which is this one."""
    most = ONE
    dt = task.numbers[DT]
    for c in range(task.leader.shape[0]):
        if task.leader[c] == c:
            unit = task.acceleration[task.active[c]] * dt * dt
            speed = wp.abs(task.move[r, c])
            if unit < speed:
                most = wp.max(most, wp.floor(speed / unit) + ONE)
    return most
