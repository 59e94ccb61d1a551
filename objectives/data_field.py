"""Numbers per problem: checked on the host, read by kernels from a device array."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from objectives.errors import InputError, ObjectiveError

UNIT_TOLERANCE = 1e-3  # largest error of a quaternion's length; quaternions within are normalised


def fitting_array(array: "wp.array[Any] | None", numbers: npt.NDArray[Any], dtype: Any, device: Any) -> wp.array[Any]:
    """Write numbers [lines, ...] into an array, or into a new array with a power of two of lines; return the array.

    Kernels read line min(problem, lines - 1): a single line is written to all lines of the array, several to the first.
    """
    lines = len(numbers)
    if array is None:
        return wp.array(numbers, dtype=dtype, device=device)
    if lines > array.shape[0]:
        larger: wp.array[Any] = wp.zeros(
            (2 ** math.ceil(math.log2(lines)), *array.shape[1:]), dtype=dtype, device=device
        )
        return fitting_array(larger, numbers, dtype, device)
    if lines == 1 < array.shape[0]:
        numbers = np.repeat(numbers, array.shape[0], axis=0)
    if not wp.get_device(device).is_cuda:
        array.numpy()[: len(numbers)] = numbers  # the same memory
    else:
        values: wp.array[Any] = wp.array(np.ascontiguousarray(numbers), dtype=dtype, device="cpu")
        wp.copy(array, values, count=values.size)
    return array


class DataField:
    """One array of `[1 or problem_count, columns]` float32 numbers.

    NumPy input is checked and copied. A Warp array is used in place: the array may have more lines than there are
    problems, its owner may write new numbers between solves, and the numbers are not checked.
    """

    def __init__(
        self,
        owner: str,
        name: str,
        columns: int | None,
        value: Any,
        *,
        quaternion_columns: tuple[int, ...] = (),
        direction_columns: tuple[int, ...] = (),
        non_negative: bool = False,
        finite: bool = True,
    ) -> None:
        """Make a field of an objective; InputError for a wrong shape or type, or numbers that are not allowed.

        Args:
            owner: Name of the objective, for messages.
            name: Name of the field.
            columns: Numbers per problem; None if this number depends on the robot (see `set_columns`).
            value: Numbers of all problems [columns] or per problem [n, columns], or a Warp array; None for weights: 1.
            quaternion_columns: First columns of unit quaternions xyzw.
            direction_columns: First columns of directions, three numbers scaled to length 1; length 0 is refused.
            non_negative: Whether negative numbers are refused (weights).
            finite: Whether infinities are refused; NaN is always refused.
        """
        self.owner, self.name, self.columns = owner, name, columns
        self.quaternion_columns, self.direction_columns = quaternion_columns, direction_columns
        self.non_negative, self.finite = non_negative, finite
        self.version = 0
        """Counter of exchanges of `array`."""
        self._array: wp.array[wp.float32] | None = None
        self._host: npt.NDArray[np.float32] | None = None
        self._exact: npt.NDArray[np.float64] | None = None  # the caller's numbers, if columns depend on the robot
        self._of_robot = columns is None
        self._given: Any = None  # the caller's Warp array, kept alive while its memory is in use
        self._lines: npt.NDArray[np.intp] | None = None  # lines in use; None for all
        self._device: Any = None
        self._filled = value is None and non_negative  # filled with ones, which fit every robot
        if not self._filled:
            self.set(value)
        elif columns is not None:
            self._host = np.ones((1, columns), dtype=np.float32)

    @property
    def rows(self) -> int:
        """Number of lines in use; 1 for default ones."""
        if self._lines is not None:
            return len(self._lines)
        if self._given is None and self._host is None:
            return 1
        return int((self._view(self._given) if self._host is None else self._host).shape[0])

    @property
    def preallocated(self) -> bool:
        """True while the caller's own Warp array is in use."""
        return self._given is not None

    @property
    def unit_columns(self) -> tuple[slice, ...]:
        """Groups of columns that `set` scales to length 1; none while the caller's own Warp array is in use."""
        if self.preallocated:
            return ()
        quaternions, directions = self.quaternion_columns, self.direction_columns
        return tuple(slice(k, k + n) for columns, n in ((quaternions, 4), (directions, 3)) for k in columns)

    @property
    def array(self) -> wp.array[wp.float32]:
        """The device array, shape [rows, columns]; ObjectiveError before `bind`."""
        if self._array is None:
            raise ObjectiveError(f"{self.owner}: field '{self.name}' is on no device yet; call bind_device() first.")
        return self._array

    def host(self) -> npt.NDArray[np.float64]:
        """Copy the numbers to the host, shape [rows, columns]."""
        source = self._host if self._host is not None else self._view(self._given).numpy()
        return np.asarray(source if self._lines is None else source[self._lines], dtype=np.float64)

    def use_lines(self, lines: npt.NDArray[np.intp] | None) -> None:
        """Use some of the lines, None for all; fields with one line ignore this. No `set` in between."""
        if lines is not None and self.rows == 1:
            return
        changed, self._lines = self._lines is not lines, lines
        if self._device is None or not changed:
            return
        if self._host is not None:
            numbers = self._host if lines is None else self._host[lines]
            self._use(fitting_array(self._array, numbers, wp.float32, self._device), self._device)
        else:
            whole = self._view(self._given)
            part = whole if lines is None else wp.array(whole.numpy()[lines], dtype=wp.float32, device=self._device)
            self._use(part, self._device)

    def set(self, value: Any) -> None:
        """Replace the numbers; keep the device array if it has enough lines. InputError as for the constructor."""
        if isinstance(value, wp.array):
            view = self._view(value)
            if self._device is not None:
                self._use(view, self._device)
            self._given, self._host, self._filled = value, None, False
            return
        numbers = self._checked(value)
        if self._of_robot:
            self._exact = np.array(value, dtype=np.float64)
        own = None if self._given is not None else self._array
        self._given, self._host, self._filled = None, numbers, False
        if self._device is not None:
            self._use(fitting_array(own, numbers, wp.float32, self._device), self._device)

    def set_columns(self, columns: int, quaternion_columns: tuple[int, ...] = ()) -> None:
        """Fix the columns for a robot; fill with ones without numbers of the caller. InputError: wrong columns."""
        self.columns, self.quaternion_columns = columns, quaternion_columns
        if self._given is not None:
            self._view(self._given)
        else:
            held = self._host if self._exact is None else self._exact
            numbers = self._checked(np.ones(columns) if self._filled else held)
            if self._host is not None and not np.array_equal(numbers, self._host):
                self._array = None  # fits another robot; `bind` makes a new array
            self._host = numbers

    def bind(self, device: Any) -> None:
        """Copy the numbers to a device; InputError if the caller's Warp array is on another device."""
        if self._array is not None and self._device == device:
            return
        given = self._given is not None
        self._use(self._view(self._given) if given else wp.array(self._host, dtype=wp.float32, device=device), device)
        self._device = device

    def unbound_copy(self) -> "DataField":
        """Copy the field, with the same numbers, on no device."""
        held = self._host if self._exact is None else self._exact
        value = None if self._filled else self._given if self._host is None else held
        return DataField(
            self.owner,
            self.name,
            None if self._of_robot else self.columns,
            value,
            quaternion_columns=() if self._of_robot else self.quaternion_columns,
            direction_columns=self.direction_columns,
            non_negative=self.non_negative,
            finite=self.finite,
        )

    def _use(self, array: wp.array[wp.float32], device: Any) -> None:
        if array.device != device:
            raise InputError(self._message(f"is on device '{array.device}'", f"the solver's device '{device}'"))
        old, self._array = self._array, array
        if old is None or (old.ptr, old.shape, old.strides) != (array.ptr, array.shape, array.strides):
            self.version += 1

    def _message(self, fault: str, allowed: str) -> str:
        return f"{self.owner}: field '{self.name}' {fault}; allowed: {allowed}."

    def _view(self, array: Any) -> wp.array[wp.float32]:
        """View a Warp array of vectors, quaternions, transforms or floats as [rows, columns] floats."""
        length = getattr(array.dtype, "_length_", 1)
        scalar = getattr(array.dtype, "_wp_scalar_type_", array.dtype)
        shape, strides = (*array.shape, length), (*array.strides, 4)
        if array.ndim == 2 and length == 1:
            shape, strides = array.shape, array.strides
        elif shape == (self.columns, 1) and self.columns != 1:  # plain numbers for all problems
            shape, strides = (1, self.columns), (array.strides[0], array.strides[0])
        if scalar is not wp.float32 or len(shape) != 2 or (self.columns is not None and shape[1] != self.columns):
            raise InputError(
                self._message(f"is a Warp array of {array.dtype.__name__}, shape {array.shape}", self._shapes())
            )
        if shape[0] == 0:
            raise InputError(self._message("has no lines", self._shapes()))
        return wp.array(ptr=array.ptr, dtype=wp.float32, shape=shape, strides=strides, device=array.device)

    def _shapes(self) -> str:
        width = "columns" if self.columns is None else self.columns
        return f"float32 numbers, shape [{width}] or [problem_count, {width}]"

    def _checked(self, value: Any) -> npt.NDArray[np.float32]:
        try:
            numbers = np.array(value, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(self._message(f"is not an array of numbers ({error})", self._shapes())) from None
        if numbers.ndim not in (1, 2) or (self.columns is not None and numbers.shape[-1] != self.columns):
            raise InputError(self._message(f"has shape {list(numbers.shape)}", self._shapes()))
        numbers = np.atleast_2d(numbers)
        if numbers.shape[0] == 0:
            raise InputError(self._message("has no lines", self._shapes()))
        self._require(np.isfinite(numbers) if self.finite else ~np.isnan(numbers), numbers, "finite numbers")
        if self.non_negative:
            self._require(numbers >= 0.0, numbers, "weights of 0 or more")
        for first in self.quaternion_columns:
            entries = slice(first, first + 4)
            lengths = np.linalg.norm(numbers[:, entries], axis=1, keepdims=True)
            self._require(np.abs(lengths - 1.0) <= UNIT_TOLERANCE, lengths, "quaternions xyzw of length 1")
            numbers[:, entries] /= lengths
        for first in self.direction_columns:
            entries = slice(first, first + 3)
            largest = np.abs(numbers[:, entries]).max(axis=1, keepdims=True)
            self._require(largest > 0.0, largest, "directions, whose three numbers are not all 0")
            numbers[:, entries] /= largest  # so that no square overflows or vanishes
            numbers[:, entries] /= np.linalg.norm(numbers[:, entries], axis=1, keepdims=True)
        return numbers.astype(np.float32)

    def _require(self, good: npt.NDArray[np.bool_], values: npt.NDArray[np.float64], allowed: str) -> None:
        if not good.all():
            row, column = np.argwhere(~good)[0]
            raise InputError(self._message(f"has {values[row, column]} in line {row}, column {column}", allowed))
