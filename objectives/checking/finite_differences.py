"""Slopes of residual rows from five points on every DOF, and what they show of a Jacobian.

The residuals come from float32 kernels, so the step is wide; the five-point rule keeps the truncation small. Rows may
bend (a hinge) or jump (a rotation by pi): there the slopes on both sides are all that can be said.
"""

import numpy as np

from objectives.model import BoolArray, FloatArray

DIFFERENCE_STEP = 0.02  # [m or rad]; truncation and float32 rounding are then both near 1e-5 of a row's slope
_POINTS, _WEIGHTS = (-2.0, -1.0, 0.0, 1.0, 2.0), (1 / 12, -8 / 12, 0.0, 8 / 12, -1 / 12)
_SIDES = (0.5, -2.0, 1.5, 0.0, 0.0), (0.0, 0.0, -1.5, 2.0, -0.5)  # the slope at the middle point, by one side alone
BEND = 0.25  # slopes within the five points that differ by more of the row's slope: a bend or a jump
SLIGHT_BEND = 6e-3  # third differences by the step, as a part of the row's slope: it bends a little, or far out
SMALL_ROW = 0.01  # rows below this part of the largest one are measured by it: their own differences are rounding
ROUNDINGS = 4.0  # float32 roundings that a residual is taken to contain


def stencil_steps(sample_count: int, dof_count: int) -> FloatArray:
    """Give the steps from samples to the points of evaluation, shape [dof_count * 5 * sample_count, dof_count]."""
    steps = np.zeros((dof_count, len(_POINTS), sample_count, dof_count))
    for dof in range(dof_count):
        steps[dof, :, :, dof] = DIFFERENCE_STEP * np.array(_POINTS)[:, None]
    return steps.reshape(-1, dof_count)


class FiniteDifferences:
    """Derivatives of rows by DOFs at some samples."""

    def __init__(self, residuals: FloatArray, sample_count: int, dof_count: int) -> None:
        """Take the residuals at the samples moved by `stencil_steps`, shape [dof_count * 5 * sample_count, rows]."""
        line = residuals.reshape(dof_count, len(_POINTS), sample_count, -1)
        self.values: FloatArray = np.einsum("p,dpnr->nrd", _WEIGHTS, line) / DIFFERENCE_STEP
        slopes = np.moveaxis(np.diff(line, axis=1) / DIFFERENCE_STEP, 0, -1)  # [4, n, rows, dofs]
        self._least, self._most = slopes.min(axis=0), slopes.max(axis=0)
        scale = np.sort(np.abs(slopes), axis=0)[-2].max(axis=(0, 2))  # not the largest: a jump spoils one of the four
        self._scale = np.maximum(scale, SMALL_ROW * scale.max())[None, :, None]
        rounding = ROUNDINGS * np.finfo(np.float32).eps / DIFFERENCE_STEP
        self._noise = rounding * np.abs(line).max(axis=(0, 1, 2))[None, :, None]
        self.kinks: BoolArray = self._most - self._least > BEND * self._scale + self._noise
        """True where a row bends or jumps, shape [n, rows, dofs]."""
        sides = [np.moveaxis(np.einsum("p,dpnr->dnr", side, line), 0, -1) / DIFFERENCE_STEP for side in _SIDES]
        self._range = np.minimum(self._least, np.minimum(*sides)), np.maximum(self._most, np.maximum(*sides))
        third = np.abs(np.moveaxis(np.diff(line, n=3, axis=1), 0, -1)).max(axis=0) / DIFFERENCE_STEP
        self._bends = third > SLIGHT_BEND * self._scale + len(_POINTS) * self._noise

    def relative_error(self, jacobian: FloatArray) -> FloatArray:
        """Give the differences of a Jacobian as parts of the largest slope of their row, shape [n, rows, dofs].

        Where a row bends a little, or at the last of the points, the five-point rule is off by more than is allowed;
        the slope is one between those that the points show, or either side.
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
