"""Clearance of configurations: distances from self-collision and from a world, in float64."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ik_service.collision.body_spheres import BodySpheres
from ik_service.collision.world import World
from ik_service.kinematics.host_poses import poses_of_bodies, rotated
from ik_service.mechanism.arrays import Int32Array
from ik_service.mechanism.configuration import checked_joint_q
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import Float64Array
from objectives.errors import InputError

CHECKED_PER_BLOCK = 512  # configurations per block: bounds the memory of sphere centres
DISTANCES_AT_ONCE = 1 << 16  # distances computed at once, about: the numbers stay in the cache
NOTHING = -1


@dataclass(frozen=True, eq=False)
class CollisionCheck:
    """Distances of configurations from contact.

    Attributes:
        clearance: Least distance between two checked links, or a link and an object [m], negative in contact, inf
            without obstacles, shape [n].
        closest: The closest pair, indices into `names`, -1 without obstacles, shape [n, 2]; links come first.
        names: Links with spheres, then attached objects, then objects of the world.
    """

    clearance: Float64Array
    closest: Int32Array
    names: tuple[str, ...]

    @property
    def is_free(self) -> NDArray[np.bool_]:
        """True for configurations free of contact, shape [n]."""
        return np.asarray(self.clearance > 0.0)

    @property
    def closest_pairs(self) -> list[tuple[str, str] | None]:
        """Names of the closest pair of each configuration."""
        return [None if a == NOTHING else (self.names[a], self.names[b]) for a, b in self.closest]


def check_collision(
    robot: KinematicRobot,
    spheres: BodySpheres,
    joint_q: ArrayLike,
    world: World | None = None,
    enabled: ArrayLike | None = None,
) -> CollisionCheck:
    """Check configurations, as described in `RobotModel.collision`."""
    configurations = checked_joint_q(robot, joint_q)
    present = _checked_enabled(world, enabled, len(configurations))
    clearance = np.full(len(configurations), np.inf)
    closest = np.full((len(configurations), 2), NOTHING, dtype=np.int32)
    for start in range(0, len(configurations), CHECKED_PER_BLOCK):
        block = slice(start, start + CHECKED_PER_BLOCK)
        centers = sphere_centers(robot, spheres, configurations[block])
        for first, second in spheres.pairs:
            distance = pair_distance(spheres, centers, first, second)
            _keep_least(distance, first, second, clearance[block], closest[block])
        if world is not None:
            step = max(1, DISTANCES_AT_ONCE // len(spheres.radii))
            for begin in range(0, centers.shape[1], step):
                part = slice(start + begin, start + min(begin + step, centers.shape[1]))
                own = centers[:, begin : begin + step]
                _against_world(spheres, own, world, present[part], clearance[part], closest[part])
    return CollisionCheck(clearance, closest, spheres.links + (() if world is None else world.names))


def sphere_centers(robot: KinematicRobot, spheres: BodySpheres, configurations: Float64Array) -> Float64Array:
    """Give the sphere centres in the world frame [m], shape [spheres, n, 3]; each coordinate is contiguous."""
    poses = poses_of_bodies(robot, configurations)
    centers = np.empty((3, len(spheres.radii), len(configurations)))
    for place, body in enumerate(spheres.link_body):
        own = spheres.of_link(place)
        points = rotated(poses[body, 3:, np.newaxis], spheres.centers[own].T[..., np.newaxis])
        np.add(poses[body, :3, np.newaxis], points, out=centers[:, own])
    return np.moveaxis(centers, 0, -1)


def pair_distance(spheres: BodySpheres, centers: Float64Array, first: int, second: int) -> Float64Array:
    """Give the least distance between the spheres of two links [m], shape [n]."""
    by_coordinate, radii = np.moveaxis(centers, -1, 0), spheres.radii
    a, b = spheres.of_link(first), spheres.of_link(second)
    width = max(1, DISTANCES_AT_ONCE // max(1, centers.shape[1]))  # pairs of spheres at once
    if (a.stop - a.start) * (b.stop - b.start) <= width:
        return _least_distance(by_coordinate[:, a], by_coordinate[:, b], radii[a], radii[b])
    parts_b = _parts(b, width)
    parts_a = _parts(a, width // (parts_b[0].stop - parts_b[0].start))
    found = [
        _least_distance(by_coordinate[:, one], by_coordinate[:, other], radii[one], radii[other])
        for one in parts_a
        for other in parts_b
    ]
    return np.asarray(np.min(found, axis=0))


def _parts(own: slice, width: int) -> list[slice]:
    return [slice(start, min(start + width, own.stop)) for start in range(own.start, own.stop, width)]


def _least_distance(
    first: Float64Array, second: Float64Array, first_radii: Float64Array, second_radii: Float64Array
) -> Float64Array:
    """Give the least distance of two sets of spheres, centres [m], shape [3, spheres, n], and radii [m]: shape [n]."""
    gaps = first[:, :, np.newaxis] - second[:, np.newaxis]
    gaps *= gaps
    distance = gaps[0]  # sum in this fixed order: one configuration and a batch give the same bytes
    distance += gaps[1]
    distance += gaps[2]
    np.sqrt(distance, out=distance)
    distance -= (first_radii[:, np.newaxis] + second_radii)[..., np.newaxis]
    return np.asarray(distance.min(axis=(0, 1)))


def _against_world(
    spheres: BodySpheres,
    centers: Float64Array,
    world: World,
    present: NDArray[np.bool_],
    clearance: Float64Array,
    closest: Int32Array,
) -> None:
    for number, shape in enumerate(world.objects.values()):
        distances = shape.signed_distance(centers) - spheres.radii[:, np.newaxis]
        for place in np.flatnonzero(spheres.link_body >= 0).tolist():
            if spheres.may_touch(place, world.names[number]):
                continue
            least = np.where(present[:, number], distances[spheres.of_link(place)].min(axis=0), np.inf)
            _keep_least(least, place, len(spheres.links) + number, clearance, closest)


def _keep_least(distance: Float64Array, first: int, second: int, clearance: Float64Array, closest: Int32Array) -> None:
    nearer = distance < clearance
    clearance[nearer] = distance[nearer]
    closest[nearer] = first, second


def _checked_enabled(world: World | None, enabled: ArrayLike | None, n: int) -> NDArray[np.bool_]:
    count = 0 if world is None else len(world.objects)
    if enabled is None:
        return np.ones((n, count), dtype=bool)
    given = np.asarray(enabled)
    if given.dtype != np.bool_ or given.shape not in ((count,), (n, count)):
        raise InputError(
            f"enabled must be truth values of the shape [{count}] or [{n}, {count}] (objects of the world), "
            f"got {given.dtype} {list(given.shape)}."
        )
    return np.broadcast_to(given, (n, count))
