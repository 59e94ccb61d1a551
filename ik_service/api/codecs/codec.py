"""What every codec does."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, overload

Document = Mapping[str, Any]


class LazyRows(Sequence[Any]):
    """A column whose rows are made when they are written, so that never all of them are there.

    Args:
        count: How many rows.
        make: Returns a row by its number.
    """

    def __init__(self, count: int, make: Callable[[int], Any]) -> None:
        self._count, self._make = count, make

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._count

    @overload
    def __getitem__(self, place: int) -> Any: ...

    @overload
    def __getitem__(self, place: slice) -> list[Any]: ...

    def __getitem__(self, place: int | slice) -> Any:
        """Make a row, or several."""
        if isinstance(place, slice):
            return [self._make(row) for row in range(*place.indices(self._count))]
        if not 0 <= place < self._count:
            raise IndexError(place)
        return self._make(place)


class Codec(Protocol):
    """One form in which documents travel.

    Attributes:
        media_type: Its name in Content-Type and Accept.
        other_names: Further names that clients use for it.
        is_binary: Whether columns are arrays: statuses are codes then, NaN stands for what has no value, and a seed
            that islands do not share is -1.
        is_flat: Whether it holds arrays alone, no lists of documents by problem.
        blocking_bytes: Bodies that unpack to more than this are decoded beside the event loop.
    """

    media_type: str
    other_names: tuple[str, ...]
    is_binary: bool
    is_flat: bool
    blocking_bytes: int

    def unpacked_bytes(self, body: bytes, limit: int) -> int:
        """Return how much memory the document in a body takes at most, from a glance at it.

        Args:
            body: The bytes.
            limit: Most bytes that an unpacked body may have.

        Raises:
            InputError: It would hold more than any document that is of use.
        """

    def decode(self, body: bytes, query: str, limit: int) -> Any:
        """Return the document in a body; its columns are as they came, to be checked by `columns`.

        Args:
            body: The bytes.
            query: Query of the address, for codecs whose body holds arrays alone.
            limit: Most bytes that an unpacked body may have.

        Raises:
            InputError: The body is not in this form, or breaks a bound.
        """

    def encode(self, document: Document) -> bytes:
        """Return a document whose columns are arrays as bytes."""

    def encode_in_pieces(self, document: Document) -> Sequence[bytes | memoryview]:
        """Return the same bytes in pieces, made so that other threads can go on meanwhile."""
