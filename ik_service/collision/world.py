"""Obstacles around a robot and objects that its links carry, as data: changing them compiles nothing."""

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

MAX_OBJECTS = 4096
"""Most objects of a world."""
Obstacle: TypeAlias = Shape | DistanceGrid


@dataclass(frozen=True, eq=False)
class World:
    """Named obstacles in the world frame, read-only.

    Attributes:
        objects: The shapes and grids by name.
    """

    objects: Mapping[str, Obstacle]

    def __post_init__(self) -> None:
        """Copy the mapping.

        Raises:
            InputError: It is no mapping, a name is empty, what it names is no obstacle, or there are too many.
        """
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
        """Names of the objects, in the order in which they were given."""
        return tuple(self.objects)


MAX_ATTACHED = 4
"""Most objects that are attached at once."""
MAX_ATTACHED_SPHERES = 64
"""Most spheres of them all."""


@dataclass(frozen=True, eq=False)
class AttachedObject:
    """An object that moves with a link, read-only.

    It keeps off all links that move against its own, off other attached objects, and off the world.

    Attributes:
        link: The link that carries it.
        spheres: Centres in the link's frame [m] and radii [m], shape [k, 4].
        touches: Names of what it may touch, be it there or not: links such as fingers, objects of a world, and other
            attached objects.
    """

    link: str
    spheres: Float64Array
    touches: frozenset[str] = frozenset()

    def __init__(self, link: str, spheres: ArrayLike, touches: Collection[str] = ()) -> None:
        """Copy and check what is given.

        Raises:
            InputError: A name is no text, spheres have no shape [k, 4] of finite numbers, a radius is not positive, or
                there are none or too many.
        """
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
        """Content by which one object is the same as another."""
        return self.link, self.spheres.tobytes(), self.touches

    def __repr__(self) -> str:
        return f"<AttachedObject: {len(self.spheres)} spheres on {self.link}>"
