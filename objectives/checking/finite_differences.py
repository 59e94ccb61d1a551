"""Slopes of residual rows by five points on every DOF, and first-order motion of bodies and coordinates in the DOFs.

The residuals come from float32 kernels, so the step is wide; the five-point rule keeps the truncation error small. Rows
may have kinks (a hinge function) or jumps (a rotation by pi); there only the one-sided slopes are compared.

A tape over this motion and an objective's residuals gives the exact derivative at a configuration without kinematics of
the robot, so an objective can be checked alone.
"""

import typing

import numpy as np
import numpy.typing as npt
import warp as wp

from objectives.model import BoolArray, FloatArray, IKModel, RobotIndices

DIFFERENCE_STEP = 0.02  # [m or rad]; truncation and float32 rounding are then both near 1e-5 of a row's slope
_POINTS, _WEIGHTS = (-2.0, -1.0, 0.0, 1.0, 2.0), (1 / 12, -8 / 12, 0.0, 8 / 12, -1 / 12)
_SIDES = (0.5, -2.0, 1.5, 0.0, 0.0), (0.0, 0.0, -1.5, 2.0, -0.5)  # one-sided slopes at the middle point
BEND = 0.25  # difference of slopes within the five points, relative to the row's slope, above which a row has a kink
SLIGHT_BEND = 6e-3  # third difference over step, relative to the row's slope, above which a row has a slight kink
SMALL_ROW = 0.01  # lower bound of a row's scale relative to the largest row: differences of smaller rows are rounding
ROUNDINGS = 4.0  # assumed float32 roundings of a residual


def stencil_steps(sample_count: int, dof_count: int) -> FloatArray:
    """Give the steps from samples to evaluation points, shape [dof_count * 5 * sample_count, dof_count]."""
    steps = np.zeros((dof_count, len(_POINTS), sample_count, dof_count))
    for dof in range(dof_count):
        steps[dof, :, :, dof] = DIFFERENCE_STEP * np.array(_POINTS)[:, None]
    return steps.reshape(-1, dof_count)


class FiniteDifferences:
    """Derivatives `values` of rows by DOFs at samples, and the mask `kinks` of kinks and jumps, [n, rows, dofs] each.

    Made of residuals at the samples moved by `stencil_steps`, shape [dof_count * 5 * sample_count, rows].
    """

    def __init__(self, residuals: FloatArray, sample_count: int, dof_count: int) -> None:
        line = residuals.reshape(dof_count, len(_POINTS), sample_count, -1)
        self.values: FloatArray = np.einsum("p,dpnr->nrd", _WEIGHTS, line) / DIFFERENCE_STEP
        slopes = np.moveaxis(np.diff(line, axis=1) / DIFFERENCE_STEP, 0, -1)  # [4, n, rows, dofs]
        self._least, self._most = slopes.min(axis=0), slopes.max(axis=0)
        scale = np.sort(np.abs(slopes), axis=0)[-2].max(axis=(0, 2))  # second largest: a jump spoils one slope
        self._scale = np.maximum(scale, SMALL_ROW * scale.max())[None, :, None]
        rounding = ROUNDINGS * np.finfo(np.float32).eps / DIFFERENCE_STEP
        self._noise = rounding * np.abs(line).max(axis=(0, 1, 2))[None, :, None]
        self.kinks: BoolArray = self._most - self._least > BEND * self._scale + self._noise
        sides = [np.moveaxis(np.einsum("p,dpnr->dnr", side, line), 0, -1) / DIFFERENCE_STEP for side in _SIDES]
        self._range = np.minimum(self._least, np.minimum(*sides)), np.maximum(self._most, np.maximum(*sides))
        third = np.abs(np.moveaxis(np.diff(line, n=3, axis=1), 0, -1)).max(axis=0) / DIFFERENCE_STEP
        self._bends = third > SLIGHT_BEND * self._scale + len(_POINTS) * self._noise

    def relative_error(self, jacobian: FloatArray) -> FloatArray:
        """Give errors of a Jacobian relative to the largest slope of the row, shape [n, rows, dofs].

        At kinks the five-point rule is inexact: there any slope within the range of measured slopes is accepted.
        """
        error = np.maximum(np.abs(jacobian - self.values) - self._noise, 0.0)
        margin = BEND * self._scale
        between = (jacobian > self._least - margin) & (jacobian < self._most + margin)
        error = np.where(self.kinks & between, 0.0, error)
        least, most = self._range
        outside = np.maximum(np.maximum(least - jacobian, jacobian - most) - self._noise, 0.0)
        error = np.where(self._bends, np.minimum(error, outside), error)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(error == 0.0, 0.0, error / self._scale)


