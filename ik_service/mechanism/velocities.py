"""Constraints on velocities alone (rolling, gears): no constraint on positions, used by controllers."""

from dataclasses import dataclass, replace
from math import isfinite
from typing import ClassVar

from ik_service.mechanism.loops import IDENTITY, Transform, require_number
from ik_service.mechanism.transforms import checked_transform
from objectives.errors import InputError
from objectives.tasks.velocity import MovingPair, VelocityObjective

ROLLING = ("rolling", "no_sideslip")  # kinds with a radius
GEAR = "gear"
VELOCITY_KINDS = (*ROLLING, "constant_velocity", GEAR)


@dataclass(frozen=True)
class VelocityConstraint:
    """One row on the velocity of a frame on a link relative to a frame on another link (nonholonomic constraint).

    | kind | quantity held at zero velocity |
    |---|---|
    | rolling | lowest point of a wheel against the ground, along the rolling direction |
    | no_sideslip | lowest point of a wheel against the ground, across the rolling direction |
    | constant_velocity | relative rotation about the line halfway between both axes, as in a joint of two shafts |
    | gear | rotation of a link about its axis minus ratio times rotation of the other link, both against the carrier |

    The frame of a wheel is at the wheel's centre with z along the axle; the ground frame has z upwards. Axes of shafts
    and gears are the z axes of both frames. For gears that hold positions, too, use a mimic joint or a
    ``CoordinateConstraint``.

    Attributes:
        name: Name of the constraint.
        kind: A kind of the table.
        link: Link that carries the frame: the wheel, or a shaft or gear.
        reference_link: Link that carries the reference frame: the ground, or the other shaft or gear; None for the
            world (not for gears).
        offset: ``T_link_frame``, position [m] and quaternion xyzw.
        reference_offset: ``T_reference_link_frame``, position [m] and quaternion xyzw.
        radius: Radius of the wheel [m].
        ratio: Rotation of the gear on ``link`` per rotation of the other gear; negative for opposite directions.
        carrier: Link with the bearings of both gears; None for the world.
    """

    name: str
    kind: str
    link: str
    reference_link: str | None = None
    offset: Transform = IDENTITY
    reference_offset: Transform = IDENTITY
    radius: float | None = None
    ratio: float | None = None
    carrier: str | None = None
    equality: ClassVar = "say the same"

    def __post_init__(self) -> None:
        """Convert numbers to floats, and check all fields; InputError for a value that is not allowed."""
        if self.kind not in VELOCITY_KINDS:
            allowed = ", ".join(map(repr, VELOCITY_KINDS))
            raise InputError(f"Constraint '{self.name}': kind is {self.kind!r}. Allowed: {allowed}.")
        if self.link == self.reference_link:
            raise InputError(f"Constraint '{self.name}' is about link '{self.link}' twice. Allowed: two links.")
        for field in ("radius", "ratio"):
            require_number(f"Constraint '{self.name}': {field}", getattr(self, field))
        if (self.radius is not None) != (self.kind in ROLLING) or not 0.0 < (
            1.0 if self.radius is None else self.radius
        ) < float("inf"):
            wanted = "a positive number" if self.kind in ROLLING else "None"
            raise InputError(f"Constraint '{self.name}': radius is {self.radius}. Allowed for {self.kind!r}: {wanted}.")
        self._check_gear()
        for field in ("offset", "reference_offset"):
            transform = checked_transform(getattr(self, field), f"Constraint '{self.name}': {field}")
            object.__setattr__(self, field, tuple(transform.tolist()))

    def _check_gear(self) -> None:
        is_gear = self.kind == GEAR
        if (self.ratio is not None) != is_gear or self.ratio == 0.0 or not isfinite(self.ratio or 1.0):
            wanted = "a number that is not 0" if is_gear else "None"
            raise InputError(f"Constraint '{self.name}': ratio is {self.ratio}. Allowed for {self.kind!r}: {wanted}.")
        if self.carrier is not None and (not is_gear or self.carrier in (self.link, self.reference_link)):
            wanted = "a third link" if is_gear else "None"
            raise InputError(
                f"Constraint '{self.name}': carrier is '{self.carrier}'. Allowed for {self.kind!r}: {wanted}."
            )
        if is_gear and self.reference_link is None:
            raise InputError(f"Constraint '{self.name}' is a gear with the world. Allowed: two links.")

    def rows(self, weight: float = 1.0) -> VelocityObjective:
        """Make the objective of the constraint's row over a motion, unbound, with a factor [1/m or 1/rad]."""
        return VelocityObjective(self.parts, weight=weight)

    @property
    def parts(self) -> tuple[MovingPair, ...]:
        """Pairs of frames; the sum of their speeds is held at zero."""
        if self.kind != GEAR or self.ratio is None or self.reference_link is None:
            ends = self.link, self.reference_link, self.offset, self.reference_offset
            return (MovingPair(self.kind, *ends, self.radius or 1.0),)
        return (
            MovingPair("turn", self.link, self.carrier, self.offset, IDENTITY),
            MovingPair("turn", self.reference_link, self.carrier, self.reference_offset, IDENTITY, -self.ratio),
        )

    @property
    def content(self) -> "VelocityConstraint":
        """The constraint without its name."""
        return replace(self, name="")

    @property
    def links(self) -> tuple[str, ...]:
        """Links of the constraint, without the world."""
        return tuple(link for link in (self.link, self.reference_link, self.carrier) if link is not None)

    @property
    def is_to_world(self) -> bool:
        """True for a constraint on motions in the world."""
        return self.reference_link is None or (self.kind == GEAR and self.carrier is None)
