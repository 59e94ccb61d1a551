"""Loops of a robot: pairs of frames that a joint holds together, beside the joints of the tree.

Checks of entries that all kinds of constraints share are at the top.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, fields
from numbers import Real
from typing import TypeVar

from ik_service.errors import in_a_line
from objectives.errors import InputError
from objectives.tasks.closing_joint import limit_numbers, limit_pairs, limited_coordinates
from objectives.tasks.loop import IKObjectiveLoop

Constraint = TypeVar("Constraint")


def all_of(kind: type[Constraint], values: object) -> list[Constraint]:
    """Return constraints of a kind; InputError where they are no list of such."""
    given = list(values) if isinstance(values, Iterable) else []
    found = [one for one in given if isinstance(one, kind)]
    if not isinstance(values, Iterable) or len(found) < len(given):
        raise InputError(f"The constraints are {in_a_line(values)}. Allowed: a list of {kind.__name__}.")
    return found


def numbers_of(what: str, values: object) -> tuple[float, ...]:
    """Return numbers as floats; InputError, about `what`, where they are no list of numbers."""
    given = list(values) if isinstance(values, Iterable) else []
    found = [float(one) for one in given if isinstance(one, Real)]
    if not isinstance(values, Iterable) or len(found) < len(given):
        raise InputError(f"{what} is {in_a_line(values)}. Allowed: a list of numbers.")
    return tuple(found)


def require_number(what: str, value: object) -> None:
    """Refuse what is neither a number nor None with an InputError about `what`."""
    if value is not None and not isinstance(value, Real):
        raise InputError(f"{what} is {in_a_line(value)}. Allowed: a number.")


Transform = tuple[float, ...]
IDENTITY: Transform = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True)
class LoopConstraint:
    """A joint that closes a loop of links: a frame on a link stands to a frame on another as the joint allows.

    Axes of joints are the z axes of both frames. What each joint fixes is in the table of ``IKObjectiveLoop``.

    Attributes:
        name: Name of the loop.
        joint: One of its joints.
        link: Link that carries the frame.
        reference_link: Link that carries the reference frame; None for the world.
        offset: ``T_link_frame``, position [m] and quaternion xyzw.
        reference_offset: The same of the reference frame.
        pitch: Way along the axis per angle about it [m/rad], of a helical joint.
        distance: Distance of the origins [m], of joint "distance".
        limits: Lower and upper limit of each coordinate of the joint [m or rad], infinite where there is none, as in
            ``IKObjectiveLoop``; None for no limits.
        slack: How far rows of the joint may be off [m or rad], pairs or a mapping by the names of the rows; None for
            what `with_loops` finds: slack of rows that only rounded numbers keep from being redundant.
    """

    name: str
    joint: str
    link: str
    reference_link: str | None = None
    offset: Transform = IDENTITY
    reference_offset: Transform = IDENTITY
    pitch: float | None = None
    distance: float | None = None
    limits: tuple[tuple[float, float], ...] | None = None
    slack: tuple[tuple[str, float], ...] | None = None

    def __post_init__(self) -> None:
        """Take numbers of any type as floats.

        Raises:
            InputError: There is no such joint, a number is missing or does not belong to it, both frames are on one
                link, an offset is not seven finite numbers with a quaternion of unit length, or limits are not allowed.
        """
        for field in ("offset", "reference_offset"):
            values = numbers_of(f"Loop '{self.name}': {field}", getattr(self, field))
            object.__setattr__(self, field, values)
        for field in ("pitch", "distance"):
            require_number(f"Loop '{self.name}': {field}", getattr(self, field))
        if not isinstance(self.joint, str):
            raise InputError(f"Loop '{self.name}': joint is {in_a_line(self.joint)}. Allowed: the name of a joint.")
        if self.link == self.reference_link:
            raise InputError(f"Loop '{self.name}' joins link '{self.link}' to itself. Allowed: two links.")
        try:
            if self.limits is not None:
                object.__setattr__(self, "limits", limit_pairs(self.joint, self.limits))
            self.rows()
        except InputError as error:
            raise InputError(f"Loop '{self.name}': {error}") from None
        if self.slack is not None:
            object.__setattr__(self, "slack", tuple((name, float(one)) for name, one in dict(self.slack).items()))

    def __repr__(self) -> str:
        """Give the fields, limits and slack only where there are some: digests of robots are of this."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        shown = [f"{k}={v!r}" for k, v in given.items() if v or k not in ("limits", "slack")]
        return f"{type(self).__name__}({', '.join(shown)})"

    def rows(self, weight: float = 1.0) -> IKObjectiveLoop:
        """Make the objective of its rows, bound to nothing, with a factor for all of them [1/m and 1/rad]."""
        return IKObjectiveLoop(
            self.link,
            self.reference_link,
            self.joint,
            offset=self.offset,
            reference_offset=self.reference_offset,
            pitch=self.pitch,
            distance=self.distance,
            limits=self.limits,
            slack=self.slack,
            weight=weight,
        )

    @property
    def kind(self) -> str:
        """Kind of the constraint: its joint."""
        return self.joint

    @property
    def size(self) -> float:
        """The pitch or the distance; 0 for a joint that has neither."""
        return self.pitch or self.distance or 0.0

    @property
    def limited(self) -> tuple[int, ...]:
        """Coordinates of the joint that have limits, by their numbers."""
        return () if self.limits is None else limited_coordinates(self.joint, self.limits)

    @property
    def limit_numbers(self) -> dict[str, float]:
        """Numbers of the rows of limits by the names that ``limit_group`` has for them."""
        return {} if self.limits is None else limit_numbers(self.joint, self.limits, self.limited)

    @property
    def links(self) -> tuple[str, ...]:
        """The links that it joins, the world left out."""
        return (self.link,) if self.reference_link is None else (self.link, self.reference_link)

    @property
    def is_to_world(self) -> bool:
        """True for a loop that joins a link to the world."""
        return self.reference_link is None

    @property
    def frames(self) -> frozenset[tuple[str | None, Transform]]:
        """Both frames, each as its link and where it stands there."""
        return frozenset({(self.link, self.offset), (self.reference_link, self.reference_offset)})


def checked_loops(loops: Iterable[LoopConstraint], link_names: Container[str]) -> tuple[LoopConstraint, ...]:
    """Give loops as a tuple; InputError where two have one name or say the same, or a link is not in the robot."""
    found: dict[str, LoopConstraint] = {}
    said: dict[object, str] = {}
    for loop in all_of(LoopConstraint, loops):
        if loop.name in found:
            raise InputError(f"Two loops have the name '{loop.name}'.")
        for link in loop.links:
            if link not in link_names:
                raise InputError(f"Loop '{loop.name}' is about link '{link}', which the robot does not have.")
        other = said.setdefault((loop.joint, loop.frames), loop.name)
        if other != loop.name:
            raise InputError(
                f"Loops '{loop.name}' and '{other}' join the same frames by the same joint. Leave one out."
            )
        found[loop.name] = loop
    return tuple(found.values())
