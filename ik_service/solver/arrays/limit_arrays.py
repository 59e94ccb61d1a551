"""Joint limits on the device, in the forms read by kernels, and turns: an angle is returned on the nearest one.

limits of the active DOFs -> rounded inwards to float32 -> for steps, draws, turns; exact -> for the finish in float64,
for the returned answers, and for the reported margins

One more full turn leaves every link in place, so the solution is the same at a greater distance. One function turns the
returned answers and all attempts in the choice of `best_of` and `solutions`. A joint with followers turns only if each
follower makes whole turns, too.
"""

import math
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kernels.host_device_array import HostDeviceArray
from ik_service.mechanism.coupling import inwards
from ik_service.mechanism.joint_type import JointType
from ik_service.robots import DeviceModel
from ik_service.solver.given.arrays import NUMBER_MAX, consecutive
from ik_service.solver.given.requested_limits import RequestedLimits
from ik_service.solver.lm.codes import HAS_START
from ik_service.solver.lm.coordinates import follow, follower_table
from ik_service.solver.lm.seeds import DrawRanges
from ik_service.solver.rows.binding import RowKind
from ik_service.solver.rows.blocks import Rows
from objectives.expression.expression_objective import ExpressionObjective

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
        scalar = np.flatnonzero(coordinate >= 0)  # active DOFs with their own coordinate
        self._scalar, self._place = consecutive(scalar), consecutive(coordinate[scalar])
        self._dof = consecutive(robot.active_dof[scalar])
        self._middle = robot.mid_joint_q
        self._write({name: [end[None] for end in ends] for name, ends in self._own.items()}, lines)

    def take(self, asked: RequestedLimits, start: NDArray[Any] | None, count: int) -> NDArray[np.float64]:
        """Set other limits of the first problems; return their starts clamped to these limits."""
        # Starts are [joint_coord_count] or [problems, joint_coord_count]
        exact, own, scalar = (asked.lower, asked.upper), self._own, self._scalar
        # rounded inwards to float32, and never outside the robot's own limits
        rounded = [within(end, *own["float32"]) for end in inwards(*exact)]
        self._write({"float32": rounded, "float64": exact, "draws": self.draw_ranges.within(*rounded)}, count)
        stays = asked.frozen[:, scalar]
        any_stays = bool(stays.any())
        for k, (infinite, narrower) in enumerate(((-np.inf, np.maximum), (np.inf, np.minimum))):
            kept = narrower(own["told"][k][self._place], exact[k][:, scalar])
            told, reached = kept, rounded[k][:, scalar]
            if any_stays:
                told, reached = (np.where(stays, infinite, one) for one in (told, reached))
            for name, columns, values in (
                ("returned", self._place, kept),
                ("told", self._place, told),
                ("at_limit", self._dof, reached),
            ):
                array = self._arrays[name][k]
                array.host[:count, columns] = values  # the other columns keep the limits of the robot
                array.push(count)
        starts = np.atleast_2d(np.asarray(self._middle if start is None else start, np.float64))
        moved = starts[:, self._place]
        clamped = within(moved, *(end[:, scalar] for end in rounded))
        clamped = np.where(np.abs(moved) <= NUMBER_MAX, clamped, moved)  # the fault is reported where starts are read
        found = np.empty((len(clamped), starts.shape[1]))
        found[:] = starts
        found[:, self._place] = clamped
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


def within(values: NDArray[Any], lower: NDArray[Any], upper: NDArray[Any]) -> NDArray[Any]:
    """Return values clamped to limits: `np.clip` takes three times as long for a few lines."""
    return np.asarray(np.minimum(np.maximum(values, lower), upper))


FULL_TURN = wp.constant(wp.float64(2.0 * math.pi))
HALF_TURN = wp.constant(wp.float64(math.pi))
PER_TURN = wp.constant(wp.float64(0.5 / math.pi))
WHOLE_TURNS_SLACK = 1e-9  # allowed distance of a follower from whole turns: the rounding of a multiplier


@wp.struct
class Turns:
    """Coordinates that turn, and their followers."""

    always: int  # number of coordinates, from the first, that also turn without a given start
    coordinate: wp.array[wp.int32]  # [turning]
    dof: wp.array[wp.int32]  # [turning]: their active DOFs
    lower: wp.array2d[wp.float64]  # [1 or problems, active DOFs]: rounded inwards to float32; infinite for none
    upper: wp.array2d[wp.float64]
    follower_start: wp.array[wp.int32]  # [turning + 1]: followers of each
    follower: wp.array[wp.int32]  # [followers]: their coordinates
    follower_number: wp.array2d[wp.float64]  # [followers, 4]: multiplier, offset, lower and upper limit


@wp.func
@typing.no_type_check
def nearest_turn(q: wp.float64, start: wp.float64, lower: wp.float64, upper: wp.float64):
    """Return the angle nearest the start among the angles q + whole turns inside the limits; q is inside.

    In float64 q may be at an exact limit, just outside these limits rounded inwards; such a q may stay.
    """
    ahead = q - start + HALF_TURN
    if ahead >= wp.float64(0.0) and ahead < FULL_TURN:
        return q  # already nearest, as most angles
    least = wp.min(wp.ceil((q - upper) * PER_TURN), wp.float64(0.0))
    most = wp.max(wp.floor((q - lower) * PER_TURN), wp.float64(0.0))
    turns = wp.clamp(wp.floor(ahead * PER_TURN), least, most)
    return q - FULL_TURN * turns


