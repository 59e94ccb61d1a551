"""Arrays of target poses, checked and split by target."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.solver.given.foreign_arrays import as_numpy
from objectives import InputError
from objectives.data_field import UNIT_TOLERANCE

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

NUMBER_MAX = 1e9  # beyond that, squares and sums overflow float32 or mean nothing


@dataclass(frozen=True)
class TargetArrays:
    """The targets of one solve, checked, on the host."""

    # per target, [problem_count, 3] [m], or None where positions are unconstrained
    positions: tuple[NDArray[np.floating[Any]] | None, ...]
    # per target, unit [problem_count, 4], or None where orientations are unconstrained
    orientations_xyzw: tuple[NDArray[np.floating[Any]] | None, ...]
    problem_count: int  # problems of the solve

    @classmethod
    def of(cls, positions: Sequence[Any], orientations_xyzw: Sequence[Any] | None = None) -> "Self":
        """Return arrays that are checked already, one or None for every target; without orientations all are free."""
        orientations = (None,) * len(positions) if orientations_xyzw is None else tuple(orientations_xyzw)
        count = next((len(array) for array in (*positions, *orientations) if array is not None), 0)
        return cls(tuple(positions), orientations, count)

    def part(self, problems: slice | NDArray[np.intp]) -> "Self":
        """Return the arrays of some of the problems."""
        positions, orientations = (
            tuple(None if array is None else array[problems] for array in arrays)
            for arrays in (self.positions, self.orientations_xyzw)
        )
        count = len(range(self.problem_count)[problems]) if isinstance(problems, slice) else len(problems)
        return type(self)(positions, orientations, count)


def check_targets(
    targets: Sequence[object], positions: object, orientations_xyzw: object, problem_count: int | None
) -> TargetArrays:
    """Check the arrays of a solve, given as to `IKSolver.solve`, and split them by target."""
    # A target with neither positions nor orientations is left out. Raises InputError for a shape, a count or a value
    # that is not allowed; the message names it.
    by_position = by_target("positions", positions, len(targets), 3)
    by_orientation = by_target("orientations_xyzw", orientations_xyzw, len(targets), 4)
    counts = {len(array) for array in (*by_position, *by_orientation) if array is not None}
    if problem_count is not None:
        if isinstance(problem_count, bool) or not isinstance(problem_count, Integral) or problem_count < 1:
            raise InputError(f"problem_count is {problem_count!r}. Allowed: a whole number of at least 1.")
        counts.add(int(problem_count))
    if len(counts) > 1:
        raise InputError(f"The arrays of one solve hold {sorted(counts)} problems. They must agree.")
    if not counts:
        raise InputError("Nothing says how many problems there are: give target arrays, or problem_count.")
    if 0 in counts:
        raise InputError("The batch is empty. Give at least one problem.")
    if targets and not any(array is not None for array in (*by_position, *by_orientation)):
        raise InputError("No target has positions or orientations_xyzw. Give values for at least one.")
    unit = tuple(None if q is None else unit_quaternions("orientations_xyzw", q) for q in by_orientation)
    return TargetArrays(by_position, unit, counts.pop())


def plain_targets(value: object, target_count: int, width: int) -> tuple[NDArray[Any] | None, ...] | None:
    """Split an array by target without looking at its numbers; None where that takes a closer look."""
    if value is None:
        return (None,) * target_count
    if type(value) is np.ndarray and value.dtype.kind == "f":
        if target_count == 1 and value.ndim == 2 and value.shape[1] == width:
            return (value,)
        if value.ndim == 3 and value.shape[1:] == (target_count, width):
            return tuple(value[:, k] for k in range(target_count))
    if type(value) is list and len(value) == target_count and all(_is_plain(array, width) for array in value):
        return tuple(value)
    return None


def _is_plain(array: object, width: int) -> bool:
    if array is None:
        return True
    return type(array) is np.ndarray and array.dtype.kind == "f" and array.ndim == 2 and array.shape[1] == width


def host_array(name: str, value: object, *, may_be_infinite: bool = False) -> NDArray[np.float64]:
    """Return any array as float64 on the host: NumPy, Warp, DLPack or nested sequences."""
    # Raises InputError for no numbers, or numbers that are not finite; the message gives the first one's index
    try:
        array = np.asarray(as_numpy(name, value))
        if array.dtype.kind not in "fiu":
            raise TypeError(f"dtype {array.dtype}")
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            raise ValueError("some of its numbers are masked; leave their problems out")
        array = array.astype(np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} is not an array of numbers: {error}") from error
    bad = ~(np.abs(array) <= NUMBER_MAX)
    if may_be_infinite:
        bad &= array != np.inf
    if bad.any():
        index = tuple(int(k) for k in np.argwhere(bad)[0])
        allowed = f"finite numbers up to {NUMBER_MAX:g} in size"
        raise InputError(f"{name}{list(index)} is {array[index]}. Allowed: {allowed}.")
    return array


def by_target(name: str, value: object, target_count: int, width: int) -> tuple[NDArray[np.float64] | None, ...]:
    """Split an array by target, its numbers as they are: [n, width] or None for each; InputError for bad shapes."""
    if value is None:
        return (None,) * target_count
    if target_count == 0:
        raise InputError(f"{name} are given, but the solver has no targets. Give IKSolver targets=[...].")
    if isinstance(value, list | tuple) and _is_per_target(value, target_count):
        return tuple(
            None if entry is None else _shaped(f"{name}[{k}]", host_array(f"{name}[{k}]", entry), width)
            for k, entry in enumerate(value)
        )
    array = host_array(name, value)
    if target_count == 1 and array.shape == (width,):  # one problem
        array = array[None]
    if target_count == 1 and array.ndim == 2:
        return (_shaped(name, array, width),)
    if array.ndim != 3 or array.shape[1:] != (target_count, width):
        allowed = f"[n, {target_count}, {width}]" + (f", [n, {width}] or [{width}]" if target_count == 1 else "")
        raise InputError(f"{name} have shape {list(array.shape)}. Allowed: {allowed}.")
    return tuple(array[:, k] for k in range(target_count))


def _is_per_target(value: Sequence[Any], target_count: int) -> bool:
    """A list of one array or None per target, not a nested list of numbers."""
    return len(value) == target_count and all(
        entry is None or isinstance(entry, wp.array) or (hasattr(entry, "ndim") and entry.ndim == 2) for entry in value
    )


def _shaped(name: str, array: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    if array.ndim != 2 or array.shape[1] != width:
        raise InputError(f"{name} have shape {list(array.shape)}. Allowed: [n, {width}].")
    return array


def unit_quaternions(name: str, quaternions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return quaternions [n, 4] at exactly unit length; InputError where one is off by more than UNIT_TOLERANCE."""
    length = np.linalg.norm(quaternions, axis=1)
    bad = np.flatnonzero(np.abs(length - 1.0) > UNIT_TOLERANCE)
    if bad.size:
        raise InputError(
            f"{name}: the quaternion of line {bad[0]} is {quaternions[bad[0]].tolist()}, of length "
            f"{length[bad[0]]:.6g}. Allowed: unit quaternions, off by {UNIT_TOLERANCE} at most."
        )
    return np.asarray(quaternions / length[:, None])
