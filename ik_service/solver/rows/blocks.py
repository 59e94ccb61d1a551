"""Residual blocks of all objectives: their layout, and the evaluation of residuals and Jacobians.

The blocks are in the order of the objectives. Every hook gets the full model, with followers and locked joints as
ordinary joints; the map to the active DOFs is applied later.
"""

import typing
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kinematics.device_kinematics import forward_kinematics, integrate, motion_subspace
from ik_service.robots import DeviceModel
from ik_service.solver.rows.binding import RowKind, differentiates_itself, is_constraint, is_secondary, member_for
from ik_service.solver.rows.gradients import RowGradients, RowGroups
from objectives import IKJacobianType, IKObjective, ObjectiveError

MOSTLY = 0.25  # share of nonzero entries above which clearing a whole Jacobian is faster


@dataclass(frozen=True)
class BatchState:
    """Configurations of a batch, with their body poses and residuals."""

    joint_q: wp.array[Any]  # coordinates, [n, joint_coord_count]
    body_q: wp.array[Any]  # body poses in the world frame, [n, body_count]
    residuals: wp.array[Any]  # rows of all objectives, [n, total_residuals]
    problem_idx: wp.array[Any]  # problem of every line, int32 [n]

    @classmethod
    def allocate(
        cls, model: DeviceModel, n: int, rows: int, problem_idx: wp.array[Any], requires_grad: bool
    ) -> "BatchState":
        """Return zeroed arrays for n lines."""
        device = model.device
        return cls(
            joint_q=wp.zeros((n, model.joint_coord_count), dtype=float, device=device, requires_grad=requires_grad),
            body_q=wp.zeros((n, model.body_count), dtype=wp.transform, device=device, requires_grad=requires_grad),
            residuals=wp.zeros((n, rows), dtype=float, device=device, requires_grad=requires_grad),
            problem_idx=problem_idx,
        )


def kind_of(objective: IKObjective) -> RowKind:
    """Return the kind of the rows of an objective, except targets."""
    return RowKind.CONSTRAINT if is_constraint(objective) else RowKind.SOFT


