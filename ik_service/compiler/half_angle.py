"""Sine and cosine of half angles as polynomials: the same few operations in every SIMD lane, without library calls.

Half angles are reduced to [-pi/2, pi/2] (see `iteration`), so one pair of polynomials serves all joints.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from objectives.expression import Expression, Scalar

FLOAT32_ERROR = 2e-8  # less than half a unit in the last place of a float32 near 1
FLOAT64_ERROR = 2e-15  # lower bound, by rounding of the coefficients
HALF_ANGLE_DEGREE_MAX = 14
END = (0.5 * np.pi) ** 2


@cache
def _coefficients(name: str, error_max: float) -> tuple[float, ...]:
    """Fit the shortest polynomial in the square of the half angle below an error; coefficients, lowest first."""
    u = np.linspace(0.0, END, 4001)
    for degree in range(2, HALF_ANGLE_DEGREE_MAX + 1):
        fit = np.polynomial.Chebyshev.interpolate(lambda square: _exact(name, square), degree, [0.0, END])
        if np.abs(fit(u) - _exact(name, u)).max() < error_max:
            return tuple(fit.convert(kind=np.polynomial.Polynomial).coef)
    raise AssertionError(f"no polynomial up to degree {HALF_ANGLE_DEGREE_MAX} for {name}")


def _exact(name: str, square: NDArray[np.float64]) -> NDArray[np.float64]:
    half = np.sqrt(square)
    return np.asarray(np.sinc(half / np.pi) if name == "sinc" else np.cos(half))


def _horner(name: str, square: Expression, error_max: float) -> Scalar:
    *lower, value = _coefficients(name, error_max)
    result: Scalar = value
    for coefficient in reversed(lower):
        result = result * square + coefficient
    return result


def half_angle_sine_cosine(half: Expression, error_max: float = FLOAT32_ERROR) -> tuple[Scalar, Scalar]:
    """Return sine and cosine of a half angle in [-pi/2, pi/2], with errors up to `error_max`."""
    sinc, cosine = half_angle_sinc_cosine(half * half, error_max)
    return half * sinc, cosine


def half_angle_sinc_cosine(square: Expression, error_max: float = FLOAT32_ERROR) -> tuple[Scalar, Scalar]:
    """Return (sine / half angle) and cosine, from the square of a half angle up to (pi/2)^2."""
    return _horner("sinc", square, error_max), _horner("cos", square, error_max)
