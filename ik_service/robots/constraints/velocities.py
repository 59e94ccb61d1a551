"""Constraints on velocities alone: they hold no position, and count where robots move."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from ik_service.robots.constraints.given import all_of, require_number
from ik_service.robots.constraints.loops import IDENTITY, Transform
from ik_service.robots.transforms import checked_transform
from objectives.errors import InputError
from objectives.tasks.frames.velocity import VelocityObjective
from objectives.tasks.frames.velocity_rows import VELOCITY_ROWS

ROLLING = ("rolling", "no_sideslip")
"""Kinds that have a radius."""


@dataclass(frozen=True)
class VelocityConstraint:
    """One row on how a frame on a link moves against a frame on another, which no position answers for.

    | kind | what stands still |
    |---|---|
    | rolling | the lowest point of a wheel against the ground, along the wheel's way |
    | no_sideslip | the same point across that way |
    | constant_velocity | the relative turn about the line halfway between both axes, as in a joint of two shafts |

    The frame of a wheel stands at its centre with z along its axle, that of the ground with z upwards. Axes of shafts
    are the z axes of both frames.

    Attributes:
        name: Name of the constraint.
        kind: One of the table.
        link: Link that carries the frame: the wheel, or a shaft.
        reference_link: Link that carries the reference frame: the ground, or the other shaft; None for the world.
        offset: ``T_link_frame``, position [m] and quaternion xyzw.
        reference_offset: The same of the reference frame.
        radius: Radius of the wheel [m].
    """

    name: str
    kind: str
    link: str
    reference_link: str | None = None
    offset: Transform = IDENTITY
    reference_offset: Transform = IDENTITY
    radius: float | None = None

    def __post_init__(self) -> None:
        """Take numbers of any type as floats.

        Raises:
            InputError: There is no such kind, the radius is missing, not positive or does not belong to it, both frames
                are on one link, or an offset is no transform.
        """
        if self.kind not in VELOCITY_ROWS:
            allowed = ", ".join(map(repr, VELOCITY_ROWS))
            raise InputError(f"Constraint '{self.name}': kind is {self.kind!r}. Allowed: {allowed}.")
        if self.link == self.reference_link:
            raise InputError(f"Constraint '{self.name}' is about link '{self.link}' twice. Allowed: two links.")
        require_number(f"Constraint '{self.name}': radius", self.radius)
        if (self.radius is not None) != (self.kind in ROLLING) or not 0.0 < self.size < float("inf"):
            wanted = "a positive number" if self.kind in ROLLING else "None"
            raise InputError(f"Constraint '{self.name}': radius is {self.radius}. Allowed for {self.kind!r}: {wanted}.")
        for field in ("offset", "reference_offset"):
            transform = checked_transform(getattr(self, field), f"Constraint '{self.name}': {field}")
            object.__setattr__(self, field, tuple(transform.tolist()))

    def rows(self, weight: float = 1.0) -> VelocityObjective:
        """Make the objective of its row over a motion, bound to nothing, with its factor [1/m or 1/rad]."""
        return VelocityObjective(
            self.link,
            self.reference_link,
            self.kind,
            offset=self.offset,
            reference_offset=self.reference_offset,
            radius=self.radius,
            weight=weight,
        )

    @property
    def size(self) -> float:
        """The radius; 1 for a kind that has none."""
        return 1.0 if self.radius is None else self.radius

    @property
    def links(self) -> tuple[str, ...]:
        """The links that it is about, the world left out."""
        return (self.link,) if self.reference_link is None else (self.link, self.reference_link)


def checked_velocity_constraints(
    constraints: Iterable[VelocityConstraint], link_names: Collection[str], names: Iterable[str]
) -> tuple[VelocityConstraint, ...]:
    """Give constraints as a tuple.

    Args:
        constraints: The constraints.
        link_names: Names of the robot's links.
        names: Names of its other constraints.

    Raises:
        InputError: Two constraints have one name or say the same, or one names a link that the robot does not have.
    """
    found, taken = [], set(names)
    said: dict[VelocityConstraint, str] = {}
    for one in all_of(VelocityConstraint, constraints):
        if one.name in taken:
            raise InputError(f"Two constraints have the name '{one.name}'.")
        for link in one.links:
            if link not in link_names:
                raise InputError(f"Constraint '{one.name}' is about link '{link}', which the robot does not have.")
        same = said.setdefault(replace(one, name=""), one.name)
        if same != one.name:
            raise InputError(f"Constraints '{same}' and '{one.name}' say the same. Leave one out.")
        taken.add(one.name)
        found.append(one)
    return tuple(found)
