"""Joints that close loops: row groups over where a frame stands in another, their coordinates, and limits of these.

A limit is a row of one side: the coordinate less the nearest value within the limits, 0 where it is within.
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
"""Names in the row groups: the frames, and the number that some joints have."""
NO_DIRECTION = 1e-24
"""Squared length of a direction below which it has no angle: axes are opposite."""
TURN = ("qx", "qy", "qz", "qw")

RelativeRows = Callable[[Frame, Scalar], Sequence[Scalar]]


def relative_group(name: str, row_count: int, rows: RelativeRows, *, has_size: bool = False) -> RowGroup:
    """Return a row group over where the frame stands in the reference frame, and a number where it has one."""

    def state(inputs: RowInputs) -> Sequence[Scalar]:
        frame = inputs.frames[FRAME].relative_to(inputs.frames[REFERENCE_FRAME])
        return rows(frame, inputs.constants.get(SIZE, 0.0))

    constants = (SIZE,) if has_size else ()
    return RowGroup(name, row_count, state, frames=(FRAME, REFERENCE_FRAME), constants=constants)


def _angle_of(sine: Scalar, cosine: Scalar) -> Scalar:
    """The angle of a direction, from -pi to pi; 0, and unchanged by any motion, where that has no length."""
    has_length = sine * sine + cosine * cosine > NO_DIRECTION
    return atan2(where(has_length, sine, 0.0), where(has_length, cosine, 1.0))


def _angle(frame: Frame) -> Scalar:
    """The angle about z of a frame that turns about z alone."""
    _, _, z, w = frame.orientation_xyzw
    return _angle_of(2.0 * z * w, w * w - z * z)


def _revolute(frame: Frame, _size: Scalar) -> Sequence[Scalar]:
    return [_angle(frame)]


def _prismatic(frame: Frame, _size: Scalar) -> Sequence[Scalar]:
    return frame.position[2:]


def _helical(frame: Frame, pitch: Scalar) -> Sequence[Scalar]:
    return [frame.position[2] / pitch]


def _cylindrical(frame: Frame, _size: Scalar) -> Sequence[Scalar]:
    return [frame.position[2], _angle(frame)]


def _universal(frame: Frame, _size: Scalar) -> Sequence[Scalar]:
    """The angle about z of the reference of the x axis, then that about this x axis."""
    x, y, z, w = frame.orientation_xyzw
    first = _angle_of(2.0 * (x * y + z * w), 1.0 - 2.0 * (y * y + z * z))
    return [first, _angle_of(2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y))]


def _spherical(frame: Frame, _size: Scalar) -> Sequence[Scalar]:
    w = frame.orientation_xyzw[3]
    return [where(w < 0.0, -part, part) for part in frame.orientation_xyzw]


def _planar(frame: Frame, _size: Scalar) -> Sequence[Scalar]:
    return [*frame.position[:2], _angle(frame)]


CLOSING_COORDINATES: Mapping[str, tuple[RowGroup, tuple[str, ...]]] = {
    "revolute": (relative_group("closing_revolute", 1, _revolute), ("",)),
    "prismatic": (relative_group("closing_prismatic", 1, _prismatic), ("",)),
    "helical": (relative_group("closing_helical", 1, _helical, has_size=True), ("",)),
    "cylindrical": (relative_group("closing_cylindrical", 2, _cylindrical), ("z", "angle")),
    "universal": (relative_group("closing_universal", 2, _universal), ("angle_z", "angle_x")),
    "spherical": (relative_group("closing_spherical", 4, _spherical), TURN),
    "planar": (relative_group("closing_planar", 3, _planar), ("x", "y", "angle")),
}
"""Coordinates of the joints that have some of their own, and their names; one alone has none."""

ANGLES: Mapping[str, tuple[bool, ...]] = {
    "revolute": (True,),
    "prismatic": (False,),
    "helical": (False,),
    "cylindrical": (False, True),
    "universal": (True, True),
    "planar": (False, False, True),
}
"""Of joints whose coordinates may have limits: which coordinates are angles that are told from -pi to pi."""
FAR = 1e30  # in place of a limit that is not there


def limit_pairs(joint: str, limits: Any) -> tuple[tuple[float, float], ...]:
    """Check limits of a joint that closes a loop, as in `IKObjectiveLoop`; give both limits of each coordinate.

    Raises:
        InputError: The joint has no coordinates that may have limits, or a value has a wrong shape, is not a number, or
            is not allowed.
    """
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
    """Return which coordinates have limits that can be passed: an angle has none from a whole turn on."""
    return tuple(
        k
        for k, (is_angle, (lower, upper)) in enumerate(zip(ANGLES[joint], pairs, strict=True))
        if (upper - lower < 2.0 * np.pi if is_angle else lower > -FAR or upper < FAR)
    )


def limit_numbers(joint: str, pairs: Sequence[tuple[float, float]], limited: Sequence[int]) -> dict[str, float]:
    """Name the numbers of the rows of limits: from where coordinates are measured, both ends from there, and shifts.

    Angles are measured from the middle of their range, so that they jump where they are farthest from it. A shift is
    what a solver may change beside a coordinate, 0 here.
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
    """Return the row group of the limits of some coordinates of a joint."""
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
