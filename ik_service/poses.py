"""Poses in common forms: matrices, rotations beside positions, angles, quaternions of either order.

any form --`poses_of`--> `Poses`: position [m] and unit quaternion xyzw, [..., 7]

Needs NumPy alone. Objects of SciPy and Pinocchio are known by their attributes; neither is imported.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]
ROUNDED = 1e-3  # largest error of a rotation matrix or of the length of a quaternion: rounded files
TURNS_MAX = 4.0 * np.pi  # larger angles are taken for degrees [rad]
BOTTOM = (0.0, 0.0, 0.0, 1.0)  # row of a homogeneous matrix


class Poses:
    """One pose, or an array of poses, in one frame.

    Poses replace position and quaternion in every argument with a pose. Arrays of matrices
    [..., 4, 4], and `pinocchio.SE3` or lists of them, need no constructor.

    Args:
        positions: Positions [m], shape [..., 3].
        orientations_xyzw: Unit quaternions xyzw, shape [..., 4]; lengths within 1e-3 of 1 are normalised. Or rotation
            matrices, shape [..., 3, 3], or a SciPy Rotation.

    Attributes:
        transforms: Position [m] and unit quaternion xyzw, float64 [..., 7].

    Raises:
        ValueError: A wrong shape, a number that is not finite, or no rotation.
    """

    def __init__(self, positions: ArrayLike, orientations_xyzw: Any) -> None:
        given = quaternions_of(orientations_xyzw) if is_rotation(orientations_xyzw) else orientations_xyzw
        position, orientation = _numbers("positions", positions, 3), _numbers("orientations_xyzw", given, 4)
        length = np.linalg.norm(orientation, axis=-1, keepdims=True)
        if (np.abs(length - 1.0) > ROUNDED).any():
            worst = length.flat[int(np.abs(length - 1.0).argmax())]
            raise ValueError(f"A quaternion has length {worst:.6g}. Allowed: unit quaternions.")
        unit = np.where(length == 1.0, orientation, orientation / length)
        lead = np.broadcast_shapes(position.shape[:-1], unit.shape[:-1])
        parts = np.broadcast_to(position, (*lead, 3)), np.broadcast_to(unit, (*lead, 4))
        self.transforms: Numbers = np.concatenate(parts, axis=-1)

    @classmethod
    def from_matrices(cls, matrices: ArrayLike) -> "Poses":
        """Return the poses of homogeneous matrices for column vectors, shape [..., 4, 4]; ValueError for others."""
        found = _finite("matrices", matrices)
        if found.shape[-2:] != (4, 4):
            raise ValueError(f"matrices have shape {list(found.shape)}. Allowed: [..., 4, 4].")
        if (np.abs(found[..., 3, :] - BOTTOM) > ROUNDED).any():
            raise ValueError("The last row of a matrix is not 0, 0, 0, 1. Is the matrix transposed?")
        return cls(found[..., :3, 3], found[..., :3, :3])

    @classmethod
    def from_rpy(cls, positions: ArrayLike, rpy: ArrayLike, *, degrees: bool = False) -> "Poses":
        """Return poses of positions [..., 3] and angles roll, pitch, yaw [rad, or degrees], shape [..., 3].

        The rotation is Rz(yaw) Ry(pitch) Rx(roll), as in URDF. ValueError for radians beyond two turns.
        """
        angles = _numbers("rpy", rpy, 3)
        if not degrees and (np.abs(angles) > TURNS_MAX).any():
            raise ValueError(
                f"rpy holds {np.abs(angles).max():g}, which is more than two turns. Degrees? degrees=True."
            )
        half = 0.5 * (np.radians(angles) if degrees else angles)
        (cr, cp, cy), (sr, sp, sy) = (np.moveaxis(f(half), -1, 0) for f in (np.cos, np.sin))
        x, y = sr * cp * cy - cr * sp * sy, cr * sp * cy + sr * cp * sy
        z, w = cr * cp * sy - sr * sp * cy, cr * cp * cy + sr * sp * sy
        return cls(positions, np.stack([x, y, z, w], axis=-1))

    @classmethod
    def from_wxyz(cls, positions: ArrayLike, orientations_wxyz: ArrayLike) -> "Poses":
        """Return poses of positions [..., 3] and unit quaternions in the order w, x, y, z, shape [..., 4]."""
        return cls(positions, _numbers("orientations_wxyz", orientations_wxyz, 4)[..., [1, 2, 3, 0]])

    @property
    def positions(self) -> Numbers:
        """Positions [m], [..., 3]."""
        return self.transforms[..., :3]

    @property
    def orientations_xyzw(self) -> Numbers:
        """Unit quaternions, [..., 4]."""
        return self.transforms[..., 3:]

    @property
    def matrices(self) -> Numbers:
        """Homogeneous matrices, [..., 4, 4]."""
        x, y, z, w = np.moveaxis(self.orientations_xyzw, -1, 0)
        found = np.zeros((*x.shape, 4, 4))
        found[..., 0, :3] = np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)], axis=-1)
        found[..., 1, :3] = np.stack([2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)], axis=-1)
        found[..., 2, :3] = np.stack([2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)], axis=-1)
        found[..., :3, 3], found[..., 3, 3] = self.positions, 1.0
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return position and quaternion as numbers, [..., 7]."""
        numbers = np.asarray(self.transforms, dtype)
        return numbers.copy() if copy else numbers

    def __len__(self) -> int:
        if self.transforms.ndim < 2:
            raise TypeError("A single pose has no length.")
        return len(self.transforms)

    def __getitem__(self, index: Any) -> "Poses":
        chosen = np.empty(self.transforms.shape[:-1])[index].shape  # an index of poses, not of their numbers
        found = object.__new__(Poses)
        found.transforms = self.transforms[index].reshape(*chosen, 7)
        return found

    def __repr__(self) -> str:
        return f"<Poses: shape {list(self.transforms.shape[:-1])}>"


