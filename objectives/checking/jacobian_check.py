"""Check of an objective against finite differences of its residuals; a slow tool for development."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import warp as wp

from objectives.checking.finite_differences import FiniteDifferences, FirstOrderMotion, stencil_steps
from objectives.errors import InputError, ObjectiveError
from objectives.model import FloatArray, IKModel
from objectives.objective import IKJacobianType, IKObjective

SUPPORT_ROUNDING = 1e-5  # largest entry outside the support, relative to the largest entry
GUARD, POISON = 2, -54321.0  # number of guard rows before and after the block, and their value


class CheckedRobot(Protocol):
    """Protocol of a robot for the check: float64 functions on the host, and the view on a device."""

    @property
    def dof_names(self) -> tuple[str, ...]:
        """Names of the DOFs."""

    def on_device(self, device: str) -> IKModel:
        """Give the view of the robot on a device."""

    def random_joint_q(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw coordinates inside the limits, shape [n, joint_coord_count]."""

    def body_poses(self, joint_q: Any) -> FloatArray:
        """Give poses of the bodies, world frame, shape [n, body_count, 7]."""

    def motion_subspace(self, joint_q: Any) -> FloatArray:
        """Give the motion subspace: twist of every DOF at the world origin, shape [n, joint_dof_count, 6]."""

    def integrate(self, joint_q: Any, dq: Any) -> FloatArray:
        """Move coordinates along tangents [n, joint_dof_count]."""


@dataclass(frozen=True)
class CheckReport:
    """Report of a check without faults."""

    objective: str  # class of the objective
    methods: tuple[str, ...]  # Jacobians compared: "analytic", "autodiff"
    compared_count: int  # entries compared, over all configurations and methods
    nonzero_count: int  # nonzero entries; with none, the check is void
    kink_count: int  # entries at kinks or jumps of rows, compared with one-sided slopes only
    largest_error: float  # largest error, relative to the largest slope of the row


