"""Loops of a robot: pairs of frames that a joint holds together, beside the joints of the tree."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from objectives.errors import InputError

Transform = tuple[float, float, float, float, float, float, float]
IDENTITY: Transform = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
LOOP_JOINTS = {
    "weld": 6,
    "revolute": 5,
    "prismatic": 5,
    "helical": 5,
    "cylindrical": 4,
    "universal": 4,
    "spherical": 3,
    "planar": 3,
    "point_on_line": 2,
    "point_in_plane": 1,
    "distance": 1,
}
"""How many rows of the pose between the frames each joint fixes."""


@dataclass(frozen=True)
class LoopConstraint:
    """A joint that closes a loop of links: a frame on a link stands to a frame on another as the joint allows.

    Axes of joints are the z axes of both frames. What each joint fixes is in the table of ``IKObjectiveLoop``.

    Attributes:
        name: Name of the loop.
        joint: One of ``LOOP_JOINTS``.
        link: Link that carries the frame.
        reference_link: Link that carries the reference frame; None for the world.
        offset: ``T_link_frame``, position [m] and quaternion xyzw.
        reference_offset: The same of the reference frame.
        pitch: Way along the axis per angle about it [m/rad], of a helical joint.
        distance: Distance of the origins [m], of joint "distance".
    """

    name: str
    joint: str
    link: str
    reference_link: str | None = None
    offset: Transform = IDENTITY
    reference_offset: Transform = IDENTITY
    pitch: float | None = None
    distance: float | None = None

    def __post_init__(self) -> None:
        """Take numbers of any type as floats.

        Raises:
            InputError: There is no such joint, or an offset is not seven finite numbers.
        """
        if self.joint not in LOOP_JOINTS:
            allowed = ", ".join(map(repr, LOOP_JOINTS))
            raise InputError(f"Loop '{self.name}': joint is {self.joint!r}. Allowed: {allowed}.")
        for field in ("offset", "reference_offset"):
            object.__setattr__(self, field, _transform(self.name, field, getattr(self, field)))

    @property
    def row_count(self) -> int:
        """Number of rows that the joint fixes."""
        return LOOP_JOINTS[self.joint]

    @property
    def links(self) -> tuple[str, ...]:
        """The links that it joins, the world left out."""
        return (self.link,) if self.reference_link is None else (self.link, self.reference_link)


def _transform(name: str, field: str, value: Sequence[float]) -> Transform:
    numbers = tuple(map(float, value))
    if len(numbers) != 7 or not all(map(math.isfinite, numbers)):
        raise InputError(f"Loop '{name}': {field} is {value}. Allowed: seven finite numbers, position and xyzw.")
    x, y, z, qx, qy, qz, qw = numbers
    return x, y, z, qx, qy, qz, qw


def checked_loops(loops: Iterable[LoopConstraint], link_names: Sequence[str]) -> tuple[LoopConstraint, ...]:
    """Give loops as a tuple.

    Raises:
        InputError: Two have one name, or one names a link that the robot does not have.
    """
    found: dict[str, LoopConstraint] = {}
    for loop in loops:
        if loop.name in found:
            raise InputError(f"Two loops have the name '{loop.name}'.")
        for link in loop.links:
            if link not in link_names:
                raise InputError(f"Loop '{loop.name}' is about link '{link}', which the robot does not have.")
        found[loop.name] = loop
    return tuple(found.values())
