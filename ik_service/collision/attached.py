"""What a robot holds: spheres on a link, for as long as it carries them. It is data, as worlds are."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ik_service.mechanism.collision_model import checked_spheres
from ik_service.mechanism.transforms import Float64Array
from objectives.errors import InputError

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
        """Pickle what the constructor takes."""
        return type(self), (self.link, np.array(self.spheres), self.touches)

    @property
    def content(self) -> tuple[object, ...]:
        """What makes one object the same as another."""
        return self.link, self.spheres.tobytes(), self.touches

    def __repr__(self) -> str:
        """Give the sizes."""
        return f"<AttachedObject: {len(self.spheres)} spheres on {self.link}>"
