"""Rotations and rigid transforms in float64 on the host, vectorised over leading axes.

Quaternions are xyzw, shape [..., 4]. A transform is a position and a quaternion, shape [..., 7]: ``T_a_b`` takes points
in frame b to frame a. Used to build robots and to check configurations, never inside a solve.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.poses import Poses, poses_of
from objectives.data_field import UNIT_TOLERANCE
from objectives.errors import InputError

UNBOUNDED = 1e6  # position limits of this size or more [m or rad] mean "no limit"
MAX_NUMBER = 1e6
"""Largest number in an origin [m or rad], a coupling, a locked value or a mass [kg]: far from overflow in float32."""
UNBOUNDED_RATE = 1e9  # velocity or effort limits of this size or more mean "no limit"
MAX_POSITION = 1e9  # largest coordinate of a frame in its body [m], fixed joints and added frames summed up


Float64Array = NDArray[np.float64]
SMALL_ANGLE = 1e-8  # below this angle [rad] sin(x)/x equals 1 in float64


def identity_transform() -> Float64Array:
    """Give the identity transform, shape [7]."""
    return np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])


def cross(a: Float64Array, b: Float64Array) -> Float64Array:
    """Give cross products of vectors [..., 3], equal to ``np.cross`` bit by bit."""
    ax, ay, az = a[..., 0], a[..., 1], a[..., 2]
    bx, by, bz = b[..., 0], b[..., 1], b[..., 2]
    x = ay * bz - az * by
    product = np.empty((*x.shape, 3), x.dtype, "F")
    product[..., 0] = x
    product[..., 1] = az * bx - ax * bz
    product[..., 2] = ax * by - ay * bx
    return product


def quaternion_multiply(a_xyzw: Float64Array, b_xyzw: Float64Array) -> Float64Array:
    """Give the Hamilton product a * b, shape [..., 4]: first rotate by b, then by a."""
    ax, ay, az, aw = a_xyzw[..., 0], a_xyzw[..., 1], a_xyzw[..., 2], a_xyzw[..., 3]
    bx, by, bz, bw = b_xyzw[..., 0], b_xyzw[..., 1], b_xyzw[..., 2], b_xyzw[..., 3]
    x = aw * bx + ax * bw + ay * bz - az * by
    product = np.empty((*x.shape, 4), x.dtype, "F")
    product[..., 0] = x
    product[..., 1] = aw * by - ax * bz + ay * bw + az * bx
    product[..., 2] = aw * bz + ax * by - ay * bx + az * bw
    product[..., 3] = aw * bw - ax * bx - ay * by - az * bz
    return product


def quaternion_conjugate(q_xyzw: Float64Array) -> Float64Array:
    """Give the inverse of a unit quaternion, shape [..., 4]."""
    return np.asarray(q_xyzw * np.array([-1.0, -1.0, -1.0, 1.0]))


def quaternion_rotate(q_xyzw: Float64Array, vector: Float64Array) -> Float64Array:
    """Rotate vectors [..., 3] by unit quaternions [..., 4]."""
    xyz, w = q_xyzw[..., :3], q_xyzw[..., 3:]
    twice = 2.0 * cross(xyz, vector)
    return np.asarray(vector + w * twice + cross(xyz, twice))


def quaternion_from_axis_angle(axis: Float64Array, angle: Float64Array | float) -> Float64Array:
    """Give the rotation by ``angle`` [rad, shape ...] about a unit ``axis`` [..., 3], shape [..., 4]."""
    half: Float64Array = 0.5 * np.asarray(angle, dtype=np.float64)[..., np.newaxis]
    xyz: Float64Array = np.sin(half) * axis
    cosine = np.broadcast_to(np.cos(half), (*xyz.shape[:-1], 1))
    return np.concatenate([xyz, cosine], axis=-1)


def quaternion_from_rpy(roll: float, pitch: float, yaw: float) -> Float64Array:
    """Give the rotation Rz(yaw) Ry(pitch) Rx(roll), angles [rad], shape [4], as in URDF."""
    x, y, z = np.eye(3)
    zy = quaternion_multiply(quaternion_from_axis_angle(z, yaw), quaternion_from_axis_angle(y, pitch))
    return quaternion_multiply(zy, quaternion_from_axis_angle(x, roll))


def quaternion_exp(rotation_vector: Float64Array) -> Float64Array:
    """Give the unit quaternion of rotation vectors [rad, shape ..., 3], shape [..., 4]."""
    angle = np.linalg.norm(rotation_vector, axis=-1, keepdims=True)
    # sin(x/2)/x tends to 1/2, but is 0/0 at zero
    safe = np.where(angle < SMALL_ANGLE, 1.0, angle)
    scale = np.where(angle < SMALL_ANGLE, 0.5, np.sin(0.5 * safe) / safe)
    return np.concatenate([scale * rotation_vector, np.cos(0.5 * angle)], axis=-1)


def rotation_vector(q_xyzw: Float64Array) -> Float64Array:
    """Give the shortest rotation vectors [rad, shape ..., 3] of unit quaternions [..., 4]."""
    length = np.linalg.norm(q_xyzw[..., :3], axis=-1, keepdims=True)
    safe = np.where(length < SMALL_ANGLE, 1.0, length)
    half = np.arctan2(length, np.abs(q_xyzw[..., 3:]))
    scale = np.where(length < SMALL_ANGLE, 2.0, 2.0 * half / safe)
    return np.asarray(np.where(q_xyzw[..., 3:] < 0.0, -scale, scale) * q_xyzw[..., :3])


def rotation_between(start_xyzw: NDArray[Any], end_xyzw: NDArray[Any]) -> Float64Array:
    """Give the shortest rotation vectors w [rad] with end = exp(w) * start, shape [..., 3]."""
    return rotation_vector(quaternion_multiply(end_xyzw.astype(np.float64), quaternion_conjugate(start_xyzw)))


def quaternion_between(start: Float64Array, end: Float64Array) -> Float64Array:
    """Give the smallest rotation from the unit vector ``start`` [3] to ``end`` [3], shape [4]."""
    cosine = float(start @ end)
    if cosine < -1.0 + 1e-12:  # opposite vectors: any perpendicular axis will do
        perpendicular = cross(start, np.eye(3)[int(np.argmin(np.abs(start)))])
        return np.append(perpendicular / np.linalg.norm(perpendicular), 0.0)
    q_xyzw = np.append(cross(start, end), 1.0 + cosine)
    return np.asarray(q_xyzw / np.linalg.norm(q_xyzw))


def transform_multiply(T_a_b: Float64Array, T_b_c: Float64Array) -> Float64Array:
    """Give ``T_a_c``, shape [..., 7]."""
    position = T_a_b[..., :3] + quaternion_rotate(T_a_b[..., 3:], T_b_c[..., :3])
    return np.concatenate([position, quaternion_multiply(T_a_b[..., 3:], T_b_c[..., 3:])], axis=-1)


def transform_inverse(T_a_b: Float64Array) -> Float64Array:
    """Give ``T_b_a``, shape [..., 7]."""
    q_b_a_xyzw = quaternion_conjugate(T_a_b[..., 3:])
    return np.concatenate([-quaternion_rotate(q_b_a_xyzw, T_a_b[..., :3]), q_b_a_xyzw], axis=-1)


def given_poses(values: Any, what: str) -> Poses | None:
    """Return poses in another form than numbers; None for numbers, InputError about `what` for no rotation."""
    try:
        return poses_of(values)
    except ValueError as error:
        raise InputError(f"{what}: {error}") from error


def checked_transform(values: Any, what: str) -> Float64Array:
    """Read one transform, position [m] and quaternion xyzw, shape [7], or Poses; normalise the quaternion.

    InputError about `what`: not 7 finite numbers, or a quaternion further from unit length than ``UNIT_TOLERANCE``.
    """
    poses = given_poses(values, what)
    try:
        transform = np.array(values if poses is None else poses.transforms, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} must be 7 numbers (position, quaternion xyzw), got {values!r}.") from None
    if transform.shape != (7,) or not np.isfinite(transform).all():
        raise InputError(f"{what} must be 7 finite numbers (position, quaternion xyzw), got {values!r}.")
    length = float(np.linalg.norm(transform[3:]))
    if abs(length - 1.0) > UNIT_TOLERANCE:
        raise InputError(f"{what}: its quaternion (xyzw) has length {length:.6g}; it must have length 1.")
    transform[3:] /= length
    return transform