def check(
    objective: IKObjective,
    robot: CheckedRobot,
    *,
    joint_q: npt.ArrayLike | None = None,
    problem_count: int | None = None,
    sample_count: int = 8,
    random_seed: int = 0,
    tolerance: float = 1e-3,
    device: str = "cpu",
) -> CheckReport:
    """Compare the Jacobians of an objective with finite differences of its residuals.

    Further checks: every row is written, nothing is written outside the objective's block, and the Jacobian is zero
    outside `row_support`. The check binds a copy of the objective.

    Args:
        objective: The objective, bound to a solver or not.
        robot: The robot.
        joint_q: Configurations, shape [n, joint_coord_count]; None draws configurations, half beyond the limits.
        problem_count: Number of problems in the objective's data; None takes the number from the objective.
        sample_count: Number of configurations to draw.
        random_seed: Seed of the draws.
        tolerance: Largest error allowed, relative to the largest slope of the row.
        device: Device of the evaluation and of Warp arrays of the objective.

    Raises:
        ObjectiveError: The objective breaks its contract; the message names objective, row and DOF.
        InputError: An argument is not allowed.
    """
    if not isinstance(objective, IKObjective):
        raise ObjectiveError(
            f"check: {type(objective).__name__} is not derived from objectives.IKObjective. An objective of another "
            "library is checked in a solve, with SolverOptions(check_jacobians=True)."
        )
    if not (sample_count > 0 and tolerance > 0.0):
        raise InputError(f"check: sample_count {sample_count} and tolerance {tolerance} must be positive.")
    rng = np.random.default_rng(random_seed)
    samples = _draw(robot, rng, sample_count) if joint_q is None else np.atleast_2d(np.asarray(joint_q, np.float64))
    rows = [count for count in objective.data_rows().values() if count > 1]
    probe = _Probe(objective, robot, device, samples, problem_count or max(rows, default=1))
    steps = stencil_steps(len(samples), len(robot.dof_names))
    moved = robot.integrate(np.tile(samples, (len(steps) // len(samples), 1)), steps)
    differences = FiniteDifferences(probe.residuals(moved), len(samples), len(robot.dof_names))
    methods = ("analytic", "autodiff") if objective.supports_analytic() else ("autodiff",)
    jacobians = {method: probe.jacobian(method) for method in methods}
    errors = [0.0]
    for method, jacobian in jacobians.items():
        error = differences.relative_error(jacobian)
        worst = np.unravel_index(int(error.argmax()), error.shape)
        if error[worst] > tolerance:
            raise ObjectiveError(_mismatch(probe, method, jacobian, differences.values, worst))
        probe.require_support(method, jacobian)
        errors.append(float(error[worst]))
    return CheckReport(
        probe.name,
        methods,
        sum(jacobian.size for jacobian in jacobians.values()),
        sum(int(np.count_nonzero(jacobian)) for jacobian in jacobians.values()),
        int(differences.kinks.sum()),
        max(errors),
    )


def _draw(robot: CheckedRobot, rng: np.random.Generator, count: int) -> FloatArray:
    """Draw configurations inside the limits, and move every second configuration by about a radian or metre."""
    inside = robot.random_joint_q(rng, count)
    step = rng.normal(size=(count, len(robot.dof_names)))
    step[::2] = 0.0
    return robot.integrate(inside, step)


def _mismatch(
    probe: "_Probe", method: str, jacobian: FloatArray, expected: FloatArray, worst: tuple[np.intp, ...]
) -> str:
    sample, row, dof = worst
    hint = gradient_hint(probe.launches) if method == "autodiff" else ""
    if method == "autodiff" and not hint and not jacobian.any():
        hint = " All its entries are zero: does everything from body_q and joint_q to the rows run in Warp kernels?"
    return (
        f"{probe.name}: row {row} of the {method} Jacobian by DOF '{probe.robot.dof_names[dof]}' is "
        f"{jacobian[worst]:.6g}, finite differences give {expected[worst]:.6g}, "
        f"at joint_q = {np.round(probe.samples[sample], 4).tolist()}.{hint}"
    )


class _Probe:
    """A copy of an objective on a device, with its block in the middle of larger arrays."""

    def __init__(
        self, objective: IKObjective, robot: CheckedRobot, device: str, samples: FloatArray, problem_count: int
    ) -> None:
        self.name, self.robot = type(objective).__name__, robot
        self.launches: list[Any] = []
        self.samples, self.problem_count = samples, problem_count
        self.model = robot.on_device(device)
        self.objective = objective.unbound_copy()
        self.objective.bind_solver(self)
        self.objective.bind_model(self.model)
        self.rows = self.objective.residual_dim()
        if self.rows < 1:
            raise ObjectiveError(f"{self.name} has no rows on this robot.")
        self.objective.require_problem_count(problem_count)

    def residuals(self, joint_q: FloatArray) -> FloatArray:
        """Give residuals at configurations, shape [n, rows]."""
        self._bind(len(joint_q), IKJacobianType.ANALYTIC if self.objective.supports_analytic() else None)
        motion = self._motion(joint_q)
        motion.launch()
        out = self._compute(motion)
        return self._block("residuals", out.numpy().astype(np.float64))

    def jacobian(self, method: str) -> FloatArray:
        """Give the Jacobian at the samples, shape [n, rows, joint_dof_count]."""
        joint_q = self.samples
        self._bind(len(joint_q), IKJacobianType(method))
        motion, n, device = self._motion(joint_q), len(joint_q), self.model.device
        values = np.full((n, self.rows + 2 * GUARD, self.model.joint_dof_count), POISON, dtype=np.float32)
        values[:, GUARD:-GUARD] = 0.0
        jacobian: wp.array[wp.float32] = wp.array(values, dtype=wp.float32, device=device)
        tape: Any = wp.Tape()
        with tape:
            motion.launch()
            own = len(tape.launches)
            residuals = self._compute(motion)
        self.launches = tape.launches[own:]
        if method == "analytic":
            twists = self.robot.motion_subspace(joint_q).astype(np.float32)
            joint_S_s: wp.array[wp.spatial_vectorf] = wp.array(twists, dtype=wp.spatial_vectorf, device=device)
            self.objective.compute_jacobian_analytic(
                motion.body_q, motion.joint_q, self.model, jacobian, joint_S_s, GUARD
            )
        else:
            tape.outputs = [residuals.flatten()]
            self.objective.compute_jacobian_autodiff(tape, self.model, jacobian, GUARD, motion.dq_dof)
        return self._block(f"{method} Jacobian", jacobian.numpy().astype(np.float64))

    def require_support(self, method: str, jacobian: FloatArray) -> None:
        support = self.objective.row_support(self.model)
        if support is None:
            return
        if support.shape != jacobian.shape[1:]:
            raise ObjectiveError(f"{self.name}: row_support() has shape {support.shape}, not {jacobian.shape[1:]}.")
        rounding = SUPPORT_ROUNDING * np.abs(jacobian).max()  # autodiff adds terms that cancel
        outside = (np.abs(jacobian) > (0.0 if method == "analytic" else rounding)) & ~support
        if outside.any():
            _, row, dof = np.argwhere(outside)[0]
            raise ObjectiveError(
                f"{self.name}: row {row} of the {method} Jacobian depends on DOF '{self.robot.dof_names[dof]}', "
                "but row_support() says that it does not."
            )

    def _bind(self, n: int, mode: IKJacobianType | None) -> None:
        index = np.arange(n, dtype=np.int32) % len(self.samples) % self.problem_count
        self.index: wp.array[wp.int32] = wp.array(index, dtype=wp.int32, device=self.model.device)
        self.objective.set_batch_layout(self.rows + 2 * GUARD, GUARD, n)
        self.objective.bind_device(self.model.device)
        self.objective.bind_problem_index(self.index)
        self.objective.init_buffers(self.model, mode or IKJacobianType.AUTODIFF)

    def _motion(self, joint_q: FloatArray) -> FirstOrderMotion:
        robot = self.robot
        return FirstOrderMotion(self.model, joint_q, robot.body_poses(joint_q), robot.motion_subspace(joint_q))

    def _compute(self, motion: FirstOrderMotion) -> wp.array[wp.float32]:
        values = np.full((motion.body_q.shape[0], self.rows + 2 * GUARD), POISON, dtype=np.float32)
        out: wp.array[wp.float32] = wp.array(values, dtype=wp.float32, device=self.model.device, requires_grad=True)
        self.objective.compute_residuals(motion.body_q, motion.joint_q, self.model, out, GUARD, self.index)
        return out

    def _block(self, what: str, values: FloatArray) -> FloatArray:
        """Check guard rows and block, and return the block."""
        block = values[:, GUARD:-GUARD]
        if not ((values[:, :GUARD] == POISON).all() and (values[:, -GUARD:] == POISON).all()):
            raise ObjectiveError(f"{self.name}: the {what} are written outside the rows of the objective.")
        bad = ~np.isfinite(block) | (block == POISON)
        if bad.any():
            row = int(np.argwhere(bad)[0, 1])
            hint = gradient_hint(self.launches) if what.startswith("autodiff") else ""
            raise ObjectiveError(f"{self.name}: row {row} of the {what} is not written, or not finite.{hint}")
        return block


def gradient_hint(launches: Sequence[Any]) -> str:
    """Describe a known cause of wrong gradients in the launched kernels of a tape, or return an empty text."""
    kernels = list(dict.fromkeys(launch[0] for launch in launches if isinstance(launch, list)))
    for kernel in kernels:
        if not _has_backward(kernel):
            return f" Kernel '{kernel.key}' has no backward pass; make it without enable_backward=False."
    for kernel in kernels:
        loop = next(_rolled_loops(kernel.adj, kernel.module.options["max_unroll"], set()), None)
        if loop is not None:
            return (
                f" Kernel '{kernel.key}' has a loop that Warp does not unroll ({loop}): its backward pass takes the "
                "variables that the loop changes as they were before it, so what is computed from them, in the loop or "
                "behind it, has wrong gradients or none. Let the loop only add to sums that are written as they are, "
                f"or give it a number of rounds that is known beforehand, such as range(3) or range(wp.static(count)), "
                f"and at most {kernel.module.options['max_unroll']}; or override compute_jacobian_analytic()."
            )
    return ""


def _has_backward(kernel: Any) -> bool:
    for options in (kernel.options, kernel.module.options):
        if options.get("enable_backward") is not None:
            return bool(options["enable_backward"])
    return bool(wp.config.enable_backward)


def _rolled_loops(adjoint: Any, max_unroll: int, seen: set[int]) -> Iterator[str]:
    """Give the heads of loops that are not unrolled, in a kernel or function and in called functions."""
    if id(adjoint) in seen:
        return
    seen.add(id(adjoint))
    local = set(adjoint.assigned_name_ids()) | set(adjoint.arg_types)
    for node in ast.walk(adjoint.tree):
        if isinstance(node, ast.While):
            yield f"while {ast.unparse(node.test)}"
        elif isinstance(node, ast.For) and not _is_unrolled(node.iter, local, max_unroll):
            yield f"for ... in {ast.unparse(node.iter)}"
    for function in adjoint.get_references()[2]:
        yield from _rolled_loops(function.adj, max_unroll, seen)


def _is_unrolled(iterated: ast.expr, local: set[str], max_unroll: int) -> bool:
    if not (isinstance(iterated, ast.Call) and ast.unparse(iterated.func) == "range"):
        return True  # a fixed number of items, such as the entries of a vector
    try:
        return len(range(*(ast.literal_eval(argument) for argument in iterated.args))) <= max_unroll
    except (ValueError, TypeError):
        return all(_is_known(argument, local) for argument in iterated.args)


def _is_known(node: ast.expr, local: set[str]) -> bool:
    """Return True for an expression known at compile time: no variable or argument of the kernel."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("wp.static", "warp.static"):
        return True
    return not any(isinstance(inner, ast.Name) and inner.id in local for inner in ast.walk(node))