@wp.kernel(module="unique")
@typing.no_type_check
def _move_bodies(
    body_q: wp.array2d[wp.transform],
    direction: wp.array3d[wp.transform],  # [n, body_count, joint_dof_count]
    dq: wp.array2d[float],
    body_q_out: wp.array2d[wp.transform],
):
    i, body = wp.tid()
    pose = body_q[i, body]
    for dof in range(dq.shape[1]):
        pose = pose + direction[i, body, dof] * dq[i, dof]
    body_q_out[i, body] = pose


@wp.kernel(module="unique")
@typing.no_type_check
def _move_coordinates(
    joint_q: wp.array2d[float],
    direction: wp.array3d[float],  # [n, joint_coord_count, joint_dof_count]
    dq: wp.array2d[float],
    joint_q_out: wp.array2d[float],
):
    i, coordinate = wp.tid()
    value = joint_q[i, coordinate]
    for dof in range(dq.shape[1]):
        value = value + direction[i, coordinate, dof] * dq[i, dof]
    joint_q_out[i, coordinate] = value


class FirstOrderMotion:
    """Configurations of a robot on the device, movable along tangents; made of host arrays with a line for each."""

    def __init__(self, model: IKModel, joint_q: FloatArray, body_q: FloatArray, joint_S_s: FloatArray) -> None:
        device = model.device
        values = (
            (_move_bodies, wp.transformf, body_q, _body_directions(model, body_q, joint_S_s)),
            (_move_coordinates, wp.float32, joint_q, _coordinate_directions(model, joint_q)),
        )
        self._inputs = [
            (kernel, _array(base, dtype, device), _array(direction, dtype, device))
            for kernel, dtype, base, direction in values
        ]
        shape = (len(joint_q), model.joint_dof_count)
        self.dq_dof = wp.zeros(shape, dtype=wp.float32, device=device, requires_grad=True)
        self.body_q, self.joint_q = (wp.empty_like(base, requires_grad=True) for _, base, _ in self._inputs)

    def launch(self) -> None:
        """Write `body_q` and `joint_q`, moved by `dq_dof`; an active tape records the launches."""
        for (kernel, base, direction), out in zip(self._inputs, (self.body_q, self.joint_q), strict=True):
            wp.launch(kernel, base.shape, [base, direction, self.dq_dof], [out], device=out.device)


def _array(values: FloatArray, dtype: typing.Any, device: typing.Any) -> wp.array[typing.Any]:
    return wp.array(values.astype(np.float32), dtype=dtype, device=device)


def _left_tangents(q: FloatArray) -> FloatArray:
    """Give the derivatives of exp(w) q by w, shape [..., 4, 3], for quaternions xyzw [..., 4]."""
    x, y, z, w = np.moveaxis(q, -1, 0)
    return 0.5 * np.moveaxis(np.array([[w, z, -y], [-z, w, x], [y, -x, w], [-x, -y, -z]]), (0, 1), (-2, -1))


def _body_directions(model: IKModel, body_q: FloatArray, joint_S_s: FloatArray) -> FloatArray:
    """Give the derivatives of body poses by the DOFs, shape [n, body_count, joint_dof_count, 7]."""
    robot = RobotIndices(model)
    moves = np.array([robot.moves(body) for body in range(model.body_count)])
    v, w = joint_S_s[:, None, :, :3], joint_S_s[:, None, :, 3:]
    velocity = v + np.cross(w, body_q[:, :, None, :3])
    turn = np.einsum("nbij,nbdj->nbdi", _left_tangents(body_q[..., 3:]), np.broadcast_to(w, velocity.shape))
    direction: FloatArray = np.concatenate([velocity, turn], axis=-1) * moves[None, :, :, None]
    return direction


def _coordinate_directions(model: IKModel, joint_q: FloatArray) -> FloatArray:
    """Give the derivatives of coordinates by the DOFs, shape [n, joint_coord_count, joint_dof_count]."""
    robot = RobotIndices(model)
    direction = np.zeros((len(joint_q), model.joint_coord_count, model.joint_dof_count))
    own: npt.NDArray[np.intp] = np.flatnonzero(robot.dof_coordinate >= 0)
    direction[:, robot.dof_coordinate[own], own] = 1.0
    for joint in range(model.joint_count):
        if robot.has_quaternion(joint):
            first, dof = robot.first_quaternion_coordinate(joint), robot.first_angular_dof(joint)
            entries = slice(first, first + 4)
            direction[:, entries, dof : dof + 3] = _left_tangents(joint_q[:, entries])
    return direction
