"""The rows of a solver, and the support of each row, the DOFs in its argument: as stated, or as shown by its Jacobian.

An objective without a stated support gets the union of the nonzero entries over several random configurations, also
beyond the limits, where penalties act. Every Jacobian of a solve is compared with this union; an entry in a tree
outside the union extends the support, and the solve is repeated.
"""

import typing
from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.linear_solve.islands import RowStructure
from ik_service.robots import DeviceModel
from ik_service.solver.rows.binding import RowKind, bind_objective
from ik_service.solver.rows.blocks import BatchState, Rows, RowTapes
from objectives import IKJacobianType, IKObjective

if TYPE_CHECKING:
    from typing import Self  # Python 3.11


PROBES = 8  # random configurations for probes of a Jacobian
BEYOND = 1.6  # reach of the probes, in half ranges


class Support:
    """The support of all rows of a solver."""

    def __init__(self, model: DeviceModel, rows: Rows) -> None:
        self._model, self._rows = model, rows
        # whether a row can depend on a DOF, bool [rows, joint_dof_count]
        self.dofs = np.zeros((rows.count, model.joint_dof_count), dtype=bool)
        self._probed = np.zeros(rows.count, dtype=bool)
        for objective, start in zip(rows.objectives, rows.start, strict=True):
            block = slice(start, start + objective.residual_dim())
            row_support = getattr(objective, "row_support", None)
            stated = None if row_support is None else row_support(model)
            self._probed[block] = stated is None
            if stated is not None:
                self.dofs[block] = stated
        if self._probed.any():
            self.dofs[self._probed] = _probe(model, rows)[self._probed]
        self._apart = np.zeros(len(rows.objectives), dtype=bool)  # objectives with one backward pass per row
        self._unexpected: wp.array[Any] | None = None
        self._rows.set_support(self.dofs, self._probed, self._apart)
        self._make_check()

    @property
    def trees(self) -> NDArray[np.bool_]:
        """Return whether the support of a row holds DOFs of a tree, bool [rows, trees]."""
        treeid = self._model.robot.trees.dof_treeid
        member = treeid[:, None] == np.arange(self._model.robot.trees.ntree)
        return np.asarray(self.dofs @ member)

    @property
    def active_dofs(self) -> NDArray[np.bool_]:
        """Active DOFs in the support of any row, bool [active_dof_count]."""
        active = self._model.robot.dof_active
        found = np.zeros(self._model.active_dof_count, dtype=bool)
        found[active[self.dofs.any(axis=0) & (active >= 0)]] = True
        return found

    def record_check(self, jacobian: wp.array[Any], running: wp.array[Any]) -> None:
        """Note entries of a Jacobian in trees outside the probed support; recorded with the iteration."""
        if self._unexpected is not None and len(self._checked) > 0:
            wp.launch(
                _note_unexpected,
                dim=(jacobian.shape[0], self._checked.shape[0]),
                inputs=[self._checked, self._allowed, running, jacobian],
                outputs=[self._unexpected],
                device=self._model.device,
            )

    def extend(self) -> bool:
        """Extend the support by entries noted in solves since the last call; return whether anything changed."""
        if self._unexpected is None:
            return False
        unexpected, mixed = self._unexpected.numpy() != 0, self._rows.mixed.numpy() != 0
        if not unexpected.any() and not mixed.any():
            return False
        self.dofs |= unexpected
        self._apart |= mixed
        self._rows.mixed.zero_()
        self._rows.set_support(self.dofs, self._probed, self._apart)
        self._make_check()
        return True

    def _make_check(self) -> None:
        if not self._probed.any():
            return
        device, treeid = self._model.device, self._model.robot.trees.dof_treeid
        padded = np.hstack([self.trees, np.ones((len(self.dofs), 1), dtype=bool)])  # locked DOFs join nothing
        self._allowed: wp.array[Any] = wp.array(padded[:, treeid].astype(np.int32), dtype=wp.int32, device=device)
        unchecked = self._probed & ~self._rows.checked_otherwise
        self._checked: wp.array[Any] = wp.array(np.flatnonzero(unchecked), dtype=wp.int32, device=device)
        self._unexpected = wp.zeros(self.dofs.shape, dtype=wp.int32, device=device)


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _note_unexpected(
    checked: wp.array[wp.int32],  # rows
    allowed: wp.array2d[wp.int32],  # [rows, joint_dof_count]
    running: wp.array2d[wp.int32],  # [n_batch, trees]
    jacobian: wp.array3d[float],  # [n_batch, rows, joint_dof_count]
    # out
    unexpected_out: wp.array2d[wp.int32],  # [rows, joint_dof_count]
):
    i, k = wp.tid()
    row = checked[k]
    active = int(0)
    for island in range(running.shape[1]):
        active += running[i, island]
    if active > 0:
        for dof in range(jacobian.shape[2]):
            if jacobian[i, row, dof] != 0.0 and allowed[row, dof] == 0:
                unexpected_out[row, dof] = 1