@wp.func
@typing.no_type_check
def turn_towards_start(
    turns: Turns,
    settings: wp.array[wp.int32],
    start_joint_q: wp.array2d[float],  # [problems, joint_coord_count]
    p: int,
    joint_q: wp.array2d[Any],  # [lines, joint_coord_count], in and out
    line: int,
):
    """Move the angles of a line, a configuration of problem p, to the turns nearest the problem's start."""
    count = turns.always
    if settings[HAS_START] == 1:
        count = turns.coordinate.shape[0]
    limits = wp.min(p, turns.lower.shape[0] - 1)
    k = int(0)
    while k < count:
        c = turns.coordinate[k]
        a = turns.dof[k]
        q = wp.float64(joint_q[line, c])
        turned = nearest_turn(q, wp.float64(start_joint_q[p, c]), turns.lower[limits, a], turns.upper[limits, a])
        if turned != q:
            joint_q[line, c] = joint_q.dtype(turned)
            f = int(turns.follower_start[k])
            while f < turns.follower_start[k + 1]:
                joint_q[line, turns.follower[f]] = follow(turns.follower_number, f, joint_q[line, c])
                f += 1
        k += 1


def coordinates_read(rows: Rows, support: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the DOFs with coordinates read directly by a row, bool [joint_dof_count]."""
    # Such a row distinguishes turns. An objective not stated as expressions may read all coordinates of its rows'
    # support.
    read = np.zeros(support.shape[1], dtype=bool)
    for objective, start in zip(rows.objectives, rows.start, strict=True):
        if isinstance(objective, ExpressionObjective):
            read[_stated_dofs(objective, rows)] = True
        else:
            read |= support[start : start + objective.residual_dim()].any(axis=0)
    return read


def coordinates_constrained(rows: Rows) -> NDArray[np.bool_]:
    """Return the DOFs with coordinates read by a row of a constraint, bool [joint_dof_count]."""
    read = np.zeros(rows.model.joint_dof_count, dtype=bool)
    for k in rows.of_kind(RowKind.CONSTRAINT):
        objective = rows.objectives[k]
        if isinstance(objective, ExpressionObjective):
            read[_stated_dofs(objective, rows)] = True
    return read


def _stated_dofs(objective: ExpressionObjective, rows: Rows) -> list[int]:
    groups = objective.stated_elements(rows.model)
    return [dof for _, elements in groups for element in elements for dof in element.coordinate_dofs]


def find_turns(
    model: DeviceModel, read: NDArray[np.bool_], constrained: NDArray[np.bool_], *, hard_limits: bool
) -> Any:
    """Return the `Turns` of a robot, without limits: see `turns_within`."""
    # Joints without limits and followers turn in every solve, unless a constraint reads them. Joints with limits wider
    # than one turn, and joints with followers, turn if a start is given, unless a row reads one of the turned
    # coordinates. Without hard limits, joints with limits do not turn.
    robot, device = model.robot, model.device
    lower, upper = model.active_limit_lower.numpy(), model.active_limit_upper.numpy()
    always: list[int] = []
    others: list[int] = []
    for joint in range(robot.joint_count):
        dof = int(robot.joint_qd_start[joint + 1]) - 1  # a planar joint's rotation is its last DOF
        active = int(robot.dof_active[dof])
        repeats = JointType(robot.joint_type[joint]).repeats_each_turn and robot.dof_coordinate[dof] >= 0
        if not repeats or active < 0 or robot.active_dof[active] != dof or constrained[dof]:
            continue
        together = np.flatnonzero(robot.dof_active == active)
        endless = bool(np.isinf(lower[active]) and np.isinf(upper[active]))
        if endless and len(together) == 1:
            always.append(dof)
        elif (endless or (hard_limits and upper[active] - lower[active] > float(FULL_TURN))) and not read[
            together
        ].any():
            if all(_turns_along(model, int(one)) for one in together if one != dof):
                others.append(dof)
    dofs = np.array([*always, *others], dtype=np.intp)
    followers = [[d for d in np.flatnonzero(robot.dof_active == robot.dof_active[dof]) if d != dof] for dof in dofs]
    flat = [int(d) for of_one in followers for d in of_one]

    def on_device(values: Any, dtype: Any) -> wp.array[Any]:
        return wp.array(values, dtype=dtype, device=device)

    turns: Any = Turns()
    turns.always = len(always)
    turns.coordinate = on_device(robot.dof_coordinate[dofs].astype(np.int32), wp.int32)
    turns.dof = on_device(robot.dof_active[dofs].astype(np.int32), wp.int32)
    turns.follower_start = on_device(np.cumsum([0, *map(len, followers)]).astype(np.int32), wp.int32)
    turns.follower = on_device(robot.dof_coordinate[np.array(flat, np.intp)].astype(np.int32), wp.int32)
    turns.follower_number = on_device(follower_table(model, flat), wp.float64)
    return turns


def turns_within(turns: Any, limits: Sequence[wp.array[Any]]) -> Any:
    """Return the same `Turns` with these lower and upper limits, [1 or problems, active_dof_count]."""
    found: Any = Turns()
    for name in Turns.__annotations__:
        setattr(found, name, getattr(turns, name))
    found.lower, found.upper = limits
    return found


def _turns_along(model: DeviceModel, follower: int) -> bool:
    """Return whether a follower makes whole turns, or stands still, during one turn of its leader."""
    robot = model.robot
    multiplier = float(robot.dof_multiplier[follower])
    is_angle = not robot.linear_dofs[follower]
    return multiplier == 0.0 or (is_angle and abs(multiplier - round(multiplier)) <= WHOLE_TURNS_SLACK)
