"""Files of targets, and their parts."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from objectives.errors import InputError


@dataclass(frozen=True)
class InputFile:
    """A file of targets at the time when the plan was made.

    Attributes:
        path: Its path.
        row_groups: Rows of each group that is best read as a whole.
        bytes: Its size.
        modified_ns: Time of its last change on the clock of its file system [ns].
        fingerprint: A hash that differs for other files of equal size and time.
    """

    path: str
    row_groups: tuple[int, ...]
    bytes: int
    modified_ns: int
    fingerprint: str

    @property
    def row_count(self) -> int:
        """Number of its problems."""
        return sum(self.row_groups)

    def check_unchanged(self) -> None:
        """Check that the file has not changed.

        Raises:
            InputError: It is gone, or has changed.
        """
        try:
            state = os.stat(self.path)
        except OSError as error:
            raise InputError(f"Cannot read '{self.path}': {error.strerror}.") from error
        if (state.st_size, state.st_mtime_ns) != (self.bytes, self.modified_ns):
            raise InputError(f"'{self.path}' has changed while the job was running. Begin a new one.")


@dataclass(frozen=True)
class Part:
    """Rows of one file of targets, with one file of results.

    Attributes:
        number: Its number, from 0.
        file: Number of the file.
        first_row: Its first row in that file.
        row_count: Number of its rows.
        first_problem: Number of its first problem in the job.
    """

    number: int
    file: int
    first_row: int
    row_count: int
    first_problem: int


def part_rows(row_groups: Iterable[int], most: int) -> Iterator[int]:
    """Give the number of rows of each part of a file: row groups are joined, and those that are too large split evenly.

    Args:
        row_groups: Rows of each group.
        most: Rows of a part at most.
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
