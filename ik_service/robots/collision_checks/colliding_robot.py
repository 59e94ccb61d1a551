"""What a robot with a collision model can be asked; `RobotModel` is one."""

import dataclasses
from functools import cached_property
from typing import Self

from numpy.typing import ArrayLike

from ik_service.robots.collision.model import CollisionModel
from ik_service.robots.collision.world import World
from ik_service.robots.collision_checks.body_spheres import BodySpheres, body_spheres
from ik_service.robots.collision_checks.check import CollisionCheck, check_collision
from ik_service.robots.kinematic_robot import KinematicRobot
from objectives.errors import InputError


class CollidingRobot(KinematicRobot):
    """A robot, and how far its configurations are from contact."""

    def with_collision_model(self, model: CollisionModel | None) -> Self:
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

    def collision(
        self, joint_q: ArrayLike, world: World | None = None, enabled: ArrayLike | None = None
    ) -> CollisionCheck:
        """Say how far configurations are from contact, in float64.

        Links that no joint moves are not checked against the world: they stand in it, on a table or beside a wall.

        Args:
            joint_q: Configurations, shape [joint_coord_count] (then n = 1) or [n, joint_coord_count].
            world: Obstacles; None for none.
            enabled: Which of its objects are there, shape [objects] or [n, objects]; None for all.

        Raises:
            InputError: The robot has no collision model, wrong shapes, non-finite values, or a quaternion of length
                zero.
        """
        if self.body_spheres is None:
            raise InputError(f"Robot '{self.name}' has no collision model. Give it one: robot.with_collision_model.")
        return check_collision(self, self.body_spheres, joint_q, world, enabled)
