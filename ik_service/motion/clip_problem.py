"""Clips to be fitted, read from the arguments of a caller."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.caller_order import CallerOrder
from ik_service.mechanism.transforms import Float64Array
from ik_service.motion.clip_limits import ClipLimits, Frames
from ik_service.motion.held_links import hold, read_held, read_plane
from ik_service.motion.result import RateLimits
from ik_service.robots import RobotModel
from ik_service.solver.given.arrays import as_numpy, host_array
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.reading import read_stand
from ik_service.solver.given.targets import Target, replaced
from objectives import InputError

TARGET_ROWS = 6  # of a target


@dataclass(frozen=True, eq=False)
class ClipProblem:
    """Clips to be fitted."""

    robot: RobotModel
    batch: Batch  # a problem for each frame; targets of held links are drawn to where these stand
    limits: ClipLimits
    clip: Frames  # clip of each frame, ascending, [frames]
    smoothness: float
    first: Float64Array | None  # configuration before the first frame of each clip, [joint_coord_count], or None
    weights: Float64Array  # weights of the targets' rows, [1 or frames, targets, 6]
    held: Mapping[int, NDArray[np.bool_]]  # frames in which links are held, by index of the target


def read_clip(
    robot: RobotModel,
    order: CallerOrder,
    targets: tuple[Target, ...],
    batch: Batch,
    rates: RateLimits,
    row_weights: Any,
    held: Mapping[str, Any] | None,
    plane: Any,
    smoothness: Any,
    clip_start: Any,
    first_joint_q: Any,
) -> ClipProblem:
    """Return the problem of a caller; arguments and errors as in `IKSolver.fit_clip`."""
    count = batch.problem_count
    smooth = host_array("smoothness", smoothness)
    if smooth.shape != () or not smooth >= 0.0:
        raise InputError(f"smoothness is {smoothness!r}. Allowed: a number, 0 or more.")
    first = None
    if first_joint_q is not None:
        first = read_stand(robot, order, "first_joint_q", first_joint_q)
    clip, level = read_clips(clip_start, count), read_plane(plane)
    kept = read_held(held, [target.link for target in targets], count)
    weights = _read_weights(row_weights, targets, count)
    if kept:
        weights = np.broadcast_to(weights, (count, *weights.shape[1:])).copy()
    positions, orientations = list(batch.positions), list(batch.orientations_xyzw)
    for k, mask in kept.items():
        position, orientation = positions[k], orientations[k]
        if position is None or orientation is None:
            raise InputError(f"held: the target on '{targets[k].link}' needs positions and orientations.")
        drawn = np.array(position, np.float64), np.array(orientation, np.float64)
        weights[:, k] *= hold(*drawn, mask, clip, level)[:, None]
        positions[k], orientations[k] = drawn
    for k in kept if row_weights is None else range(len(targets)):
        lines = weights[:, k]
        own = {"row_weights": lines[0] if (lines == lines[0]).all() else lines}
        targets = replaced(targets, k, own, robot)
    batch = batch._replace(positions=tuple(positions), orientations_xyzw=tuple(orientations), targets=targets)
    return ClipProblem(robot, batch, ClipLimits.of(robot, rates), clip, float(smooth), first, weights, kept)


def _read_weights(row_weights: Any, targets: tuple[Target, ...], count: int) -> Float64Array:
    """Return the weights of all rows, [1 or frames, targets, 6]; None for the targets' own weights."""
    if row_weights is None:
        own = [np.ones(TARGET_ROWS) if target.row_weights is None else target.row_weights for target in targets]
        return np.stack(np.broadcast_arrays(*map(np.atleast_2d, own)), axis=1)
    weights, shape = host_array("row_weights", row_weights), (count, len(targets), TARGET_ROWS)
    if weights.shape not in (shape, shape[1:]):
        raise InputError(f"row_weights has shape {list(weights.shape)}. Allowed: {list(shape[1:])} or {list(shape)}.")
    return weights.reshape(-1, *shape[1:])


def read_clips(clip_start: Any, count: int) -> Frames:
    """Return the clip of each frame, from the first frames of clips."""
    if clip_start is None:
        return np.zeros(count, np.intp)
    starts = np.asarray(as_numpy("clip_start", clip_start))
    fits = starts.ndim == 1 and starts.dtype.kind in "iu" and len(starts) > 0
    rises = fits and starts[0] == 0 and (starts[1:] > starts[:-1]).all()  # differences of unsigned numbers are not < 0
    if not rises or starts[-1] >= count:
        raise InputError(f"clip_start must be whole numbers that rise from 0, each below the {count} frames.")
    return np.searchsorted(starts, np.arange(count), side="right") - 1
