"""Nearness of an attempt to its targets, read off residuals in float32; success is judged later, in float64."""

import typing

import warp as wp

MARGIN = wp.constant(0.999)  # an attempt this close to a tolerance is tried again rather than judged a failure later
# What float32 reaches where an attempt converges: one that is not as near yields to later seeds.
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
