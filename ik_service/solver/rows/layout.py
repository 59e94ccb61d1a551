"""The rows of a solver: rows of each objective, and trees in the support of each row."""

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ik_service.linear_solve import RowStructure, row_structure
from ik_service.robots import DeviceModel
from ik_service.solver.rows.binding import RowKind, bind_objective
from ik_service.solver.rows.blocks import Rows
from ik_service.solver.rows.support import Support
from objectives import IKJacobianType, IKObjective

if TYPE_CHECKING:
    from typing import Self  # Python 3.11


class RowLayout:
    """Rows of the objectives of a solver, and their support.

    Raises:
        ObjectiveError: An objective breaks its contract or is bound to another solver.
        UnknownNameError: An objective names a link not in the robot.
    """

    incidence: NDArray[np.bool_]  # whether a row can depend on a DOF of a tree, bool [rows, trees]
    structure: RowStructure  # the same on the device

    def __init__(
        self,
        solver: object,  # the solver; the objectives are bound to it here
        model: DeviceModel,
        targets: Sequence[IKObjective],  # objectives of the pose targets; their rows come first
        others: Sequence[IKObjective],  # further objectives
        mode: IKJacobianType,  # Jacobian mode
    ) -> None:
        self._model = model
        for objective in (*targets, *others):
            bind_objective(objective, solver, model)
        self.rows = Rows(model, targets, others, mode)  # residual rows of all objectives
        self.support = Support(model, self.rows)  # support: DOFs of each row
        self.refresh()

    def of_kind(self, kind: RowKind) -> "Self":
        """Return the layout of the rows of one kind alone; their objectives stay bound."""
        found = copy(self)
        found.rows = Rows(self._model, [], [self.rows.objectives[k] for k in self.rows.of_kind(kind)], self.rows.mode)
        found.support = Support(self._model, found.rows)
        found.refresh()
        return found

    def coordinates_of(self, *kinds: RowKind) -> NDArray[np.bool_]:
        """Return the coordinates in the support of rows of some kinds, bool [joint_coord_count]."""
        robot, of_kinds = self._model.robot, np.zeros(self.rows.count, dtype=bool)
        for k in (k for kind in kinds for k in self.rows.of_kind(kind)):
            of_kinds[self.rows.start[k] : self.rows.start[k] + self.rows.objectives[k].residual_dim()] = True
        dofs = np.flatnonzero(self.support.dofs[of_kinds].any(axis=0))
        joints = np.searchsorted(robot.joint_qd_start, dofs, side="right") - 1
        return np.repeat(np.isin(np.arange(len(robot.joint_names)), joints), np.diff(robot.joint_q_start))

    def refresh(self) -> None:
        """Update trees and structure from the present support."""
        trees = self._model.robot.trees
        self.incidence = self.support.trees
        self.structure = row_structure(self.incidence, trees.active_treeid, trees.coordinate_treeid, self._model.device)