class Rows:
    """The objectives of a solver, laid out as blocks of one residual vector."""

    on_host: bool | None = None  # whether hooks of an objective compute on the host; None if unknown

    def __init__(
        self,
        model: DeviceModel,  # the robot on the solver's device
        targets: Sequence[IKObjective],  # objectives of the pose targets; their blocks come first
        others: Sequence[IKObjective],  # further objectives, in the order of their blocks
        # Jacobian mode; objectives without an analytic Jacobian are differentiated by a tape in every mode
        mode: IKJacobianType,
    ) -> None:
        self.model, self.objectives, self.mode = model, (*targets, *others), mode
        self.others = tuple(others)  # the objectives without the targets, in the order of their blocks
        self.kinds = (*(RowKind.TARGET for _ in targets), *map(kind_of, others))  # `RowKind` of each objective's rows
        # numbers of the objectives with lower-priority rows
        self.secondary = [len(targets) + k for k, objective in enumerate(others) if is_secondary(objective)]
        self.sizes = [objective.residual_dim() for objective in self.objectives]  # number of rows of each objective
        self.start = [sum(self.sizes[:k]) for k in range(len(self.sizes))]  # first row of each objective
        self.count = sum(self.sizes)  # number of rows
        self.row_kind = np.repeat(np.array(self.kinds, np.int32), self.sizes)  # `RowKind` of each row, int32 [count]
        self.row_secondary = np.repeat(np.isin(range(len(self.sizes)), self.secondary), self.sizes)  # bool [count]
        self._cleared: tuple[wp.array[Any], ...] | None = None
        # whether each objective is differentiated by a tape
        self.taped = [mode is IKJacobianType.AUTODIFF or not o.supports_analytic() for o in self.objectives]
        # whether the objective has its own hook for this
        self.hooked = [taped and differentiates_itself(o) for o, taped in zip(self.objectives, self.taped, strict=True)]
        # 1 for objectives with two rows of a common DOF in one backward pass, int32 [objectives]
        self.mixed = wp.zeros(len(self.sizes), dtype=wp.int32, device=model.device)
        self._groups = [RowGroups.single(size, model.joint_dof_count, model.device) for size in self.sizes]

    def of_kind(self, kind: RowKind) -> list[int]:
        """Return the numbers of the objectives with rows of a kind."""
        return [k for k, own in enumerate(self.kinds) if own is kind]

    def set_support(self, dofs: NDArray[np.bool_], probed: NDArray[np.bool_], apart: NDArray[np.bool_]) -> None:
        """Set which entries of the Jacobian can differ from zero; the others are written once, at allocation."""
        # `dofs`: support of each row, bool [rows, joint_dof_count]; `probed` rows may depend on other DOFs
        # as well, bool [rows]; rows of objectives `apart` are differentiated one by one
        for k, (objective, start) in enumerate(zip(self.objectives, self.start, strict=True)):
            block = slice(start, start + objective.residual_dim())
            if self.taped[k] and not self.hooked[k] and not apart[k]:
                self._groups[k] = RowGroups.of(dofs[block], self.model.device, probed=bool(probed[block].any()))
            elif apart[k]:
                self._groups[k] = RowGroups.single(len(dofs[block]), dofs.shape[1], self.model.device)
        self._cleared, support = None, dofs | probed[:, None]
        if support.size == 0 or support.mean() > MOSTLY:
            return
        offsets = np.concatenate([[0], np.cumsum(support.sum(axis=1))])
        lists = (offsets, np.nonzero(support)[1])
        self._cleared = tuple(wp.array(values, dtype=wp.int32, device=self.model.device) for values in lists)

    @property
    def checked_otherwise(self) -> NDArray[np.bool_]:
        """Rows with a second backward pass to detect dependence outside their support, bool [rows]."""
        twice = [groups.factor is not None for groups in self._groups]
        return np.repeat(twice, [objective.residual_dim() for objective in self.objectives])

    @property
    def has_gradients(self) -> bool:
        """Return whether poses have gradients, for backward passes from their residuals."""
        return any(taped and not hooked for taped, hooked in zip(self.taped, self.hooked, strict=True))

    def bind(self, n_batch: int, problem_idx: wp.array[Any]) -> None:
        """Set the place of every objective in a batch of `n_batch` lines; may be repeated for another batch."""
        for objective, start, taped in zip(self.objectives, self.start, self.taped, strict=True):
            objective.set_batch_layout(self.count, start, n_batch)
            objective.bind_device(self.model.device)
            bind_problem_index = getattr(objective, "bind_problem_index", None)
            if bind_problem_index is not None:
                bind_problem_index(problem_idx)
            mode = IKJacobianType.AUTODIFF if taped else IKJacobianType.ANALYTIC
            objective.init_buffers(model=self.model, jacobian_mode=member_for(objective, mode))

    def bind_data(self) -> None:
        """Copy the objectives' data to the device, without the kernels of a batch."""
        for objective, start in zip(self.objectives, self.start, strict=True):
            objective.set_batch_layout(self.count, start, 1)
            objective.bind_device(self.model.device)

    def compute_residuals(
        self, poses: BatchState, tapes: "RowTapes | None" = None, stale: "wp.array[Any] | None" = None
    ) -> None:
        """Write body poses and the residuals of all objectives."""
        # The tapes record the launches of objectives to be differentiated next. `stale` is 0 for lines with valid
        # body poses, int32 [n].
        forward_kinematics(self.model, poses.joint_q, poses.body_q, stale)
        self._compute_blocks(poses, tapes)

    def _compute_blocks(self, poses: BatchState, tapes: "RowTapes | None" = None) -> None:
        for k, (objective, start) in enumerate(zip(self.objectives, self.start, strict=True)):
            with _checked_arrays(objective, self.model.device), nullcontext() if tapes is None else tapes.recording(k):
                objective.compute_residuals(
                    poses.body_q, poses.joint_q, self.model, poses.residuals, start, poses.problem_idx
                )

    def compute_jacobian(
        self, poses: BatchState, joint_S_s: wp.array[Any], jacobian: wp.array[Any], tapes: "RowTapes"
    ) -> None:
        """Write joint_S_s and the Jacobian at poses just evaluated by `compute_residuals` with the same tapes."""
        self._clear(jacobian)
        if not all(self.hooked):
            motion_subspace(self.model, poses.body_q, joint_S_s)
        for k, (objective, start) in enumerate(zip(self.objectives, self.start, strict=True)):
            if not self.taped[k]:
                with _checked_arrays(objective, self.model.device):
                    objective.compute_jacobian_analytic(
                        poses.body_q, poses.joint_q, self.model, jacobian, joint_S_s, start
                    )
            elif not self.hooked[k]:
                tapes.differentiate(k, (start, self._groups[k]), joint_S_s, jacobian)
        if any(self.hooked):
            tapes.call_hooks(poses.joint_q, jacobian)

    def _clear(self, jacobian: wp.array[Any]) -> None:
        """Zero the entries not written by all hooks, and nothing else: most of a large Jacobian never changes."""
        if self._cleared is None:
            jacobian.zero_()
        else:
            dim = (jacobian.shape[0], self.count)
            wp.launch(_clear_rows, dim=dim, inputs=[*self._cleared], outputs=[jacobian], device=self.model.device)


