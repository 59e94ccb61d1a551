"""Elements ``<collision>`` and ``<visual>`` of a URDF; unknown shapes are skipped and named."""

import numpy as np

from ik_service.collision.shapes import BoundedShape, Box, Capsule, Cylinder, LinkShapes, MeshReference, Sphere
from ik_service.errors import RobotFileError
from ik_service.mechanism.transforms import MAX_NUMBER, Float64Array, identity_transform, quaternion_from_rpy
from ik_service.robots.readers.xml_reader import XmlElement, read_xml, shortened
from objectives.errors import InputError

MAX_SHAPES = 256  # most shapes of a link; further shapes count as unread
_MISSING = -1.0


def read_visuals(data: bytes) -> dict[str, tuple[MeshReference, ...]]:
    """Read the visual meshes of the links of a URDF, by link, without opening their files."""
    return {link.text("name"): read_link_shapes(link, "visual").meshes for link in read_xml(data).all("link")}


def read_link_shapes(link: XmlElement, tag: str = "collision") -> LinkShapes:
    """Read the collision shapes of a link, or its visual shapes with the tag "visual"."""
    shapes: list[BoundedShape] = []
    unread: list[str] = []
    meshes: list[MeshReference] = []
    for number, collision in enumerate(link.all(tag)):
        geometry = next(iter(collision.all("geometry")), None)
        element = geometry.children[0] if geometry is not None and geometry.children else None
        kind = "nothing" if element is None else shortened(element.tag)
        if element is None or number >= MAX_SHAPES:
            collision.leave_out("origin")
        try:
            shape = None if element is None or number >= MAX_SHAPES else _read_shape(element, _pose(collision))
        except (RobotFileError, InputError):
            shape = None
        if shape is not None and not _is_a_point(shape):
            shapes.append(shape)
            continue
        unread.append(kind if shape is None else f"{kind} of radius 0")
        if element is not None and element.tag == "mesh" and (mesh := _read_mesh(element, collision)) is not None:
            meshes.append(mesh)
    return LinkShapes(tuple(shapes), tuple(unread), tuple(meshes))


def _pose(collision: XmlElement) -> tuple[float, ...]:
    return tuple(read_origin(collision).tolist())


def read_origin(element: XmlElement, tag: str = "origin") -> Float64Array:
    """Read the frame of an element, rotation from ``rpy`` or ``quat_xyzw`` (URDF 1.1); RobotFileError if invalid."""
    origin = element.one(tag)
    if origin is None:
        return identity_transform()
    xyz, rpy = (origin.numbers(name, (0.0, 0.0, 0.0)) for name in ("xyz", "rpy"))
    if max(map(abs, (*xyz, *rpy))) > MAX_NUMBER:
        raise origin.error(f"numbers of an origin must not exceed {MAX_NUMBER:g}, got xyz {xyz} and rpy {rpy}.")
    if origin.get("quat_xyzw") is None:
        return np.concatenate([xyz, quaternion_from_rpy(*rpy)])
    if origin.get("rpy") is not None:
        raise origin.error("attributes 'rpy' and 'quat_xyzw' are two rotations; only one is allowed.")
    quaternion = np.array(origin.numbers("quat_xyzw", (0.0, 0.0, 0.0, 1.0)))
    largest = np.abs(quaternion).max()
    if largest == 0.0:
        raise origin.error("attribute 'quat_xyzw' must not be zero.")
    quaternion /= largest  # its length would overflow
    return np.concatenate([xyz, quaternion / np.linalg.norm(quaternion)])


def _read_mesh(element: XmlElement, collision: XmlElement) -> MeshReference | None:
    try:
        return MeshReference(element.text("filename"), element.numbers("scale", (1.0, 1.0, 1.0)), _pose(collision))
    except RobotFileError:
        return None


def _is_a_point(shape: BoundedShape) -> bool:
    """Return whether a shape is a sphere of radius 0, which a collision model cannot hold."""
    if isinstance(shape, Capsule):
        return shape.radius == shape.length == 0.0
    return isinstance(shape, Sphere) and shape.radius == 0.0


def _read_shape(element: XmlElement, pose: tuple[float, ...]) -> BoundedShape | None:
    """Read a shape; a missing length is read as a negative length, which every shape refuses."""
    if element.tag == "box":
        return Box(element.numbers("size", (_MISSING, _MISSING, _MISSING)), pose)
    radius, length = (element.number(name, _MISSING) for name in ("radius", "length"))
    if element.tag == "sphere":
        return Sphere(radius, pose[:3])
    if element.tag == "cylinder":
        return Cylinder(radius, length, pose)
    return Capsule(radius, length, pose) if element.tag == "capsule" else None
