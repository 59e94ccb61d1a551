"""The interface of a file of targets, and what all formats need."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.integrations.bulk.columns import Columns, ColumnShapes

_FINGERPRINT_DIGITS = 32


class TargetFile(ABC):
    """A file with a row per problem in every column.

    Attributes:
        path: Its path.
        column_names: Names of its columns.
        row_groups: Rows of each group that is best read as a whole; set by `check`.
        fingerprint: A hash that differs for other files of equal size and time.
    """

    path: str
    column_names: tuple[str, ...]
    row_groups: tuple[int, ...]
    fingerprint: str

    @abstractmethod
    def check(self, shapes: ColumnShapes) -> None:
        """Check that the columns to read have numbers of the right shape.

        Raises:
            InputError: The message names the file and the column.
        """

    @abstractmethod
    def verify(self) -> None:
        """Compare the file with checksums that `read` does not check; called once in a job, after `check`.

        Raises:
            InputError: It is damaged; the message names the file and the column.
        """

    @abstractmethod
    def read(self, shapes: ColumnShapes, first: int, count: int) -> Columns:
        """Return the columns of some rows, host arrays of floats, shape [count, ...].

        Args:
            shapes: The columns to read.
            first: First row.
            count: Number of rows.

        Raises:
            InputError: The file cannot be read; the message names it, and the column and the row where they are known.
        """


def fingerprint_of(*contents: bytes) -> str:
    """Return a hash of some contents for the description of a job."""
    return hashlib.sha256(b"".join(contents)).hexdigest()[:_FINGERPRINT_DIGITS]


def as_floats(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy: float32 stays float32, all else becomes float64."""
    return np.array(array, np.float32 if array.dtype.itemsize <= 4 and array.dtype.kind == "f" else np.float64)


def groups_of(row_groups: Sequence[int], first: int, count: int) -> tuple[int, int, int]:
    """Return the range of the row groups that contain some rows, and the first row of the range.

    Args:
        row_groups: Rows of each group.
        first: First row.
        count: Number of rows.
    """
    ends = np.cumsum(row_groups)
    begin = int(np.searchsorted(ends, first, side="right"))
    end = int(np.searchsorted(ends, first + count, side="left")) + 1
    return begin, end, int(ends[begin] - row_groups[begin])
