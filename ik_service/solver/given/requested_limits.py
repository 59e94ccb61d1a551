"""Requested limits of one solve: narrower ranges, frozen joints, and largest changes of joints.

joint_limits, frozen, max_change by the caller's columns -> intervals of all DOFs -> followers into their leaders
-> within the limits of the robot -> of the active DOFs, a line for all problems or a line for each
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.caller_order import CallerOrder
from ik_service.mechanism.names import index_of
from ik_service.mechanism.transforms import Float64Array
from ik_service.robots import RobotModel
from ik_service.solver.given.arrays import NUMBER_MAX, as_numpy
from ik_service.solver.given.options import SolverOptions
from objectives import InputError

LISTED_PROBLEMS = 8
"""Problems that a message names at most."""


class RequestedLimits(NamedTuple):
    """Limits of the active DOFs in one solve, within the limits of the robot."""

    lower: Float64Array  # lower limits [rad or m], shape [1 or problems, active_dof_count]
    upper: Float64Array  # upper limits, same shape
    frozen: NDArray[np.bool_]  # DOFs held at the start, same shape; both limits equal the start

    def part(self, problems: slice | NDArray[np.intp]) -> "RequestedLimits":
        """Return the limits of some of the problems."""
        if len(self.lower) == 1:
            return self
        return RequestedLimits(self.lower[problems], self.upper[problems], self.frozen[problems])

    @classmethod
    def joined(cls, parts: "Sequence[RequestedLimits]", counts: Sequence[int]) -> "RequestedLimits":
        """Concatenate the limits of several batches of `counts` problems."""
        each = list(zip(parts, counts, strict=True))
        lower, upper, frozen = (
            np.concatenate([np.broadcast_to(one[k], (count, one[k].shape[1])) for one, count in each]) for k in range(3)
        )
        return cls(lower, upper, frozen)


def read_limits(
    robot: RobotModel,
    order: CallerOrder,
    options: SolverOptions,
    # configurations of seed 0, [joint_coord_count] or [problem_count, joint_coord_count]; None for none
    start: NDArray[Any] | None,
    problem_count: int,
    # mapping from names of DOFs to pairs of limits; a pair of arrays by the caller's columns; or limits read
    # before, in place of the next two as well
    joint_limits: Any,
    frozen: Any,  # names of DOFs, a mapping from names to booleans, or booleans by the caller's columns
    max_change: Any,  # one number, a mapping from names to numbers, or numbers by the caller's columns
) -> RequestedLimits:
    """Return the limits of a solve; UnknownNameError for an unknown DOF.

    InputError if a value is not allowed, no value of a DOF is left, or the robot's own limits are not kept.
    """
    if isinstance(joint_limits, RequestedLimits):
        found = joint_limits
    else:
        reading = LimitReading(robot, order, start, problem_count)
        if joint_limits is not None:
            reading.narrow(joint_limits)
        if max_change is not None:
            reading.keep_near(max_change)
        if frozen is not None:
            reading.freeze(frozen)
        found = reading.found()
    if options.joint_limits != "hard":
        raise InputError("Limits of a solve need the option joint_limits='hard'.")
    return found


class LimitReading:
    """Limits of all active DOFs during reading."""

    def __init__(
        self,
        robot: RobotModel,
        order: CallerOrder,
        # configurations of seed 0, [joint_coord_count] or [problem_count, joint_coord_count]; None for none
        start: NDArray[Any] | None,
        problem_count: int,
        # limits read before, to be narrowed further; None for the robot's
        before: RequestedLimits | None = None,
    ) -> None:
        self._robot, self._order, self._count = robot, order, problem_count
        if before is None:
            self._lower, self._upper = robot.active_limit_lower[None], robot.active_limit_upper[None]
            self._frozen = np.zeros((1, robot.active_dof_count), dtype=bool)
        else:
            self._lower, self._upper, self._frozen = before
        self._followers = robot.follower_dofs[robot.dof_active[robot.follower_dofs] >= 0]
        self._start = None
        if start is not None:
            place = np.maximum(robot.dof_coordinate[robot.active_dof], 0)
            own = np.atleast_2d(np.asarray(start, np.float64))[:, place]
            within = np.clip(own, robot.active_limit_lower, robot.active_limit_upper)
            is_rounded = np.abs(own - within) <= np.spacing(np.abs(within).astype(np.float32))
            is_fault = ~(np.abs(own) <= NUMBER_MAX)  # reported where starts are read
            self._start = np.where(is_rounded | is_fault, within, own)

    def narrow(self, given: Any) -> None:
        """Narrow the limits to intervals, given as `joint_limits` of `read_limits`."""
        robot = self._robot
        if isinstance(given, Mapping):
            pairs = {name: _pair(f"joint_limits of '{name}'", pair) for name, pair in given.items()}
            ends: Sequence[Any] = [{name: pair[k] for name, pair in pairs.items()} for k in range(2)]
        else:
            ends = _pair("joint_limits", given)
        lower, upper = (self._by_dof("joint_limits", one, s * np.inf) for one, s in zip(ends, (-1, 1), strict=True))
        crossed = ~((lower <= upper) & (lower <= NUMBER_MAX) & (upper >= -NUMBER_MAX))  # with NaN
        if crossed.any():
            line, dof = (int(k) for k in np.argwhere(crossed)[0])
            ends = f"{lower[min(line, len(lower) - 1), dof]:.6g} and {upper[min(line, len(upper) - 1), dof]:.6g}"
            raise InputError(f"joint_limits of '{robot.dof_names[dof]}' are {ends}, not a lower and an upper limit.")
        self._refuse_rotations("joint_limits", np.isfinite(lower) | np.isfinite(upper))
        of_active = [one[:, robot.active_dof] for one in np.broadcast_arrays(lower, upper)]
        for dof in self._followers:
            multiplier, offset, active = robot.dof_multiplier[dof], robot.dof_offset[dof], robot.dof_active[dof]
            if multiplier != 0.0:
                low, high = np.sort((np.stack([lower[:, dof], upper[:, dof]]) - offset) / multiplier, axis=0)
                of_active[0][:, active] = np.maximum(of_active[0][:, active], low)
                of_active[1][:, active] = np.minimum(of_active[1][:, active], high)
        self._keep_within("joint_limits", *of_active)

    def keep_near(self, given: Any) -> None:
        """Narrow the limits to start -+ largest change, given as `max_change` of `read_limits`."""
        robot, start = self._robot, self._require_start("max_change")
        most = self._by_dof("max_change", given, np.inf)
        if not (most >= 0.0).all():  # with NaN
            name = robot.dof_names[np.flatnonzero(~(most >= 0.0).all(axis=0))[0]]
            raise InputError(f"max_change of '{name}' must not be negative.")
        self._refuse_rotations("max_change", np.isfinite(most))
        of_active = most[:, robot.active_dof]
        for dof in self._followers:
            multiplier, active = abs(robot.dof_multiplier[dof]), robot.dof_active[dof]
            if multiplier != 0.0:
                of_active[:, active] = np.minimum(of_active[:, active], most[:, dof] / multiplier)
        self._keep_within("max_change", start - of_active, start + of_active)

    def freeze(self, given: Any) -> None:
        """Hold DOFs at the start, against all other requests, given as `frozen` of `read_limits`."""
        robot, start = self._robot, self._require_start("frozen")
        if isinstance(given, str):
            raise InputError("frozen must be names, a mapping, or booleans by columns, got one text: put it in a list.")
        if isinstance(given, Sequence) and all(isinstance(name, str) for name in given):
            given = dict.fromkeys((dof for name in given for dof in self._dofs_of(name)), True)
        stays = self._by_dof("frozen", given, False)
        self._refuse_rotations("frozen", stays)
        self._frozen = stays[:, robot.active_dof]
        for dof in self._followers:
            self._frozen[:, robot.dof_active[dof]] |= stays[:, dof]
        beyond = self._frozen & ((start < robot.active_limit_lower) | (start > robot.active_limit_upper))
        if beyond.any():
            problem, active = np.argwhere(beyond)[0]
            name, at = robot.dof_names[robot.active_dof[active]], start[min(problem, len(start) - 1), active]
            where = f" in problem {problem}" if len(beyond) > 1 else ""
            raise InputError(f"frozen cannot hold '{name}': it starts at {at:g}, beyond the robot's limits{where}.")
        self._lower, self._upper = (np.where(self._frozen, start, end) for end in (self._lower, self._upper))

    def found(self) -> RequestedLimits:
        """Return the limits read."""
        return RequestedLimits(self._lower, self._upper, np.broadcast_to(self._frozen, self._lower.shape))

    def _keep_within(self, what: str, lower: Float64Array, upper: Float64Array) -> None:
        """Narrow the limits of the active DOFs, with a line for all problems or a line for each."""
        if self._frozen.any():
            lower, upper = np.where(self._frozen, -np.inf, lower), np.where(self._frozen, np.inf, upper)
        self._lower, self._upper = np.maximum(self._lower, lower), np.minimum(self._upper, upper)
        crossed = self._lower > self._upper
        if crossed.any():
            active = np.argwhere(crossed)[0, 1]
            name = self._robot.dof_names[self._robot.active_dof[active]]
            where = _listed_problems(np.flatnonzero(crossed[:, active])) if len(crossed) > 1 else ""
            raise InputError(f"{what} leaves no value of '{name}' that is within its other limits{where}.")

    def _require_start(self, what: str) -> Float64Array:
        if self._start is None:
            raise InputError(f"{what} needs initial_joint_q: it says where joints start.")
        return self._start

    def _refuse_rotations(self, what: str, is_asked: NDArray[np.bool_]) -> None:
        robot = self._robot
        turned = is_asked.any(axis=0) & (robot.dof_coordinate < 0) & (robot.dof_active >= 0)
        if turned.any():
            name = robot.dof_names[np.flatnonzero(turned)[0]]
            joint = name.rpartition("/")[0]
            raise InputError(
                f"{what} cannot hold '{name}': rotations of ball and floating joints have no limits. "
                f"robot.lock({{'{joint}': [...]}}) holds the whole joint."
            )

    def _by_dof(self, what: str, given: Any, default: Any) -> NDArray[Any]:
        """Read numbers of all DOFs, shape [1 or problems, joint_dof_count]; DOFs not named get the default.

        Given by names, with a number for all problems or for each; by the caller's columns; or as a single number.
        """
        robot, dofs, dtype = self._robot, self._order.dofs, np.asarray(default).dtype
        if isinstance(given, Mapping):
            columns = {
                index_of(robot, "DOF", robot.dof_names, name): self._line(f"{what} of '{name}'", value, dtype)
                for name, value in given.items()
            }
            found = np.full((max(map(len, columns.values()), default=1), robot.joint_dof_count), default)
            for dof, column in columns.items():
                found[:, dof] = column
            return found
        array = _array(what, given, dtype)
        if array.shape not in ((), (len(dofs),), (self._count, len(dofs))):
            allowed = f"[{len(dofs)}] or [{self._count}, {len(dofs)}]"
            raise InputError(f"{what} has shape {list(array.shape)}. Allowed: {allowed}.")
        found = np.full((len(array) if array.ndim == 2 else 1, robot.joint_dof_count), default)
        found[:, dofs] = array
        return found

    def _dofs_of(self, name: str) -> list[str]:
        """Return the names of the DOFs of a joint of several DOFs; any other name as given."""
        robot = self._robot
        if name not in robot.joint_names:
            return [name]
        joint = robot.joint_index(name)
        return list(robot.dof_names[robot.joint_qd_start[joint] : robot.joint_qd_start[joint + 1]])

    def _line(self, what: str, value: Any, dtype: Any) -> NDArray[Any]:
        """Read a number for all problems, or one for each, shape [1 or problems]."""
        array = _array(what, value, dtype)
        if array.shape not in ((), (1,), (self._count,)):
            raise InputError(f"{what}: shape {list(array.shape)}. Allowed: one number, or [{self._count}].")
        return np.atleast_1d(array)


def _listed_problems(problems: NDArray[np.intp]) -> str:
    first, more = ", ".join(map(str, problems[:LISTED_PROBLEMS])), len(problems) - LISTED_PROBLEMS
    return f" in problem{'s' * (len(problems) > 1)} {first}" + (f" and {more} more" if more > 0 else "")


def _pair(what: str, given: Any) -> Sequence[Any]:
    if not isinstance(given, Sequence | np.ndarray) or len(given) != 2:
        raise InputError(f"{what} must be a pair: lower and upper limits.")
    return given[0], given[1]


def _array(what: str, value: Any, dtype: Any) -> NDArray[Any]:
    array = np.asarray(as_numpy(what, value))
    if array.dtype.kind not in ("b" if dtype == np.bool_ else "fiu"):
        kind = "booleans" if dtype == np.bool_ else "numbers"
        raise InputError(f"{what} must be {kind}, got {array.dtype}.")
    return array.astype(dtype, copy=False)
