"""Limits that a caller asks for in one solve: narrower ranges, joints that stay, and how far joints may go.

joint_limits, frozen, max_change by the caller's columns -> intervals of all DOFs -> followers into their leaders
-> within the limits of the robot -> of the active DOFs, a line for all problems or one for each
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.robots import RobotModel
from ik_service.robots.structure.caller_order import CallerOrder
from ik_service.robots.structure.names import index_of
from ik_service.robots.transforms import Float64Array
from ik_service.solver.inputs.foreign_arrays import as_numpy
from objectives import InputError


class AskedLimits(NamedTuple):
    """Limits of the active DOFs in one solve, within those of the robot.

    Attributes:
        lower: Lower limits [rad or m], shape [1 or problems, active_dof_count].
        upper: Upper limits, alike.
        frozen: Which DOFs stay where they start, alike; their limits are that place.
    """

    lower: Float64Array
    upper: Float64Array
    frozen: NDArray[np.bool_]

    def part(self, problems: slice | NDArray[np.intp]) -> "AskedLimits":
        """Return those of some of the problems."""
        if len(self.lower) == 1:
            return self
        return AskedLimits(self.lower[problems], self.upper[problems], self.frozen[problems])


def read_limits(
    robot: RobotModel,
    order: CallerOrder,
    start: NDArray[Any] | None,
    problem_count: int,
    *,
    joint_limits: Any,
    frozen: Any,
    max_change: Any,
) -> AskedLimits:
    """Return the limits of a solve.

    Args:
        robot: The robot.
        order: Where the caller's columns stand.
        start: Configurations of seed 0, [joint_coord_count] or [problem_count, joint_coord_count]; None for none.
        problem_count: Number of problems.
        joint_limits: Mapping from names of DOFs to pairs of limits, or a pair of arrays by the caller's columns.
        frozen: Names of DOFs, a mapping from names to booleans, or booleans by the caller's columns.
        max_change: One number, a mapping from names to numbers, or numbers by the caller's columns.

    Raises:
        UnknownNameError: The robot has no DOF of a name.
        InputError: A value that is not allowed, or no value of a DOF is left.
    """
    reading = LimitReading(robot, order, start, problem_count)
    if joint_limits is not None:
        reading.narrow(joint_limits)
    if max_change is not None:
        reading.keep_near(max_change)
    if frozen is not None:
        reading.freeze(frozen)
    return reading.found()


class LimitReading:
    """Limits of all active DOFs while they are read.

    Args:
        robot: The robot.
        order: Where the caller's columns stand.
        start: Configurations of seed 0, [joint_coord_count] or [problem_count, joint_coord_count]; None for none.
        problem_count: Number of problems.
    """

    def __init__(self, robot: RobotModel, order: CallerOrder, start: NDArray[Any] | None, problem_count: int) -> None:
        self._robot, self._order, self._count = robot, order, problem_count
        self._lower, self._upper = robot.active_limit_lower[None].copy(), robot.active_limit_upper[None].copy()
        self._frozen = np.zeros((1, robot.active_dof_count), dtype=bool)
        self._coordinate = robot.dof_coordinate[robot.active_dof]
        self._start = None
        if start is not None:
            own = np.atleast_2d(np.asarray(start, np.float64))[:, np.maximum(self._coordinate, 0)]
            self._start = np.clip(own, robot.active_limit_lower, robot.active_limit_upper)

    def narrow(self, given: Any) -> None:
        """Narrow the limits to intervals, given as `joint_limits` of `read_limits`.

        Raises:
            InputError: No pairs of numbers, or nothing is left of the limits.
        """
        robot = self._robot
        for dof, ends in self._pairs(given):
            if not (ends[0] <= ends[1]).all():  # false for NaN
                raise InputError(f"joint_limits of '{robot.dof_names[dof]}' are not a lower and an upper limit.")
            active = self._active("joint_limits", dof, is_asked=bool(np.isfinite(ends).any()))
            if active is not None and robot.dof_multiplier[dof] != 0.0:
                of_leader = np.sort((ends - robot.dof_offset[dof]) / robot.dof_multiplier[dof], axis=0)
                self._within(active, *of_leader, what="joint_limits")

    def keep_near(self, given: Any) -> None:
        """Narrow the limits to where DOFs are no further from the start, given as `max_change` of `read_limits`.

        Raises:
            InputError: No numbers, negative ones, or nothing is left of the limits.
        """
        robot, start = self._robot, self._require_start("max_change")
        for dof, most in self._lines("max_change", given, np.inf):
            if not (most >= 0.0).all():
                raise InputError(f"max_change of '{robot.dof_names[dof]}' must not be negative.")
            active = self._active("max_change", dof, is_asked=bool(np.isfinite(most).any()))
            if active is not None and robot.dof_multiplier[dof] != 0.0:
                of_leader = most / abs(robot.dof_multiplier[dof])
                place = start[:, active]
                self._within(active, place - of_leader, place + of_leader, what="max_change")

    def freeze(self, given: Any) -> None:
        """Hold DOFs where they start, whatever else is asked for, given as `frozen` of `read_limits`.

        Raises:
            InputError: No names or booleans, or there is no start.
        """
        start = self._require_start("frozen")
        if isinstance(given, Sequence) and not isinstance(given, str) and all(isinstance(name, str) for name in given):
            given = dict.fromkeys(given, True)
        for dof, stays in self._lines("frozen", given, False):
            active = self._active("frozen", dof, is_asked=bool(stays.any()))
            if active is None:
                continue
            self._make_lines(len(stays), len(start))
            place = start[:, active]
            self._frozen[:, active] |= stays
            self._lower[:, active] = np.where(stays, place, self._lower[:, active])
            self._upper[:, active] = np.where(stays, place, self._upper[:, active])

    def found(self) -> AskedLimits:
        """Return what has been read."""
        return AskedLimits(self._lower, self._upper, self._frozen)

    def _within(self, active: int, lower: Float64Array, upper: Float64Array, *, what: str) -> None:
        """Narrow the limits of a DOF, a line for all problems or one for each."""
        self._make_lines(len(lower))
        self._lower[:, active] = np.maximum(self._lower[:, active], lower)
        self._upper[:, active] = np.minimum(self._upper[:, active], upper)
        crossed = np.flatnonzero(self._lower[:, active] > self._upper[:, active])
        if len(crossed):
            name = self._robot.dof_names[self._robot.active_dof[active]]
            where = f" in problem {crossed[0]}" if len(self._lower) > 1 else ""
            raise InputError(f"{what} leaves no value of '{name}' that is within its other limits{where}.")

    def _make_lines(self, *counts: int) -> None:
        """Make a line for each problem where there are several."""
        if len(self._lower) == 1 and max(counts) > 1:
            several = (self._count, 1)
            self._lower, self._upper, self._frozen = (
                np.tile(lines, several) for lines in (self._lower, self._upper, self._frozen)
            )

    def _require_start(self, what: str) -> Float64Array:
        if self._start is None:
            raise InputError(f"{what} needs initial_joint_q: it says where joints start.")
        return self._start

    def _active(self, what: str, dof: int, *, is_asked: bool) -> int | None:
        """Return the active DOF that moves one; None where nothing moves it, or nothing is asked of it."""
        active = int(self._robot.dof_active[dof])
        if not is_asked or active < 0:
            return None
        if self._coordinate[active] < 0:
            name = self._robot.dof_names[dof]
            raise InputError(f"{what} cannot hold '{name}': rotations of ball and floating joints have no limits.")
        return active

    def _pairs(self, given: Any) -> Iterator[tuple[int, Float64Array]]:
        """Give each DOF that is named with its limits, shape [2, 1 or problems]."""
        if isinstance(given, Mapping):
            for name, pair in given.items():
                if not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
                    raise InputError(f"joint_limits of '{name}' must be a pair: lower and upper.")
                ends = [self._line(f"joint_limits of '{name}'", one, np.float64) for one in pair]
                yield self._dof(name), np.stack(np.broadcast_arrays(*ends))
            return
        if not isinstance(given, Sequence | np.ndarray) or len(given) != 2:
            raise InputError("joint_limits must be a mapping from names to pairs, or a pair of arrays: lower, upper.")
        lower, upper = (self._columns("joint_limits", one, np.float64) for one in given)
        for column, dof in enumerate(self._order.dofs):
            yield int(dof), np.stack(np.broadcast_arrays(lower[:, column], upper[:, column]))

    def _lines(self, what: str, given: Any, nothing: Any) -> Iterator[tuple[int, NDArray[Any]]]:
        """Give each DOF that is named with its values, shape [1 or problems]."""
        dtype = np.bool_ if isinstance(nothing, bool) else np.float64
        if isinstance(given, Mapping):
            for name, value in given.items():
                yield self._dof(name), self._line(f"{what} of '{name}'", value, dtype)
            return
        columns = self._columns(what, given, dtype)
        for column, dof in enumerate(self._order.dofs):
            yield int(dof), columns[:, column]

    def _dof(self, name: str) -> int:
        return index_of(self._robot, "DOF", self._robot.dof_names, name)

    def _line(self, what: str, value: Any, dtype: Any) -> NDArray[Any]:
        """Read a number for all problems, or one for each, shape [1 or problems]."""
        array = _array(what, value, dtype)
        if array.shape not in ((), (1,), (self._count,)):
            raise InputError(f"{what}: shape {list(array.shape)}. Allowed: one number, or [{self._count}].")
        return np.atleast_1d(array)

    def _columns(self, what: str, value: Any, dtype: Any) -> NDArray[Any]:
        """Read numbers by the caller's columns, shape [1 or problems, columns]; one number is that of all."""
        array, width = _array(what, value, dtype), len(self._order.dofs)
        if array.shape not in ((), (width,), (self._count, width)):
            allowed = f"[{width}] or [{self._count}, {width}]"
            raise InputError(f"{what} has shape {list(array.shape)}. Allowed: {allowed}.")
        return np.broadcast_to(np.atleast_2d(array), (len(array) if array.ndim == 2 else 1, width))


def _array(what: str, value: Any, dtype: Any) -> NDArray[Any]:
    array = np.asarray(as_numpy(what, value))
    if array.dtype.kind not in ("b" if dtype is np.bool_ else "fiu"):
        kind = "booleans" if dtype is np.bool_ else "numbers"
        raise InputError(f"{what} must be {kind}, got {array.dtype}.")
    return array.astype(dtype)
