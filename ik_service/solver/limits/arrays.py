"""Joint limits on the device, in the forms in which kernels read them: one line for all problems, or one for each.

limits of the active DOFs -> rounded inwards to float32 -> for steps, draws, turns; exact -> for the finish in float64,
for what is returned, and for what is told of it
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.robots import DeviceModel
from ik_service.robots.structure.float32_limits import inwards
from ik_service.solver.limits.asked import AskedLimits
from ik_service.solver.lm.seeds import draw_ranges

FORMS = ("float32", "float64", "draws", "returned", "told", "at_limit")
TYPES: tuple[Any, ...] = (wp.float64, wp.float64, wp.float32, wp.float64, wp.float64, wp.float32)


class Pair(NamedTuple):
    """Lower and upper limits, [1 or problems, DOFs or coordinates]."""

    lower: wp.array[Any]
    upper: wp.array[Any]


class LimitArrays:
    """Limits of the problems of a solve.

    Args:
        model: The robot on the device.
        hard_limits: Whether answers keep the robot's limits.
        lines: 1, or the problems there is room for.

    Attributes:
        float32: Of the active DOFs, for steps in float32: rounded inwards, in float64.
        float64: Of the active DOFs, for steps in float64.
        draws: Between which starts are drawn, over the active DOFs, float32.
        returned: Of the coordinates: what is returned is within them; infinite where none are kept.
        told: Of the coordinates: a margin is the distance to them; infinite for DOFs that stay where they start.
        at_limit: Of all DOFs, float32: one that is at or beyond these is told to be at its limit.
    """

    float32: Pair
    float64: Pair
    draws: Pair
    returned: Pair
    told: Pair
    at_limit: Pair

    def __init__(self, model: DeviceModel, *, hard_limits: bool, lines: int = 1) -> None:
        self._model, self._hard_limits = model, hard_limits
        robot = model.robot
        own = self._own_forms()
        for name, dtype in zip(FORMS, TYPES, strict=True):
            ends = [np.tile(end[None], (lines, 1)) for end in own[name]]
            setattr(self, name, Pair(*(wp.array(end, dtype=dtype, device=model.device) for end in ends)))
        self._own = own
        self._active_coordinate = robot.dof_coordinate[robot.active_dof]

    def _own_forms(self) -> dict[str, Sequence[NDArray[Any]]]:
        """Give the robot's limits in all forms."""
        model, robot = self._model, self._model.robot
        rounded: Sequence[NDArray[Any]] = (model.active_limit_lower.numpy(), model.active_limit_upper.numpy())
        exact: Sequence[NDArray[Any]] = (robot.active_limit_lower, robot.active_limit_upper)
        unlimited = [np.full(model.active_dof_count, end) for end in (-np.inf, np.inf)]
        told = _of_coordinates(model)
        return {
            "float32": rounded if self._hard_limits else unlimited,
            "float64": exact if self._hard_limits else unlimited,
            "draws": draw_ranges(model, *rounded),
            "returned": told if self._hard_limits else [np.full_like(told[0], end) for end in (-np.inf, np.inf)],
            "told": told,
            "at_limit": (model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()),
        }

    def write(self, asked: AskedLimits, count: int) -> None:
        """Take other limits of the first problems; answers keep these."""
        robot, coordinate = self._model.robot, self._active_coordinate
        exact = [np.broadcast_to(end, (count, end.shape[1])) for end in (asked.lower, asked.upper)]
        own_lower, own_upper = self._own["float32"]
        lower, upper = inwards(*exact)
        rounded = [np.clip(end, own_lower, own_upper) for end in (lower, upper)]
        scalar, frozen = coordinate >= 0, np.broadcast_to(asked.frozen, exact[0].shape)
        forms: dict[str, Sequence[NDArray[Any]]] = {"float32": rounded, "float64": exact}
        forms["draws"] = draw_ranges(self._model, *rounded)
        returned, told, at_limit = (
            [np.tile(end[None], (count, 1)) for end in self._own[name]] for name in ("told", "told", "at_limit")
        )
        for k, infinite in enumerate((-np.inf, np.inf)):
            narrower = np.maximum if k == 0 else np.minimum
            places, dofs = coordinate[scalar], robot.active_dof[scalar]
            returned[k][:, places] = narrower(returned[k][:, places], exact[k][:, scalar])
            told[k][:, places] = np.where(frozen[:, scalar], infinite, returned[k][:, places])
            at_limit[k][:, dofs] = np.where(frozen[:, scalar], infinite, rounded[k][:, scalar])
        forms |= {"returned": returned, "told": told, "at_limit": at_limit}
        for name, dtype in zip(FORMS, TYPES, strict=True):
            for array, end in zip(getattr(self, name), forms[name], strict=True):
                values: wp.array[Any] = wp.array(np.ascontiguousarray(end), dtype=dtype, device="cpu")
                wp.copy(array, values, count=values.size)

    def starts(self, asked: AskedLimits, start: NDArray[Any] | None) -> NDArray[np.float64]:
        """Return where problems start, within their limits: [joint_coord_count] or [problems, joint_coord_count]."""
        robot, coordinate = self._model.robot, self._active_coordinate
        own = np.atleast_2d(np.asarray(robot.mid_joint_q if start is None else start, np.float64))
        lines = max(len(own), len(asked.lower))
        found = np.tile(own, (lines // len(own), 1))
        scalar, own_ends = coordinate >= 0, self._own["float32"]
        lower, upper = (np.clip(end, *own_ends)[:, scalar] for end in inwards(asked.lower, asked.upper))
        found[:, coordinate[scalar]] = np.clip(found[:, coordinate[scalar]], lower, upper)
        return found if lines > 1 else found[0]


def _of_coordinates(model: DeviceModel) -> list[NDArray[np.float64]]:
    """Exact limits of all coordinates, infinite where there are none or where nothing moves."""
    robot, lower = model.robot, np.full(model.joint_coord_count, -np.inf)
    upper = -lower
    own = (robot.dof_coordinate >= 0) & (robot.dof_active >= 0)
    lower[robot.dof_coordinate[own]] = robot.joint_limit_lower[own]
    upper[robot.dof_coordinate[own]] = robot.joint_limit_upper[own]
    return [lower, upper]
