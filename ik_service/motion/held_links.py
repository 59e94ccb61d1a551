"""Links that stand still for some frames of a clip: their targets and weights."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.errors import in_a_line
from ik_service.mechanism.transforms import (
    Float64Array,
    quaternion_exp,
    quaternion_multiply,
    quaternion_rotate,
    rotation_between,
)
from ik_service.solver.given.arrays import as_numpy, host_array
from objectives import InputError
from objectives.errors import UnknownNameError

HELD_WEIGHT = 20.0  # times the weight of a target while its link is held
BLEND = 6  # frames over which a target is drawn to a held pose and back

Frames = NDArray[np.intp]


def read_held(held: Mapping[str, Any] | None, links: list[str], frames: int) -> dict[int, NDArray[np.bool_]]:
    """Return the frames in which links are held, bool [frames] by index of the target.

    UnknownNameError for a link without a target, InputError for other arrays than booleans of all frames.
    """
    found = {}
    if not isinstance(held, Mapping | None):
        raise InputError(f"held is {in_a_line(held)}. Allowed: a mapping from links to booleans [{frames}].")
    for link, given in (held or {}).items():
        if link not in links:
            known = ", ".join(f"'{one}'" for one in links)
            raise UnknownNameError(f"held: no target is on link {in_a_line(link)}. Links of targets: {known}.")
        mask = np.asarray(as_numpy(f"held['{link}']", given))
        if mask.dtype != np.bool_ or mask.shape != (frames,):
            shape = f"{mask.dtype} of shape {list(mask.shape)}"
            raise InputError(f"held['{link}'] is {shape}. Allowed: booleans [{frames}], one for each frame.")
        found[links.index(link)] = mask
    return found


def read_plane(plane: Any) -> tuple[Float64Array, float] | None:
    """Return the unit normal of a plane and its distance from the origin [m]; InputError for other numbers."""
    if plane is None:
        return None
    numbers = host_array("plane", plane)
    if numbers.shape != (4,) or not np.linalg.norm(numbers[:3]) > 0.0:
        raise InputError("plane must be (nx, ny, nz, distance): a normal, and the distance from the origin [m].")
    length = float(np.linalg.norm(numbers[:3]))
    return numbers[:3] / length, float(numbers[3])


def hold(
    positions: Float64Array,  # of one target, [frames, 3]; changed in place
    orientations_xyzw: Float64Array,  # [frames, 4]; changed in place
    held: NDArray[np.bool_],  # [frames]
    clip: Frames,  # clip of each frame, ascending, [frames]
    plane: tuple[Float64Array, float] | None,
) -> Float64Array:
    """Draw a target to its mean pose in each run of held frames; return factors of its weights, [frames]."""
    factor, before = np.ones(len(held)), (positions.copy(), orientations_xyzw.copy())
    for first, end in runs(held, clip):
        own = slice(first, end)
        place, turn = before[0][own].mean(axis=0), _mean_rotation(before[1][own])
        if plane is not None:
            normal, distance = plane
            place = place - (place @ normal - distance) * normal
            turn = _levelled(turn, normal)
        near = np.arange(max(first - BLEND, 0), min(end + BLEND, len(held)))
        near = near[(clip[near] == clip[first]) & (~held[near] | ((near >= first) & (near < end)))]
        gap = np.maximum(np.maximum(first - near, near - end + 1), 0) / (BLEND + 1.0)
        share = 0.5 + 0.5 * np.cos(np.pi * gap)
        stronger = 1.0 + (HELD_WEIGHT - 1.0) * share > factor[near]
        near, share = near[stronger], share[stronger]
        factor[near] = 1.0 + (HELD_WEIGHT - 1.0) * share
        positions[near] = before[0][near] + share[:, None] * (place - before[0][near])
        vector = rotation_between(before[1][near], np.broadcast_to(turn, (len(near), 4)))
        orientations_xyzw[near] = quaternion_multiply(quaternion_exp(share[:, None] * vector), before[1][near])
    return factor


def runs(held: NDArray[np.bool_], clip: Frames) -> list[tuple[int, int]]:
    """Return first and end of each run of held frames within a clip."""
    begins = held & (np.concatenate([[True], ~held[:-1] | (clip[1:] != clip[:-1])]))
    ends = held & (np.concatenate([~held[1:] | (clip[1:] != clip[:-1]), [True]]))
    return list(zip(np.flatnonzero(begins).tolist(), (np.flatnonzero(ends) + 1).tolist(), strict=True))


def _mean_rotation(rotations: Float64Array) -> Float64Array:
    """Return the mean of unit quaternions near each other, xyzw."""
    total = (rotations * np.sign((rotations @ rotations[0])[:, None])).sum(axis=0)
    return np.asarray(total / np.linalg.norm(total))


def _levelled(rotation: Float64Array, normal: Float64Array) -> Float64Array:
    """Return a rotation by the least angle that brings the nearest axis of a frame into line with a normal."""
    axes = quaternion_rotate(np.broadcast_to(rotation, (3, 4)), np.eye(3))
    along = axes @ normal
    axis = axes[np.abs(along).argmax()] * np.sign(along[np.abs(along).argmax()])
    sine = np.cross(axis, normal)
    length = float(np.linalg.norm(sine))
    if length < 1e-12:
        return rotation
    return quaternion_multiply(quaternion_exp(sine / length * np.arctan2(length, axis @ normal)), rotation)
