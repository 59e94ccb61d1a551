"""Numeric columns of a body, checked and converted to arrays.

A column is a list of rows of equal width, a packed column or an array. Each check runs in C over the whole column; only
after a failed check, Python searches the column for its first fault. float32 stays float32.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.poses import Poses
from ik_service.service.codecs.codec import PackedColumn
from ik_service.service.errors.exceptions import FaultBody, FaultyFieldsError, TooManyProblemsError, faulty_field
from ik_service.service.queue.objective_data import FloatArray
from ik_service.service.schema.limits import MAX_PROBLEM_COUNT, MAX_VALUE, MIN_ROW_WEIGHT
from objectives.data_field import UNIT_TOLERANCE

ROWS_AT_ONCE = 2048
"""Rows of a list that are checked at once, which takes a millisecond."""
_NUMBERS = frozenset((int, float))
_SQUARES_SURELY_INSIDE = 0.99 * MAX_VALUE**2
"""No number of a column is beyond the limits where its squares sum up to less, rounded in float32 too."""


def read_rows(value: object, width: int, pointer: str) -> FloatArray:
    """Return a column of rows, shape [n, width], n from 1 to `MAX_PROBLEM_COUNT`.

    The value is a decoded list, a packed column or an array. FaultyFieldsError, with the JSON pointer, if not rows of
    `width` finite numbers within the limits; TooManyProblemsError for too many rows.
    """
    value = value.array(pointer) if isinstance(value, PackedColumn) else value
    if isinstance(value, np.ndarray):
        if value.ndim != 2 or value.shape[1] != width:
            raise faulty_field(pointer, "wrong_shape", f"The column has shape {list(value.shape)}. Give [n, {width}].")
        if not len(value):
            raise faulty_field(pointer, "empty_batch", "The column is empty. Give one row per problem, at least one.")
        if len(value) > MAX_PROBLEM_COUNT:
            raise _too_many_rows(len(value), pointer)
        return _checked(value, pointer)
    if not isinstance(value, list):
        raise faulty_field(pointer, "wrong_type", f"Give a list of rows of {width} numbers, not {_kind(value)}.")
    if not value:
        raise faulty_field(pointer, "empty_batch", "The list is empty. Give one row per problem, at least one.")
    if len(value) > MAX_PROBLEM_COUNT:
        raise _too_many_rows(len(value), pointer)
    # The check of one part blocks all other threads.
    blocks = [value[start : start + ROWS_AT_ONCE] for start in range(0, len(value), ROWS_AT_ONCE)]
    for rows in blocks:
        if set(map(type, rows)) != {list} or set(map(len, rows)) != {width}:
            raise _first_bad_row(value, width, pointer)
    for rows in blocks:
        if not set(map(type, chain.from_iterable(rows))) <= _NUMBERS:
            raise _first_bad_number(value, pointer)
    numbers = [np.fromiter(chain.from_iterable(rows), np.float64, len(rows) * width) for rows in blocks]
    joined = numbers[0] if len(numbers) == 1 else np.concatenate(numbers)
    return _checked(joined.reshape(len(value), width), pointer)


def read_matrices(value: object, pointer: str) -> tuple[FloatArray, FloatArray]:
    """Return positions [n, 3] and unit quaternions xyzw [n, 4] of homogeneous matrices; errors as of `read_rows`."""
    value = value.array(pointer) if isinstance(value, PackedColumn) else value
    if isinstance(value, np.ndarray):
        if value.shape[1:] != (4, 4):
            raise faulty_field(pointer, "wrong_shape", f"Matrices have shape {list(value.shape)}. Give [n, 4, 4].")
        value = value.reshape(len(value), 16)
    elif isinstance(value, list):
        value = [_numbers_of_matrix(matrix, f"{pointer}/{k}") for k, matrix in enumerate(value)]
    try:
        matrices = read_rows(value, 16, pointer).reshape(-1, 4, 4)
    except FaultyFieldsError as error:
        raise FaultyFieldsError(_of_matrix(fault, pointer) for fault in error.faults) from None
    try:
        poses = Poses.from_matrices(matrices)
    except ValueError:
        for k, matrix in enumerate(matrices):
            try:
                Poses.from_matrices(matrix)
            except ValueError as error:
                raise faulty_field(f"{pointer}/{k}", "invalid_value", str(error)) from None
        raise
    return poses.positions, poses.orientations_xyzw


def _of_matrix(fault: FaultBody, pointer: str) -> FaultBody:
    """Return a fault of a row of 16 numbers as a fault of a matrix."""
    places = fault.pointer.removeprefix(f"{pointer}/").split("/")
    if len(places) < 2 or not places[1].isdigit():
        return fault
    row, column = divmod(int(places[1]), 4)
    return fault.model_copy(update={"pointer": f"{pointer}/{places[0]}/{row}/{column}"})


def _numbers_of_matrix(matrix: object, pointer: str) -> list[object]:
    if not isinstance(matrix, list) or list(map(type, matrix)) != [list] * 4:
        raise faulty_field(pointer, "wrong_shape", "Give a matrix as 4 rows of 4 numbers.")
    numbers = [*chain.from_iterable(matrix)]
    if list(map(len, matrix)) != [4] * 4 or not set(map(type, numbers)) <= _NUMBERS:
        read_rows(matrix, 4, pointer)  # names the row or number
    return numbers


def read_row(value: object, width: int, pointer: str) -> FloatArray:
    """Return one row, shape [width]; FaultyFieldsError if not `width` finite numbers within the limits."""
    value = value.array(pointer) if isinstance(value, PackedColumn) else value
    if isinstance(value, np.ndarray):
        if value.shape != (width,):
            raise faulty_field(pointer, "wrong_shape", f"The row has shape {list(value.shape)}. Give [{width}].")
        return _checked(value, pointer)
    if not isinstance(value, list):
        raise faulty_field(pointer, "wrong_type", f"Give a row of {width} numbers, not {_kind(value)}.")
    if len(value) != width:
        raise faulty_field(pointer, "wrong_shape", f"The row has {len(value)} numbers. Give {width}.")
    for index, number in enumerate(value):
        if type(number) not in _NUMBERS:
            raise faulty_field(f"{pointer}/{index}", "wrong_type", f"Give a number, not {_kind(number)}.")
    return _checked(np.array(value, dtype=np.float64), pointer)


def read_row_or_rows(value: object, width: int, pointer: str) -> FloatArray:
    """Return one row for all problems, shape [width], or a column, shape [n, width]; errors as in `read_rows`."""
    value = value.array(pointer) if isinstance(value, PackedColumn) else value
    if isinstance(value, np.ndarray):
        is_row = value.ndim == 1
    else:
        is_row = isinstance(value, list) and bool(value) and not isinstance(value[0], list)
    return read_row(value, width, pointer) if is_row else read_rows(value, width, pointer)


def read_list(value: object, kind: type, pointer: str, what: str) -> NDArray[Any]:
    """Return an array as it is, or of a list whose entries are all of one type; FaultyFieldsError, naming `what`."""
    if isinstance(value, list) and set(map(type, value)) == {kind}:
        value = np.array(value)
    if not isinstance(value, np.ndarray):
        raise faulty_field(pointer, "wrong_type", f"Give a list of {what}.")
    return value


def check_unit_quaternions(quaternions_xyzw: FloatArray, pointer: str) -> None:
    """Raise FaultyFieldsError for a length further than `UNIT_TOLERANCE` from 1, shape [4] or [n, 4]."""
    squared = np.einsum("...k,...k->...", quaternions_xyzw, quaternions_xyzw, dtype=np.float64)
    deviations = squared - 1.0
    if np.vdot(deviations, deviations) <= UNIT_TOLERANCE**2:  # then each deviation is below, for the square root, too
        return
    length = np.sqrt(np.atleast_1d(squared))
    off = np.abs(length - 1.0) > UNIT_TOLERANCE
    if off.any():
        bad = np.flatnonzero(off)
        place = pointer if quaternions_xyzw.ndim == 1 else f"{pointer}/{bad[0]}"
        detail = (
            f"The quaternion has length {length[bad[0]]:.6g}. Give unit quaternions in the order x, y, z, w; "
            f"lengths within {UNIT_TOLERANCE} of 1 are normalised."
        )
        raise faulty_field(place, "not_unit_quaternion", detail)


def check_weights(weights: FloatArray, pointer: str) -> None:
    """Raise FaultyFieldsError for negative weights, and positive weights with a square of 0 in float32."""
    wrong = np.argwhere((weights < MIN_ROW_WEIGHT) & (weights != 0.0))
    if wrong.size:
        detail = f"A weight is {MIN_ROW_WEIGHT:g} or more, or 0, which leaves the axis free."
        raise faulty_field(_place(pointer, wrong[0]), "out_of_range", detail)


def check_directions(directions: FloatArray, pointer: str) -> None:
    """Raise FaultyFieldsError for directions of length 0, shape [3] or [n, 3]."""
    zero = np.flatnonzero(~np.atleast_2d(directions).any(axis=1))
    if zero.size:
        place = pointer if directions.ndim == 1 else f"{pointer}/{zero[0]}"
        raise faulty_field(place, "out_of_range", "A direction has any length but 0.")


def wrong_count(given: int, expected: int, pointer: str) -> FaultyFieldsError:
    """Return the error of a column whose number of rows is not the number of problems."""
    here = f"This is {given}" if pointer == "/problem_count" else f"There are {given} rows here"
    detail = f"{here}, and there are {expected} problems in the columns before. They must agree."
    return faulty_field(pointer, "wrong_shape", detail)


def _too_many_rows(count: int, pointer: str) -> TooManyProblemsError:
    return TooManyProblemsError(
        f"{pointer} has {count} rows. A request may hold {MAX_PROBLEM_COUNT} problems; send more requests."
    )


def _checked(array: FloatArray, pointer: str) -> FloatArray:
    if np.vdot(array, array) <= _SQUARES_SURELY_INSIDE:  # false for NaN
        return array
    size = np.abs(array)
    if not np.isfinite(array).all():
        index = np.argwhere(~np.isfinite(array))[0]
        raise faulty_field(_place(pointer, index), "not_finite", "Every number must be finite: no NaN, no Infinity.")
    if (size > MAX_VALUE).any():
        index = np.argwhere(size > MAX_VALUE)[0]
        raise faulty_field(
            _place(pointer, index), "out_of_range", f"Numbers lie between -{MAX_VALUE:g} and {MAX_VALUE:g}."
        )
    return array


def _first_bad_row(rows: list[Any], width: int, pointer: str) -> FaultyFieldsError:
    index = next(k for k, row in enumerate(rows) if type(row) is not list or len(row) != width)
    row, place = rows[index], f"{pointer}/{index}"
    if type(row) is not list:
        return faulty_field(place, "wrong_type", f"Give a row of {width} numbers, not {_kind(row)}.")
    return faulty_field(place, "wrong_shape", f"The row has {len(row)} numbers. Give {width}.")


def _first_bad_number(rows: list[list[Any]], pointer: str) -> FaultyFieldsError:
    place = next((k, c) for k, row in enumerate(rows) for c, number in enumerate(row) if type(number) not in _NUMBERS)
    found = rows[place[0]][place[1]]
    return faulty_field(_place(pointer, place), "wrong_type", f"Give a number, not {_kind(found)}.")


def _place(pointer: str, index: "Sequence[int] | NDArray[np.intp]") -> str:
    return "/".join((pointer, *(str(int(k)) for k in index)))


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "a boolean", str: "a string", dict: "an object", list: "a list"}
    return names.get(type(value), "a number")
