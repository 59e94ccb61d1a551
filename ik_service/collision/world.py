"""Obstacles around a robot, as data: changing them compiles nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TypeAlias

from ik_service.collision.distance_grid import DistanceGrid
from ik_service.collision.shapes import Shape
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
        """Pickle what the constructor takes."""
        return type(self), (dict(self.objects),)

    def __repr__(self) -> str:
        """Give the number of objects."""
        return f"<World: {len(self.objects)} objects>"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the objects, in the order in which they were given."""
        return tuple(self.objects)
