"""Residual blocks of all objectives: their layout, and the evaluation of residuals and Jacobians.

The blocks stand one after another in the order of the objectives. Every hook gets the full model; followers and locked
joints appear as what they are, and the map to the active DOFs comes later.
"""

import typing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kinematics import forward_kinematics, integrate, motion_subspace
from ik_service.robots import DeviceModel
from ik_service.solver.problems.rows.binding import is_secondary, leaves_autodiff_out, member_for
from ik_service.solver.problems.rows.kinds import RowKind
from objectives import IKJacobianType, IKObjective, ObjectiveError
from objectives.autodiff import allocate_seed, backward_rows

MOSTLY = 0.25  # share of a Jacobian above which clearing all of it is faster than clearing what can differ from zero


@dataclass(frozen=True)
class Poses:
    """Configurations of a batch and what follows from them.

    Attributes:
        joint_q: Coordinates, [n, joint_coord_count].
        body_q: Body poses in the world frame, [n, body_count].
        residuals: Rows of all objectives, [n, total_residuals].
        problem_idx: Problem of every line, int32 [n].
    """

    joint_q: wp.array[Any]
    body_q: wp.array[Any]
    residuals: wp.array[Any]
    problem_idx: wp.array[Any]

    @classmethod
    def allocate(
        cls, model: DeviceModel, n: int, rows: int, problem_idx: wp.array[Any], requires_grad: bool
    ) -> "Poses":
        """Return zeroed arrays for n lines."""
        device = model.device
        return cls(
            joint_q=wp.zeros((n, model.joint_coord_count), dtype=float, device=device, requires_grad=requires_grad),
            body_q=wp.zeros((n, model.body_count), dtype=wp.transform, device=device, requires_grad=requires_grad),
            residuals=wp.zeros((n, rows), dtype=float, device=device, requires_grad=requires_grad),
            problem_idx=problem_idx,
        )


