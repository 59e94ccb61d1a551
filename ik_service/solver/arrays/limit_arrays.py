"""Joint limits on the device, in the forms read by kernels: one line for all problems, or one for each.

limits of the active DOFs -> rounded inwards to float32 -> for steps, draws, turns; exact -> for the finish in float64,
for the returned answers, and for the reported margins
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kernels.host_device_array import HostDeviceArray
from ik_service.mechanism.coupling import inwards
from ik_service.robots import DeviceModel
from ik_service.solver.given.arrays import NUMBER_MAX
from ik_service.solver.given.asked_limits import AskedLimits
from ik_service.solver.lm.seeds import DrawRanges

# Forms of the limits, attributes of `LimitArrays`, and their types.
LIMIT_TYPES: Mapping[str, Any] = {
    "float32": wp.float64,  # of the active DOFs, for steps in float32: rounded inwards
    "float64": wp.float64,  # of the active DOFs, for steps in float64
    "draws": wp.float32,  # of the active DOFs: range of drawn starts
    "returned": wp.float64,  # of the coordinates: bounds of answers; infinite for none
    "told": wp.float64,  # of the coordinates: margins are measured to these; infinite for frozen DOFs
    "at_limit": wp.float32,  # of all DOFs: a DOF here or beyond is at its limit; infinite as above
}
Ends = Sequence[NDArray[Any]]
"""Lower and upper limits."""


class LimitArrays:
    """Limits of the problems of a solve: lower and upper limits, [1 or problems, DOFs or coordinates]."""

    def __init__(self, model: DeviceModel, *, hard_limits: bool, lines: int = 1) -> None:
        robot, device = model.robot, model.device
        self.draw_ranges = DrawRanges(model)  # ranges of starts of DOFs without limits
        self._own = self._own_forms(model, hard_limits=hard_limits)
        self._arrays = {
            name: tuple(HostDeviceArray((lines, len(end)), LIMIT_TYPES[name], device) for end in self._own[name])
            for name in LIMIT_TYPES
        }
        forms = (tuple(array.device for array in self._arrays[form]) for form in LIMIT_TYPES)
        self.float32, self.float64, self.draws, self.returned, self.told, self.at_limit = forms
        coordinate = robot.dof_coordinate[robot.active_dof]
        self._scalar = np.flatnonzero(coordinate >= 0)  # active DOFs with their own coordinate
        self._place, self._dof = coordinate[self._scalar], robot.active_dof[self._scalar]
        self._middle = robot.mid_joint_q
        self._write({name: [end[None] for end in ends] for name, ends in self._own.items()}, lines)

    def take(self, asked: AskedLimits, start: NDArray[Any] | None, count: int) -> NDArray[np.float64]:
        """Set other limits of the first problems; return their starts clamped to these limits."""
        # Starts are [joint_coord_count] or [problems, joint_coord_count]
        exact, own, scalar = (asked.lower, asked.upper), self._own, self._scalar
        # rounded inwards to float32, and never outside the robot's own limits
        rounded = [np.clip(end, *own["float32"]) for end in inwards(*exact)]
        forms: dict[str, Ends] = {"float32": rounded, "float64": exact, "draws": self.draw_ranges.within(*rounded)}
        lines, stays = len(asked.lower), asked.frozen[:, scalar]
        returned, told, at_limit = (
            [np.tile(end, (lines, 1)) for end in own[name]] for name in ("told", "told", "at_limit")
        )
        for k, (infinite, narrower) in enumerate(((-np.inf, np.maximum), (np.inf, np.minimum))):
            kept = narrower(own["told"][k][self._place], exact[k][:, scalar])
            returned[k][:, self._place] = kept
            told[k][:, self._place] = np.where(stays, infinite, kept)
            at_limit[k][:, self._dof] = np.where(stays, infinite, rounded[k][:, scalar])
        self._write(forms | {"returned": returned, "told": told, "at_limit": at_limit}, count)
        starts = np.atleast_2d(np.asarray(self._middle if start is None else start, np.float64))
        moved = starts[:, self._place]
        within = np.clip(moved, *(end[:, scalar] for end in rounded))
        within = np.where(np.abs(moved) <= NUMBER_MAX, within, moved)  # the fault is reported where starts are read
        found = np.tile(starts, (len(within) // len(starts), 1))
        found[:, self._place] = within
        return found if len(found) > 1 else found[0]

    def _write(self, forms: Mapping[str, Ends], count: int) -> None:
        for name, ends in forms.items():
            for array, end in zip(self._arrays[name], ends, strict=True):
                array.host[:count] = end
                array.push(count)

    def _own_forms(self, model: DeviceModel, *, hard_limits: bool) -> Mapping[str, Ends]:
        robot = model.robot
        rounded = (model.active_limit_lower.numpy(), model.active_limit_upper.numpy())
        exact = (robot.active_limit_lower, robot.active_limit_upper)
        told = np.full(model.joint_coord_count, -np.inf), np.full(model.joint_coord_count, np.inf)
        own = (robot.dof_coordinate >= 0) & (robot.dof_active >= 0)
        for end, limits in zip(told, (robot.joint_limit_lower, robot.joint_limit_upper), strict=True):
            end[robot.dof_coordinate[own]] = limits[own]
        found: dict[str, Ends] = {"float32": rounded, "float64": exact, "returned": told}
        if not hard_limits:
            found = {
                name: [np.full_like(end, s * np.inf) for s, end in zip((-1, 1), ends, strict=True)]
                for name, ends in found.items()
            }
        at_limit = (model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy())
        return {**found, "draws": self.draw_ranges.within(*rounded), "told": told, "at_limit": at_limit}
