"""A solve with derivatives of its answers, as an operator for other libraries: arrays in, arrays out."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.ik_solver import IKSolver
from ik_service.solver.given.arrays import as_numpy
from objectives.errors import InputError

POSE, TWIST = 7, 6


class DerivedSolve(NamedTuple):
    """Answers, and their derivatives by the inputs."""

    joint_q: NDArray[Any]  # configurations, shape [n, coordinates]
    success: NDArray[np.bool_]  # whether all targets are met, bool [n]
    is_differentiable: NDArray[np.bool_]  # whether an answer has derivatives, bool [n]; False where none are asked for
    # changes of coordinates with the position and the rotation vector of each target, then of each tool frame, shape
    # [n, coordinates, poses, 6]; of 0 coordinates where none are asked for
    rates: NDArray[np.float64]


def derived_solve(
    solver: IKSolver, positions: Any, orientations_xyzw: Any, start: Any, offsets: NDArray[Any] | None, *, derives: bool
) -> DerivedSolve:
    """Solve, and derive the answers if asked; InputError as in `IKSolver.solve`."""
    # Positions [n, targets, 3] or None; quaternions [n, targets, 4] in the order xyzw even for a solver with wxyz;
    # starts [n, coordinates] or None; tool frames [n, targets, 7], or None to keep the tool frames of the solver.
    if solver.wxyz and orientations_xyzw is not None:
        orientations_xyzw = np.roll(as_numpy("orientations_xyzw", orientations_xyzw), 1, axis=-1)
    targets = [one if one is None or one.shape[1] > 1 else one[:, 0] for one in (positions, orientations_xyzw)]
    tools = None if offsets is None or not len(offsets) else _by_target(offsets)
    result = solver.solve(*targets, initial_joint_q=start, offset=tools)
    n = len(result)
    if not derives:
        return DerivedSolve(result.joint_q, result.success, np.zeros(n, dtype=bool), np.zeros((n, 0, 0, TWIST)))
    found = solver.linearise(result, *targets)
    rates = found.coordinates_by(np.concatenate([found.by_targets, found.by_offsets], axis=2))
    return DerivedSolve(result.joint_q, result.success, found.is_differentiable, rates)


def batch_axes(solver: IKSolver, shapes: Mapping[str, Sequence[int] | None]) -> tuple[int, ...]:
    """Return the batch axes before the axes of a problem."""
    # `shapes` are the shapes of `positions`, `orientations_xyzw`, `initial_joint_q` and `offsets`, None for missing
    # arguments. Raises InputError without targets, or for a shape that is not allowed.
    several = (len(solver.targets),) if len(solver.targets) > 1 else ()
    ends = {"positions": (*several, 3), "orientations_xyzw": (*several, 4)}
    targets = {name: tuple(shape) for name, shape in shapes.items() if shape is not None and name in ends}
    if not solver.targets or not targets:
        raise InputError("Nothing says how many problems there are: give positions or orientations_xyzw.")
    first = next(iter(targets))
    batch = targets[first][: -len(ends[first])]
    ends |= {"initial_joint_q": (len(solver.coordinate_names),), "offsets": (*several, POSE)}
    for name, shape in shapes.items():
        if shape is None:
            continue
        end = ends[name]
        front, is_target = tuple(shape[: -len(end)]), name in targets
        fits = front == batch if is_target else _broadcasts(front, batch)
        if tuple(shape[-len(end) :]) != end or not fits:
            allowed = ", ".join(map(str, end))
            raise InputError(f"{name} has shape {list(shape)}. Allowed: [*batch, {allowed}], batch {list(batch)}.")
    return batch


def _broadcasts(front: tuple[int, ...], batch: tuple[int, ...]) -> bool:
    return len(front) <= len(batch) and all(
        own in (1, size) for own, size in zip(reversed(front), reversed(batch), strict=False)
    )


def rates_shape(solver: IKSolver, n: int) -> tuple[int, int, int, int]:
    """Return the shape of the derivatives of so many answers."""
    kinds = 1 + any(target.offset is not None for target in solver.targets)
    return n, len(solver.coordinate_names), kinds * len(solver.targets), TWIST


def pulled_back(
    xp: Any, rates: Any, by_joint_q: Any, orientations_xyzw: Any, offsets: Any, targets: int
) -> tuple[Any, Any, Any]:
    """Return the gradients by positions, orientations and tool frames, from the gradient by configurations."""
    # `xp` is the module `numpy`, `jax.numpy` or `torch`; `rates` are those of `DerivedSolve`. None for missing inputs
    by_poses = xp.einsum("ncpk,nc->npk", rates, by_joint_q)
    of_targets, of_tools = by_poses[:, :targets], by_poses[:, targets:]
    by_orientations = by_offsets = None
    if orientations_xyzw is not None:
        by_orientations = _by_quaternion(xp, of_targets[..., 3:], orientations_xyzw)
    if offsets is not None:
        turned = _by_quaternion(xp, of_tools[..., 3:], offsets[..., 3:])
        by_offsets = xp.concatenate([of_tools[..., :3], turned], axis=-1)
    return of_targets[..., :3], by_orientations, by_offsets


def _by_quaternion(xp: Any, by_rotation: Any, q_xyzw: Any) -> Any:
    """Return the gradient by a quaternion q from the one by the rotation vector w of exp(w) q: 2 (w, 0) q / |q|^2."""
    vector, scalar = q_xyzw[..., :3], q_xyzw[..., 3:]
    imaginary = scalar * by_rotation + xp.cross(by_rotation, vector, axis=-1)
    found = xp.concatenate([imaginary, -(by_rotation * vector).sum(axis=-1, keepdims=True)], axis=-1)
    length2 = (q_xyzw * q_xyzw).sum(axis=-1, keepdims=True)
    return 2.0 * found / xp.where(length2 > 0.0, length2, 1.0)  # 0 for a missing quaternion


def _by_target(offsets: NDArray[Any]) -> Any:
    """Return tool frames [n, targets, 7] as a solve takes tool frames; one line where all problems have the same."""
    lines = [own[0] if (own == own[0]).all() else own for own in np.swapaxes(offsets, 0, 1)]
    return lines if len(lines) > 1 else lines[0]
