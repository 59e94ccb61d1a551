"""A numeric column as bytes with its type and shape."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ik_service.service.errors.exceptions import faulty_field
from ik_service.service.queue.objective_data import FloatArray
from ik_service.service.schema.limits import MAX_PROBLEM_COUNT

DTYPES: dict[object, np.dtype[np.floating[Any]]] = {"float32": np.dtype("<f4"), "float64": np.dtype("<f8")}
"""Number types that are accepted."""

_AXES_MOST = 3


@dataclass(frozen=True, eq=False)
class PackedColumn:
    """A packed column, not checked yet.

    Attributes:
        dtype: "float32" or "float64".
        shape: Lengths of its axes.
        data: Its numbers, little-endian, C order.
    """

    dtype: Any
    shape: Any
    data: Any

    def array(self, pointer: str) -> FloatArray:
        """Return the column as a view of its bytes.

        Args:
            pointer: JSON pointer of the column.

        Raises:
            FaultyFieldsError: A type, shape or number of bytes that is not allowed.
        """
        dtype = DTYPES.get(self.dtype) if isinstance(self.dtype, str) else None
        if dtype is None:
            raise faulty_field(f"{pointer}/dtype", "wrong_type", "Give 'float32' or 'float64'.")
        shape = self.shape
        if not isinstance(shape, list) or len(shape) > _AXES_MOST or any(type(n) is not int or n < 0 for n in shape):
            raise faulty_field(f"{pointer}/shape", "wrong_type", "Give a list of lengths, such as [n, 3].")
        if not isinstance(self.data, bytes):
            raise faulty_field(f"{pointer}/data", "wrong_type", "Give the numbers as bytes, little-endian, C order.")
        expected = math.prod(shape) * dtype.itemsize
        if len(self.data) != expected:
            detail = f"There are {len(self.data)} bytes. A column of shape {shape} and {self.dtype} has {expected}."
            raise faulty_field(f"{pointer}/data", "wrong_shape", detail)
        if (
            max(shape, default=0) > MAX_PROBLEM_COUNT and not self.data
        ):  # an axis of length 0 leaves the others unbounded
            detail = f"No axis has a length above {MAX_PROBLEM_COUNT}."
            raise faulty_field(f"{pointer}/shape", "out_of_range", detail)
        column: FloatArray = np.frombuffer(self.data, dtype).reshape(shape)
        return column
