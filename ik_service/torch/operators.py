"""PyTorch operators for solves and for the pull-back of gradients."""

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from ik_service.derived_solve import POSE, TWIST, derived_solve, pulled_back, rates_shape
from ik_service.ik_solver import IKSolver
from ik_service.solver.device_solver import DeviceSolver
from ik_service.solver.lm.status import IKStatus
from ik_service.torch.registration import Known, LastFunction, register

_SOLVERS = Known[IKSolver]()
FLOATS = torch.float32, torch.float64
name_of = _SOLVERS.name_of
_ON_DEVICE: WeakKeyDictionary[IKSolver, DeviceSolver] = WeakKeyDictionary()


@torch.library.custom_op("ik_service::solve", mutates_args=())
def solve(
    positions: Tensor | None,
    orientations_xyzw: Tensor | None,
    start: Tensor | None,
    offsets: Tensor | None,
    name: str,
    derives: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Solve; give configurations, success, differentiability, and derivatives, [n, coordinates, poses, 6]."""
    like = _one_of(positions, orientations_xyzw)
    solver, given = _SOLVERS[name], _Given.of(positions, orientations_xyzw, start)
    on_device = _solver_there(solver, like, derives=derives) if offsets is None else None
    if on_device is None:
        return _solve_by_host(solver, given, like, offsets, derives=derives)
    answer, is_faulty = _solve_there(on_device, given, like, derives=derives)
    # The host solves problems with faulty numbers (and names these), missed targets or near-singular derivatives.
    left = torch.nonzero(is_faulty | ~answer[2] if derives else is_faulty)[:, 0]
    if len(left):
        by_host = _solve_by_host(solver, given.part(left), like, None, derives=derives)
        for own, found in zip(answer, by_host, strict=True):
            own[left] = found
    return answer


class _Given(NamedTuple):
    """Arguments of a solve, without gradients."""

    positions: Tensor | None
    orientations_xyzw: Tensor | None
    start: Tensor | None

    @classmethod
    def of(cls, *tensors: Tensor | None) -> "_Given":
        return cls(*(None if one is None else one.detach() for one in tensors))

    def part(self, problems: Tensor) -> "_Given":
        return _Given(*(None if one is None else one[problems] for one in self))


def _solve_by_host(
    solver: IKSolver, given: _Given, like: Tensor, offsets: Tensor | None, *, derives: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Solve as `solve` does, with data on the host."""
    tools = None if offsets is None else offsets.detach().cpu().numpy()
    found = derived_solve(solver, *given, tools, derives=derives)
    joint_q, success, has, rates = (torch.from_numpy(np.array(one, order="C")) for one in found)
    return joint_q.to(like), success.to(like.device), has.to(like.device), rates.to(like)


@solve.register_fake
def _of_solve(
    positions: Tensor | None,
    orientations_xyzw: Tensor | None,
    start: Tensor | None,
    offsets: Tensor | None,
    name: str,
    derives: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    solver, like = _SOLVERS[name], _one_of(positions, orientations_xyzw)
    n, coordinates = like.shape[0], len(solver.coordinate_names)
    shape = rates_shape(solver, n) if derives else (n, 0, 0, TWIST)
    success, has = (like.new_empty(n, dtype=torch.bool) for _ in range(2))
    return like.new_empty(n, coordinates), success, has, like.new_empty(shape)


def _solver_there(solver: IKSolver, like: Tensor, *, derives: bool) -> DeviceSolver | None:
    """Return a solver on the device of a tensor, without copies over the host; None if there is none."""
    is_there = like.is_cuda and f"cuda:{like.device.index}" == str(solver.device)
    return solver_by_arrays(solver, derives=derives) if is_there and like.dtype in FLOATS else None


def solver_by_arrays(solver: IKSolver, *, derives: bool) -> DeviceSolver | None:
    """Return a solver for arrays on a solver's device, if its answers equal the solver's; otherwise None."""
    robot, options = solver.robot, solver.options
    is_plain = options.best_of is None and options.solutions == 1 and options.deadline_s is None and not solver.wxyz
    may_combine = robot.collision_model is not None and options.collision != "off" and robot.trees.ntree > 1
    data = [one.offset for one in solver.targets] + [one.row_weights for one in solver.targets]
    is_common = all(one is None or np.ndim(one) < 2 for one in data)
    if solver.engine != "compiled" or not is_plain or may_combine or robot.constraint_names or not is_common:
        return None
    if derives and any(target.offset is not None for target in solver.targets):
        return None
    if solver not in _ON_DEVICE:
        _ON_DEVICE[solver] = solver.on_device()
    found = _ON_DEVICE[solver]
    return None if derives and found.why_not_derived() is not None else found


def _solve_there(
    solver: DeviceSolver, given: _Given, like: Tensor, *, derives: bool
) -> tuple[tuple[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """Solve on the device of the tensors, as `solve` does; also return the problems with faulty numbers."""
    targets = [
        None if one is None else one.to(like.device).squeeze(1) if one.shape[1] == 1 else one for one in given[:2]
    ]
    first = None if given.start is None else given.start.to(like)
    options: dict[str, object] = {"sensitivity": "target" if derives else None}
    found = {
        name: torch.from_dlpack(column)
        for name, column in solver.solve(*targets, initial_joint_q=first, options=options).items()
    }
    n = len(found["joint_q"])
    has, rates = like.new_zeros(n, dtype=torch.bool), like.new_zeros(n, 0, 0, TWIST)
    if derives:
        has, rates = found["is_differentiable"].bool(), found["joint_q_by_targets"].to(like)
    is_faulty = found["status"] == int(IKStatus.INVALID)
    return (found["joint_q"].to(like), found["success"].bool(), has, rates), is_faulty


def _one_of(positions: Tensor | None, orientations_xyzw: Tensor | None) -> Tensor:
    given = orientations_xyzw if positions is None else positions
    assert given is not None
    return given


@torch.library.custom_op("ik_service::pull_back", mutates_args=())
def pull_back(
    by: Tensor, by_joint_q: Tensor, orientations_xyzw: Tensor | None, offsets: Tensor | None, targets: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Give gradients by positions, orientations and tool frames from the gradient by configurations."""
    orientations = by.new_zeros(by.shape[0], targets, 4) if orientations_xyzw is None else orientations_xyzw
    positions, turns, tools = pulled_back(torch, by, by_joint_q, orientations, offsets, targets)
    return positions.clone(), turns, by.new_zeros(by.shape[0], 0, POSE) if offsets is None else tools


@pull_back.register_fake
def _of_pull_back(
    by: Tensor, by_joint_q: Tensor, orientations_xyzw: Tensor | None, offsets: Tensor | None, targets: int
) -> tuple[Tensor, Tensor, Tensor]:
    n, tools = by.shape[0], 0 if offsets is None else targets
    return by.new_empty(n, targets, 3), by.new_empty(n, targets, 4), by.new_empty(n, tools, POSE)


class PullBackFunction(LastFunction):
    """`pull_back`, without second derivatives."""

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, ...]:
        """Pull gradients back."""
        return pull_back(*inputs)


class SolveFunction(torch.autograd.Function):
    """`solve` with gradients by its inputs, transparent to transforms of `torch.func`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, ...]:
        """Solve."""
        return solve(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Keep the derivatives of the answers and the nonlinear inputs."""
        positions, orientations_xyzw, _, offsets, _, _ = inputs
        ctx.has_positions = positions is not None
        ctx.targets = positions.shape[1] if ctx.has_positions else orientations_xyzw.shape[1]
        ctx.mark_non_differentiable(*output[1:3])  # not the derivatives: a second derivative is refused by name
        ctx.save_for_backward(output[3], orientations_xyzw, offsets)

    @staticmethod
    def backward(ctx: Any, by_joint_q: Tensor, *others: Tensor) -> tuple[Tensor | None, ...]:
        """Give gradients by the inputs."""
        by, orientations_xyzw, offsets = ctx.saved_tensors
        last = pull_back if torch.compiler.is_compiling() else PullBackFunction.apply
        found = last(by, by_joint_q, orientations_xyzw, offsets, ctx.targets)
        return (
            found[0] if ctx.has_positions else None,
            None if orientations_xyzw is None else found[1],
            None,
            None if offsets is None else found[2],
            None,
            None,
        )


register(solve)
register(pull_back)
