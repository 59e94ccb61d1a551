"""Targets of a request by what solvers and kernels depend on, and their data in several requests."""

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
    """Return all that a solver must be built for."""
    given = tuple(getattr(target, name) is None for name in DATA)
    return (target.link, target.reference_link, target.frame, *given)


def code_of(target: Target, rows_on: NDArray[np.bool_]) -> tuple[object, ...]:
    """Return what kernels depend on: the frames and the rows that are on, but no values."""
    return (target.link, target.reference_link, target.frame, target.offset is None, rows_on.tobytes())


def rows_on(target: Target, has_position: bool, has_orientation: bool) -> NDArray[np.bool_]:
    """Return which rows are given and have a weight above 0, one line for each pattern there is, [patterns, 6]."""
    given = _given_rows(has_position, has_orientation)
    if target.row_weights is None and target.tolerance is None:
        return given
    return patterns_on(target.weights() * given[0])


def joined_data(targets: Sequence[Target], counts: Sequence[int]) -> dict[str, FloatArray | None]:
    """Return the data of one target in several requests, a line for every problem, by name.

    Args:
        targets: The target in each request, of equal structures.
        counts: Its number of problems.
    """
    data: dict[str, FloatArray | None] = {}
    for name in DATA:
        columns = [column for column in (getattr(target, name) for target in targets) if column is not None]
        data[name] = joined_lines(columns, counts) if columns else None
    return data


@cache
def _given_rows(position: bool, orientation: bool) -> NDArray[np.bool_]:  # two switches of one thing
    """Return the rows of a target that are given, bool [1, 6]."""
    return np.repeat([position, orientation], 3)[None]
