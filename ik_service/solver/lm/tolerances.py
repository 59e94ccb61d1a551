"""Nearness of an attempt to its targets, from float32 residuals; success is judged later, in float64."""

import typing

import warp as wp

MARGIN = wp.constant(0.999)  # an attempt this close to a tolerance is repeated, to avoid a failure in the verdict
# Precision of float32 at convergence: an attempt not as near ranks after later seeds.
PRECISE_POSITION = wp.constant(1.0e-5)  # units of length
PRECISE_ORIENTATION = wp.constant(1.0e-4)  # [rad]


@wp.func
@typing.no_type_check
def chord_angle(chord: float):
    """Return the angle of a rotation [rad] from the length of its residual, 2 sin(angle / 2)."""
    return 2.0 * wp.asin(wp.min(0.5 * chord, 1.0))


@wp.func
@typing.no_type_check
def is_within(error: float, tolerance: float):
    """Return whether an error is within its tolerance, with a margin for the rounding of float32."""
    return error <= MARGIN * tolerance
