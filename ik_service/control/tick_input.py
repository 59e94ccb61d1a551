"""Checks of a controller's arguments: counts, times, arrays of numbers, and paths."""

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array
from ik_service.solver.given.arrays import as_numpy, by_target
from ik_service.solver.given.reading import check_targets
from ik_service.solver.given.targets import Target
from objectives import InputError

DT_LEAST, DT_MOST = 1e-9, 1e3  # of a tick [s]; the square of a tick's length neither underflows nor overflows


def check_settings(robots: Any, iterations: Any, weights: Sequence[float], tolerances: Sequence[float]) -> None:
    """Check counts, weights of soft rows and tolerances of targets; InputError for an invalid number."""
    for name, value, least in (("robots", robots, 1), ("iterations", iterations, 0)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
            raise InputError(f"{name} is {value!r}. Allowed: whole numbers from {least}.")
    for weight in weights:
        if not 0.0 <= weight < math.inf:
            raise InputError(f"A weight of posture or damping is {weight!r}. Allowed: 0 and above.")
    for tolerance in tolerances:
        if not 0.0 < tolerance < math.inf:
            raise InputError(f"A tolerance is {tolerance!r}. Allowed: above 0.")


def numbers(name: str, given: Any) -> NDArray[Any]:
    """Convert an array or nested sequence of numbers to an array; InputError for other values."""
    try:
        values = given if type(given) is np.ndarray else np.asarray(as_numpy(name, given))
        if values.dtype.kind not in "fiu":
            raise TypeError(f"dtype {values.dtype}")
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is not an array of numbers: {error}") from error
    return values


def lines(name: str, given: Any, robots: int, columns: int) -> NDArray[Any]:
    """Give numbers [columns] or [robots, columns] as an array, without copying arrays; InputError for other shapes."""
    values = numbers(name, given)
    if values.shape not in ((columns,), (robots, columns)):
        allowed = f"[{columns}] or [{robots}, {columns}]"
        raise InputError(f"{name} has shape {list(values.shape)}. Allowed: {allowed}.")
    return values


def check_times(dt: float, deadline_ns: int | None) -> None:
    """Check the times of a tick."""
    if not DT_LEAST <= dt <= DT_MOST:
        raise InputError(f"dt is {dt}. Allowed: {DT_LEAST:g} to {DT_MOST:g} s.")
    if deadline_ns is not None and not isinstance(deadline_ns, int):
        raise InputError(f"deadline_ns is {deadline_ns!r}. Allowed: whole nanoseconds of time.monotonic_ns().")


def waypoint_targets(targets: Sequence[Target], positions: Any, orientations: Any) -> Float64Array:
    """Return the targets of every tick for `IKController.step`, [waypoints, targets, 7]; quaternions keep their order.

    Positions are [n, 3] for one target, else [n, targets, 3]; unit quaternions [n, 4] or [n, targets, 4]. InputError
    for a wrong shape or number, or a target without positions or orientations.
    """
    positions, orientations = as_numpy("positions", positions), as_numpy("orientations_xyzw", orientations)
    given = check_targets(targets, positions, orientations, None)
    poses = np.empty((given.problem_count, len(targets), 7))
    # Quaternions as given: the tick normalises them, and normalising twice changes the last bit.
    quaternions = by_target("orientations_xyzw", orientations, len(targets), 4)
    for k, (position, orientation) in enumerate(zip(given.positions, quaternions, strict=True)):
        if position is None or orientation is None:
            raise InputError(
                f"Target '{targets[k].link}' lacks positions or orientations_xyzw. Row weights of 0 leave axes free."
            )
        poses[:, k, :3], poses[:, k, 3:] = position, orientation
    return poses