@contextmanager
def _checked_arrays(objective: Any, device: wp.Device) -> Iterator[None]:
    """Forbid GPU kernels of an objective's hooks on arrays out of reach of the GPU."""
    # Warp checks this only on request, and access to such an array ends the GPU's context for the whole process. Hooks
    # run while launches are recorded, so the check costs a solve nothing. The ObjectiveError names kernel, argument and
    # devices.
    before, relaxed = wp.config.launch_array_access_mode, wp.config.LaunchArrayAccessMode.RELAXED
    if not device.is_cuda or before != relaxed:
        yield
        return
    wp.config.launch_array_access_mode = wp.config.LaunchArrayAccessMode.CHECKED
    try:
        yield
    except RuntimeError as error:
        raise ObjectiveError(f"{type(objective).__name__}: {error}") from error
    finally:
        wp.config.launch_array_access_mode = before


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _clear_rows(
    row_dofadr: wp.array[wp.int32],  # [rows + 1]
    row_dof: wp.array[wp.int32],
    # out
    jacobian_out: wp.array3d[float],  # [n_batch, rows, joint_dof_count]
):
    i, row = wp.tid()
    for m in range(row_dofadr[row], row_dofadr[row + 1]):
        jacobian_out[i, row, row_dof[m]] = 0.0


class RowTapes:
    """Tapes of the objectives differentiated by tapes, over one set of poses."""

    def __init__(self, rows: Rows, poses: BatchState) -> None:
        self._rows = rows
        self._own = {k: wp.Tape() for k, taped in enumerate(rows.taped) if taped and not rows.hooked[k]}
        if self._own:
            self._gradients = RowGradients(rows.model, poses.body_q, poses.joint_q, poses.residuals)
        if any(rows.hooked):
            self._step = StepTape(rows, len(poses.joint_q), poses.problem_idx)

    def recording(self, k: int) -> AbstractContextManager[Any]:
        """Return a context that records the launches of an objective, if differentiated here."""
        if k not in self._own:
            return nullcontext()
        self._own[k] = wp.Tape()
        return self._own[k]

    def differentiate(
        self, k: int, rows: tuple[int, RowGroups], joint_S_s: wp.array[Any], jacobian: wp.array[Any]
    ) -> None:
        """Write the block of one objective from its recorded launches; see `RowGradients.differentiate`."""
        self._gradients.differentiate(self._own[k], rows, joint_S_s, jacobian, self._rows.mixed[k : k + 1])

    def call_hooks(self, joint_q: wp.array[Any], jacobian: wp.array[Any]) -> None:
        """Let objectives with their own hook write their blocks."""
        rows, step = self._rows, self._step
        step.record(rows, joint_q)
        for objective, start, hooked in zip(rows.objectives, rows.start, rows.hooked, strict=True):
            if hooked:
                with _checked_arrays(objective, rows.model.device):
                    objective.compute_jacobian_autodiff(step.tape, rows.model, jacobian, start, step.dq_dof)
                step.tape.zero()


class StepTape:
    """A tape from a step in the DOFs to the residuals, recorded again at every configuration."""

    def __init__(self, rows: Rows, n_batch: int, problem_idx: wp.array[Any]) -> None:
        self.poses = BatchState.allocate(rows.model, n_batch, rows.count, problem_idx, requires_grad=True)
        shape = (n_batch, rows.model.joint_dof_count)
        self.dq_dof = wp.zeros(shape, dtype=float, device=rows.model.device, requires_grad=True)
        self.tape: Any = wp.Tape()
        self._flat = self.poses.residuals.flatten()

    def record(self, rows: Rows, joint_q: wp.array[Any]) -> None:
        """Record integration, forward kinematics and the residuals of all objectives at `joint_q`."""
        self.tape.reset()
        with self.tape:
            integrate(rows.model, joint_q, self.dq_dof, self.poses.joint_q)
            rows.compute_residuals(self.poses)
        self.tape.outputs = [self._flat]
