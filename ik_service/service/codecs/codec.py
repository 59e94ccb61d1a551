"""The interface of a codec, and columns whose rows are made while they are written."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Document = Mapping[str, Any]

PIECE_BYTES = 256 * 1024
"""Size of the pieces in which a long answer is encoded and sent."""
CONTAINER_BYTES = 96
"""Memory of an empty list, object or map."""


class LazyRows(Sequence[Any]):
    """A column whose rows are made while they are written, so that they are never in memory all at once.

    Args:
        count: Number of rows.
        make: Returns a row by its number.
    """

    def __init__(self, count: int, make: Callable[[int], Any]) -> None:
        self._count, self._make = count, make

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._count

    def __getitem__(self, place: Any) -> Any:
        """Make a row, or several."""
        if isinstance(place, slice):
            return [self._make(row) for row in range(*place.indices(self._count))]
        if not 0 <= place < self._count:
            raise IndexError(place)
        return self._make(place)


class Codec(ABC):
    """One encoding of documents.

    Attributes:
        media_type: Its name in Content-Type and Accept.
        other_names: Other media types that clients use for it.
        is_binary: Whether columns are arrays: then statuses are codes, NaN stands for null, and a seed that islands do
            not share is -1.
        is_flat: Whether a document holds arrays alone, no list of documents per problem.
        blocking_bytes: Bodies whose document takes more memory than this are decoded in a thread.
    """

    media_type: str
    other_names: tuple[str, ...] = ()
    is_binary = True
    is_flat = False
    blocking_bytes: int

    @abstractmethod
    def decoded_bytes(self, body: bytes, limit: int = 0) -> int:
        """Return an upper bound of the memory that the document in a body takes, without decoding it.

        Args:
            body: The bytes.
            limit: Most bytes that a decoded body may have.

        Raises:
            InputError: The body has too many parts.
        """

    @abstractmethod
    def decode(self, body: bytes, query: str = "", limit: int = 0) -> Any:
        """Return the document in a body; its columns are not checked yet, see `documents/columns.py`.

        Args:
            body: The bytes.
            query: Query of the address, for codecs whose body holds arrays alone.
            limit: Most bytes that a decoded body may have.

        Raises:
            InputError: The body is not in this encoding, or exceeds a limit.
        """

    def encode(self, document: Document) -> bytes:
        """Return the bytes of a document whose columns are arrays."""
        return b"".join(self.encode_in_pieces(document))

    @abstractmethod
    def encode_in_pieces(self, document: Document) -> Sequence[bytes | memoryview]:
        """Return the same bytes in pieces; other threads run between them."""
