"""Rows in NumPy: of `Functions` and `Choices` from poses of a link, a coordinate and the shift [n]; of lines."""

import numpy as np

from ik_service.mechanism.transforms import quaternion_rotate


def functions(pose, q, shift):
    """The rows of `function_rows`."""
    x, y, z = pose[:, :3].T
    upright = quaternion_rotate(pose[:, 3:], np.tile([0.0, 0.0, 1.0], (len(pose), 1)))
    rows = [
        np.sin(3.0 * x + shift) + np.cos(q) * z,
        np.exp(-z) - np.log((pose[:, :3] ** 2).sum(axis=1) + 0.1),
        np.arccos(0.9 * upright[:, 2]) * np.abs(shift - y),
        np.arctan2(y - shift, x + 4.0) + np.arctan2(upright[:, 0], upright[:, 2] + 1.5),
    ]
    return np.stack(rows, axis=1)


def choices(pose, q, shift):
    """The rows of `choice_rows`."""
    x, y, z = pose[:, :3].T
    second = np.where(x > 0.1, np.sqrt(np.maximum(x, 0.0)), 0.5 * y) + 1.0
    inside = ((x < y) & (z >= shift)) | (q > 0.5)
    return np.stack([np.where(inside, x * y + 2.0, -z), np.where(q <= 0.0, q * z - 1.0, second)], axis=1)


def perpendiculars(directions):
    """Unit vectors a, b with a x b = direction [..., 3]: the formula of Duff2017 once more, on arrays."""
    x, y, z = np.moveaxis(directions, -1, 0)
    s = np.copysign(1.0, z)
    a = -1.0 / (s + z)
    b = x * y * a
    return np.stack([1.0 + s * x * x * a, s * b, -s * x], axis=-1), np.stack([b, s + y * y * a, -y], axis=-1)
