"""Objectives written as Warp kernels, residuals only: the same rows as built-in ones that are stated as expressions."""

import typing

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service import RobotModel
from objectives import IKObjective
from objectives.model import IKModel


@wp.kernel(module="unique")
@typing.no_type_check
def _write_posture(
    coordinate: wp.array[wp.int32],  # [rows]
    reference: wp.array[float],  # [joint_coord_count]
    weight: float,
    joint_q: wp.array2d[float],  # [n, joint_coord_count]
    start_idx: int,
    residuals_out: wp.array2d[float],  # [n, total_residuals]
):
    i, row = wp.tid()
    c = coordinate[row]
    residuals_out[i, start_idx + row] = weight * (joint_q[i, c] - reference[c])


class KernelPosture(IKObjective):
    """Joints with one coordinate near a reference; residual = weight (q - q_reference)."""

    def __init__(self, robot: RobotModel, joint_q_reference: NDArray[np.floating], weight: float) -> None:
        """Take the reference, shape [joint_coord_count], and the weight of all rows."""
        self._coordinates = robot.dof_coordinate[robot.active_dof[robot.dof_coordinate[robot.active_dof] >= 0]]
        self._reference, self._weight = joint_q_reference, weight

    def residual_dim(self) -> int:
        """Give one row per DOF that has a coordinate."""
        return len(self._coordinates)

    def bind_device(self, device: typing.Any) -> None:
        """Bring reference and coordinates to the device."""
        super().bind_device(device)
        self._coordinate = wp.array(self._coordinates, dtype=wp.int32, device=device)
        self._q = wp.array(self._reference, dtype=wp.float32, device=device)

    def compute_residuals(
        self,
        body_q: typing.Any,
        joint_q: typing.Any,
        model: IKModel,
        residuals: typing.Any,
        start_idx: int,
        problem_idx: typing.Any,
    ) -> None:
        """Write the rows."""
        inputs = [self._coordinate, self._q, self._weight, joint_q, start_idx]
        dim = (body_q.shape[0], self.residual_dim())
        wp.launch(_write_posture, dim=dim, inputs=inputs, outputs=[residuals], device=body_q.device)


@wp.kernel(module="unique")
@typing.no_type_check
def _write_center_of_mass(
    body: wp.array[wp.int32],  # [masses]
    share: wp.array[float],  # [masses]
    com: wp.array[wp.vec3],  # [masses], in the bodies' frames
    fixed: wp.vec3,  # share of what no joint moves
    target: wp.array[wp.vec3],  # [problems]
    body_q: wp.array2d[wp.transform],  # [n, body_count]
    problem_idx: wp.array[wp.int32],  # [n]
    start_idx: int,
    residuals_out: wp.array2d[float],  # [n, total_residuals]
):
    i = wp.tid()
    center = fixed - target[problem_idx[i]]
    for k in range(body.shape[0]):
        center += share[k] * wp.transform_point(body_q[i, body[k]], com[k])
    for k in range(3):
        residuals_out[i, start_idx + k] = center[k]


class KernelCenterOfMass(IKObjective):
    """The centre of mass of all links at a point; residual = center - target."""

    def __init__(self, target_positions: NDArray[np.floating]) -> None:
        """Take the targets, shape [problem_count, 3]."""
        self._positions = target_positions

    def residual_dim(self) -> int:
        """Give the coordinates of a point."""
        return 3

    def bind_model(self, model: IKModel) -> None:
        """Take the masses."""
        moving = [one for one in model.body_masses if one.body >= 0]
        self._total = sum(one.mass for one in model.body_masses)
        self._moving = moving
        self._static = sum(
            (one.mass / self._total * np.asarray(one.com) for one in model.body_masses if one.body < 0), np.zeros(3)
        )

    def bind_device(self, device: typing.Any) -> None:
        """Bring masses and targets to the device."""
        super().bind_device(device)
        self._body = wp.array([one.body for one in self._moving], dtype=wp.int32, device=device)
        self._share = wp.array([one.mass / self._total for one in self._moving], dtype=wp.float32, device=device)
        self._com = wp.array([one.com for one in self._moving], dtype=wp.vec3, device=device)
        self._target = wp.array(self._positions, dtype=wp.vec3, device=device)

    def compute_residuals(
        self,
        body_q: typing.Any,
        joint_q: typing.Any,
        model: IKModel,
        residuals: typing.Any,
        start_idx: int,
        problem_idx: typing.Any,
    ) -> None:
        """Write the rows."""
        masses = [self._body, self._share, self._com, wp.vec3(*self._static)]
        inputs = [*masses, self._target, body_q, problem_idx, start_idx]
        wp.launch(_write_center_of_mass, dim=body_q.shape[0], inputs=inputs, outputs=[residuals], device=body_q.device)
