"""Constraints of a robot by name: rows in both packings, links, coordinates of closing joints."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from ik_service.constraints.error_rows import ERROR_COMPONENTS, ErrorRows
from ik_service.constraints.linear_algebra import BoolArray
from ik_service.constraints.results import ConstraintRow, RowMap, constraint_index
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.names import DofInfo, dof_at
from ik_service.mechanism.trees import Constraint, constraint_ends, constraints_of, path_between
from ik_service.mechanism.velocities import VelocityConstraint
from objectives.errors import InputError
from objectives.tasks.loop import LOOP_COMPONENTS


@dataclass(frozen=True, eq=False, repr=False)
class ConstraintList:
    """Constraints of `robot`, in the robot's order."""

    robot: KinematicRobot

    def __len__(self) -> int:
        return len(self.constraints)

    def __iter__(self) -> Iterator[Constraint]:
        return iter(self.constraints)

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """Loops, then velocity constraints, then coordinate constraints."""
        return constraints_of(self.robot)

    def __getitem__(self, name: str) -> Constraint:
        """Find a constraint by name; UnknownNameError, with the closest and all names, for an unknown name."""
        return self.constraints[constraint_index(self.names(), name)]

    def names(self, kind: str | None = None, enabled: ArrayLike | None = None) -> tuple[str, ...]:
        """List names of constraints: all, of one kind, or enabled by a mask of shape [constraints].

        The kind of a loop is the joint, the kind of a coordinate constraint ``"polynomial"``.
        """
        on = np.ones(len(self), dtype=bool) if enabled is None else self.mask(enabled)[0]
        return tuple(one.name for one, is_on in zip(self, on, strict=True) if is_on and kind in (None, one.kind))

    def enabled(self, names: Sequence[str]) -> BoolArray:
        """Make a mask that enables the named constraints only, shape [constraints].

        Raises:
            UnknownNameError: There is no constraint of a name.
            InputError: The names are a text instead of a list.
        """
        if isinstance(names, str):
            raise InputError(f"Constraints to enable must be a list of names, got the text {names!r}.")
        known, mask = self.names(), np.zeros(len(self), dtype=bool)
        mask[[constraint_index(known, name) for name in names]] = True
        return mask

    def mask(self, enabled: ArrayLike | None) -> BoolArray:
        """Check a mask of constraints, shape [1 or n, constraints]; None enables all.

        Raises:
            InputError: Not booleans of shape [constraints] or [n, constraints].
        """
        if enabled is None:
            return np.ones((1, len(self)), dtype=bool)
        mask = np.asarray(enabled)
        if mask.dtype != bool or mask.ndim not in (1, 2) or mask.shape[-1] != len(self):
            allowed = f"booleans of shape [{len(self)}] or [n, {len(self)}]"
            raise InputError(f"enabled is an array of {mask.dtype} of shape {list(mask.shape)}. Allowed: {allowed}.")
        return mask.reshape(-1, len(self))

    def of_link(self, link: str, kind: str | None = None) -> tuple[str, ...]:
        """List names of constraints, or of one kind, on a link or the joint above; UnknownNameError: no such link."""
        own, found = self.robot.link_index(link), []
        for one in self:
            is_carrier = isinstance(one, VelocityConstraint) and one.carrier == link
            if (is_carrier or own in constraint_ends(self.robot, one)) and kind in (None, one.kind):
                found.append(one.name)
        return tuple(found)

    def loop_links(self, name: str) -> tuple[str, ...]:
        """List names of the moving links of a loop: links on the paths from the common ancestor to both frames.

        Raises:
            UnknownNameError: There is no such constraint.
        """
        robot = self.robot
        path, common = path_between(robot, *constraint_ends(robot, self[name]))
        return tuple(robot.link_names[k] for k in path if robot.link_body[k] != robot.link_body[common])

    @cached_property
    def _error_map(self) -> RowMap:
        loops = {one.name: ERROR_COMPONENTS for one in self.robot.loops}
        return RowMap({one.name: loops.get(one.name, (one.kind,)) for one in self})

    @cached_property
    def _residual_map(self) -> RowMap:
        return RowMap({one.name: LOOP_COMPONENTS.get(one.kind, (one.kind,)) for one in self})

    @property
    def error_count(self) -> int:
        """Number of rows in error packing: six for each loop, one for each other constraint."""
        return self._error_map.count

    @property
    def residual_count(self) -> int:
        """Number of rows in residual packing: the rows fixed by the joint of each loop."""
        return self._residual_map.count

    def error_row_at(self, row: int) -> ConstraintRow:
        """Name a row of the error packing; InputError for an unknown row."""
        return self._error_map.row_at(row)

    def error_rows(self, name: str) -> slice:
        """Give the rows of a constraint in error packing; UnknownNameError for an unknown name."""
        return self._error_map.rows(name)

    def residual_row_at(self, row: int) -> ConstraintRow:
        """Name a row of the residual packing; InputError for an unknown row."""
        return self._residual_map.row_at(row)

    def residual_rows(self, name: str) -> slice:
        """Give the rows of a constraint in residual packing; UnknownNameError for an unknown name."""
        return self._residual_map.rows(name)

    @cached_property
    def _error_rows(self) -> ErrorRows:
        return ErrorRows(self.robot)

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        """Names of the coordinates of the closing joints: the constraint's name, with ``/angle`` or similar."""
        rows = self._error_rows
        return tuple(rows.whole.coordinate_names[k] for k in rows.coordinates[self.robot.joint_coord_count :])

    @property
    def dof_names(self) -> tuple[str, ...]:
        """Names of the DOFs of the closing joints: the constraint's name, with ``/angle`` or similar."""
        rows = self._error_rows
        return tuple(rows.whole.dof_names[k] for k in rows.dofs[self.robot.joint_dof_count :])

    def coordinate_at(self, column: int) -> DofInfo:
        """Describe a column of the error packing, a DOF of tree or closing joint; InputError for an unknown column."""
        rows = self._error_rows
        if not 0 <= column < len(rows.dofs):
            last = len(rows.dofs) - 1
            raise InputError(f"Column {column} is not among those of constraints: 0 to {last}.")
        return dof_at(rows.whole, int(rows.dofs[column]))
