"""Jacobians of objectives without their own, by backward passes over their own launches only.

A pass ends at the gradients by body poses and coordinates. From there the motion subspace leads to the DOFs: a body's
gradient is a force on the body, forces are summed from the tips of the tree to its root, and a DOF takes the force on
its body. One pass serves several rows without a common DOF. If the support of rows is known from probes alone, a second
pass with other factors detects two rows of a common DOF; then every row gets its own pass, permanently.
"""

import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kinematics.device_kinematics import left_tangent
from ik_service.robots import DeviceModel

PASS_ROWS_MAX = 64  # of a checked pass: factors from 2^-32 to 2^31 stay far from the ends of float32
PASSES_APART = wp.constant(1.0e-4)  # allowed relative difference of the passes, by rounding


@dataclass(frozen=True)
class RowGroups:
    """Rows of an objective with a common backward pass."""

    count: int  # number of passes
    of_row: wp.array[Any]  # pass of each row, int32 [rows]
    row: wp.array[Any]  # row of each entry of a pass, -1 for none, int32 [passes, joint_dof_count]
    factor: "wp.array[Any] | None"  # factor of each row in the second pass, [rows]; None without a second pass

    @classmethod
    def of(cls, support: NDArray[np.bool_], device: wp.Device, *, probed: bool) -> "RowGroups":
        """Group rows by their support, bool [rows, joint_dof_count]."""
        # Probed rows may depend on other DOFs as well
        groups = disjoint_rows(support, PASS_ROWS_MAX if probed else len(support))
        if 2 * len(groups) >= len(support) and (probed or len(groups) == len(support)):
            return cls.single(len(support), support.shape[1], device)
        of_row, row = np.zeros(len(support), np.int32), np.full((len(groups), support.shape[1]), -1, np.int32)
        factor = np.ones(len(support), np.float32)
        for k, members in enumerate(groups):
            for place, r in enumerate(members):
                of_row[r], row[k, support[r]], factor[r] = k, r, 2.0 ** (place - PASS_ROWS_MAX // 2)
        factors: wp.array[Any] | None = wp.array(factor, dtype=wp.float32, device=device) if probed else None
        return cls(len(groups), _integers(of_row, device), _integers(row, device), factors)

    @classmethod
    def single(cls, rows: int, dofs: int, device: wp.Device) -> "RowGroups":
        """Give every row its own pass."""
        of_row = np.arange(rows, dtype=np.int32)
        each = np.repeat(of_row[:, None], dofs, axis=1)
        return cls(rows, _integers(of_row, device), _integers(each, device), None)


def _integers(values: NDArray[np.int32], device: wp.Device) -> wp.array[Any]:
    return wp.array(values, dtype=wp.int32, device=device)


def disjoint_rows(support: NDArray[np.bool_], most: int) -> list[list[int]]:
    """Return groups of at most `most` rows, without a common DOF in a group."""
    groups: list[list[int]] = []
    taken: list[NDArray[np.bool_]] = []
    for r, own in enumerate(support):
        for members, theirs in zip(groups, taken, strict=True):
            if len(members) < most and not (own & theirs).any():
                members.append(r)
                np.logical_or(theirs, own, out=theirs)
                break
        else:
            groups.append([r])
            taken.append(own.copy())
    return groups


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _seed_rows(
    group: int,
    of_row: wp.array[wp.int32],  # [rows of the objective]
    factor: wp.array[float],  # [rows of the objective], or empty for ones
    start: int,
    # out
    gradient_out: wp.array2d[float],  # [n, total_residuals]
):
    i = wp.tid()
    for row in range(of_row.shape[0]):
        value = wp.where(of_row[row] == group, 1.0, 0.0)
        if factor.shape[0] > 0:
            value *= factor[row]
        gradient_out[i, start + row] = value


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _sum_forces(
    joint_parent: wp.array[wp.int32],  # [joint_count]
    body_q: wp.array2d[wp.transform],  # [n, body_count]
    gradient: wp.array2d[wp.transform],  # [n, body_count]
    # out
    force_out: wp.array2d[wp.spatial_vector],  # [n, body_count]: force on a body and its descendants, at its origin
):
    i = wp.tid()
    count = joint_parent.shape[0]
    for j in range(count):
        turn = left_tangent(wp.transform_get_rotation(body_q[i, j]), wp.transform_get_rotation(gradient[i, j]))
        force_out[i, j] = wp.spatial_vector(wp.transform_get_translation(gradient[i, j]), turn)
    for reverse in range(count):
        j = count - 1 - reverse
        parent = joint_parent[j]
        if parent >= 0:
            force = wp.spatial_top(force_out[i, j])
            arm = wp.transform_get_translation(body_q[i, j]) - wp.transform_get_translation(body_q[i, parent])
            torque = wp.spatial_bottom(force_out[i, j]) + wp.cross(arm, force)
            force_out[i, parent] = force_out[i, parent] + wp.spatial_vector(force, torque)


@wp.func
@typing.no_type_check
def take_entry(
    i: int,
    dof: int,
    value: float,
    row: int,
    factor: wp.array[float],
    start: int,
    jacobian: wp.array3d[float],
    mixed: wp.array[wp.int32],
):
    """Write an entry of the Jacobian; in a second pass, mark an entry that mixes rows."""
    if factor.shape[0] == 0:
        if row >= 0:
            jacobian[i, start + row, dof] = value
    else:
        expected = float(0.0)
        if row >= 0:
            expected = factor[row] * jacobian[i, start + row, dof]
        if wp.abs(value - expected) > PASSES_APART * wp.abs(expected):
            mixed[0] = 1


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _store_entries(
    # model
    joint_q_start: wp.array[wp.int32],  # [joint_count + 1]
    joint_qd_start: wp.array[wp.int32],  # [joint_count + 1]
    joint_S_s: wp.array2d[wp.spatial_vector],  # [n, joint_dof_count]
    # gradients
    joint_q: wp.array2d[float],  # [n, joint_coord_count]
    gradient: wp.array2d[float],  # [n, joint_coord_count]
    force: wp.array2d[wp.spatial_vector],  # [n, body_count]
    has_force: int,
    # rows
    row: wp.array[wp.int32],  # [joint_dof_count]
    factor: wp.array[float],  # of a second pass [rows of the objective], or empty
    start: int,
    # out
    jacobian_out: wp.array3d[float],  # [n, total_residuals, joint_dof_count]
    mixed_out: wp.array[wp.int32],  # [1]
):
    i = wp.tid()
    for j in range(joint_q_start.shape[0] - 1):
        c = joint_q_start[j]
        d = joint_qd_start[j]
        count = joint_qd_start[j + 1] - d
        sums = int(count)  # DOFs added to a coordinate
        turn = wp.vec3(0.0)
        if joint_q_start[j + 1] - c > count:
            sums = count - 3
            q = c + sums
            old = wp.quat(joint_q[i, q], joint_q[i, q + 1], joint_q[i, q + 2], joint_q[i, q + 3])
            by_entry = wp.quat(gradient[i, q], gradient[i, q + 1], gradient[i, q + 2], gradient[i, q + 3])
            turn = left_tangent(old, by_entry)
        for k in range(count):
            value = float(0.0)
            if k < sums:
                value = gradient[i, c + k]
            else:
                value = turn[k - sums]
            if has_force != 0:
                axis = wp.spatial_bottom(joint_S_s[i, d + k])
                if wp.length_sq(axis) > 0.0:  # about the body's origin, so that forces there give an exact zero
                    value += wp.dot(axis, wp.spatial_bottom(force[i, j]))
                else:
                    value += wp.dot(wp.spatial_top(joint_S_s[i, d + k]), wp.spatial_top(force[i, j]))
            take_entry(i, d + k, value, row[d + k], factor, start, jacobian_out, mixed_out)


class RowGradients:
    """Backward passes of objectives over one set of poses, coordinates and rows, all with gradients."""

    def __init__(
        self, model: DeviceModel, body_q: wp.array[Any], joint_q: wp.array[Any], residuals: wp.array[Any]
    ) -> None:
        self._model, self._body_q, self._joint_q, self._residuals = model, body_q, joint_q, residuals
        dtype = typing.cast(type, wp.spatial_vector)
        self._force = wp.zeros(body_q.shape, dtype=dtype, device=model.device)
        self._ones = wp.zeros(0, dtype=wp.float32, device=model.device)
        for kernel in (_seed_rows, _sum_forces, _store_entries):  # forbidden during recording of a graph
            wp.load_module(kernel.module, device=model.device)

    def differentiate(
        self,
        tape: wp.Tape,  # record of its launches over these poses
        rows: tuple[int, RowGroups],  # its first row, and the groups of its rows
        joint_S_s: wp.array[Any],  # motion subspace, [n, joint_dof_count]
        jacobian: wp.array[Any],  # out, [n, total_residuals, joint_dof_count]
        mixed: wp.array[Any],  # out, int32 [1]: set to 1 if rows of a group have a common DOF
    ) -> None:
        """Write the block of one objective."""
        start, groups = rows
        for k in range(groups.count):
            for factor in [self._ones] + ([] if groups.factor is None else [groups.factor]):
                seeds = [k, groups.of_row, factor, start, self._residuals.grad]
                self._launch(_seed_rows, (len(jacobian),), seeds)
                tape.backward()
                has_force = self._is_read(tape, self._body_q.grad)
                if has_force:
                    inputs = [self._model.joint_parent, self._body_q, self._body_q.grad, self._force]
                    self._launch(_sum_forces, (len(jacobian),), inputs)
                robot = self._model
                inputs = [robot.joint_q_start, robot.joint_qd_start, joint_S_s]
                inputs += [self._joint_q, self._joint_q.grad, self._force, int(has_force)]
                inputs += [groups.row[k], factor, start, jacobian, mixed]
                self._launch(_store_entries, (len(jacobian),), inputs)
                tape.zero()
        self._residuals.grad.zero_()

    def _launch(self, kernel: Any, dim: tuple[int, ...], inputs: Sequence[object]) -> None:
        wp.launch(kernel, dim, inputs, device=self._model.device)

    @staticmethod
    def _is_read(tape: wp.Tape, gradient: wp.array[Any]) -> bool:
        """Return whether a backward pass can have written into a gradient, including its views."""
        first, last = gradient.ptr, gradient.ptr + gradient.capacity
        written = [g for g in tape.gradients.values() if isinstance(g, wp.array)]
        return any(first <= g.ptr < last for g in written)
