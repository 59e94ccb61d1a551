"""The active set: which DOFs are kept at their bounds for a step."""

import typing
from typing import Any

import warp as wp


@wp.func
@typing.no_type_check
def is_at_bound(q: Any, lower: Any, upper: Any, gradient: float):
    """Return whether a DOF is at a bound and a step down the gradient would lead beyond it.

    The compiled iteration has the same test as text; see `compiler.code.iteration`.
    """
    return (q <= lower and gradient > 0.0) or (q >= upper and gradient < 0.0)