def poses_of(value: Any) -> Poses | None:
    """Return poses in another form than numbers [..., 7]: Poses, matrices [..., 4, 4], SE3 or lists; None for others.

    ValueError for matrices without a rotation.
    """
    if isinstance(value, Poses):
        return value
    if hasattr(value, "homogeneous"):  # pinocchio.SE3
        return Poses.from_matrices(value.homogeneous)
    if isinstance(value, list | tuple) and value and all(hasattr(one, "homogeneous") for one in value):
        return Poses.from_matrices(np.stack([one.homogeneous for one in value]))
    if isinstance(value, list | tuple) and value and all(isinstance(one, Poses) for one in value):
        found = object.__new__(Poses)
        found.transforms = np.stack([one.transforms for one in value])
        return found
    return Poses.from_matrices(value) if _sizes(value)[-2:] == (4, 4) else None


def is_rotation(value: Any) -> bool:
    """Return whether a value is rotation matrices [..., 3, 3] or a SciPy Rotation."""
    return hasattr(value, "as_quat") or _sizes(value)[-2:] == (3, 3)


def quaternions_of(rotations: Any) -> Numbers:
    """Return unit quaternions xyzw, [..., 4], of rotation matrices [..., 3, 3] or a SciPy Rotation.

    ValueError for matrices scaled or sheared by more than 1e-3, or left-handed.
    """
    if hasattr(rotations, "as_quat"):
        return np.asarray(rotations.as_quat(), np.float64)
    m = _finite("rotations", rotations)
    if m.shape[-2:] != (3, 3):
        raise ValueError(f"rotations have shape {list(m.shape)}. Allowed: [..., 3, 3].")
    error = np.abs(np.swapaxes(m, -1, -2) @ m - np.eye(3)).max(initial=0.0)
    if error > 2.0 * ROUNDED:
        raise ValueError(f"A rotation matrix is scaled or sheared: its columns are off unit vectors by {error:.2g}.")
    if (np.linalg.det(m) < 0.0).any():
        raise ValueError("A rotation matrix is left-handed: its determinant is -1. Is an axis mirrored?")
    diagonal = np.stack([m[..., 0, 0], m[..., 1, 1], m[..., 2, 2]], axis=-1)
    trace = diagonal.sum(axis=-1, keepdims=True)
    squares = np.concatenate([1.0 - trace + 2.0 * diagonal, 1.0 + trace], axis=-1)  # four times x^2, y^2, z^2, w^2
    sums = {
        (0, 1): m[..., 0, 1] + m[..., 1, 0],
        (0, 2): m[..., 0, 2] + m[..., 2, 0],
        (1, 2): m[..., 1, 2] + m[..., 2, 1],
    }
    sums |= {
        (0, 3): m[..., 2, 1] - m[..., 1, 2],
        (1, 3): m[..., 0, 2] - m[..., 2, 0],
        (2, 3): m[..., 1, 0] - m[..., 0, 1],
    }
    rows = [
        np.stack([squares[..., k] if j == k else sums[min(j, k), max(j, k)] for j in range(4)], axis=-1)
        for k in range(4)
    ]
    largest = squares.argmax(axis=-1)[..., None, None]
    found = np.take_along_axis(np.stack(rows, axis=-2), largest, axis=-2)[..., 0, :]
    return np.asarray(found / np.linalg.norm(found, axis=-1, keepdims=True))


def _sizes(value: Any) -> tuple[int, ...]:
    """Return the shape of an array, or the lengths of nested lists along their first entries."""
    if hasattr(value, "shape"):
        return tuple(value.shape)
    sizes = []
    while isinstance(value, list | tuple) and value:
        sizes.append(len(value))
        value = value[0]
    return (*sizes, *_sizes(value)) if hasattr(value, "shape") else tuple(sizes)


def _finite(name: str, value: Any) -> Numbers:
    found = np.asarray(value, np.float64)
    if not np.isfinite(found).all():
        raise ValueError(f"{name} hold a number that is not finite.")
    return found


def _numbers(name: str, value: ArrayLike, width: int) -> Numbers:
    found = _finite(name, value)
    if found.shape[-1:] != (width,):
        raise ValueError(f"{name} have shape {list(found.shape)}. Allowed: [..., {width}].")
    return found