def _probe(model: DeviceModel, rows: Rows) -> NDArray[np.bool_]:
    """Return the nonzero entries of the Jacobian at any of several random configurations."""
    robot, device = model.robot, model.device
    problem_idx = wp.zeros(PROBES, dtype=wp.int32, device=device)
    rows.bind(PROBES, problem_idx)
    poses = BatchState.allocate(model, PROBES, rows.count, problem_idx, requires_grad=rows.has_gradients)
    drawn = robot.random_joint_q(np.random.default_rng(0), PROBES)
    own = robot.dof_coordinate[robot.dof_coordinate >= 0]
    drawn[:, own] += (BEYOND - 1.0) * (drawn[:, own] - robot.mid_joint_q[own])
    poses.joint_q.assign(drawn.astype(np.float32))
    tapes = RowTapes(rows, poses)
    joint_S_s = wp.zeros((PROBES, model.joint_dof_count), dtype=typing.cast(type, wp.spatial_vector), device=device)
    jacobian = wp.zeros((PROBES, rows.count, model.joint_dof_count), dtype=float, device=device)
    rows.compute_residuals(poses, tapes)
    rows.compute_jacobian(poses, joint_S_s, jacobian, tapes)
    return np.asarray((jacobian.numpy() != 0.0).any(axis=0))


def island_parts(
    rows: Rows, support: Support, trees: NDArray[np.intp], own: NDArray[np.intp]
) -> tuple[Any, Any, Any, list[int], list[int], list[int], list[int]]:
    """Return the first arguments of `IslandSignature.of` for an island with these trees and rows."""
    model = rows.model
    touched = active_columns(model, support.dofs[own]).any(axis=0)
    dofs = np.flatnonzero(np.isin(model.robot.trees.active_treeid, trees) & touched).tolist()
    return model.robot, model, rows.objectives, rows.start, dofs, own.tolist(), rows.of_kind(RowKind.TARGET)


def active_columns(model: DeviceModel, support: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the active DOFs of each row of a support, bool [rows, active_dof_count]."""
    active = model.robot.dof_active
    touched = np.zeros((len(support), model.active_dof_count), dtype=bool)
    for dof in np.flatnonzero(active >= 0):
        touched[:, active[dof]] |= support[:, dof]
    for dofs in rotation_dofs(model):  # the three DOFs of a rotation go together
        touched[:, dofs] = touched[:, dofs].any(axis=1, keepdims=True)
    return touched


def rotation_dofs(model: DeviceModel) -> list[slice]:
    """Return the active DOFs of every rotation with a quaternion."""
    robot = model.robot
    starts = [int(robot.dof_active[robot.joint_qd_start[joint + 1] - 3]) for joint in robot.quaternion_starts]
    return [slice(active, active + 3) for active in starts if active >= 0]


def row_labels(rows: Rows, targets: Sequence[str]) -> list[str]:
    """Return a label for each row: the link of its target, or the label or class of its objective."""
    links = iter(targets)
    labels: list[str] = []
    for objective, kind in zip(rows.objectives, rows.kinds, strict=True):
        own = getattr(objective, "label", None) or type(objective).__name__
        name = f"target {next(links)}" if kind is RowKind.TARGET else own
        labels += [name] * objective.residual_dim()
    return labels


class RowLayout:
    """Rows of the objectives of a solver, and their support.

    Raises:
        ObjectiveError: An objective breaks its contract or is bound to another solver.
        UnknownNameError: An objective names a link not in the robot.
    """

    incidence: NDArray[np.bool_]  # whether a row can depend on a DOF of a tree, bool [rows, trees]
    structure: RowStructure  # the same, with the trees of DOFs and coordinates

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
        self.structure = RowStructure(self.incidence, trees.active_treeid, trees.coordinate_treeid)
