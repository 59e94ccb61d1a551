"""Launches of SIMD packets of problems on the CPU of the host; poses of links in float64, and gradients by these."""

import typing
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.compiler import cpu_target
from ik_service.kernels import typed_warp
from ik_service.kernels.device_lock import DEVICE_LOCK
from ik_service.kernels.kernel_loading import KernelsFor, load_kernels_alone
from ik_service.mechanism.transforms import Float64Array
from ik_service.robots.model import RobotModel
from ik_service.solver.verdict.float64_kinematics import Kinematics, KinematicsRef, float64_kinematics, packet_function
from ik_service.template_files import TemplateFolder

TEMPLATES = TemplateFolder("ik_service.solver.derivatives")


def shown(values: NDArray[Any]) -> Any:
    """Return numbers as a Warp array, without a copy if possible."""
    return wp.array(np.ascontiguousarray(values), copy=False, device="cpu")


def load(kernel: wp.Kernel) -> None:
    """Load a kernel, compiled if not in the cache; KernelCacheError where kernels can be neither read nor kept."""
    with DEVICE_LOCK, KernelsFor():
        load_kernels_alone(kernel.module, wp.get_device("cpu"))


def launch(kernel: wp.Kernel, count: int, inputs: list[Any]) -> None:
    """Launch a kernel over `count` problems, loaded as in `load`."""
    with DEVICE_LOCK, KernelsFor():
        load_kernels_alone(kernel.module, wp.get_device("cpu"))
        wp.launch(kernel, count, inputs, device="cpu", record_tape=False)


POSE = 7


@cache
@typing.no_type_check
def pose_kernel(path: int) -> wp.Kernel:
    """Return the kernel for links with at most `path` joints below them."""

    @typed_warp.func_native(packet_function("chain", "link_poses", folder=TEMPLATES, path=path))
    def pass_poses(
        p: int,
        place: int,
        left: int,
        robot: KinematicsRef,
        joint_q: wp.array2d[wp.float64],
        pulls_back: int,
        poses: wp.array3d[wp.float64],
        by_joint_q: wp.array2d[wp.float64],
    ): ...

    @wp.kernel(module="unique", enable_backward=False, module_options={"cpu_compiler_flags": cpu_target().flags})
    def link_poses(
        count: int,
        robot: Kinematics,  # with a path to each link
        joint_q: wp.array2d[wp.float64],  # [n, joint_coord_count]
        pulls_back: int,  # 1: pull gradients back
        # out, or in
        poses: wp.array3d[wp.float64],  # [n, links, 7]: zeros, for the poses; or a gradient by them
        # out
        by_joint_q: wp.array2d[wp.float64],  # [n, joint_coord_count]: zeros, for the gradient by the configurations
    ):
        p = wp.tid()
        pass_poses(p, p, count - p, robot, joint_q, pulls_back, poses, by_joint_q)

    return link_poses


class LinkChains:
    """Chains of joints to some links of a robot, by name."""

    def __init__(self, robot: RobotModel, links: Sequence[str]) -> None:
        self.robot, self.link_count = robot, len(links)
        self._kinematics = float64_kinematics(robot.on_device("cpu"), links)
        self._kernel = pose_kernel(max(int(np.diff(self._kinematics.path_start.numpy()).max(initial=0)), 1))

    def poses(self, joint_q: Float64Array) -> Float64Array:
        """Return the poses of the links in the world [m, xyzw], shape [n, links, 7]."""
        found = np.zeros((len(joint_q), self.link_count, POSE))
        self._launch(joint_q, found, np.zeros((0, 0)), pulls_back=False)
        return found

    def pull_back(self, joint_q: Float64Array, by_poses: Float64Array) -> Float64Array:
        """Return the gradient by configurations, [n, joint_coord_count], from the gradient by poses, [n, links, 7]."""
        # Coordinates are taken as independent; the gradient by a quaternion is tangent, because its length has no
        # effect
        found = np.zeros((len(joint_q), self.robot.joint_coord_count))
        self._launch(joint_q, by_poses, found, pulls_back=True)
        return found

    def _launch(self, *given: Float64Array, pulls_back: bool) -> None:
        arrays, count = [shown(one) for one in given], len(given[0])
        launch(self._kernel, count, [count, self._kinematics, arrays[0], int(pulls_back), *arrays[1:]])
