"""The contract between an objective and the solver that evaluates it.

An objective contributes a block of residual rows. It holds targets and weights, and it is bound to one solver for as
long as that lives. The solver owns all arrays that a hook reads or writes, and calls every hook; none of them may
allocate or read back from the device once `init_buffers` has run, because the solver records their launches.
"""

import copy
import enum
import typing
import weakref
from collections.abc import Mapping

import warp as wp

from objectives.autodiff import allocate_seed, backward_rows
from objectives.errors import InputError, ObjectiveError
from objectives.model import BoolArray, IKModel


class IKJacobianType(enum.Enum):
    """Source of the Jacobian of an objective."""

    AUTODIFF = "autodiff"
    """Reverse-mode differentiation of the residual kernels, for every objective."""

    ANALYTIC = "analytic"
    """The objectives' own Jacobians, and autodiff for those that have none."""

    MIXED = "mixed"
    """The objectives' own Jacobians where they have one, autodiff for the others."""


class IKObjective:
    """A block of residual rows; residual = weight x (current minus target), cost = 1/2 |residual|^2.

    A subclass overrides `residual_dim` and `compute_residuals`; that is enough for every Jacobian mode. It
    may add `supports_analytic` with `compute_jacobian_analytic`, and `row_support`.

    The solver calls the hooks in this order: `bind_solver`, `bind_model`, then, again whenever the size of its batch
    changes, `set_batch_layout`, `bind_device`, `bind_problem_index`, `init_buffers`; then the `compute_` hooks.
    `compute_residuals` has always run on exactly the instances and the configuration of the next Jacobian hook.

    Data that differs from problem to problem stands in device arrays with one line per problem (or one line for all)
    and is read through `problem_idx`, which leads from instances to problems.
    """

    total_residuals: int | None = None
    """Rows of the whole residual vector; None before `set_batch_layout`."""

    residual_offset: int | None = None
    """First row of this objective's block; None before `set_batch_layout`."""

    n_batch: int | None = None
    """Instances in the solver's batch; None before `set_batch_layout`."""

    device: typing.Any = None
    """Warp device of the solver; None before `bind_device`."""

    problem_index: "wp.array[wp.int32] | None" = None
    """Problem of each instance; None before `bind_problem_index`. Its contents may change between launches."""

    _priority: int = 1
    _owner: "weakref.ref[object] | None" = None
    _seed: "wp.array[wp.float32] | None" = None

    # ------------------------------------------------------------------ what a subclass states
    def residual_dim(self) -> int:
        """Give the number of rows. An objective whose rows depend on the robot knows it after `bind_model`."""
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
        must keep their backward pass, otherwise autodiff gives zeros without a word.

        Args:
            body_q: Poses of the bodies, world frame, shape [n, body_count].
            joint_q: Coordinates [m or rad], shape [n, joint_coord_count].
            model: The robot.
            residuals: Residuals of all objectives, written in columns start_idx and following, shape [n, total].
            start_idx: First column of this objective's block.
            problem_idx: Problem of each instance, shape [n].
        """
        raise NotImplementedError(f"{type(self).__name__} must override compute_residuals().")

    def supports_analytic(self) -> bool:
        """Tell whether `compute_jacobian_analytic` is there."""
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
        """Write this objective's block of the Jacobian; entries that are zero may be left alone, they are zero already.

        Args:
            body_q: Poses of the bodies, world frame, shape [n, body_count].
            joint_q: Coordinates [m or rad], shape [n, joint_coord_count].
            model: The robot.
            jacobian: Jacobian of all objectives, shape [n, total, joint_dof_count].
            joint_S_s: Motion subspace: the twist that each DOF gives to the bodies it moves, linear part (the velocity
                of the body's point at the world origin) then angular, world frame, shape [n, joint_dof_count].
            start_idx: First row of this objective's block.

        Raises:
            ObjectiveError: This objective has no analytic Jacobian.
        """
        raise ObjectiveError(
            f"{type(self).__name__} has no analytic Jacobian: override compute_jacobian_analytic() and "
            "supports_analytic(), or choose the Jacobian mode 'mixed' or 'autodiff'."
        )

    def row_support(self, model: IKModel) -> BoolArray | None:
        """Tell which DOFs each row can depend on, shape [residual_dim, joint_dof_count]; None if that is not known."""
        return None

    def row_weights(self) -> "wp.array[wp.float32] | None":
        """Give the device array of weights per problem and row, shape [1 or problem_count, residual_dim], or None.

        A weight of 0 switches the row off for that problem. The rows of `compute_residuals` contain the weight already.
        """
        return None

    # ------------------------------------------------------------------ priority
    @property
    def priority(self) -> int:
        """Order of rows: those of pose targets have priority 0, those of objectives 1 unless told otherwise.

        In an island with targets, rows of priority 1 change only what rows of priority 0 do not fix, whatever the
        weights; among rows of one priority weights decide.

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
        """Counter that grows whenever a device array was exchanged for another: recorded launches are then stale."""
        return 0

    def data_rows(self) -> Mapping[str, int]:
        """Give the number of lines of each per-problem field, by name; a field with one line serves all problems."""
        return {}

    def require_problem_count(self, problem_count: int) -> None:
        """Check that every per-problem field has one line, or as many lines as there are problems (or more).

        Raises:
            InputError: A field has another number of lines.
        """
        for name, rows in self.data_rows().items():
            if rows != 1 and rows < problem_count:
                raise InputError(
                    f"{type(self).__name__}: field '{name}' has {rows} lines for {problem_count} problems; "
                    f"give 1 line for all, or {problem_count}."
                )

    def unbound_copy(self) -> "typing.Self":
        """Give an objective with the same data that is bound to nothing; `check` works on such a copy.

        This copies attributes, not what they refer to. Override it where a hook changes an attribute's object in place.
        """
        other = copy.copy(self)
        other._owner = other._seed = other.problem_index = other.device = None
        other.total_residuals = other.residual_offset = other.n_batch = None
        return other

    # ------------------------------------------------------------------ binding, called by the solver
    def bind_solver(self, owner: object) -> None:
        """Bind this objective to its one solver; repeating it with the same solver does nothing.

        Args:
            owner: The solver, any object that can be weakly referenced.

        Raises:
            ObjectiveError: It is bound to another solver, or it claims an analytic Jacobian that is not there.
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
        """Free this objective for another solver, if it is bound to this one; a constructor that fails calls it.

        Args:
            owner: The solver that does without it.
        """
        if self._owner is not None and self._owner() is owner:
            self._owner = None

    def bind_model(self, model: IKModel) -> None:
        """Take the robot, before `residual_dim` is asked. The base class does not need it.

        Raises:
            UnknownNameError: The objective names a link or a joint that the robot does not have.
        """

    def set_batch_layout(self, total_residuals: int, residual_offset: int, n_batch: int) -> None:
        """Take the place of this objective's rows in the solver's arrays.

        Args:
            total_residuals: Rows of all objectives together.
            residual_offset: First row of this objective's block.
            n_batch: Instances in the solver's batch (problems x seeds): the size of Jacobian and tape.
        """
        self.total_residuals = total_residuals
        self.residual_offset = residual_offset
        self.n_batch = n_batch

    def bind_device(self, device: typing.Any) -> None:
        """Take the device on which the solver works."""
        self.device = wp.get_device(device)

    def bind_problem_index(self, problem_idx: wp.array[wp.int32]) -> None:
        """Take the map from instances to problems that the Jacobian hooks use, shape [n_batch or more].

        The array stays the same until this hook is called again; its contents may change between launches.
        """
        self.problem_index = problem_idx

    def init_buffers(self, model: IKModel, jacobian_mode: IKJacobianType) -> None:
        """Allocate what the compute hooks need in this Jacobian mode.

        Raises:
            ObjectiveError: `set_batch_layout` or `bind_device` has not been called.
        """
        if jacobian_mode.name == "AUTODIFF" or (jacobian_mode.name == "MIXED" and not self.supports_analytic()):
            self._autodiff_seed()

    # ------------------------------------------------------------------ autodiff
    def _autodiff_seed(self) -> wp.array[wp.float32]:
        """One array for the gradients that enter the backward passes: all zeros between two calls."""
        if self.total_residuals is None or self.n_batch is None or self.device is None:
            raise ObjectiveError(f"{type(self).__name__}: call set_batch_layout() and bind_device() first.")
        size = self.n_batch * self.total_residuals
        if self._seed is None or self._seed.size != size or self._seed.device != self.device:
            self._seed = allocate_seed(size, self.device)
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

        Allocates nothing (after the first call, where `init_buffers` was overridden), so it can be recorded in a graph.

        Args:
            tape: Record of integration, forward kinematics and residuals; `tape.outputs[0]` are the flattened
                residuals, shape [n_batch * total]. Its gradients must be zero; they are zero again afterwards.
            model: The robot.
            jacobian: Jacobian of all objectives, shape [n_batch, total, joint_dof_count].
            start_idx: First row of this objective's block.
            dq_dof: Step in the DOFs from which the tape starts, shape [n_batch, joint_dof_count].

        Raises:
            ObjectiveError: No gradient arrives at `dq_dof`.
        """
        seed = self._autodiff_seed()
        rows = range(start_idx, start_idx + self.residual_dim())
        backward_rows(type(self).__name__, tape, rows, seed, dq_dof, jacobian)
