"""Derivatives of the answers of a solve, independent of the solver: valid after later solves."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ik_service.mechanism.caller_order import CallerOrder
from ik_service.mechanism.transforms import Float64Array
from ik_service.robots import RobotModel
from objectives.errors import InputError

TWIST = 6


class DofState(IntEnum):
    """Freedom of a DOF of an answer, or the reason why the DOF is held."""

    FREE = 0
    """Nothing: it follows the targets."""
    AT_LOWER = 1
    AT_UPPER = 2
    FIXED = 3
    """It is locked, or no row depends on it."""


class Further(NamedTuple):
    """Fields and limits by which answers are derived, beside targets and their tool frames."""

    # numbers of blocks of rows (targets first, then objectives), and names of their fields
    fields: tuple[tuple[int, str], ...] = ()
    columns: tuple[int, ...] = ()  # number of columns of each field
    limits: bool = False  # whether to derive by joint limits

    def __bool__(self) -> bool:
        return bool(self.fields) or self.limits


NOTHING_FURTHER = Further()


class TargetTangents(NamedTuple):
    """Derivatives of a number by targets, tool frames, fields and limits.

    Attributes:
        positions: By positions [1/m], shape [n, targets, 3].
        rotations: By rotation vectors in the frame of the targets [1/rad], shape [n, targets, 3].
        offset_positions: By positions of tool frames, [n, targets, 3]; of 0 targets if none has an offset.
        offset_rotations: By rotation vectors about the axes of the link, [n, targets, 3].
        data: By the requested fields, in their order, shape [n, columns] each.
        limits: By the limit of each DOF, shape [n, joint_dof_count]; of 0 DOFs if not requested.
    """

    positions: Float64Array
    rotations: Float64Array
    offset_positions: Float64Array
    offset_rotations: Float64Array
    data: tuple[Float64Array, ...]
    limits: Float64Array


class By(NamedTuple):
    """Derivatives by DOFs, as in `Linearisation`."""

    by_targets: Float64Array
    by_offsets: Float64Array
    by_numbers: Float64Array
    by_limits: Float64Array


@dataclass(frozen=True, eq=False)
class Linearisation:
    """First derivatives of answers by their targets.

    These derivatives describe the motion of the minimum found with its targets, independent of the start.
    Configurations change by tangents, one number for each DOF [m or rad]; ball and floating joints have rotation
    vectors as in `RobotModel.integrate`. A redundant robot does not move in the null space of its rows: the change of
    the answer is the shortest one.

    Attributes:
        order: Order of the columns: coordinates and DOFs of the robot.
        joint_q: The minima near the answers, in float64, shape [n, joint_coord_count]; derivatives are taken there.
            Answers with a posture may be some hundredths of a radian away from their minimum.
        by_targets: Change of each DOF with the position and the rotation vector of each target, shape [n,
            joint_dof_count, targets, 6]; zero between islands, at limits and where there is no derivative.
        by_offsets: The same with the tool frames of targets, with rotation vectors about the axes of the link; of 0
            targets if none is declared with an offset.
        by_numbers: The same with the numbers of the requested fields, one after the other; see `by_data`.
        by_limits: The same with the limit of each DOF, shape [n, joint_dof_count, joint_dof_count]; zero for inactive
            limits. If the limit of a follower holds leader and follower, the derivative is in the follower's column;
            limits narrowed by the solve are limits of leaders. Of 0 limits if not requested.
        columns: Number of columns of each field.
        is_differentiable: Whether an answer has derivatives, bool [n]: its targets are met, or the answer is at a
            minimum, and is neither singular nor at a kink of a row.
        dof_state: `DofState` of each DOF, shape [n, joint_dof_count].
        one_sided: DOFs at a limit without a force against the limit: their derivative differs on the other side, bool
            [n, joint_dof_count]; never true for DOFs with equal limits.
        rank: Rank of the rows met, by the free DOFs, int [n]; 0 if there are none.
    """

    order: CallerOrder
    joint_q: Float64Array
    by_targets: Float64Array
    by_offsets: Float64Array
    by_numbers: Float64Array
    by_limits: Float64Array
    columns: tuple[int, ...]
    is_differentiable: NDArray[np.bool_]
    dof_state: NDArray[np.int8]
    one_sided: NDArray[np.bool_]
    rank: NDArray[np.int32]

    @classmethod
    def of(
        cls,
        robot: RobotModel,
        order: CallerOrder,
        joint_q: Float64Array,
        by: By,
        columns: tuple[int, ...],
        is_differentiable: NDArray[np.bool_],
        state: NDArray[np.int8],
        is_pressed: NDArray[np.bool_],
        rank: NDArray[np.int32],
    ) -> "Linearisation":
        """Return derivatives, with the state of the active DOFs and whether they press against their limits."""
        of_dofs = np.full((len(joint_q), robot.joint_dof_count), DofState.FIXED, np.int8)
        of_dofs[:, robot.active_dof] = state
        one_sided = (of_dofs == DofState.AT_LOWER) | (of_dofs == DofState.AT_UPPER)
        one_sided[:, robot.active_dof] &= ~is_pressed
        return cls(order, joint_q, *by, columns, is_differentiable, of_dofs, one_sided, rank)

    @classmethod
    def nothing(
        cls,
        robot: RobotModel,
        order: CallerOrder,
        joint_q: Float64Array,
        targets: int,
        offsets: int,
        further: Further = NOTHING_FURTHER,
    ) -> "Linearisation":
        """Return answers without derivatives by this number of targets and tool frames, and by further fields."""
        n, dofs, all_dofs = len(joint_q), robot.active_dof_count, robot.joint_dof_count
        shapes = (targets, TWIST), (offsets, TWIST), (sum(further.columns),), (all_dofs if further.limits else 0,)
        by = By(*(np.zeros((n, all_dofs, *shape)) for shape in shapes))
        state, nowhere = np.full((n, dofs), DofState.FIXED, np.int8), np.zeros((n, dofs), dtype=bool)
        never, rank = np.zeros(n, dtype=bool), np.zeros(n, np.int32)
        return cls.of(robot, order, joint_q.copy(), by, further.columns, never, state, nowhere, rank)

    def part(self, problems: NDArray[Any]) -> "Linearisation":
        """Return the derivatives of some problems."""
        return replace(self, **{name: getattr(self, name)[problems] for name in COLUMNS})

    def put(self, problems: NDArray[np.intp], part: "Linearisation") -> None:
        """Write the derivatives of some problems, during assembly."""
        for name in COLUMNS:
            getattr(self, name)[problems] = getattr(part, name)

    def ordered(self, order: CallerOrder) -> "Linearisation":
        """Return these derivatives in an order other than the robot's."""
        of_dofs = (*By._fields, "dof_state", "one_sided")
        columns: dict[str, Any] = {name: getattr(self, name)[:, order.dofs] for name in of_dofs}
        if self.by_limits.shape[2]:
            columns["by_limits"] = columns["by_limits"][:, :, order.dofs]
        return replace(self, order=order, joint_q=self.joint_q[:, order.coordinates], **columns)

    @property
    def by_data(self) -> tuple[Float64Array, ...]:
        """Change of each DOF with the numbers of each requested field, shape [n, joint_dof_count, columns]."""
        return tuple(np.split(self.by_numbers, np.cumsum(self.columns)[:-1], axis=2)) if self.columns else ()

    def coordinates_by(self, rates: Float64Array) -> Float64Array:
        """Convert changes of DOFs into changes of coordinates; a quaternion has four numbers instead of three.

        Args:
            rates: Changes of DOFs, such as `by_targets`, shape [n, joint_dof_count, ...].

        Returns:
            Shape [n, joint_coord_count, ...].
        """
        return self.order.coordinate_rates(self.joint_q, rates)

    def __len__(self) -> int:
        return len(self.by_targets)

    def jvp(
        self,
        positions: ArrayLike | None = None,
        rotations: ArrayLike | None = None,
        *,
        offset_positions: ArrayLike | None = None,
        offset_rotations: ArrayLike | None = None,
        data: Sequence[ArrayLike] | None = None,
        limits: ArrayLike | None = None,
    ) -> Float64Array:
        """Return the change of configurations for a change of their inputs, shape [n, joint_dof_count].

        Args:
            positions: Change of each target's position [m], shape [n, targets, 3]; None for none.
            rotations: Its rotation vector [rad], same shape.
            offset_positions: Change of the position of each target's tool frame, same shape.
            offset_rotations: Its rotation vector, same shape.
            data: Changes of the requested fields, in their order, shape [n, columns] each.
            limits: Change of the limit of each DOF [m or rad], shape [n, joint_dof_count].

        Raises:
            InputError: Wrong shapes, no target has a tool frame, or an input was not requested in `linearise`.
        """
        found = _change_by(self.by_targets, ("positions", positions), ("rotations", rotations))
        if offset_positions is not None or offset_rotations is not None:
            if not self.by_offsets.shape[2]:
                raise InputError("No target has a tool frame. Declare one with an offset, of any value.")
            of_tools = ("offset_positions", offset_positions), ("offset_rotations", offset_rotations)
            found += _change_by(self.by_offsets, *of_tools)
        if data is not None:
            changes = list(data) if isinstance(data, Iterable) else [data]
            if len(changes) != len(self.columns):
                raise InputError(f"data has {len(changes)} fields. Allowed: {len(self.columns)}, those asked for.")
            for k, (by, change) in enumerate(zip(self.by_data, changes, strict=True)):
                found += _applied(by, _shaped(f"data[{k}]", change, (len(by), by.shape[2])))
        if limits is not None:
            if not self.by_limits.shape[2]:
                raise InputError("Limits were not asked for. Call linearise with limits=True.")
            shape = len(self), self.by_limits.shape[2]
            found += _applied(self.by_limits, _shaped("limits", limits, shape))
        return found

    def vjp(self, joint_q: ArrayLike) -> TargetTangents:
        """Return the derivative of a number by targets, tool frames, fields and limits, from its derivative by DOFs.

        Args:
            joint_q: Derivative of the number by each DOF, shape [n, joint_dof_count].

        Raises:
            InputError: A wrong shape.
        """
        given = _shaped("joint_q", joint_q, self.by_targets.shape[:2])
        by_targets, by_offsets = (np.einsum("ndtk,nd->ntk", by, given) for by in (self.by_targets, self.by_offsets))
        further = (np.einsum("ndk,nd->nk", by, given) for by in (*self.by_data, self.by_limits))
        *data, limits = further
        poses = by_targets[..., :3], by_targets[..., 3:], by_offsets[..., :3], by_offsets[..., 3:]
        return TargetTangents(*poses, tuple(data), limits)


COLUMNS = tuple(field.name for field in fields(Linearisation) if field.name not in ("order", "columns"))


def _change_by(by: Float64Array, *parts: tuple[str, ArrayLike | None]) -> Float64Array:
    shape = (*np.delete(by.shape[:3], 1), 3)
    change = [np.zeros(shape) if value is None else _shaped(name, value, shape) for name, value in parts]
    return np.asarray(np.einsum("ndtk,ntk->nd", by, np.concatenate(change, axis=-1)))


def _applied(by: Float64Array, change: Float64Array) -> Float64Array:
    return np.asarray(np.einsum("ndk,nk->nd", by, change))


def _shaped(name: str, value: ArrayLike, shape: Sequence[int]) -> Float64Array:
    array = np.asarray(value, dtype=np.float64)
    if array.shape != tuple(shape):
        raise InputError(f"{name} has shape {list(array.shape)}. Allowed: {list(map(int, shape))}.")
    return array
