"""Keys of targets for solvers and kernels, and joined target data of several requests."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.service.queue.objective_data import joined_lines, patterns_on
from ik_service.solver.given.targets import DATA, Target

FloatArray = NDArray[np.floating[Any]]
"""Of float32 or float64; what comes as float32 is not copied to be wider."""


def structure_of(target: Target) -> tuple[object, ...]:
    """Return the structure of a target: links, frame and kinds of given data."""
    given = tuple(getattr(target, name) is None for name in DATA)
    return (target.link, target.reference_link, target.frame, *given)


def code_of(target: Target, rows_on: NDArray[np.bool_]) -> tuple[object, ...]:
    """Return the kernel key of a target: frames and active rows, without values."""
    return (target.link, target.reference_link, target.frame, target.offset is None, rows_on.tobytes())


def rows_on(target: Target, has_position: bool, has_orientation: bool) -> NDArray[np.bool_]:
    """Return the active rows of a target (given, with a weight above 0), bool, shape [patterns, 6]."""
    given = _given_rows(has_position, has_orientation)
    if target.row_weights is None and target.tolerance is None:
        return given
    return patterns_on(target.weights() * given[0])


def joined_data(targets: Sequence[Target], counts: Sequence[int]) -> dict[str, FloatArray | None]:
    """Return the data of one target in several requests by name, one row per problem.

    Args:
        targets: The target in each request, of equal structures.
        counts: Number of problems of each request.
    """
    data: dict[str, FloatArray | None] = {}
    for name in DATA:
        columns = [column for column in (getattr(target, name) for target in targets) if column is not None]
        data[name] = joined_lines(columns, counts) if columns else None
    return data


@cache
def _given_rows(position: bool, orientation: bool) -> NDArray[np.bool_]:  # two switches of one thing
    """Return the given rows of a target, bool [1, 6]."""
    return np.repeat([position, orientation], 3)[None]
