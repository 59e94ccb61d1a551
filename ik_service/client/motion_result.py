"""The result of a motion in the client."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False)
class MotionResult:
    """A motion: a row for each frame of a clip, or each waypoint of a path.

    Attributes have the names of `ik_service.ClipResult` and `ik_service.PathResult`, with units in names of lengths and
    angles; `status` has words, `links` the names of the columns of errors.
    """

    robot: str
    coordinate_names: tuple[str, ...]
    dof_names: tuple[str, ...]
    links: tuple[str, ...]
    joint_q: NDArray[np.float64]
    joint_qd: NDArray[np.float64]
    status: NDArray[np.str_]
    position_error_m: NDArray[np.float64]
    orientation_error_rad: NDArray[np.float64]
    over_velocity: NDArray[np.bool_]
    over_acceleration: NDArray[np.bool_]
    timing_ms: Mapping[str, float] = field(repr=False)
    clearance_m: NDArray[np.float64] | None = None
    cost: NDArray[np.float64] | None = None
    held_drift_m: NDArray[np.float64] | None = None
    held_links: tuple[str, ...] | None = None
    success: NDArray[np.bool_] | None = None
    joint_qdd: NDArray[np.float64] | None = None
    joint_change: NDArray[np.float64] | None = None
    is_break: NDArray[np.bool_] | None = None
