"""Objectives with rows stated as expressions; kernels, Jacobian and sparsity are derived from the statement."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import warp as wp

from objectives.data_field import DataField
from objectives.errors import InputError, ObjectiveError, UnknownNameError
from objectives.expression.element_table import Element, ElementBlock, ElementTable, build_element_table
from objectives.expression.kernels import jacobian_kernel, residual_kernel
from objectives.expression.rows import ROW_TOLERANCES, ROW_WEIGHTS, RowGroup
from objectives.model import BoolArray, IKModel
from objectives.objective import IKJacobianType, IKObjective

if TYPE_CHECKING:
    from typing import Self  # Python 3.11


class ExpressionObjective(IKObjective):
    """An objective whose rows are arithmetic over link frames, coordinates and data.

    A subclass passes its data fields to the constructor; `stated_elements` gives row groups and their elements. Every
    row is multiplied by `weight` and by its entry of the field `row_weights`. Rows may have tolerances, see
    `set_row_tolerances`. Fields can be set before and between solves.

    Args:
        fields: Data fields, with the names used by the row groups.
        row_count: Number of rows; None if this number depends on the robot.
        row_weights: Weights of the rows, shape [row_count] or [problem_count, row_count]; 0 disables a row; a Warp
            array is used in place. None for ones.
        weight: Factor of all rows, positive.

    Raises:
        InputError: A weight is negative or not finite, or has a wrong shape.
    """

    def __init__(
        self, fields: Sequence[DataField], *, row_count: int | None, row_weights: Any = None, weight: float = 1.0
    ) -> None:
        if not (np.isfinite(weight) and weight > 0.0):
            allowed = "a positive number (a row weight of 0 switches a row off)"
            raise InputError(f"{type(self).__name__}: weight is {weight}; allowed: {allowed}.")
        self._weight = float(weight)
        weights = DataField(type(self).__name__, ROW_WEIGHTS, row_count, row_weights, non_negative=True)
        self._fields: dict[str, DataField] = {field.name: field for field in (*fields, weights)}
        self._tables: list[ElementTable] | None = None
        self._blocks: list[ElementBlock] = []
        self._row_count = row_count
        self._common_tolerance: float | None = None  # until the number of rows is known

    # ------------------------------------------------------------------ what a subclass states
    def stated_elements(self, model: IKModel) -> Sequence[tuple[RowGroup, Sequence[Element]]]:
        """Give the row groups with their elements on this robot, in the order of the rows.

        Raises:
            UnknownNameError: The robot lacks a link or joint.
        """
        raise NotImplementedError(f"{type(self).__name__} must override stated_elements().")

    # ------------------------------------------------------------------ data
    @property
    def weight(self) -> float:
        """Factor of all rows."""
        return self._weight

    @property
    def data_version(self) -> int:
        """Counter of exchanges of device arrays of fields."""
        return sum(field.version for field in self._fields.values())

    def set_data(self, name: str, value: Any) -> None:
        """Replace the numbers of a field, shape [columns] for all problems, or [problem_count, columns].

        NumPy input is copied into the device array in use, a single line into all lines; if there are too few lines,
        the field gets a larger array and `data_version` grows. A Warp array replaces the array in use.

        Raises:
            UnknownNameError: There is no such field.
            InputError: The value has a wrong shape, type or device, or numbers that are not allowed.
        """
        field = self._field(name)
        if name == ROW_TOLERANCES:
            self.set_row_tolerances(value)
        else:
            field.set(value)

    def data(self, name: str) -> wp.array[wp.float32]:
        """Give the device array of a field, shape [1, columns] or [problem_count or more, columns].

        Raises:
            UnknownNameError: There is no such field.
            ObjectiveError: The objective is on no device yet.
        """
        return self._field(name).array

    def data_rows(self) -> Mapping[str, int]:
        """Give the number of lines of each field, by name."""
        return {name: field.rows for name, field in self._fields.items()}

    def use_lines(self, problems: npt.NDArray[np.intp] | None) -> None:
        """Use the lines of some problems, by index, in fields with a line per problem; None for all problems."""
        for field in self._fields.values():
            field.use_lines(problems)

    def unit_columns(self, name: str) -> tuple[slice, ...]:
        """Give the columns of a field that `set_data` scales to length 1: quaternions and directions."""
        return self._field(name).unit_columns

    def require_problem_count(self, problem_count: int) -> None:
        """Raise InputError unless every field has one line, or one per problem; a caller's Warp array may have more."""
        super().require_problem_count(problem_count)
        for name, field in self._fields.items():
            if field.rows > max(problem_count, 1) and not field.preallocated:
                raise InputError(
                    f"{type(self).__name__}: field '{name}' has {field.rows} lines for {problem_count} problems; "
                    f"give 1 line for all, or {problem_count}."
                )

    def row_weights(self) -> wp.array[wp.float32]:
        """Give the device array of the rows' weights, shape [1, residual_dim] or [problem_count or more, ...]."""
        return self.data(ROW_WEIGHTS)

    def set_row_weights(self, row_weights: Any) -> None:
        """Replace the weights of the rows, shape [residual_dim] or [problem_count, residual_dim]; see `set_data`."""
        self.set_data(ROW_WEIGHTS, row_weights)

    @property
    def has_row_tolerances(self) -> bool:
        """True if rows have tolerances."""
        return ROW_TOLERANCES in self._fields or self._common_tolerance is not None

    def set_row_tolerances(self, row_tolerances: Any) -> None:
        """Set tolerances of rows: `success` then requires every unweighted row, in float64, within its tolerance.

        Rows of weight 0 are not judged. Controllers ignore tolerances of objectives.

        Args:
            row_tolerances: Tolerances in the units of the rows, above 0, infinite for none: a number for all rows,
                [residual_dim] or [problem_count, residual_dim]; a Warp array is used in place.

        Raises:
            InputError: A tolerance is not above 0, or the shape is wrong.
            ObjectiveError: First tolerances while the objective is bound to a solver: the solver's code would change.
        """
        if not self.has_row_tolerances and self.device is not None:
            raise ObjectiveError(
                f"{type(self).__name__} has no row tolerances and is bound to a solver. Set some before (inf for none)."
            )
        common = None
        if not isinstance(row_tolerances, wp.array):
            row_tolerances = _rounded_down(type(self).__name__, row_tolerances)
            common = float(row_tolerances) if row_tolerances.ndim == 0 else None
        self._common_tolerance = common
        if common is not None:
            if self._row_count is None:
                return  # `bind_model` makes the field
            row_tolerances = np.full(self._row_count, common)
        if ROW_TOLERANCES in self._fields:
            self._fields[ROW_TOLERANCES].set(row_tolerances)
        else:
            field = DataField(type(self).__name__, ROW_TOLERANCES, self._row_count, row_tolerances, finite=False)
            self._fields[ROW_TOLERANCES] = field

    def _field(self, name: str) -> DataField:
        if name not in self._fields:
            raise UnknownNameError(
                f"{type(self).__name__} has no data field '{name}'. Fields: {', '.join(sorted(self._fields))}."
            )
        return self._fields[name]

    def unbound_copy(self) -> "Self":
        """Copy the objective, with the same data and unbound."""
        other = super().unbound_copy()
        other._fields = {name: field.unbound_copy() for name, field in self._fields.items()}
        other._blocks = []
        return other

    # ------------------------------------------------------------------ hooks
    def bind_model(self, model: IKModel) -> None:
        """Resolve links and joints on the robot.

        Raises:
            UnknownNameError: The robot lacks a link or joint of the objective.
            InputError: A field does not fit the robot.
            ObjectiveError: An element reads columns that a field does not have.
        """
        self._tables, row = [], 0
        for group, elements in self.stated_elements(model):
            if elements:
                self._check_columns(group, elements)
                self._tables.append(build_element_table(group, elements, row, model))
                row += group.total_row_count(len(elements))
        self._row_count = row
        self._blocks = []
        self._fields[ROW_WEIGHTS].set_columns(row)
        if self._common_tolerance is not None:
            tolerances = np.full(row, self._common_tolerance)
            self._fields[ROW_TOLERANCES] = DataField(type(self).__name__, ROW_TOLERANCES, row, tolerances, finite=False)
        elif ROW_TOLERANCES in self._fields:
            self._fields[ROW_TOLERANCES].set_columns(row)

    def _check_columns(self, group: RowGroup, elements: Sequence[Element]) -> None:
        for element in elements:
            for (name, width), first in zip(group.data, element.data_columns, strict=True):
                count = self._field(name).columns
                if count is not None and not 0 <= first <= count - width:
                    read = f"columns {first} to {first + width - 1} of '{name}'"
                    raise ObjectiveError(f"{type(self).__name__}: an element reads {read}, which has 0 to {count - 1}.")

    def residual_dim(self) -> int:
        """Give the number of rows; ObjectiveError before `bind_model` if the number depends on the robot."""
        if self._row_count is None:
            raise ObjectiveError(f"{type(self).__name__}: the number of rows is known after bind_model().")
        return self._row_count

    def supports_analytic(self) -> bool:
        """Return True: the Jacobian is derived from the statement."""
        return True

    def row_support(self, model: IKModel) -> BoolArray:
        """Give the sparsity of the Jacobian, shape [residual_dim, joint_dof_count]."""
        tables = self.element_tables(model)
        support = np.zeros((self.residual_dim(), model.joint_dof_count), dtype=bool)
        for table in tables:
            first_rows, group = table.integers[:, 0], table.group
            rows = np.add.outer(first_rows, np.arange(group.row_count)).ravel()
            np.logical_or.at(support, rows, table.row_support)  # a summed group repeats its rows for every element
        return support

    def bind_device(self, device: Any) -> None:
        """Copy the data to the solver's device; InputError if a Warp array of the caller is on another device."""
        super().bind_device(device)
        for field in self._fields.values():
            field.bind(self.device)

    def init_buffers(self, model: IKModel, jacobian_mode: IKJacobianType) -> None:
        """Copy the tables to the device, and build and load the kernels; ObjectiveError without the hooks before."""
        super().init_buffers(model, jacobian_mode)
        if not self._blocks:
            self._blocks = [ElementBlock(table, self.device) for table in self.element_tables(model)]
        for block in self._blocks:  # modules cannot be loaded while a graph is recorded
            block.load_kernels(with_jacobian=jacobian_mode.name != "AUTODIFF")

    def element_tables(self, model: IKModel) -> Sequence[ElementTable]:
        """Give the elements of each row group on a robot."""
        if self._tables is None:
            self.bind_model(model)
        assert self._tables is not None
        return self._tables

    def compute_residuals(
        self,
        body_q: wp.array[wp.transformf],
        joint_q: wp.array[wp.float32],
        model: IKModel,
        residuals: wp.array[wp.float32],
        start_idx: int,
        problem_idx: wp.array[wp.int32],
    ) -> None:
        """Write the weighted rows of all instances; see `IKObjective.compute_residuals`."""
        for block in self._blocks:
            inputs = self._inputs(block, body_q, joint_q, problem_idx, start_idx)
            block.launch(residual_kernel(block.table.group), inputs, residuals)

    def compute_jacobian_analytic(
        self,
        body_q: wp.array[wp.transformf],
        joint_q: wp.array[wp.float32],
        model: IKModel,
        jacobian: wp.array[wp.float32],
        joint_S_s: wp.array[wp.spatial_vectorf],
        start_idx: int,
    ) -> None:
        """Write the derivatives of the weighted rows; ObjectiveError before `bind_problem_index`."""
        if self.problem_index is None:
            raise ObjectiveError(f"{type(self).__name__}: call bind_problem_index() first.")
        for block in self._blocks:
            inputs = self._inputs(block, body_q, joint_q, self.problem_index, start_idx)
            block.launch(jacobian_kernel(block.table.group), [*inputs, joint_S_s, block.moving_dofs], jacobian)

    def _inputs(
        self,
        block: ElementBlock,
        body_q: wp.array[wp.transformf],
        joint_q: wp.array[wp.float32],
        problem_idx: wp.array[wp.int32],
        start_idx: int,
    ) -> list[Any]:
        names = [*(name for name, _ in block.table.group.data), ROW_WEIGHTS]
        fixed = [body_q, joint_q, problem_idx, block.integers, block.frame_offsets, self._weight, start_idx]
        constants = [block.constants] if block.table.group.constants else []
        return [*fixed, *(self._fields[name].array for name in names), *constants]


class ConstraintObjective(ExpressionObjective):
    """An objective for a constraint of the robot."""

    is_constraint = False  # true if the rows have the highest priority, like a robot's constraints
    label: str | None = None  # name of the rows in reports; None for the class's name


def _rounded_down(owner: str, row_tolerances: Any) -> npt.NDArray[np.float64]:
    try:
        values = np.asarray(row_tolerances, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{owner}: row_tolerances is not an array of numbers ({error}).") from None
    single = values.astype(np.float32)
    rounded = np.where(single > values, np.nextafter(single, np.float32(0.0)), single).astype(np.float64)
    if not (rounded > 0.0).all():
        worst = values[~(rounded > 0.0)].ravel()[0]
        raise InputError(f"{owner}: row_tolerances has {worst}; allowed: float32 numbers above 0, infinite for none.")
    return rounded
