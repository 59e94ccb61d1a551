"""Distances of any configurations from contact, by the compiled verdict on answers, in float64."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ik_service.collision.check import CollisionCheck
from ik_service.collision.world import AttachedObject, World
from ik_service.kernels.device_lock import DEVICE_LOCK, device_work
from ik_service.kernels.kernel_loading import KernelsFor, whom_of
from ik_service.mechanism.configuration import checked_joint_q
from ik_service.robots import RobotModel
from ik_service.solver.construction import resolve_device
from ik_service.solver.given.arrays import NUMBER_MAX
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.worlds import read_worlds
from ik_service.solver.verdict.collision_verdict import ClearanceCheck
from objectives.errors import InputError


class CollisionChecker:
    """Checks configurations for contact as `robot.collision` does, with compiled code. Not thread-safe.

    A call with one configuration takes some 10 to 40 us on a CPU; the first call may compile for about a second.

    Args:
        robot: A robot with a collision model.
        world: Obstacles; None for none.
        attached: Objects carried by links, by name; None for none.
        device: A Warp device, or "auto": the first GPU, else the CPU.

    Raises:
        UnknownNameError: The robot has no link for an attached object.
        InputError: The robot has no collision model, or the value of an argument is not allowed.
        KernelCacheError: Compiled kernels can be neither read nor kept.
    """

    def __init__(
        self,
        robot: RobotModel,
        world: World | None = None,
        attached: Mapping[str, AttachedObject] | None = None,
        *,
        device: Any = "cpu",
    ) -> None:
        if not isinstance(robot, RobotModel) or not isinstance(world, World | None):
            got = f"{type(robot).__name__} and {type(world).__name__}"
            raise InputError(f"robot and world must be a RobotModel and one World or None, got {got}.")
        options = SolverOptions(collision="self" if world is None else "world")
        around = read_worlds(robot, options, world, None, None, attached, 1)
        assert around is not None  # `options` ask for a check
        self.robot, self.device = robot, resolve_device(device)
        self._kernels = KernelsFor(whom_of(robot.name, ()))
        with DEVICE_LOCK, self._kernels:
            self._check = ClearanceCheck(robot.on_device(str(self.device)))
            self._check.use(around)
        links = robot.body_spheres.links if robot.body_spheres is not None else ()
        self._names = (*links, *around.attached, *(() if world is None else world.names))

    def check(self, joint_q: ArrayLike) -> CollisionCheck:
        """Compute clearances, as `robot.collision`.

        Args:
            joint_q: Configurations, shape [joint_coord_count] (then n = 1) or [n, joint_coord_count].

        Raises:
            InputError: Wrong shapes, values that are not finite or above 1e9, or a quaternion of length zero.
        """
        checked = checked_joint_q(self.robot, joint_q)
        if np.abs(checked).max(initial=0.0) > NUMBER_MAX:
            raise InputError(f"joint_q holds numbers above {NUMBER_MAX:g}.")
        with device_work(self.device), self._kernels:
            found = self._check.check(checked)
        return CollisionCheck(found["clearance"], found["closest"], self._names)
