"""Contract between an objective and its solver.

An objective contributes a block of residual rows. An objective holds targets and weights, and is bound to one solver
during the solver's life. The solver owns all arrays and calls every hook. After `init_buffers` a hook must not allocate
or read back from the device, because the solver records the launches.
"""

import copy
import enum
import typing
import weakref
from collections.abc import Mapping

import warp as wp

from objectives.errors import InputError, ObjectiveError
from objectives.model import BoolArray, IKModel


@wp.kernel(enable_backward=False, module="unique")
@typing.no_type_check
def _seed_row(total_residuals: int, row: int, seed_out: wp.array[float]):
    i = wp.tid()
    if row > 0:
        seed_out[i * total_residuals + row - 1] = 0.0
    seed_out[i * total_residuals + row] = 1.0


@wp.kernel(enable_backward=False, module="unique")
@typing.no_type_check
def _store_row(gradient: wp.array2d[float], row: int, jacobian_out: wp.array3d[float]):
    i, dof = wp.tid()
    jacobian_out[i, row, dof] = gradient[i, dof]


class IKJacobianType(enum.Enum):
    """Source of the Jacobian of an objective.

    Attributes:
        AUTODIFF: Reverse-mode differentiation of the residual kernels, for every objective.
        ANALYTIC: Analytic Jacobians, and autodiff for objectives without an analytic Jacobian.
        MIXED: Analytic Jacobians if supported, autodiff for other objectives.
    """

    AUTODIFF = "autodiff"
    ANALYTIC = "analytic"
    MIXED = "mixed"


