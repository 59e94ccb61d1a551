"""Numeric columns in MessagePack: their bytes in C order, little-endian, with type and shape."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

PACKED_FIELDS = frozenset(("dtype", "shape", "data"))
"""Names of the fields of a packed column; all are required."""


def packed(array: NDArray[Any]) -> dict[str, Any]:
    """Return the fields of an array."""
    name, wire_type = _wire_type(array.dtype)
    return {"dtype": name, "shape": array.shape, "data": np.ascontiguousarray(array, wire_type).data}


@lru_cache(maxsize=64)
def _wire_type(dtype: np.dtype[Any]) -> tuple[str, np.dtype[Any]]:
    return dtype.name, dtype.newbyteorder("<")
