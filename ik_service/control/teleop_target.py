"""Target pose of a teleoperated tool: led by a hand device with a clutch, or by a twist."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ik_service.control.caller_arrays import check_times, lines
from ik_service.mechanism.transforms import Float64Array, checked_transform
from ik_service.solver.given.arrays import NUMBER_MAX
from objectives import InputError
from objectives.data_field import UNIT_TOLERANCE


class TeleopTarget:
    """Target pose led by a hand device with a clutch, or by a twist.

    While the clutch is engaged, the target makes the moves of the device. While the clutch is released, the target
    stays: the hand can go back, and the target does not jump when the clutch is engaged again.

    Args:
        pose: First target pose: position [m] and unit quaternion xyzw, shape [7].
        scale: Distance of the target per distance of the device; rotations are not scaled.

    Attributes:
        pose: Target pose for `IKController.step`, quaternion xyzw, shape [7]: one array, which you may write.
        scale: As above; may change at any time, without a jump.
        engaged: True if the target follows the device: the clutch is engaged, and the pose of the device is sound.

    Raises:
        InputError: A wrong shape or number.
    """

    def __init__(self, pose: Any, *, scale: float = 1.0) -> None:
        if not (isinstance(scale, int | float | np.number) and abs(scale) <= NUMBER_MAX):
            raise InputError(f"scale is {scale!r}. Allowed: one number up to {NUMBER_MAX:g}.")
        self.pose, self.scale, self.engaged, self._device = checked_transform(pose, "pose"), scale, False, [0.0] * 7

    def follow(self, device_pose: Any, engaged: bool = True) -> Float64Array:
        """Move the target with the hand device, and return its pose [7]; InputError for a wrong shape.

        Args:
            device_pose: Pose of the device, position [m] and unit quaternion xyzw, in axes parallel to those of the
                target's frame, shape [7]. A pose with NaN, infinity or another length releases the clutch.
            engaged: Whether the clutch is engaged.
        """
        (*p, a, b, c, d), (*before, x, y, z, w) = lines("device_pose", device_pose, 1, 7).ravel().tolist(), self._device
        is_sound = (
            all(abs(k) <= NUMBER_MAX for k in (*p, self.scale)) and abs(math.hypot(a, b, c, d) - 1.0) <= UNIT_TOLERANCE
        )
        if engaged and is_sound and self.engaged:
            step = [self.scale * (new - old) for new, old in zip(p, before, strict=True)]
            self._take(step, _product((a, b, c, d), (-x, -y, -z, w)))
        self.engaged, self._device = bool(engaged) and is_sound, [*p, a, b, c, d]
        return self.pose

    def move(self, twist: Any, dt: float, *, in_tool_frame: bool = False) -> Float64Array:
        """Move the target with a twist for one tick, and return its pose [7]; InputError for a wrong shape or `dt`.

        Args:
            twist: Velocity of the target [m/s], then angular velocity [rad/s], shape [6]. The target stays where a
                number is not finite.
            dt: Length of the tick [s].
            in_tool_frame: The twist is in the axes of the target, not of its reference frame.
        """
        check_times(dt, None)
        step = [dt * rate for rate in lines("twist", twist, 1, 6).ravel().tolist()]
        if in_tool_frame:
            x, y, z, w = q = self.pose[3:].tolist()
            (*move, _), (*turn, _) = (_product(_product(q, (*k, 0.0)), (-x, -y, -z, w)) for k in (step[:3], step[3:]))
            step = move + turn
        angle = math.hypot(*step[3:])
        share = math.sin(0.5 * angle) / angle if 0.0 < angle < math.inf else 0.5
        if all(abs(k) <= NUMBER_MAX for k in step):
            self._take(step[:3], (*(share * k for k in step[3:]), math.cos(0.5 * angle)))
        return self.pose

    def _take(self, step: Sequence[float], turn: Sequence[float]) -> None:
        x, y, z, *q = self.pose.tolist()
        q = _product(turn, q)
        length = math.hypot(*q)
        self.pose[:] = x + step[0], y + step[1], z + step[2], *(k / length for k in q)


def _product(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """Give the Hamilton product a * b of quaternions xyzw."""
    (ax, ay, az, aw), (bx, by, bz, bw) = a, b
    x, y = aw * bx + ax * bw + ay * bz - az * by, aw * by - ax * bz + ay * bw + az * bx
    return [x, y, aw * bz + ax * by - ay * bx + az * bw, aw * bw - ax * bx - ay * by - az * bz]
