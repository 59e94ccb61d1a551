"""Spheres of a collision model on the bodies of a robot."""

from dataclasses import dataclass

import numpy as np

from ik_service.robots.arrays import Int32Array
from ik_service.robots.collision.model import CollisionModel
from ik_service.robots.kinematic_robot import KinematicRobot
from ik_service.robots.transforms import Float64Array, quaternion_rotate


@dataclass(frozen=True, eq=False)
class BodySpheres:
    """The spheres of a robot, link by link.

    Attributes:
        links: Names of the links that have spheres.
        link_start: First sphere of each link and, last, their number, shape [links + 1].
        link_body: Body that carries each link, -1 for the world, shape [links].
        centers: In the body's frame, world frame for -1 [m], shape [spheres, 3].
        radii: [m], shape [spheres].
        bounds: A sphere around those of each link, centre in the body's frame and radius [m], shape [links, 4].
        pairs: Links that are checked against each other, as places in `links`, shape [pairs, 2].
    """

    links: tuple[str, ...]
    link_start: Int32Array
    link_body: Int32Array
    centers: Float64Array
    radii: Float64Array
    bounds: Float64Array
    pairs: Int32Array

    def of_link(self, place: int) -> slice:
        """Give where the spheres of a link stand."""
        return slice(int(self.link_start[place]), int(self.link_start[place + 1]))


def body_spheres(robot: KinematicRobot, model: CollisionModel) -> BodySpheres:
    """Put the spheres of a model on the bodies of its robot.

    Raises:
        UnknownNameError: The robot has no link of a name.
    """
    frames = {link: robot.link_frame(link) for link in model.spheres}
    centers = [
        frames[link][1][:3] + quaternion_rotate(frames[link][1][3:], own[:, :3]) for link, own in model.spheres.items()
    ]
    radii = [own[:, 3] for own in model.spheres.values()]
    places = {link: place for place, link in enumerate(model.spheres)}
    bounds = [_bound(own, radius) for own, radius in zip(centers, radii, strict=True)]
    return BodySpheres(
        links=tuple(model.spheres),
        link_start=np.cumsum([0, *map(len, radii)], dtype=np.int32),
        link_body=np.array([body for body, _ in frames.values()], dtype=np.int32),
        centers=np.concatenate([np.empty((0, 3)), *centers]),
        radii=np.concatenate([np.empty(0), *radii]),
        bounds=np.array(bounds).reshape(-1, 4),
        pairs=np.array([[places[a], places[b]] for a, b in model.pairs], dtype=np.int32).reshape(-1, 2),
    )


def _bound(centers: Float64Array, radii: Float64Array) -> Float64Array:
    """Give a sphere around spheres, nearly the smallest: its centre walks towards the one that reaches furthest."""
    middle = 0.5 * ((centers - radii[:, None]).min(axis=0) + (centers + radii[:, None]).max(axis=0))
    for step in range(1, 200):
        reach = np.linalg.norm(centers - middle, axis=1) + radii
        furthest = int(np.argmax(reach))
        middle = middle + (centers[furthest] - middle) / (step + 1)
    return np.append(middle, (np.linalg.norm(centers - middle, axis=1) + radii).max())
