"""A solve on a tape of Warp: gradients by its targets when the tape runs backwards.

arrays -> solve and linearisation on the host -> configurations; on the tape, the backward function of their gradient
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.derived_solve import POSE, batch_axes, derived_solve, pulled_back
from ik_service.ik_solver import IKSolver
from ik_service.mechanism.transforms import Float64Array
from objectives.errors import InputError

__all__ = ["TapeAnswer", "solve_on_tape"]


class TapeAnswer(NamedTuple):
    """Answers of a solve.

    Attributes:
        joint_q: Configurations, shape [n, coordinates], with a gradient, where the targets are.
        success: Whether all targets are met, bool [n].
        is_differentiable: Whether an answer has a gradient, bool [n]; without one, the gradient is zero.
    """

    joint_q: "wp.array[Any]"
    success: NDArray[np.bool_]
    is_differentiable: NDArray[np.bool_]


def solve_on_tape(
    tape: wp.Tape,
    solver: IKSolver,
    positions: "wp.array[Any] | None" = None,
    orientations_xyzw: "wp.array[Any] | None" = None,
    *,
    initial_joint_q: "wp.array[Any] | None" = None,
    offsets: "wp.array[Any] | None" = None,
) -> TapeAnswer:
    """Solve for targets, and let a tape pull gradients of the configurations back to the targets.

    Call this function between launches recorded by the tape, inside or outside its `with` block. An answer is a
    minimum, and its gradient is the derivative of this minimum by the targets; start configurations have no gradient.
    Gradients are computed on the host.

    Args:
        tape: The tape.
        solver: The solver; quaternions are in the order xyzw here.
        positions: Positions [m], vec3 of shape [n] or [n, targets], or numbers of shape [n, 3] or [n, targets, 3]; None
            leaves the positions free. Arrays with `requires_grad` get a gradient, here and below.
        orientations_xyzw: Unit quaternions, quat or 4 numbers each, same shapes; None leaves the orientations free.
            Their gradient is tangent to the unit sphere.
        initial_joint_q: Start configurations, shape [n, coordinates] or [coordinates].
        offsets: Tool frames, transforms of shape [n] or [n, targets], or 7 numbers each; all targets must be declared
            with a tool frame. None: the tool frames of the solver.

    Raises:
        InputError: An array is not an array of Warp, a shape is wrong, or a value is refused as in `IKSolver.solve`.
    """
    given = {"positions": positions, "orientations_xyzw": orientations_xyzw}
    given |= {"initial_joint_q": initial_joint_q, "offsets": offsets}
    values = {name: None if one is None else _numbers(name, one) for name, one in given.items()}
    batch = batch_axes(solver, {name: None if one is None else one.shape for name, one in values.items()})
    if len(batch) != 1:
        raise InputError(f"Targets have the axes {list(batch)} before those of a problem. Allowed: one, [n].")
    (n,) = batch
    several = len(solver.targets)
    turns, tools = values["orientations_xyzw"], values["offsets"]
    places = None if values["positions"] is None else values["positions"].reshape(n, several, 3)
    turns = None if turns is None else turns.reshape(n, several, 4)
    if tools is not None:
        tools = np.broadcast_to(tools.reshape(-1, several, POSE), (n, several, POSE))
    like = next(one for one in (positions, orientations_xyzw) if one is not None)
    with _not_recorded():
        found = derived_solve(solver, places, turns, values["initial_joint_q"], tools, derives=True)
        joint_q: wp.array[Any] = wp.array(np.ascontiguousarray(found.joint_q), device=like.device, requires_grad=True)
    wanted = {
        name: one for name, one in given.items() if one is not None and one.requires_grad and name != "initial_joint_q"
    }

    def pull_back() -> None:
        by_joint_q = joint_q.grad.numpy().astype(np.float64)
        changes = pulled_back(np, found.rates, by_joint_q, _exact(turns), _exact(tools), several)
        _add(wanted, dict(zip(("positions", "orientations_xyzw", "offsets"), changes, strict=True)))

    tape.record_func(pull_back, [joint_q, *wanted.values()])
    return TapeAnswer(joint_q, found.success, found.is_differentiable)


@contextmanager
def _not_recorded() -> Iterator[None]:
    """Record no launches of a block on any tape."""
    runtime: Any = wp._src.context.runtime
    tape = runtime.tape
    if tape is not None:
        tape.__exit__(None, None, None)
    try:
        yield
    finally:
        if tape is not None:
            tape.__enter__()


def _numbers(name: str, one: Any) -> NDArray[np.floating]:
    """Return the numbers of an array, with the components of a vector on a separate axis."""
    if not isinstance(one, wp.array):
        raise InputError(f"{name} must be an array of Warp, got {type(one).__name__}.")
    found: NDArray[np.floating] = one.numpy()
    if found.dtype.kind != "f":
        raise InputError(f"{name} is of type {found.dtype}. Allowed: floating-point numbers.")
    return found


def _exact(numbers: NDArray[np.floating] | None) -> Float64Array | None:
    return None if numbers is None else numbers.astype(np.float64)


def _add(arrays: "Mapping[str, wp.array[Any]]", changes: Mapping[str, Float64Array]) -> None:
    for name, one in arrays.items():
        before = one.grad.numpy()
        change = changes[name]
        if change.size != before.size:  # one row of tool frames for all problems
            change = change.sum(axis=0)
        one.grad.assign((before + change.reshape(before.shape)).astype(before.dtype))
