"""Shapes of a link as its file gives them."""

from typing import NamedTuple

from ik_service.collision.shapes import BoundedShape, Numbers


class MeshReference(NamedTuple):
    """A mesh that a robot's file names; the file is not opened.

    Attributes:
        filename: Its address as it is written.
        scale: Along x, y and z of the mesh.
        pose: Position [m] and quaternion xyzw in the link's frame.
    """

    filename: str
    scale: Numbers
    pose: Numbers


class LinkShapes(NamedTuple):
    """Shapes of a link by which it collides.

    Attributes:
        shapes: Those that are spheres, capsules, cylinders or boxes, in the link's frame.
        unread: The kinds of the others: meshes above all.
        meshes: Those meshes among them that have a file.
    """

    shapes: tuple[BoundedShape, ...] = ()
    unread: tuple[str, ...] = ()
    meshes: tuple[MeshReference, ...] = ()


NO_SHAPES = LinkShapes()
