"""Obstacles around a robot and objects carried by its links, as data: a change compiles nothing."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ik_service.collision.distance_grid import DistanceGrid
from ik_service.collision.shapes import Shape
from ik_service.mechanism.collision_model import checked_spheres
from ik_service.mechanism.transforms import Float64Array
from objectives.errors import InputError

MAX_OBJECTS = 4096  # most objects of a world
Obstacle: TypeAlias = Shape | DistanceGrid


@dataclass(frozen=True, eq=False)
class World:
    """Named obstacles in the world frame, read-only; `objects` are shapes and grids by name."""

    objects: Mapping[str, Obstacle]

    def __post_init__(self) -> None:
        """Copy the mapping; InputError for an empty name, an object of another type, or too many objects."""
        if not isinstance(self.objects, Mapping):
            raise InputError(f"A world needs a mapping of names to shapes, got {type(self.objects).__name__}.")
        for name, shape in self.objects.items():
            if not isinstance(name, str) or not name:
                raise InputError(f"An object of a world needs a name that is a text, got {name!r}.")
            if not isinstance(shape, Obstacle):
                raise InputError(f"Object '{name}' must be a shape or a DistanceGrid, got {type(shape).__name__}.")
        if len(self.objects) > MAX_OBJECTS:
            raise InputError(f"A world may have {MAX_OBJECTS} objects, got {len(self.objects)}.")
        object.__setattr__(self, "objects", MappingProxyType(dict(self.objects)))

    def __reduce__(self) -> tuple[type["World"], tuple[dict[str, Obstacle]]]:
        return type(self), (dict(self.objects),)

    def __repr__(self) -> str:
        return f"<World: {len(self.objects)} objects>"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the objects, in the given order."""
        return tuple(self.objects)


MAX_ATTACHED = 4  # most attached objects at once
MAX_ATTACHED_SPHERES = 64  # most spheres of all attached objects


@dataclass(frozen=True, eq=False)
class AttachedObject:
    """An object carried by a link, read-only.

    The object keeps clear of all links that move relative to its link, of other attached objects, and of the world.

    Attributes:
        link: The carrying link.
        spheres: Centres in the link's frame [m] and radii [m], shape [k, 4].
        touches: Names of links (fingers, for example), objects of a world and other attached objects in permitted
            contact; unknown names are allowed.
    """

    link: str
    spheres: Float64Array
    touches: frozenset[str] = frozenset()

    def __init__(self, link: str, spheres: ArrayLike, touches: Collection[str] = ()) -> None:
        """Copy the arguments; InputError for a wrong name, wrong spheres, a radius <= 0, or no or too many spheres."""
        if not isinstance(link, str):
            raise InputError(f"An attached object needs the name of a link, got {link!r:.80}.")
        is_list = isinstance(touches, Collection) and not isinstance(touches, str)
        if not is_list or not all(isinstance(name, str) for name in touches):
            raise InputError(f"What an attached object touches must be a list of names, got {touches!r:.80}.")
        found = checked_spheres(f"Spheres on link '{link}'", spheres)
        if not 0 < len(found) <= MAX_ATTACHED_SPHERES:
            raise InputError(f"An attached object has 1 to {MAX_ATTACHED_SPHERES} spheres, got {len(found)}.")
        for name, value in (("link", link), ("spheres", found), ("touches", frozenset(touches))):
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[type["AttachedObject"], tuple[object, ...]]:
        return type(self), (self.link, np.array(self.spheres), self.touches)

    @property
    def content(self) -> tuple[object, ...]:
        """Content for comparing two objects."""
        return self.link, self.spheres.tobytes(), self.touches

    def __repr__(self) -> str:
        return f"<AttachedObject: {len(self.spheres)} spheres on {self.link}>"