class Rows:
    """The objectives of a solver, laid out as blocks of one residual vector.

    Args:
        model: The robot on the solver's device.
        targets: Objectives of the pose targets; their blocks come first.
        others: Further objectives, in the order of their blocks.
        mode: Jacobian mode; objectives without an analytic Jacobian are differentiated by a tape in every mode.

    Attributes:
        model: The robot on the solver's device.
        objectives: All objectives, in the order of their blocks.
        kinds: `RowKind` of each objective's rows.
        secondary: Numbers of the objectives whose rows yield to those of the others.
        start: First row of each objective.
        count: Number of rows.
        row_kind: `RowKind` of each row, int32 [count].
        taped: Whether each objective is differentiated by a tape.
    """

    def __init__(
        self,
        model: DeviceModel,
        targets: Sequence[IKObjective],
        others: Sequence[IKObjective],
        mode: IKJacobianType,
    ) -> None:
        self.model, self.objectives, self.mode = model, (*targets, *others), mode
        self.kinds = (RowKind.TARGET,) * len(targets) + (RowKind.SOFT,) * len(others)
        self.secondary = [len(targets) + k for k, objective in enumerate(others) if is_secondary(objective)]
        sizes = [objective.residual_dim() for objective in self.objectives]
        self.start = [sum(sizes[:k]) for k in range(len(sizes))]
        self.count = sum(sizes)
        self.row_kind = np.repeat(np.array(self.kinds, np.int32), sizes)
        self._cleared: tuple[wp.array[Any], ...] | None = None
        self.taped = [mode is IKJacobianType.AUTODIFF or not o.supports_analytic() for o in self.objectives]
        self._differentiated_here = [leaves_autodiff_out(o) for o in self.objectives]
        self._seed: wp.array[Any] | None = None

    def of_kind(self, kind: RowKind) -> list[int]:
        """Return the numbers of the objectives whose rows are of a kind."""
        return [k for k, own in enumerate(self.kinds) if own is kind]

    def set_support(self, support: NDArray[np.bool_]) -> None:
        """Say which entries of the Jacobian can differ from zero, bool [rows, joint_dof_count].

        The others are written once, as zeros, when the Jacobian is allocated.
        """
        self._cleared = None
        if support.size == 0 or support.mean() > MOSTLY:
            return
        offsets = np.concatenate([[0], np.cumsum(support.sum(axis=1))])
        lists = (offsets, np.nonzero(support)[1])
        self._cleared = tuple(wp.array(values, dtype=wp.int32, device=self.model.device) for values in lists)

    def bind(self, n_batch: int, problem_idx: wp.array[Any]) -> None:
        """Tell every objective its place in a batch of `n_batch` lines; may be repeated for another batch."""
        if any(here and taped for here, taped in zip(self._differentiated_here, self.taped, strict=True)):
            self._seed = allocate_seed(n_batch * self.count, self.model.device)
        for objective, start, taped in zip(self.objectives, self.start, self.taped, strict=True):
            objective.set_batch_layout(self.count, start, n_batch)
            objective.bind_device(self.model.device)
            bind_problem_index = getattr(objective, "bind_problem_index", None)
            if bind_problem_index is not None:
                bind_problem_index(problem_idx)
            mode = IKJacobianType.AUTODIFF if taped else IKJacobianType.ANALYTIC
            objective.init_buffers(model=self.model, jacobian_mode=member_for(objective, mode))

    def bind_data(self) -> None:
        """Bring the objectives' data to the device, without the kernels of a batch."""
        for objective, start in zip(self.objectives, self.start, strict=True):
            objective.set_batch_layout(self.count, start, 1)
            objective.bind_device(self.model.device)

    def compute_residuals(self, poses: Poses) -> None:
        """Write body poses and the residuals of all objectives."""
        forward_kinematics(self.model, poses.joint_q, poses.body_q)
        self._compute_blocks(poses)

    def _compute_blocks(self, poses: Poses) -> None:
        for objective, start in zip(self.objectives, self.start, strict=True):
            with _checked_arrays(objective, self.model.device):
                objective.compute_residuals(
                    poses.body_q, poses.joint_q, self.model, poses.residuals, start, poses.problem_idx
                )

    def compute_jacobian(
        self, poses: Poses, joint_S_s: wp.array[Any], jacobian: wp.array[Any], tape: "RowTape | None"
    ) -> None:
        """Write the Jacobian of all objectives at configurations whose residuals have just been computed.

        Args:
            poses: Where; `compute_residuals` has just run on it.
            joint_S_s: Out: motion subspace, [n, joint_dof_count].
            jacobian: Out, [n, total_residuals, joint_dof_count].
            tape: Where objectives that are differentiated by a tape are recorded; None if there are none.
        """
        self._clear(jacobian)
        if not all(self.taped):
            motion_subspace(self.model, poses.body_q, joint_S_s)
            for objective, start, taped in zip(self.objectives, self.start, self.taped, strict=True):
                if not taped:
                    with _checked_arrays(objective, self.model.device):
                        objective.compute_jacobian_analytic(
                            poses.body_q, poses.joint_q, self.model, jacobian, joint_S_s, start
                        )
        if tape is not None:
            tape.record(self, poses.joint_q)
            for k, taped in enumerate(self.taped):
                if taped:
                    self._differentiate(k, tape, jacobian)
                    tape.tape.zero()

    def _differentiate(self, k: int, tape: "RowTape", jacobian: wp.array[Any]) -> None:
        """Write the block of one objective by backward passes: its own, or, where its class has none, ours."""
        objective, start = self.objectives[k], self.start[k]
        if self._seed is not None and self._differentiated_here[k]:
            block, name = range(start, start + objective.residual_dim()), type(objective).__name__
            backward_rows(name, tape.tape, block, self._seed, tape.dq_dof, jacobian)
        else:
            with _checked_arrays(objective, self.model.device):
                objective.compute_jacobian_autodiff(tape.tape, self.model, jacobian, start, tape.dq_dof)

    def _clear(self, jacobian: wp.array[Any]) -> None:
        """Zero what the hooks may leave alone, and nothing else: most of a large Jacobian is never touched."""
        if self._cleared is None:
            jacobian.zero_()
        else:
            dim = (jacobian.shape[0], self.count)
            wp.launch(_clear_rows, dim=dim, inputs=[*self._cleared], outputs=[jacobian], device=self.model.device)


@contextmanager
def _checked_arrays(objective: Any, device: wp.Device) -> Iterator[None]:
    """Let no hook of an objective launch a GPU kernel on arrays that the GPU cannot reach.

    Warp does not look unless it is told to, and the access to such an array ends the GPU's context for all of the
    process. Hooks run where launches are recorded, so a solve pays nothing for it.

    Raises:
        ObjectiveError: The objective has an array elsewhere; the message names kernel, argument and devices.
    """
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


class RowTape:
    """A tape from a step in the DOFs to the residuals, recorded anew at every configuration.

    Args:
        rows: The layout.
        n_batch: Lines of the batch.
        problem_idx: Problem of every line, int32 [n_batch].
    """

    def __init__(self, rows: Rows, n_batch: int, problem_idx: wp.array[Any]) -> None:
        self.poses = Poses.allocate(rows.model, n_batch, rows.count, problem_idx, requires_grad=True)
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
