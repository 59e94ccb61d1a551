"""Loop constraints of a robot: pairs of frames joined by a joint that is not in the tree.

Checks shared by all kinds of constraints are at the top.
"""

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, ClassVar, TypeVar

from ik_service.errors import in_a_line
from objectives.errors import InputError
from objectives.tasks.closing_joint import limit_numbers, limit_pairs, limited_coordinates
from objectives.tasks.loop import IKObjectiveLoop

Constraint = TypeVar("Constraint")


def all_of(kind: type[Constraint], values: object) -> list[Constraint]:
    """Read a list of constraints of a kind; InputError for anything else."""
    given = list(values) if isinstance(values, Iterable) else []
    found = [one for one in given if isinstance(one, kind)]
    if not isinstance(values, Iterable) or len(found) < len(given):
        raise InputError(f"The constraints are {in_a_line(values)}. Allowed: a list of {kind.__name__}.")
    return found


def numbers_of(what: str, values: object) -> tuple[float, ...]:
    """Read a list of numbers as floats; InputError about `what` for anything else."""
    given = list(values) if isinstance(values, Iterable) else []
    found = [float(one) for one in given if isinstance(one, Real)]
    if not isinstance(values, Iterable) or len(found) < len(given):
        raise InputError(f"{what} is {in_a_line(values)}. Allowed: a list of numbers.")
    return tuple(found)


def require_number(what: str, value: object) -> None:
    """Raise an InputError about `what` unless the value is a number or None."""
    if value is not None and not isinstance(value, Real):
        raise InputError(f"{what} is {in_a_line(value)}. Allowed: a number.")


Transform = tuple[float, ...]
IDENTITY: Transform = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True)
class LoopConstraint:
    """A joint that closes a loop of links: a constraint between a frame on a link and a frame on another link.

    Joint axes are the z axes of both frames. The table of ``IKObjectiveLoop`` lists the rows of each joint.

    Attributes:
        name: Name of the loop.
        joint: Name of the joint, from the table of ``IKObjectiveLoop``.
        link: Link that carries the frame.
        reference_link: Link that carries the reference frame; None for the world.
        offset: ``T_link_frame``, position [m] and quaternion xyzw.
        reference_offset: ``T_reference_link_frame``, position [m] and quaternion xyzw.
        pitch: Pitch of a helical joint: translation along the axis per angle [m/rad].
        distance: Distance of the origins [m], of joint "distance".
        limits: Lower and upper limit of each coordinate of the joint [m or rad], infinite for none, as in
            ``IKObjectiveLoop``; None for no limits.
        slack: Tolerance per row of the joint [m or rad], pairs or a mapping by row names; None lets `with_loops`
            choose: slack for rows that are redundant but for rounded numbers.
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
    equality: ClassVar = "join the same frames by the same joint"

    def __post_init__(self) -> None:
        """Convert numbers to floats, and check all fields; InputError for a value that is not allowed."""
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
        """Show the fields, without empty limits and slack: the text enters digests of robots."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        shown = [f"{k}={v!r}" for k, v in given.items() if v or k not in ("limits", "slack")]
        return f"{type(self).__name__}({', '.join(shown)})"

    def rows(self, weight: float = 1.0) -> IKObjectiveLoop:
        """Make the objective of the loop's rows, unbound, with a factor for all rows [1/m and 1/rad]."""
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
        """Kind of the constraint: the joint's name."""
        return self.joint

    @property
    def size(self) -> float:
        """The pitch or the distance; 0 for joints without such a number."""
        return self.pitch or self.distance or 0.0

    @property
    def limited(self) -> tuple[int, ...]:
        """Indices of the joint's coordinates with limits."""
        return () if self.limits is None else limited_coordinates(self.joint, self.limits)

    @property
    def limit_numbers(self) -> dict[str, float]:
        """Constants of the rows of limits, by the names of ``limit_group``."""
        return {} if self.limits is None else limit_numbers(self.joint, self.limits, self.limited)

    @property
    def links(self) -> tuple[str, ...]:
        """Links joined by the loop, without the world."""
        return (self.link,) if self.reference_link is None else (self.link, self.reference_link)

    @property
    def is_to_world(self) -> bool:
        """True for a loop that joins a link to the world."""
        return self.reference_link is None

    @property
    def content(self) -> tuple[object, ...]:
        """The joint, and both frames, each as link and offset: equal for loops that may not both be in a robot."""
        return self.joint, frozenset({(self.link, self.offset), (self.reference_link, self.reference_offset)})


def checked_constraints(
    kind: type[Constraint],
    constraints: Iterable[Constraint],
    names: Iterable[str],
    faults: Callable[[Any], Iterator[str]],
) -> tuple[Constraint, ...]:
    """Check constraints of a kind; InputError for a name of `names` or twice, a fault, or two with equal contents."""
    word, taken, said, found = "Loop" if kind is LoopConstraint else "Constraint", set(names), dict[Any, str](), []
    for one in all_of(kind, constraints):
        own: Any = one
        if own.name in taken:
            raise InputError(f"Two {word.lower()}s have the name '{own.name}'.")
        for fault in faults(own):
            raise InputError(f"{word} '{own.name}' is about {fault}.")
        other = said.setdefault(own.content, own.name)
        if other != own.name:
            raise InputError(f"{word}s '{other}' and '{own.name}' {own.equality}. Leave one out.")
        taken.add(own.name)
        found.append(one)
    return tuple(found)


def unknown_links(known: Container[str]) -> Callable[[Any], Iterator[str]]:
    """Return a function for messages about unknown links of a constraint."""
    return lambda one: (f"link '{link}', which the robot does not have" for link in one.links if link not in known)
