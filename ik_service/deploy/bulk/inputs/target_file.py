"""A file of targets as the rest of a bulk job sees it, whatever its format."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.deploy.bulk.inputs.columns import Columns, ColumnShapes

_FINGERPRINT_DIGITS = 32


class TargetFile(ABC):
    """A file with a line per problem in every column.

    Attributes:
        path: Where it is.
        column_names: Names of its columns.
        row_groups: Rows of each stretch that is best read whole; known once the file is checked.
        fingerprint: A hash that tells it from others of equal size and time of writing.
    """

    path: str
    column_names: tuple[str, ...]
    row_groups: tuple[int, ...]
    fingerprint: str

    @property
    def row_count(self) -> int:
        """Number of problems in it."""
        return sum(self.row_groups)

    @abstractmethod
    def check(self, shapes: ColumnShapes) -> None:
        """Refuse columns of another shape or of no numbers; others are not looked at.

        Raises:
            InputError: Names the file and the column.
        """

    @abstractmethod
    def verify(self) -> None:
        """Compare what is only checked as a whole with its checksums; once in a job, after `check`.

        Raises:
            InputError: It is damaged; names the file and the column.
        """

    @abstractmethod
    def read(self, shapes: ColumnShapes, first: int, count: int) -> Columns:
        """Return the columns of some rows, floats of the host, [count, ...].

        Args:
            shapes: What to read.
            first: First row.
            count: Number of rows.

        Raises:
            InputError: The file cannot be read, or holds something else; names it, and column and row where known.
        """


def fingerprint_of(*contents: bytes) -> str:
    """Return a hash of some contents, as it stands in the description of a job."""
    return hashlib.sha256(b"".join(contents)).hexdigest()[:_FINGERPRINT_DIGITS]


def as_floats(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy as float32 where it is that, else as float64."""
    return np.array(array, np.float32 if array.dtype.itemsize <= 4 and array.dtype.kind == "f" else np.float64)


def groups_of(row_groups: Sequence[int], first: int, count: int) -> tuple[int, int, int]:
    """Return the first and the past-the-last of the row groups that hold some rows, and where the first one begins.

    Args:
        row_groups: Rows of each group.
        first: First row.
        count: Number of rows.
    """
    ends = np.cumsum(row_groups)
    begin = int(np.searchsorted(ends, first, side="right"))
    end = int(np.searchsorted(ends, first + count, side="left")) + 1
    return begin, end, int(ends[begin] - row_groups[begin])