class IKObjective:
    """A block of residual rows; residual = weight x (current minus target), cost = 1/2 |residual|^2.

    A subclass overrides `residual_dim` and `compute_residuals`, enough for every Jacobian mode. Optional:
    `supports_analytic` with `compute_jacobian_analytic`, and `row_support`.

    The solver calls the hooks in this order: `bind_solver`, `bind_model`, then, again for each new size of the batch,
    `set_batch_layout`, `bind_device`, `bind_problem_index`, `init_buffers`; then the `compute_` hooks. Before a
    Jacobian hook, `compute_residuals` has run on the same instances and configurations.

    Data per problem are device arrays with one line per problem, or one line for all. Kernels find the line by
    `problem_idx`, the map from instances to problems.

    Attributes:
        total_residuals: Rows of the whole residual vector; None before `set_batch_layout`.
        residual_offset: First row of this objective's block; None before `set_batch_layout`.
        n_batch: Instances in the solver's batch; None before `set_batch_layout`.
        device: Warp device of the solver; None before `bind_device`.
        problem_index: Problem of each instance; None before `bind_problem_index`. Entries may change between launches.
    """

    total_residuals: int | None = None
    residual_offset: int | None = None
    n_batch: int | None = None
    device: typing.Any = None
    problem_index: "wp.array[wp.int32] | None" = None
    _priority: int = 1
    _owner: "weakref.ref[object] | None" = None
    _seed: "wp.array[wp.float32] | None" = None

    # ------------------------------------------------------------------ what a subclass states
    def residual_dim(self) -> int:
        """Give the number of rows; known after `bind_model` if the rows depend on the robot."""
        raise NotImplementedError(f"{type(self).__name__} must override residual_dim().")

    def compute_residuals(
        self,
        body_q: wp.array[wp.transformf],
        joint_q: wp.array[wp.float32],
        model: IKModel,
        residuals: wp.array[wp.float32],
        start_idx: int,
        problem_idx: wp.array[wp.int32],
    ) -> None:
        """Write this objective's rows for all instances.

        The batch may be larger than `n_batch` (candidates of a line search): launch by `body_q.shape[0]`. The kernels
        must keep their backward pass, otherwise autodiff silently gives zeros.

        Args:
            body_q: Poses of the bodies, world frame, shape [n, body_count].
            joint_q: Coordinates [m or rad], shape [n, joint_coord_count].
            model: The robot.
            residuals: Out: residuals of all objectives, shape [n, total].
            start_idx: First column of this objective's block.
            problem_idx: Problem of each instance, shape [n].
        """
        raise NotImplementedError(f"{type(self).__name__} must override compute_residuals().")

    def supports_analytic(self) -> bool:
        """Return True if the objective has `compute_jacobian_analytic`."""
        return False

    def compute_jacobian_analytic(
        self,
        body_q: wp.array[wp.transformf],
        joint_q: wp.array[wp.float32],
        model: IKModel,
        jacobian: wp.array[wp.float32],
        joint_S_s: wp.array[wp.spatial_vectorf],
        start_idx: int,
    ) -> None:
        """Write this objective's block of the Jacobian, zeroed before the call; other arguments: `compute_residuals`.

        Args:
            body_q: Poses of the bodies, world frame, shape [n, body_count].
            joint_q: Coordinates [m or rad], shape [n, joint_coord_count].
            model: The robot.
            jacobian: Out: Jacobian of all objectives, shape [n, total, joint_dof_count].
            joint_S_s: Motion subspace: twist per unit velocity of each DOF, at the world origin, linear then angular,
                world frame, shape [n, joint_dof_count].
            start_idx: First row of this objective's block.

        Raises:
            ObjectiveError: This objective has no analytic Jacobian.
        """
        raise ObjectiveError(
            f"{type(self).__name__} has no analytic Jacobian: override compute_jacobian_analytic() and "
            "supports_analytic(), or choose the Jacobian mode 'mixed' or 'autodiff'."
        )

    def row_support(self, model: IKModel) -> BoolArray | None:
        """Give the sparsity of the Jacobian, bool [residual_dim, joint_dof_count]; None if unknown."""
        return None

    def row_weights(self) -> "wp.array[wp.float32] | None":
        """Give the device array of weights per problem and row, shape [1 or problem_count, residual_dim], or None.

        Weight 0 disables the row for the problem. The rows of `compute_residuals` include the weights.
        """
        return None

    # ------------------------------------------------------------------ priority
    @property
    def priority(self) -> int:
        """Priority of the rows, 0 (highest) or 1; pose targets have priority 0, objectives 1 by default.

        In an island with targets, rows of priority 1 act in the null space of rows of priority 0, independent of
        weights; weights decide among rows of the same priority.

        Raises:
            InputError: Set to another number than 0 or 1.
            ObjectiveError: Set while the objective is bound to a solver.
        """
        return self._priority

    @priority.setter
    def priority(self, priority: int) -> None:
        if priority not in (0, 1) or isinstance(priority, bool):
            raise InputError(f"{type(self).__name__}: priority is {priority!r}; allowed: 0 and 1.")
        if self._owner is not None and self._owner() is not None:
            raise ObjectiveError(f"{type(self).__name__} is bound to a solver. Set its priority before.")
        self._priority = int(priority)

    # ------------------------------------------------------------------ per-problem data
    @property
    def data_version(self) -> int:
        """Counter of exchanges of device arrays; recorded launches are stale after an exchange."""
        return 0

    def data_rows(self) -> Mapping[str, int]:
        """Give the number of lines of each per-problem field, by name; one line serves all problems."""
        return {}

    def require_problem_count(self, problem_count: int) -> None:
        """Raise InputError unless every per-problem field has one line, or at least `problem_count` lines."""
        for name, rows in self.data_rows().items():
            if rows != 1 and rows < problem_count:
                raise InputError(
                    f"{type(self).__name__}: field '{name}' has {rows} lines for {problem_count} problems; "
                    f"give 1 line for all, or {problem_count}."
                )

    def unbound_copy(self) -> "typing.Self":
        """Copy the objective, with the same data and unbound, for `check`.

        The copy is shallow. Override this method if a hook changes the object of an attribute in place.
        """
        other = copy.copy(self)
        other._owner = other._seed = other.problem_index = other.device = None
        other.total_residuals = other.residual_offset = other.n_batch = None
        return other

    # ------------------------------------------------------------------ binding, called by the solver
    def bind_solver(self, owner: object) -> None:
        """Bind this objective to its solver, any weakly referenceable object; repeated binding does nothing.

        Raises:
            ObjectiveError: The objective is bound to another solver, or its claimed analytic Jacobian is missing.
        """
        bound = self._owner() if self._owner is not None else None
        if bound is not None and bound is not owner:
            raise ObjectiveError(
                f"{type(self).__name__} is bound to a solver already; make one objective for each solver, or delete "
                "the other solver first."
            )
        overridden = type(self).compute_jacobian_analytic is not IKObjective.compute_jacobian_analytic
        if self.supports_analytic() and not overridden:
            raise ObjectiveError(
                f"{type(self).__name__}.supports_analytic() is True, but compute_jacobian_analytic() is not overridden."
            )
        self._owner = weakref.ref(owner)

    def release_solver(self, owner: object) -> None:
        """Unbind this objective from a solver, if bound to this solver; for constructors that fail."""
        if self._owner is not None and self._owner() is owner:
            self._owner = None

    def bind_model(self, model: IKModel) -> None:
        """Take the robot, before `residual_dim`; UnknownNameError for an unknown link or joint."""

    def set_batch_layout(self, total_residuals: int, residual_offset: int, n_batch: int) -> None:
        """Take the position of this objective's rows in the solver's arrays.

        Args:
            total_residuals: Rows of all objectives together.
            residual_offset: First row of this objective's block.
            n_batch: Instances in the solver's batch (problems x seeds): the size of Jacobian and tape.
        """
        self.total_residuals = total_residuals
        self.residual_offset = residual_offset
        self.n_batch = n_batch

    def bind_device(self, device: typing.Any) -> None:
        """Take the device of the solver."""
        self.device = wp.get_device(device)

    def bind_problem_index(self, problem_idx: wp.array[wp.int32]) -> None:
        """Take the map from instances to problems for Jacobian hooks, shape [n_batch or more].

        The array stays the same until the next call; its entries may change between launches.
        """
        self.problem_index = problem_idx

    def init_buffers(self, model: IKModel, jacobian_mode: IKJacobianType) -> None:
        """Allocate arrays for the compute hooks; ObjectiveError before `set_batch_layout` or `bind_device`."""
        if jacobian_mode.name == "AUTODIFF" or (jacobian_mode.name == "MIXED" and not self.supports_analytic()):
            self._autodiff_seed()

    # ------------------------------------------------------------------ autodiff
    def _autodiff_seed(self) -> wp.array[wp.float32]:
        """Give the array of seeds of backward passes: all zeros between two calls."""
        if self.total_residuals is None or self.n_batch is None or self.device is None:
            raise ObjectiveError(f"{type(self).__name__}: call set_batch_layout() and bind_device() first.")
        size = self.n_batch * self.total_residuals
        if self._seed is None or self._seed.size != size or self._seed.device != self.device:
            for kernel in (_seed_row, _store_row):  # modules cannot be loaded while a graph is recorded
                wp.load_module(kernel.module, device=self.device)
            self._seed = wp.zeros(size, dtype=wp.float32, device=self.device)
        return self._seed

    def compute_jacobian_autodiff(
        self,
        tape: wp.Tape,
        model: IKModel,
        jacobian: wp.array[wp.float32],
        start_idx: int,
        dq_dof: wp.array[wp.float32],
    ) -> None:
        """Write this objective's block of the Jacobian by one backward pass per row.

        The seed of a pass is 1 in one row of all instances: instances are independent, so one pass gives this row of
        all Jacobians. No allocation (after the first call, if `init_buffers` is overridden), so a graph can record this
        call.

        Args:
            tape: Record of integration, forward kinematics and residuals; `tape.outputs[0]` are the flattened
                residuals, shape [n_batch * total]. Gradients of the tape are zero before and after.
            model: The robot.
            jacobian: Out: Jacobian of all objectives, shape [n_batch, total, joint_dof_count].
            start_idx: First row of this objective's block.
            dq_dof: Step in the DOFs, the input of the tape, shape [n_batch, joint_dof_count].

        Raises:
            ObjectiveError: No gradient arrives at `dq_dof`.
        """
        seed, recorded = self._autodiff_seed(), typing.cast(typing.Any, tape)  # `outputs` is added by the solver
        residuals, total = recorded.outputs[0], jacobian.shape[1]
        for row in range(start_idx, start_idx + self.residual_dim()):
            wp.launch(_seed_row, dim=dq_dof.shape[0], inputs=[total, row], outputs=[seed], device=seed.device)
            tape.backward(grads={residuals: seed})
            gradient = tape.gradients.get(dq_dof)
            if gradient is not None:
                wp.launch(_store_row, dim=dq_dof.shape, inputs=[gradient, row], outputs=[jacobian], device=seed.device)
            tape.zero()
            if gradient is None:
                seed.zero_()
                raise ObjectiveError(f"{type(self).__name__}: the tape carries no gradient to dq_dof.")
        seed.zero_()
