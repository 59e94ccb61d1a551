"""A solver as a PyTorch operation.

tensors -> an operator that solves and, if gradients are wanted, linearises -> configurations
gradient by the configurations -> a second operator, which only uses stored derivatives -> gradients by the inputs

`torch.compile` and `torch.vmap` support both. The second has no derivative: a second backward pass is refused.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ik_service.derived_solve import POSE, batch_axes
from ik_service.ik_solver import IKSolver
from ik_service.torch.operators import SolveFunction, name_of, solve
from ik_service.torch.registration import wants_gradient
from objectives.errors import InputError


class TorchAnswer(NamedTuple):
    """Answers of a solve.

    Attributes:
        joint_q: Configurations, shape [*batch, coordinates], with type and device of the targets.
        success: True if all targets are met, bool [*batch].
        is_differentiable: True if an answer has a gradient, bool [*batch]; otherwise the gradient is zero. False
            everywhere if no gradient is wanted.
    """

    joint_q: Tensor
    success: Tensor
    is_differentiable: Tensor


class TorchSolver:
    """Solver for targets as tensors, with gradients.

    The gradient describes how the minimum moves with the targets. It does not depend on the start, so starts have no
    gradient. It is computed in float64, on the device of the tensors if possible (see `solver_by_arrays` of
    `ik_service.torch.operators`), otherwise on the host. Only one thread at a time may use the solver.
    """

    def __init__(self, solver: IKSolver) -> None:
        self.solver, self._name = solver, name_of(solver)

    def __call__(
        self,
        positions: Tensor | None = None,
        orientations_xyzw: Tensor | None = None,
        *,
        initial_joint_q: Tensor | None = None,
        offsets: Tensor | None = None,
    ) -> TorchAnswer:
        """Solve for targets.

        Args:
            positions: Positions [m], shape [*batch, 3] for one target, [*batch, targets, 3] for several; None leaves
                positions free.
            orientations_xyzw: Unit quaternions, shapes as for positions with 4. Their gradient is tangent to the unit
                sphere.
            initial_joint_q: Starts, a shape broadcastable to [*batch, coordinates].
            offsets: Tool frames, a shape broadcastable to [*batch, 7] for one target, [*batch, targets, 7] for several;
                all targets must be declared with an offset. None takes the solver's offsets.

        Raises:
            InputError: A wrong shape or value, as in `IKSolver.solve`.
        """
        given = {"positions": positions, "orientations_xyzw": orientations_xyzw}
        given |= {"initial_joint_q": initial_joint_q, "offsets": offsets}
        for name, one in given.items():
            if one is not None and not one.is_floating_point():
                raise InputError(f"{name} is of type {one.dtype}. Allowed: floating-point numbers.")
        batch = batch_axes(self.solver, {name: None if one is None else one.shape for name, one in given.items()})
        like, count = orientations_xyzw if positions is None else positions, len(self.solver.targets)

        def flat(one: Tensor | None, *last: int) -> Tensor | None:
            if one is None:
                return None
            whole = (*batch, *one.shape[one.ndim - (1 if count == 1 or len(last) == 1 else 2) :])
            return one.to(like).expand(whole).reshape(-1, *last)

        poses = flat(positions, count, 3), flat(orientations_xyzw, count, 4)
        start = flat(None if initial_joint_q is None else initial_joint_q.detach(), len(self.solver.coordinate_names))
        tools = flat(offsets, count, POSE)
        inputs = [one for one in (*poses, tools) if one is not None]
        derives = torch.is_grad_enabled() and any(map(wants_gradient, inputs))
        # The function refuses forward derivatives; `torch.compile` cannot trace the function without gradients.
        operator = solve if torch.compiler.is_compiling() and not derives else SolveFunction.apply
        joint_q, success, has_gradient, _ = operator(*poses, start, tools, self._name, derives)
        return TorchAnswer(*(one.reshape((*batch, *one.shape[1:])) for one in (joint_q, success, has_gradient)))
