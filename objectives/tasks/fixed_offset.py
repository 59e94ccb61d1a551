"""Frames that stand fixed on links, as those of constraints do: their offsets are numbers of the statement, no data."""

from typing import Any

import numpy as np

from objectives.data_field import UNIT_TOLERANCE
from objectives.errors import InputError
from objectives.expression.frame_algebra import add, quaternion, quaternion_product, rotate, vector
from objectives.model import FloatArray
from objectives.robot_indices import IDENTITY, BodyFrame, RobotIndices


def checked_offset(owner: str, name: str, value: Any) -> FloatArray:
    """Return T_link_frame [7] with a quaternion of length 1; None is the link's own frame.

    Raises:
        InputError: It is not seven finite numbers, or its quaternion is not of unit length.
    """
    transform = IDENTITY if value is None else np.asarray(value, np.float64)
    if transform.shape != (7,) or not np.isfinite(transform).all():
        raise InputError(f"{owner}: {name} is {value}; allowed: seven finite numbers, position and xyzw.")
    length = float(np.linalg.norm(transform[3:]))
    if abs(length - 1.0) > UNIT_TOLERANCE:
        raise InputError(f"{owner}: the quaternion of {name} has length {length:.6g}; allowed: 1.")
    return np.concatenate([transform[:3], transform[3:] / length])


def body_frame(robot: RobotIndices, link: str | None, offset: FloatArray) -> BodyFrame:
    """Return where a frame stands on the body of its link; of no link, in the world."""
    body, place = (-1, IDENTITY) if link is None else robot.frame(link)
    turn, own = quaternion(place[3:].tolist()), offset.tolist()
    position: Any = add(vector(place[:3].tolist()), rotate(turn, vector(own[:3])))  # numbers in, numbers out
    orientation: Any = quaternion_product(turn, quaternion(own[3:]))
    return BodyFrame(body, (*position, *orientation))
