"""The columns of a file of targets: names, shapes, and rows with numbers that a solver refuses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.configuration import MIN_QUATERNION_LENGTH
from ik_service.robots import RobotModel
from ik_service.solver.given.target_arrays import NUMBER_MAX
from objectives.data_field import UNIT_TOLERANCE
from objectives.errors import InputError

Columns = Mapping[str, NDArray[Any]]
"""Arrays by name of column, each with a row per problem."""

COLUMN_NAMES = ("positions", "orientations_xyzw", "initial_joint_q")
"""The known columns, with the names of the HTTP interface."""

CSV_COLUMNS = {"positions": ("x", "y", "z"), "orientations_xyzw": ("qx", "qy", "qz", "qw")}
"""Names of the numbers of a column of one target in CSV files."""

ID_COLUMN = "id"
"""A column of the caller, which is ignored: results are in the order of the rows."""


@dataclass(frozen=True)
class ColumnShapes:
    """Shapes of the columns that are read from every file.

    Attributes:
        shapes: Shape of a row, by name of column: `positions` [3] or [targets, 3], `orientations_xyzw` [4] or
            [targets, 4], `initial_joint_q` [joint_coord_count].
    """

    shapes: Mapping[str, tuple[int, ...]]

    @classmethod
    def known(cls, robot: RobotModel, target_count: int) -> "ColumnShapes":
        """Return the shapes of all known columns.

        Args:
            robot: The robot.
            target_count: Number of targets of a problem.
        """
        several = (target_count,) if target_count > 1 else ()
        shapes = ((*several, 3), (*several, 4), (robot.joint_coord_count,))
        return cls(dict(zip(COLUMN_NAMES, shapes, strict=True)))

    def chosen(self, path: str, present: Sequence[str], asked: Sequence[str] | None) -> "ColumnShapes":
        """Return the shapes of the columns to read.

        Args:
            path: A file, for messages.
            present: Names of its columns.
            asked: Names that the caller gives; None takes all known ones, and refuses others.

        Raises:
            InputError: A column is missing or not known, or none of them has targets.
        """
        known = ", ".join(self.shapes)
        for name in present if asked is None else asked:
            if name not in self.shapes and not (asked is None and name == ID_COLUMN):
                advice = ""
                if asked is None:
                    named = [own for own in self.shapes if own in present]
                    advice = (
                        f" To pass over others, name those to read: {' '.join(f'--column {own}' for own in named)}."
                    )
                raise InputError(f"'{path}': column '{name}' is not known. Columns: {known}.{advice}")
        names = [name for name in self.shapes if name in (present if asked is None else asked)]
        if not {"positions", "orientations_xyzw"} & set(names):
            raise InputError(f"'{path}' has neither a column 'positions' nor 'orientations_xyzw'.")
        self.check_present(path, present, names)
        return ColumnShapes({name: self.shapes[name] for name in names})

    def check_present(self, path: str, present: Sequence[str], names: Sequence[str] | None = None) -> None:
        """Check that a file has all columns.

        Raises:
            InputError: It lacks one; the message names both.
        """
        for name in self.shapes if names is None else names:
            if name not in present:
                raise InputError(f"'{path}' has no column '{name}'. Columns in it: {', '.join(present) or 'none'}.")

    def check_shape(self, path: str, name: str, shape: Sequence[int]) -> None:
        """Check the shape of the rows of a column.

        Args:
            path: The file, for messages.
            name: The column.
            shape: Shape of its rows.

        Raises:
            InputError: It is another one.
        """
        if tuple(shape) != self.shapes[name]:
            wanted = ", ".join(map(str, ("n", *self.shapes[name])))
            found = ", ".join(map(str, ("n", *shape)))
            raise InputError(f"'{path}': column '{name}' has shape [{found}]. Give [{wanted}].")


def faulty_rows(robot: RobotModel, columns: Columns) -> NDArray[np.bool_]:
    """Return which problems have numbers that a solver refuses, shape [n].

    Args:
        robot: The robot.
        columns: Columns of a file.
    """
    count = len(next(iter(columns.values())))
    faulty = np.zeros(count, dtype=bool)
    for array in columns.values():
        faulty |= ~(np.abs(array.reshape(count, -1)) <= NUMBER_MAX).all(axis=1)
    if "orientations_xyzw" in columns:
        length = np.linalg.norm(columns["orientations_xyzw"].astype(np.float64), axis=-1).reshape(count, -1)
        faulty |= ~(np.abs(length - 1.0) <= UNIT_TOLERANCE).all(axis=1)
    if "initial_joint_q" in columns:
        for first in robot.quaternion_starts.values():
            quaternions_xyzw = columns["initial_joint_q"][:, first : first + 4].astype(np.float64)
            faulty |= ~(np.linalg.norm(quaternions_xyzw, axis=1) >= MIN_QUATERNION_LENGTH)
    return faulty


def with_placeholders(robot: RobotModel, columns: Columns, faulty: NDArray[np.bool_]) -> Columns:
    """Return the columns with zeros and identity rotations in place of faulty problems.

    Args:
        robot: The robot.
        columns: Columns of a file.
        faulty: Which problems to replace, shape [n].
    """
    replaced = {}
    for name, array in columns.items():
        replaced[name] = array.copy()
        replaced[name][faulty] = 0.0
        if name == "orientations_xyzw":
            replaced[name][faulty, ..., 3] = 1.0
        if name == "initial_joint_q":
            for first in robot.quaternion_starts.values():
                replaced[name][faulty, first + 3] = 1.0
    return replaced
