"""Collision model of a robot, read from its file and the files beside its file."""

from collections.abc import Iterable, Mapping

import numpy as np

from ik_service.collision.covering import cover_shape
from ik_service.collision.link_pairs import choose_pairs
from ik_service.collision.shapes import Box, Cylinder, LinkShapes
from ik_service.mechanism.collision_model import MAX_SPHERES, CollisionModel, LinkPair
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import MAX_POSITION, Float64Array
from ik_service.robots.readers.sphere_file import SphereDocument

DISABLED = "disabled in the SRDF file"
MAX_COVERED = 512  # most boxes and cylinders of a robot that are covered at loading; long cylinders take longest


def read_collision_model(
    robot: KinematicRobot,
    shapes: Mapping[str, LinkShapes],
    document: SphereDocument | None = None,
    disabled: Iterable[LinkPair] = (),
) -> CollisionModel | None:
    """Give the collision model of a robot; None if neither a file of spheres nor the shapes describe a model.

    A file of spheres replaces the shapes. `disabled` pairs are not checked; they may name links without spheres.
    UnknownNameError if the file of spheres names an unknown link; InputError for pairs of links without spheres.
    """
    spheres = None if document is not None else spheres_of_shapes(shapes)
    if document is not None:
        model = _model_of_document(robot, document)
    elif spheres is not None:
        model = choose_pairs(robot, spheres)
    else:
        return None
    known = [pair for pair in disabled if pair[0] != pair[1] and model.spheres.keys() >= {*pair}]
    return model.without_pairs(known, DISABLED) if known else model


def spheres_of_shapes(shapes: Mapping[str, LinkShapes]) -> dict[str, Float64Array] | None:
    """Cover the shapes of links by spheres, centres and radii [m], shape [k, 4], by link.

    None if no link has shapes, or a shape is unread or too large, or there are too many shapes: a robot with an
    uncovered part would count as free in contact.
    """
    given = {link: own for link, own in shapes.items() if own.shapes}
    flat_count = sum(isinstance(shape, Box | Cylinder) for own in given.values() for shape in own.shapes)
    if not given or flat_count > MAX_COVERED or any(own.unread for own in shapes.values()):
        return None
    found = {link: np.concatenate([cover_shape(shape) for shape in own.shapes]) for link, own in given.items()}
    is_small = all((np.abs(own) <= MAX_POSITION).all() for own in found.values())
    return found if is_small and sum(map(len, found.values())) <= MAX_SPHERES else None


def why_no_spheres(shapes: Mapping[str, LinkShapes]) -> str:
    """Give a warning with the reason why ``spheres_of_shapes`` returns None."""
    unread = [(link, own.unread[0]) for link, own in shapes.items() if own.unread]
    if unread:
        link, kind = unread[0]
        return (
            f"There is no collision model: a shape of link '{link}' is not read ({kind}). 'ik-service spheres' covers "
            "meshes by spheres, in a file that is read from then on."
        )
    if not any(own.shapes for own in shapes.values()):
        return "There is no collision model: no link has shapes for collision."
    return "There is no collision model: the shapes are too many or too large. See 'ik-service spheres'."


def _model_of_document(robot: KinematicRobot, document: SphereDocument) -> CollisionModel:
    """Give the model of a file of spheres; missing pairs are chosen."""
    for link in document.spheres:
        robot.link_index(link)
    if document.pairs is not None:
        return CollisionModel(document.spheres, document.pairs, document.left_out)
    model = choose_pairs(robot, document.spheres)
    for reason, pairs in document.left_out.items():
        model = model.without_pairs(pairs, reason)
    return model
