"""Shapes of a link as its file gives them."""

from typing import NamedTuple

from ik_service.robots.collision.shapes import BoundedShape


class LinkShapes(NamedTuple):
    """Shapes of a link by which it collides.

    Attributes:
        shapes: Those that are spheres, capsules, cylinders or boxes, in the link's frame.
        unread: The kinds of the others: meshes above all.
    """

    shapes: tuple[BoundedShape, ...] = ()
    unread: tuple[str, ...] = ()


NO_SHAPES = LinkShapes()
