"""Closed loops of a robot in each problem, as given by a caller."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.errors import in_a_line
from ik_service.solver.given.arrays import as_numpy
from objectives import InputError
from objectives.errors import UnknownNameError

ARGUMENT = "constraint_enabled"


def read_enabled(names: Sequence[str], given: Any, problem_count: int) -> NDArray[np.bool_] | None:
    """Return the enabled loops, in a single line if all problems agree, [1 or problem_count, loops]; None for all."""
    # Loops left out of a mapping are enabled. Raises UnknownNameError where the robot has no loop of a name,
    # InputError for a value other than True or False or a wrong shape
    if given is None:
        return None
    enabled = _by_name(names, given, problem_count) if isinstance(given, Mapping) else _flags(ARGUMENT, given)
    if enabled.shape not in ((len(names),), (problem_count, len(names))):
        allowed = f"[{len(names)}] or [{problem_count}, {len(names)}], a column for each loop of the robot"
        raise InputError(f"{ARGUMENT} has shape {list(enabled.shape)}. Allowed: {allowed}.")
    lines = np.atleast_2d(enabled)
    return lines[:1] if (lines == lines[:1]).all() else lines


def _by_name(names: Sequence[str], given: Mapping[Any, Any], problem_count: int) -> NDArray[np.bool_]:
    enabled = np.ones((problem_count, len(names)), dtype=bool)
    for name, value in given.items():
        if name not in names:
            known = ", ".join(f"'{one}'" for one in names) or "none"
            raise UnknownNameError(f"{ARGUMENT}: the robot has no loop {in_a_line(name)}. Loops: {known}.")
        flags = _flags(f"{ARGUMENT} of loop '{name}'", value)
        if flags.shape not in ((), (problem_count,)):
            shape = f"has shape {list(flags.shape)}. Allowed: True, False, or [{problem_count}]"
            raise InputError(f"{ARGUMENT} of loop '{name}' {shape}.")
        enabled[:, list(names).index(name)] = flags
    return enabled


def _flags(what: str, value: Any) -> NDArray[np.bool_]:
    try:
        flags = np.asarray(as_numpy(what, value))
    except ValueError:  # lines of different lengths
        flags = np.empty(0)
    if flags.dtype != np.bool_:
        raise InputError(f"{what} is {in_a_line(value)}. Allowed: True and False.")
    return flags
