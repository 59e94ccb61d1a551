"""Base class of robots with a collision model; `RobotModel` derives from it."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ik_service.collision.body_spheres import BodySpheres, body_spheres, checked_attached, with_attached
from ik_service.collision.check import CHECKED_PER_BLOCK, CollisionCheck, check_collision
from ik_service.collision.world import AttachedObject, World
from ik_service.mechanism.collision_model import CollisionModel
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import Float64Array
from objectives.errors import InputError

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

DRAWS_MOST = 200  # largest ratio of drawn to wanted configurations
DISTANCES_MOST = 5_000_000_000  # sphere distances computed while few configurations are free, about: a minute of a core
FEW_FREE = 0.02  # share of free configurations that counts as few


class CollidingRobot(KinematicRobot):
    """A robot with clearance queries."""

    def with_collision_model(self, model: CollisionModel | None) -> "Self":
        """Give a robot with these spheres and pairs, None for none; UnknownNameError for an unknown link."""
        for link in () if model is None else model.spheres:
            self.link_index(link)
        return dataclasses.replace(self, collision_model=model)

    @cached_property
    def body_spheres(self) -> BodySpheres | None:
        """The spheres of the collision model on the robot's bodies; None without a collision model."""
        return None if self.collision_model is None else body_spheres(self, self.collision_model)

    @property
    def collision_words(self) -> str:
        """Describe for people the collision checks of this robot."""
        if (model := self.collision_model) is None:
            return "Collision: not checked; no collision model. 'ik-service spheres' makes one of shapes and meshes."
        return (
            f"Collision: {model.sphere_count} spheres on {len(model.spheres)} links, {len(model.pairs)} pairs checked."
        )

    def random_free_joint_q(self, rng: np.random.Generator, n: int, world: World | None = None) -> Float64Array:
        """Draw configurations uniformly inside the limits and free of contact, shape [n, joint_coord_count].

        Without a collision model and a world, the result equals ``random_joint_q``. At most 200 n configurations are
        drawn. While fewer than 1 in 50 is free, at most 5e9 sphere distances are computed.

        Raises:
            InputError: A world is given without a collision model, or too few configurations are free; the message
                names pairs in contact.
        """
        if self.collision_model is None and world is None:
            return self.random_joint_q(rng, n)
        model, objects = self.collision_model, 0 if world is None else len(world.objects)
        each = 0 if model is None else model.distance_count + objects * model.sphere_count
        found, free, tried, in_contact = list[Float64Array](), 0, 0, Counter[tuple[str, str]]()
        rounds = (self.random_joint_q(rng, n) for _ in range(DRAWS_MOST))
        places = range(0, max(n, 1), CHECKED_PER_BLOCK)
        for block in (drawn[place : place + CHECKED_PER_BLOCK] for drawn in rounds for place in places):
            check = self.collision(block, world)
            found.append(block[check.is_free][: n - free])
            free, tried = free + len(found[-1]), tried + len(block)
            if free == n:
                return np.concatenate(found)
            closest = zip(check.closest_pairs, check.is_free, strict=True)
            in_contact.update(pair for pair, is_free in closest if pair is not None and not is_free)
            if free < FEW_FREE * tried and tried * each >= DISTANCES_MOST:
                break
        deepest = [f"'{a}' and '{b}' in {count}" for (a, b), count in in_contact.most_common(3)]
        raise InputError(
            f"Of {tried} random configurations of '{self.name}', {free} are free of contact; {n} are wanted. "
            f"Deepest in contact: {', '.join(deepest)}. Where links do not touch on the real robot, leave their pair "
            "out: robot.collision_model.without_pairs, or 'ik-service spheres --free'."
        )

    def collision(
        self,
        joint_q: ArrayLike,
        world: World | None = None,
        enabled: ArrayLike | None = None,
        attached: Mapping[str, AttachedObject] | None = None,
    ) -> CollisionCheck:
        """Compute the clearance of configurations, in float64; `ik_service.CollisionChecker` does so in microseconds.

        Links fixed to the world, such as a base on a table, are not checked against the world.

        Args:
            joint_q: Configurations, shape [joint_coord_count] (then n = 1) or [n, joint_coord_count].
            world: Obstacles; None for none.
            enabled: Mask of the present objects, shape [objects] or [n, objects]; None for all.
            attached: Objects carried by links, by name; None for none.

        Raises:
            UnknownNameError: The robot has no link of a name.
            InputError: The robot has no collision model, wrong shapes, non-finite values, or a quaternion of length
                zero.
        """
        if self.body_spheres is None:
            raise InputError(f"Robot '{self.name}' has no collision model. Give it one: robot.with_collision_model.")
        spheres = self.body_spheres
        if attached:
            others = () if world is None else world.names
            spheres = with_attached(self, spheres, checked_attached(self, spheres, attached, others))
        return check_collision(self, spheres, joint_q, world, enabled)
