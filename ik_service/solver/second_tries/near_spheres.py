"""Distances of spheres to their nearest obstacles in configurations, and gradients of these distances."""

import typing
from functools import lru_cache
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.collision.clearance import ClearanceSize, approaches_function
from ik_service.collision.collision_data import CollisionData
from ik_service.collision.sphere_arrays import CollisionSpheres
from ik_service.collision.world_arrays import CollisionWorlds
from ik_service.compiler import Lanes, cpu_target
from ik_service.kernels.host_device_array import wait
from ik_service.kernels.kernel_loading import load_kernels_alone
from ik_service.robots import DeviceModel
from ik_service.solver.given.worlds import CheckedWorlds

FloatArray = NDArray[np.float64]
NEAR = 16
"""Most spheres of a configuration that are told: the nearest."""


@lru_cache
@typing.no_type_check
def near_kernel(size: ClearanceSize) -> wp.Kernel:
    """Return the kernel of the nearest spheres of configurations; see `approaches_function`."""
    approaches = approaches_function(size)
    Configuration: Any = wp.types.vector(size.coordinates, wp.float32)
    options = {} if size.lanes.width == 1 else {"cpu_compiler_flags": cpu_target().flags}

    @wp.kernel(module="unique", enable_backward=False, module_options=options)
    def near(
        joint_q: wp.array2d[float],  # [n, joint_coord_count]
        spheres: CollisionSpheres,
        worlds: CollisionWorlds,
        farthest: float,
        # out
        count_out: wp.array[wp.int32],  # [n]
        gaps_out: wp.array2d[float],  # [n, NEAR]
        slopes_out: wp.array3d[float],  # [n, NEAR, joint_coord_count]
    ):
        p = wp.tid()
        q = Configuration()
        for c in range(joint_q.shape[1]):
            q[c] = joint_q[p, c]
        count_out[p] = approaches(p, q, spheres, worlds, farthest, gaps_out, slopes_out)

    return near


class NearSpheres:
    """Nearest spheres in configurations of a robot with a collision model."""

    def __init__(self, model: DeviceModel, lanes: Lanes) -> None:
        self._model, self._data = model, CollisionData(model, lanes)
        self._kernel = near_kernel(self._data.size)
        load_kernels_alone(self._kernel.module, model.device)

    def use(self, worlds: CheckedWorlds) -> None:
        """Set the obstacles around each problem."""
        self._data.use(worlds.worlds, worlds.number, worlds.enabled, worlds.attached, 0.0)

    def of(self, joint_q: FloatArray, farthest: float) -> tuple[FloatArray, FloatArray]:
        """Return distances [m] below `farthest`, and their derivatives by every coordinate [m per rad or m]."""
        # Distances are [n, NEAR] in rising order, inf where there are fewer; slopes [n, NEAR, joint_coord_count], 0
        # for coordinates of ball and floating joints
        device, data, (count, coordinates) = self._model.device, self._data, joint_q.shape
        spheres = data.spheres(range(self._model.robot.trees.ntree))
        found = wp.zeros(count, dtype=wp.int32, device=device)
        gaps = wp.zeros((count, NEAR), dtype=wp.float32, device=device)
        slopes = wp.zeros((count, NEAR, coordinates), dtype=wp.float32, device=device)
        given: wp.array[Any] = wp.array(joint_q, dtype=wp.float32, device=device)
        wp.launch(self._kernel, count, [given, spheres, data.worlds, farthest, found, gaps, slopes], device=device)
        wait(device)
        is_there = np.arange(NEAR) < found.numpy()[:, np.newaxis]
        return (
            np.where(is_there, gaps.numpy(), np.inf).astype(np.float64),
            np.where(is_there[..., np.newaxis], slopes.numpy(), 0.0).astype(np.float64),
        )
