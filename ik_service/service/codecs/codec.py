"""The interface of a codec, columns of bytes, and columns whose rows are made while they are written."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ik_service.service.errors.exceptions import faulty_field
from ik_service.service.queue.objective_data import FloatArray
from ik_service.service.schema.limits import MAX_PROBLEM_COUNT

Document = Mapping[str, Any]

PIECE_BYTES = 256 * 1024
"""Size of the pieces in which a long answer is encoded and sent."""
CONTAINER_BYTES = 96
"""Memory of an empty list, object or map."""

DTYPES: dict[object, np.dtype[np.floating[Any]]] = {"float32": np.dtype("<f4"), "float64": np.dtype("<f8")}
"""Number types that are accepted."""

_AXES_MOST = 3


@dataclass(frozen=True, eq=False)
class PackedColumn:
    """A packed column, not checked yet."""

    dtype: Any  # "float32" or "float64"
    shape: Any  # lengths of its axes
    data: Any  # its numbers, little-endian, C order

    def array(self, pointer: str) -> FloatArray:
        """Return the column as a view of its bytes; FaultyFieldsError for a wrong type, shape or number of bytes."""
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


class LazyRows(Sequence[Any]):
    """A column of `count` rows, made by `make` from their numbers during writing, so never in memory all at once."""

    def __init__(self, count: int, make: Callable[[int], Any]) -> None:
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self._make(row) for row in range(*place.indices(self._count))]
        if not 0 <= place < self._count:
            raise IndexError(place)
        return self._make(place)


class Codec(ABC):
    """One encoding of documents."""

    media_type: str  # its name in Content-Type and Accept
    other_names: tuple[str, ...] = ()  # other media types that clients use for it
    # whether columns are arrays: then statuses are codes, NaN stands for null, and -1 for a seed of several islands
    is_binary = True
    is_flat = False  # whether a document holds arrays alone, no list of documents per problem
    blocking_bytes: int  # bodies whose document takes more memory than this are decoded in a thread

    @abstractmethod
    def decoded_bytes(self, body: bytes, limit: int = 0) -> int:
        """Return an upper bound of the memory that the document in a body takes, without decoding it.

        `limit` is the largest number of bytes of a decoded body. InputError if the body has too many parts.
        """

    @abstractmethod
    def decode(self, body: bytes, query: str = "", limit: int = 0) -> Any:
        """Return the document in a body; its columns are not checked yet, see `documents/columns.py`.

        `query` is the query of the address, for codecs whose body holds arrays alone; `limit` is the largest number of
        bytes of a decoded body. InputError if the body is not in this encoding, or exceeds a limit.
        """

    def encode(self, document: Document) -> bytes:
        """Return the bytes of a document whose columns are arrays."""
        return b"".join(self.encode_in_pieces(document))

    @abstractmethod
    def encode_in_pieces(self, document: Document) -> Sequence[bytes | memoryview]:
        """Return the same bytes in pieces; other threads run between them."""
