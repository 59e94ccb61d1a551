"""Slopes of residual rows by five points on every DOF, and comparison with a Jacobian.

The residuals come from float32 kernels, so the step is wide; the five-point rule keeps the truncation error small. Rows
may have kinks (a hinge function) or jumps (a rotation by pi); there only the one-sided slopes are compared.
"""

import numpy as np

from objectives.model import BoolArray, FloatArray

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
    """Derivatives of rows by DOFs at some samples.

    Args:
        residuals: Residuals at the samples moved by `stencil_steps`, shape [dof_count * 5 * sample_count, rows].
        sample_count: Number of samples.
        dof_count: Number of DOFs.

    Attributes:
        values: Derivatives, shape [n, rows, dofs].
        kinks: Mask of kinks and jumps of rows, shape [n, rows, dofs].
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
