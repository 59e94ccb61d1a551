"""What every codec does."""

from collections.abc import Mapping
from typing import Any, Protocol

Document = Mapping[str, Any]


class Codec(Protocol):
    """One form in which documents travel.

    Attributes:
        media_type: Its name in Content-Type and Accept.
        other_names: Further names that clients use for it.
        is_binary: Whether columns are arrays: statuses are codes then, NaN stands for what has no value, and a seed
            that islands do not share is -1.
        is_flat: Whether it holds arrays alone, no lists of documents by problem.
        blocking_bytes: Bodies larger than this are decoded beside the event loop.
        blocking_problem_count: Answers with more problems than this are encoded beside the event loop.
    """

    media_type: str
    other_names: tuple[str, ...]
    is_binary: bool
    is_flat: bool
    blocking_bytes: int
    blocking_problem_count: int

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
