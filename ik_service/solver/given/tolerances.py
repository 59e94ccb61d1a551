"""Tolerances of targets: the largest error of each row of a pose, and the deadband used by the solver."""

import math
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from ik_service.errors import in_a_line
from objectives import InputError
from objectives.tasks.near_pose import DEADBAND_WIDTH, ToleranceFrame

AXES = ("x", "y", "z", "rx", "ry", "rz")
"""Names of a pose's rows: positions along the axes of a frame, and rotations about them."""
FRAMES: tuple[ToleranceFrame, ...] = get_args(ToleranceFrame)
FREE_DISTANCE, FREE_CHORD = 1e30, 4.0  # half widths never exceeded; 2 sin(angle / 2) is at most 2
LARGEST_ANGLE = math.pi  # the largest angle between two orientations


def free_rows(link: str, free: object) -> NDArray[np.bool_]:
    """Return the rows of names of axes, bool [6]; InputError for a name not in `AXES`."""
    names = (free,) if isinstance(free, str) else free
    if not isinstance(names, Sequence) or not all(isinstance(name, str) and name in AXES for name in names):
        raise InputError(f"Target '{link}': free is {in_a_line(free)}. Allowed: a list of {', '.join(AXES)}.")
    return np.isin(AXES, list(names))


def check_tolerance(link: str, tolerance: NDArray[np.float64], weights: NDArray[np.float64]) -> None:
    """Check tolerances [6] or [n, 6] of a target beside its weights; infinity frees a row."""
    # Raises InputError for a bad tolerance, or two that bound no cone beside a free rotation
    if not (tolerance >= 0.0).all():
        raise InputError(f"Target '{link}': tolerance holds {tolerance.min():g}. Allowed: 0 and above.")
    angles, judged = np.atleast_2d(tolerance)[:, 3:], np.atleast_2d(weights)[:, 3:] > 0.0
    if (judged & (angles > LARGEST_ANGLE)).any():
        raise InputError(f"Target '{link}': tolerance holds an angle above pi. Allowed: up to pi, or free.")
    cone = judged.sum(axis=1) == 2
    least, most = np.where(judged, angles, np.inf).min(axis=1), np.where(judged, angles, -np.inf).max(axis=1)
    if (cone & (least < most)).any():
        raise InputError(
            f"Target '{link}': beside one free rotation the other two bound a cone about that axis. Allowed: the same "
            f"tolerance for both."
        )


def deadbands(
    link: str,  # name of the target's link
    tolerance: NDArray[np.float64] | None,  # tolerances, shape [6] or [n, 6]; None for none
    weights: NDArray[np.float64],  # weights of the rows, shape [6] or [n, 6]
    position_tolerance: float,  # of the solve [m]
    orientation_tolerance: float,  # of the solve [rad]
) -> NDArray[np.float32]:
    """Return the deadband of a target, the error counted as none, [1 or n, 7] as in `IKObjectiveNearPose`.

    Tolerance of a row less the tolerance of the solve: with an error up to the tolerance of the solve the row is still
    within its own tolerance. Beside one free rotation, the others share a ball: a cone about the free axis.

    Raises:
        InputError: A tolerance is above 0 and below the tolerance of the solve.
    """
    off = np.atleast_2d(weights) <= 0.0
    given = np.zeros((1, 6)) if tolerance is None else np.atleast_2d(tolerance)
    off, given = np.broadcast_arrays(off, given)
    least = np.repeat([position_tolerance, orientation_tolerance], 3)
    if (~off & (given > 0.0) & (given < least)).any():
        raise InputError(
            f"Target '{link}' has a tolerance below that of the solve. Allowed: 0, or from position_tolerance "
            f"({position_tolerance:g} m) and orientation_tolerance ({orientation_tolerance:g} rad) up."
        )
    found = np.zeros((len(given), DEADBAND_WIDTH))
    found[:, :3] = np.maximum(given[:, :3] - position_tolerance, 0.0)
    found[:, 3:6] = np.maximum(chord(given[:, 3:]) - chord(orientation_tolerance), 0.0)
    cone = (~off[:, 3:]).sum(axis=1) == 2
    found[cone, 6] = np.where(off[cone, 3:], 0.0, found[cone, 3:6]).max(axis=1, initial=0.0)
    found[cone, 3:6] = 0.0
    found[:, :6][off] = np.tile(np.repeat([FREE_DISTANCE, FREE_CHORD], 3), (len(found), 1))[off]
    rounded = found.astype(np.float32)
    return np.where(rounded > found, np.nextafter(rounded, np.float32(0.0)), rounded)


def chord(angle: Any) -> Any:
    """Return the length of the rotation rows, 2 sin(angle / 2), of an angle up to pi [rad]."""
    return 2.0 * np.sin(0.5 * np.minimum(angle, LARGEST_ANGLE))
