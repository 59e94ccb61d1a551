"""Files of targets, their columns and checks; this file reads archives of `numpy.savez`, parquet.py reads Parquet."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.configuration import MIN_QUATERNION_LENGTH
from ik_service.robots import RobotModel
from ik_service.solver.given.arrays import NUMBER_MAX
from objectives.data_field import UNIT_TOLERANCE
from objectives.errors import InputError

Columns = Mapping[str, NDArray[Any]]  # arrays by name of column, each with a row per problem
Shapes = Mapping[str, tuple[int, ...]]  # shape of a row of each column; names are those of the HTTP interface
CSV_COLUMNS = {"positions": ("x", "y", "z"), "orientations_xyzw": ("qx", "qy", "qz", "qw")}
"""Names of the numbers of a column of one target in CSV files."""
ID_COLUMN = "id"  # a column of the caller, which is ignored: results are in the order of the rows


class NpzTargets:
    """An archive of `numpy.savez`; requested arrays are fully in memory."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.column_names, self._arrays = read_archive(path, ())

    def check(self, shapes: Shapes) -> int:
        """Read these columns, check types, shapes and checksums, and return the number of rows."""
        _, self._arrays = read_archive(self.path, shapes)
        for name, array in self._arrays.items():
            if array.dtype.kind not in "fiu":
                raise InputError(f"'{self.path}': column '{name}' is of type {array.dtype}. Give numbers.")
            check_shape(self.path, name, array.shape[1:], shapes[name])
        counts = {name: len(array) for name, array in self._arrays.items()}
        if len(set(counts.values())) > 1:
            raise InputError(f"The arrays of '{self.path}' hold different numbers of problems: {counts}.")
        return max(counts.values())

    def read(self, first: int, count: int) -> Columns:
        """Return the checked columns of some rows, arrays of floats, shape [count, ...]."""
        return {name: as_floats(array[first : first + count]) for name, array in self._arrays.items()}


def read_archive(path: str, names: Iterable[str]) -> tuple[tuple[str, ...], dict[str, NDArray[Any]]]:
    """Return the names of all arrays of an archive, and the arrays of `names`; InputError for an unreadable file."""
    arrays, what = dict[str, NDArray[Any]](), ""
    try:
        with open(path, "rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it holds one array without a name")
            for name in names:
                what = f": column '{name}'"
                arrays[name] = np.asarray(archive[name])
            return tuple(archive.files), arrays
    except OSError as error:
        raise InputError(f"Cannot read '{path}': {error.strerror or error}.") from error
    except Exception as error:  # several packages read archives, each with its own errors
        reason = (str(error) or type(error).__name__).rstrip(".")
        raise InputError(f"'{path}'{what} cannot be read as a plain array of numpy.savez: {reason}.") from error


def as_floats(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy: float32 stays float32, all else becomes float64."""
    return np.array(array, np.float32 if array.dtype.itemsize <= 4 and array.dtype.kind == "f" else np.float64)


def chosen_shapes(
    robot: RobotModel, target_count: int, path: str, present: Sequence[str], asked: Sequence[str] | None
) -> Shapes:
    """Return the shapes of the columns to read: the requested ones, or all known columns in a file; or InputError."""
    several = (target_count,) if target_count > 1 else ()
    starts = (robot.joint_coord_count,)
    known = {"positions": (*several, 3), "orientations_xyzw": (*several, 4), "initial_joint_q": starts}
    for name in present if asked is None else asked:
        if name not in known and not (asked is None and name == ID_COLUMN):
            options = " ".join(f"--column {own}" for own in known if own in present)
            advice = f" To pass over others, name those to read: {options}." if asked is None else ""
            raise InputError(f"'{path}': column '{name}' is not known. Columns: {', '.join(known)}.{advice}")
    shapes = {name: shape for name, shape in known.items() if name in (present if asked is None else asked)}
    if not {"positions", "orientations_xyzw"} & set(shapes):
        raise InputError(f"'{path}' has neither a column 'positions' nor 'orientations_xyzw'.")
    return shapes


def check_shape(path: str, name: str, found: Sequence[int], wanted: Sequence[int]) -> None:
    """Raise InputError where the rows of a column have another shape than is wanted."""
    if tuple(found) != tuple(wanted):
        shapes = [", ".join(map(str, ("n", *shape))) for shape in (found, wanted)]
        raise InputError(f"'{path}': column '{name}' has shape [{shapes[0]}]. Give [{shapes[1]}].")


def faulty_rows(robot: RobotModel, columns: Columns) -> NDArray[np.bool_]:
    """Return the problems with numbers refused by a solver, shape [n]."""
    allowed = [np.abs(array) <= NUMBER_MAX for array in columns.values()]
    if "orientations_xyzw" in columns:
        lengths = np.linalg.norm(columns["orientations_xyzw"].astype(np.float64), axis=-1)
        allowed.append(np.abs(lengths - 1.0) <= UNIT_TOLERANCE)
    for first in robot.quaternion_starts.values() if "initial_joint_q" in columns else ():
        quaternions_xyzw = columns["initial_joint_q"][:, first : first + 4].astype(np.float64)
        allowed.append(np.linalg.norm(quaternions_xyzw, axis=1) >= MIN_QUATERNION_LENGTH)
    return np.asarray(~np.all([one.reshape(len(one), -1).all(axis=1) for one in allowed], axis=0))
