"""Limits of speed and acceleration between frames, and clips within these limits."""

import typing
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.compiler import cpu_target
from ik_service.kernels.device_lock import DEVICE_LOCK
from ik_service.kernels.kernel_loading import KernelsFor, load_kernels_alone
from ik_service.mechanism.transforms import Float64Array
from ik_service.motion.result import RateLimits
from ik_service.robots import RobotModel

Frames = NDArray[np.intp]
HOLDS = ("", "position", "speed", "acceleration")
ON_LIMIT = 1e-6  # distance below which a DOF is at a limit [rad or m]
CLIPS: Any = wp.get_module("ik_service_clips")
CLIPS.options |= {"cpu_compiler_flags": cpu_target().flags, "enable_backward": False}


@dataclass(frozen=True, eq=False)
class ClipLimits:
    """Limits of the active DOFs with a coordinate."""

    columns: NDArray[np.intp]  # coordinates of these DOFs, [moved]
    lower: Float64Array  # position limits [rad or m], [moved]
    upper: Float64Array
    step: Float64Array  # largest changes from frame to frame [rad or m], [moved]
    bend: Float64Array  # largest changes of these changes [rad or m], [moved]

    @classmethod
    def of(cls, robot: RobotModel, rates: RateLimits) -> "ClipLimits":
        """Return the limits; leaders keep their followers within limits."""
        columns = robot.dof_coordinate[robot.active_dof].astype(np.intp)
        own = columns >= 0
        rate = np.full((2, robot.active_dof_count), np.inf)
        for dof, active in enumerate(robot.dof_active):
            factor = abs(float(robot.dof_multiplier[dof]))
            if active >= 0 and factor > 0.0:
                both = rates.velocity[dof] * rates.dt, rates.acceleration[dof] * rates.dt**2
                rate[:, active] = np.minimum(rate[:, active], np.array(both) / factor)
        lower, upper = robot.active_limit_lower[own], robot.active_limit_upper[own]
        return cls(columns[own], lower, upper, rate[0, own], rate[1, own])

    @property
    def colours(self) -> int:
        """Number of sets of frames whose limits do not depend on each other within a set."""
        return 3 if np.isfinite(self.bend).any() else 2

    @property
    def table(self) -> Float64Array:
        """Lower and upper limits, largest steps and largest bends, [4, moved]."""
        return np.stack([self.lower, self.upper, self.step, self.bend])

    def active(self, joint_q: Float64Array, clip: Frames, first: Float64Array | None) -> NDArray[np.int8]:
        """Return the kind of limit at each of these DOFs in each frame, indices of `HOLDS`, [frames, moved].

        A step or change of steps at a limit holds all frames there; `first` is the frame before each clip, if given.
        """
        points, begins, is_frame = joint_q[:, self.columns], begins_of(clip), np.ones(len(clip), bool)
        if first is not None:
            points, clip = np.insert(points, begins, first[self.columns], axis=0), np.insert(clip, begins, clip[begins])
            is_frame = np.insert(is_frame, begins, False)
        found = np.zeros(points.shape, np.int8)
        for kind, most, order in ((3, self.bend, 2), (2, self.step, 1)):
            at = np.abs(np.diff(points, n=order, axis=0)) > most - ON_LIMIT
            at &= (clip[order:] == clip[:-order])[:, None]
            for frame in range(order + 1):
                found[frame : len(at) + frame][at] = kind
        found[(points < self.lower + ON_LIMIT) | (points > self.upper - ON_LIMIT)] = 1
        return found[is_frame]

    def kept(self, wanted: Float64Array, begins: Frames, first: Float64Array | None) -> Float64Array:
        """Return clips within all limits near the wanted ones, [frames, moved], each from `first` where given.

        Clips begin at the frames `begins`. Forwards, then backwards, each frame goes as far towards the wanted one as
        limits and the way to a stop allow; the mean of both keeps the limits, too.
        """
        wanted = np.clip(wanted, self.lower, self.upper)
        passes = np.empty((2, *wanted.shape))
        for backwards in (0, 1):
            _run(wanted, begins, self.table, None, backwards, passes[backwards])
        found: Float64Array = passes.mean(axis=0)
        if first is not None:
            mean = found.copy()
            _run(mean, begins, self.table, np.clip(first, self.lower, self.upper), 0, found)
        return np.asarray(np.clip(found, self.lower, self.upper))  # sums of steps are rounded


def begins_of(clip: Frames) -> Frames:
    """Return the first frame of each clip."""
    return np.flatnonzero(np.concatenate([[True], clip[1:] != clip[:-1]]))


def _run(
    wanted: Float64Array, begins: Frames, limits: Float64Array, first: Float64Array | None, backwards: int, out: Any
) -> None:
    ends = np.append(begins, len(wanted)).astype(np.int32)
    before = np.zeros((0, wanted.shape[1])) if first is None else first[None]
    with DEVICE_LOCK, KernelsFor():
        load_kernels_alone(CLIPS, wp.get_device("cpu"))
        arrays: list[Any] = [wp.array(one, device="cpu", copy=False) for one in (wanted, ends, limits, before, out)]
        wp.launch(_keep, (len(begins), wanted.shape[1]), [*arrays, backwards], device="cpu")


@wp.kernel(module=CLIPS, enable_backward=False)
@typing.no_type_check
def _keep(
    wanted: wp.array2d[wp.float64],  # [frames, moved], within position limits
    ends: wp.array[wp.int32],  # [clips + 1]: first frame of each clip, and the number of frames
    limits: wp.array2d[wp.float64],  # [4, moved]: lower, upper, largest step, largest bend
    first: wp.array2d[wp.float64],  # [0 or 1, moved]: where clips start
    out: wp.array2d[wp.float64],  # [frames, moved], written
    backwards: int,  # 1 from the last frame to the first
):
    clip, j = wp.tid()
    step, bend = limits[2, j], limits[3, j]
    k = ends[clip]
    way = int(1)
    if backwards == 1:
        k = ends[clip + 1] - 1
        way = -1
    at = wanted[k, j]
    before = wp.float64(0.0)
    has_speed = bool(False)  # whether the step before limits the next one
    if first.shape[0] == 1:
        at = first[0, j]
        has_speed = True
    else:
        out[k, j] = at
        k += way
    while k >= ends[clip] and k < ends[clip + 1]:
        gap = wanted[k, j] - at
        move = wp.clamp(gap, -step, step)
        if wp.isfinite(bend):
            # the way to a stop within n + 1 steps that end at the goal: m + (m - bend) + ... = gap
            n = wp.floor(
                wp.float64(0.5) * (wp.sqrt(wp.float64(1.0) + wp.float64(8.0) * wp.abs(gap) / bend) - wp.float64(1.0))
            )
            most = wp.abs(gap) / (n + wp.float64(1.0)) + wp.float64(0.5) * n * bend
            move = wp.clamp(move, -most, most)
            if has_speed:
                move = wp.clamp(move, before - bend, before + bend)
        at += move
        before = move
        has_speed = True
        out[k, j] = at
        k += way
