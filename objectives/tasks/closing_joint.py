"""Joints that close loops: row groups over the relative pose of two frames, coordinates of joints, and limits.

The row of a limit is one-sided: the coordinate minus the nearest value within the limits, 0 inside.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from objectives.errors import InputError
from objectives.expression import Scalar, atan2, maximum, minimum, where
from objectives.expression.frame_algebra import Frame
from objectives.expression.rows import RowGroup, RowInputs

FRAME, REFERENCE_FRAME, SIZE = "link", "reference", "size"
"""Names in the row groups: the frames, and the number of some joints."""
NO_DIRECTION = 1e-24  # squared length below which a direction has no angle: the axes are opposite
TURN = ("qx", "qy", "qz", "qw")

RelativeRows = Callable[[Frame, Scalar], Sequence[Scalar]]


def relative_group(name: str, row_count: int, rows: RelativeRows, *, has_size: bool = False) -> RowGroup:
    """Make a row group over the pose of the frame in the reference frame, and over a number with `has_size`."""

    def state(inputs: RowInputs) -> Sequence[Scalar]:
        frame = inputs.frames[FRAME].relative_to(inputs.frames[REFERENCE_FRAME])
        return rows(frame, inputs.constants.get(SIZE, 0.0))

    constants = (SIZE,) if has_size else ()
    return RowGroup(name, row_count, state, frames=(FRAME, REFERENCE_FRAME), constants=constants)


def _angle_of(sine: Scalar, cosine: Scalar) -> Scalar:
    """State the angle of a direction, from -pi to pi; the constant 0 for a direction without length."""
    has_length = sine * sine + cosine * cosine > NO_DIRECTION
    return atan2(where(has_length, sine, 0.0), where(has_length, cosine, 1.0))


def _angle(frame: Frame) -> Scalar:
    """State the angle about z of a frame rotated about z only."""
    _, _, z, w = frame.orientation_xyzw
    return _angle_of(2.0 * z * w, w * w - z * z)


def _universal(frame: Frame, _size: Scalar) -> Sequence[Scalar]:
    """State the angle of the x axis about z of the reference, then the angle about this x axis."""
    x, y, z, w = frame.orientation_xyzw
    first = _angle_of(2.0 * (x * y + z * w), 1.0 - 2.0 * (y * y + z * z))
    return [first, _angle_of(2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y))]


def _spherical(frame: Frame, _size: Scalar) -> Sequence[Scalar]:
    w = frame.orientation_xyzw[3]
    return [where(w < 0.0, -part, part) for part in frame.orientation_xyzw]


_COORDINATES: Mapping[str, tuple[RelativeRows, tuple[str, ...]]] = {
    "revolute": (lambda frame, _size: [_angle(frame)], ("",)),
    "prismatic": (lambda frame, _size: frame.position[2:], ("",)),
    "helical": (lambda frame, pitch: [frame.position[2] / pitch], ("",)),
    "cylindrical": (lambda frame, _size: [frame.position[2], _angle(frame)], ("z", "angle")),
    "universal": (_universal, ("angle_z", "angle_x")),
    "spherical": (_spherical, TURN),
    "planar": (lambda frame, _size: [*frame.position[:2], _angle(frame)], ("x", "y", "angle")),
}
CLOSING_COORDINATES: Mapping[str, tuple[RowGroup, tuple[str, ...]]] = {
    joint: (relative_group(f"closing_{joint}", len(names), rows, has_size=joint == "helical"), names)
    for joint, (rows, names) in _COORDINATES.items()
}
"""Coordinates of the joints with coordinates, and their names; a single coordinate has an empty name."""

ANGLES: Mapping[str, tuple[bool, ...]] = {
    "revolute": (True,),
    "prismatic": (False,),
    "helical": (False,),
    "cylindrical": (False, True),
    "universal": (True, True),
    "planar": (False, False, True),
}
"""Joints whose coordinates may have limits: whether a coordinate is an angle from -pi to pi."""
FAR = 1e30  # in place of an infinite limit


def limit_pairs(joint: str, limits: Any) -> tuple[tuple[float, float], ...]:
    """Check limits of a joint that closes a loop, as in `IKObjectiveLoop`; give both limits of each coordinate."""
    if joint not in ANGLES:
        raise InputError(f"joint {joint!r} takes no limits. Joints that do: {', '.join(ANGLES)}.")
    count = len(ANGLES[joint])
    try:
        pairs = np.asarray(limits, np.float64)
    except (TypeError, ValueError):
        pairs = np.empty(0)
    if count == 1 and pairs.shape == (2,):
        pairs = pairs[np.newaxis]
    if (
        pairs.shape != (count, 2)
        or not ((pairs[:, 0] <= pairs[:, 1]) & (pairs[:, 0] < FAR) & (pairs[:, 1] > -FAR)).all()
    ):
        allowed = f"{count} pair{'s' * (count > 1)} of a lower and an upper limit"
        raise InputError(f"limits of joint {joint!r} are {limits}; allowed: {allowed}.")
    for is_angle, pair in zip(ANGLES[joint], pairs, strict=True):
        if is_angle and np.isfinite(pair).sum() == 1:
            raise InputError(
                f"limits of an angle are {pair.tolist()}; it is known up to whole turns: give both, or none."
            )
    return tuple((lower, upper) for lower, upper in pairs.tolist())


def limited_coordinates(joint: str, pairs: Sequence[tuple[float, float]]) -> tuple[int, ...]:
    """Return the indices of coordinates with effective limits: a range of a whole turn does not limit an angle."""
    return tuple(
        k
        for k, (is_angle, (lower, upper)) in enumerate(zip(ANGLES[joint], pairs, strict=True))
        if (upper - lower < 2.0 * np.pi if is_angle else lower > -FAR or upper < FAR)
    )


def limit_numbers(joint: str, pairs: Sequence[tuple[float, float]], limited: Sequence[int]) -> dict[str, float]:
    """Name the constants of the rows of limits: middle of a range, both limits relative to the middle, and shift.

    Angles are measured from the middle of the range, so that they jump opposite the middle. The shift, 0 here, is added
    to the coordinate; a solver puts the Lagrange multiplier there.
    """
    found = dict[str, float]()
    for k in limited:
        lower, upper = (min(max(end, -FAR), FAR) for end in pairs[k])
        middle = 0.5 * (lower + upper) if ANGLES[joint][k] else 0.0
        found |= {f"lower{k}": lower - middle, f"upper{k}": upper - middle}
        found |= {f"middle{k}": middle - 2.0 * np.pi * round(middle / (2.0 * np.pi))}
    return found | {f"shift{k}": 0.0 for k in limited}


@functools.cache
def limit_group(joint: str, limited: tuple[int, ...]) -> RowGroup:
    """Make the row group of the limits of some coordinates of a joint."""
    group = CLOSING_COORDINATES[joint][0]
    names = limit_numbers(joint, [(0.0, 0.0)] * len(ANGLES[joint]), limited)

    def state(inputs: RowInputs) -> Sequence[Scalar]:
        coordinates, numbers = group.state(inputs), inputs.constants
        rows = []
        for k in limited:
            place = coordinates[k] - numbers[f"middle{k}"]
            if ANGLES[joint][k]:
                place = where(place > np.pi, place - 2.0 * np.pi, where(place < -np.pi, place + 2.0 * np.pi, place))
            place = place + numbers[f"shift{k}"]
            rows.append(place - minimum(maximum(place, numbers[f"lower{k}"]), numbers[f"upper{k}"]))
        return rows

    return RowGroup(
        f"limits_{joint}_{'_'.join(map(str, limited))}",
        len(limited),
        state,
        frames=(FRAME, REFERENCE_FRAME),
        constants=(*group.constants, *names),
        shifts=tuple(f"shift{k}" for k in limited),
    )
