"""Geoms of a compiled MJCF model that collide; those of the world body are its surroundings and no part of a robot."""

from typing import Any

from ik_service.collision.link_shapes import LinkShapes
from ik_service.collision.shapes import BoundedShape, Box, Capsule, Cylinder, Sphere


def read_body_shapes(mujoco: Any, model: Any, body: int) -> LinkShapes:
    """Give the shapes of a body that can collide with anything."""
    shapes: list[BoundedShape] = []
    unread: list[str] = []
    first, count = int(model.body_geomadr[body]), int(model.body_geomnum[body])
    for geom in range(first, first + count) if body > 0 else ():
        if not (model.geom_contype[geom] or model.geom_conaffinity[geom]):
            continue
        shape = _shape(mujoco.mjtGeom, model, geom)
        if shape is None:
            unread.append(mujoco.mjtGeom(int(model.geom_type[geom])).name.removeprefix("mjGEOM_").lower())
        else:
            shapes.append(shape)
    return LinkShapes(tuple(shapes), tuple(unread))


def _shape(kinds: Any, model: Any, geom: int) -> BoundedShape | None:
    a, b, c = map(float, model.geom_size[geom])
    w, x, y, z = map(float, model.geom_quat[geom])
    position = tuple(map(float, model.geom_pos[geom]))
    pose = (*position, x, y, z, w)
    kind = int(model.geom_type[geom])
    if kind == kinds.mjGEOM_SPHERE:
        return Sphere(a, position)
    if kind == kinds.mjGEOM_CAPSULE:
        return Capsule(a, 2.0 * b, pose)
    if kind == kinds.mjGEOM_CYLINDER:
        return Cylinder(a, 2.0 * b, pose)
    return Box((2.0 * a, 2.0 * b, 2.0 * c), pose) if kind == kinds.mjGEOM_BOX else None
