"""What a robot with a collision model can be asked; `RobotModel` is one."""

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ik_service.robots.collision.attached import AttachedObject
from ik_service.robots.collision.model import CollisionModel
from ik_service.robots.collision.world import World
from ik_service.robots.collision_checks.body_spheres import BodySpheres, body_spheres, checked_attached, with_attached
from ik_service.robots.collision_checks.check import CollisionCheck, check_collision
from ik_service.robots.kinematic_robot import KinematicRobot
from ik_service.robots.transforms import Float64Array
from objectives.errors import InputError

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

DRAWS_MOST = 200
"""Times that as many configurations are drawn as are wanted, until so many are free."""


class CollidingRobot(KinematicRobot):
    """A robot, and how far its configurations are from contact."""

    def with_collision_model(self, model: CollisionModel | None) -> "Self":
        """Give a model with spheres and pairs in place of those that it has now; None for none.

        Raises:
            UnknownNameError: The robot has no link of a name.
        """
        for link in () if model is None else model.spheres:
            self.link_index(link)
        return dataclasses.replace(self, collision_model=model)

    @cached_property
    def body_spheres(self) -> BodySpheres | None:
        """The spheres of the collision model on the robot's bodies; None without a model."""
        return None if self.collision_model is None else body_spheres(self, self.collision_model)

    @property
    def collision_words(self) -> str:
        """Say, for people, whether collision is checked, and by what."""
        if (model := self.collision_model) is None:
            return "Collision: not checked; no collision model. 'ik-service spheres' makes one of shapes and meshes."
        return (
            f"Collision: {model.sphere_count} spheres on {len(model.spheres)} links, {len(model.pairs)} pairs checked."
        )

    def random_free_joint_q(self, rng: np.random.Generator, n: int, world: World | None = None) -> Float64Array:
        """Draw configurations uniformly inside the limits and free of contact, shape [n, joint_coord_count].

        Without a collision model and a world they are those of ``random_joint_q``.

        Args:
            rng: Draws them.
            n: How many.
            world: Obstacles; None for none.

        Raises:
            InputError: There is a world and no collision model, or next to nothing is free.
        """
        if self.collision_model is None and world is None:
            return self.random_joint_q(rng, n)
        found, missing = [np.empty((0, self.joint_coord_count))], n
        for _ in range(DRAWS_MOST):
            drawn = self.random_joint_q(rng, n)
            found.append(drawn[self.collision(drawn, world).is_free][:missing])
            missing -= len(found[-1])
            if not missing:
                return np.concatenate(found)
        raise InputError(
            f"Of {DRAWS_MOST * n} random configurations of '{self.name}', {n - missing} are free of contact."
        )

    def collision(
        self,
        joint_q: ArrayLike,
        world: World | None = None,
        enabled: ArrayLike | None = None,
        attached: Mapping[str, AttachedObject] | None = None,
    ) -> CollisionCheck:
        """Say how far configurations are from contact, in float64.

        Links that no joint moves are not checked against the world: they stand in it, on a table or beside a wall.

        Args:
            joint_q: Configurations, shape [joint_coord_count] (then n = 1) or [n, joint_coord_count].
            world: Obstacles; None for none.
            enabled: Which of its objects are there, shape [objects] or [n, objects]; None for all.
            attached: Objects that links carry, by name; None for none.

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
