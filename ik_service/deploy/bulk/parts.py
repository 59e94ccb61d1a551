"""Files of targets and the parts that they are cut into."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from objectives.errors import InputError


@dataclass(frozen=True)
class InputFile:
    """A file of targets as it was when the job was made.

    Attributes:
        path: Where it is.
        row_groups: Rows of each stretch that is best read whole.
        bytes: Its size.
        modified_ns: When it was last written, by the clock of its file system [ns].
        fingerprint: A hash that tells it from others of equal size and time of writing.
    """

    path: str
    row_groups: tuple[int, ...]
    bytes: int
    modified_ns: int
    fingerprint: str

    @property
    def row_count(self) -> int:
        """Number of problems in it."""
        return sum(self.row_groups)

    def check_unchanged(self) -> None:
        """Refuse a file that is no longer what it was.

        Raises:
            InputError: It is gone, or was written since.
        """
        try:
            state = os.stat(self.path)
        except OSError as error:
            raise InputError(f"Cannot read '{self.path}': {error.strerror}.") from error
        if (state.st_size, state.st_mtime_ns) != (self.bytes, self.modified_ns):
            raise InputError(f"'{self.path}' has changed while the job was running. Begin a new one.")


@dataclass(frozen=True)
class Part:
    """Rows of one file that become one file of results.

    Attributes:
        number: From 0, in order.
        file: Number of the file.
        first_row: First row in that file.
        row_count: Number of rows.
        first_problem: Number of its first problem in the job.
    """

    number: int
    file: int
    first_row: int
    row_count: int
    first_problem: int


def part_rows(row_groups: Iterable[int], most: int) -> Iterator[int]:
    """Give the rows of each part of a file: whole row groups while they fit, large ones cut into equal pieces.

    Args:
        row_groups: Rows of each group.
        most: Most rows of a part.
    """
    waiting = 0
    for rows in row_groups:
        if waiting and waiting + rows > most:
            yield waiting
            waiting = 0
        if rows <= most:
            waiting += rows
            continue
        pieces = -(-rows // most)
        yield from np.diff(np.linspace(0, rows, pieces + 1).astype(int)).tolist()
    if waiting:
        yield waiting
