"""The way on which joints come to rest after a move, each as hard as it may brake, counted in ticks.

The move is the first tick; in each further one a joint moves by `acceleration dt^2` less. Joints without a limit of
acceleration stand after the move. Followers go with those that they follow.
"""

import typing
from functools import lru_cache
from typing import Any

import warp as wp

from ik_service.control.clearance.moves import TEMPLATES
from ik_service.control.clearance.task import ClearanceTaskRef
from ik_service.control.tick.task import DT
from ik_service.kernels.typed_warp import reference_to

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
