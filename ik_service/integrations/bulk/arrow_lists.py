"""Lists of numbers of Arrow as NumPy arrays."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ik_service.integrations.bulk.target_file import as_floats


def numbers_of(values: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return lists as an array, NaN where one is missing or of another length, [count, *shape].

    Args:
        values: Numbers, lists of numbers, or lists of lists.
        shape: Shape of a row.
    """
    if not is_list(values.type):
        return as_floats(values.to_numpy(zero_copy_only=False)).reshape(-1, *shape)
    length, inner = _inner(values.type, shape)
    fits = _have_length(values, length)
    if fits.all():
        return numbers_of(values.flatten(), inner).reshape(-1, *shape)
    found = numbers_of(values.filter(pa.array(fits)).flatten(), inner).reshape(-1, *shape)
    numbers = np.full((len(values), *shape), np.nan, found.dtype)
    numbers[fits] = found
    return numbers


def rows_that_fit(values: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return which lists are not null and have the right lengths, shape [count].

    Args:
        values: Numbers, lists of numbers, or lists of lists.
        shape: Shape of a row.
    """
    if not is_list(values.type):
        return np.ones(len(values), dtype=bool)
    length, inner = _inner(values.type, shape)
    fits = _have_length(values, length)
    found = rows_that_fit(values.filter(pa.array(fits)).flatten(), inner)
    fits[fits] = found.reshape(-1, length).all(axis=1)
    return fits


def _inner(kind: Any, shape: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Length of the lists of a row with some shape, and the shape of their elements."""
    return (shape[0], shape[1:]) if is_list(kind.value_type) else (math.prod(shape), ())


def _have_length(values: Any, length: int) -> NDArray[np.bool_]:
    fits: NDArray[np.bool_] = np.array(pc.list_value_length(values).fill_null(-1)) == length
    return fits


def is_list(kind: Any) -> bool:
    """Return whether a type of Arrow is a list."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
