"""Solves as functions of JAX, with gradients; needs JAX 0.5 or newer.

arrays -> a call of the host: solve, and linearisation if gradients are needed
-> configurations, and the derivatives from which arithmetic of JAX computes gradients

`jax.jit`, `jax.vmap` and `jax.grad` know the call. The call has no derivative itself: second derivatives are refused.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from ik_service.derived_solve import POSE, batch_axes, derived_solve, pulled_back, rates_shape
from ik_service.extras import needs
from ik_service.ik_solver import IKSolver
from objectives.errors import InputError

with needs("jax", "ik_service.jax"):
    import jax
    import jax.numpy as jnp
    from jax import Array

__all__ = ["JaxAnswer", "JaxSolver"]


class Given(NamedTuple):
    """Arguments of a solve, with one axis of problems, n."""

    positions: Array | None  # shape [n, targets, 3]; None where they are free
    orientations_xyzw: Array | None  # shape [n, targets, 4]; None where they are free
    start: Array | None  # start configurations, shape [n, coordinates]; None for the solver's own
    offsets: Array | None  # tool frames, shape [n, targets, 7]; None for the tool frames of the solver


def foreign_solve(solver: IKSolver) -> Callable[..., tuple[Array, ...]]:
    """Return the call of a solver from programs, without a reference to the solver: JAX keeps compiled programs.

    The call gives configurations, flags [n, 2] (success, and whether an answer has derivatives) and, if asked,
    derivatives [n, coordinates, poses, 6].
    """
    known, tail = ref(solver), rates_shape(solver, 0)[1:]
    coordinates, targets = len(solver.coordinate_names), len(solver.targets)
    widths = (targets, 3), (targets, 4), (coordinates,), (targets, POSE)

    def on_host(given: Given, *, derives: bool) -> tuple[NDArray[Any], ...]:
        solver = known()
        if solver is None:
            raise InputError("The solver of this program is gone. Keep its JaxSolver for as long as programs call it.")
        arrays = [None if one is None else np.asarray(one) for one in given]
        some, width = next((one, width) for one, width in zip(arrays, widths, strict=True) if one is not None)
        # maps over problems add axes
        flat = (None if one is None else one.reshape(-1, *width) for one, width in zip(arrays, widths, strict=True))
        answer = derived_solve(solver, *flat, derives=derives)
        flags = np.stack([answer.success, answer.is_differentiable], axis=1).astype(np.int32)
        found = (answer.joint_q.astype(some.dtype), flags, answer.rates.astype(some.dtype))[: 3 if derives else 2]
        return tuple(one.reshape(*some.shape[: some.ndim - len(width)], *one.shape[1:]) for one in found)

    def call(given: Given, *, derives: bool) -> tuple[Array, ...]:
        some = next(one for one in given if one is not None)
        if some.dtype not in (jnp.float32, jnp.float64):
            raise InputError(f"Targets are of type {some.dtype}. Allowed: float32, float64.")
        shapes = [((coordinates,), some.dtype), ((2,), jnp.int32), *([(tail, some.dtype)] if derives else [])]
        found = tuple(jax.ShapeDtypeStruct((len(some), *shape), dtype) for shape, dtype in shapes)
        return tuple(jax.pure_callback(partial(on_host, derives=derives), found, given, vmap_method="broadcast_all"))

    return call


class JaxAnswer(NamedTuple):
    """Answers of a solve.

    Attributes:
        joint_q: Configurations, shape [*batch, coordinates], of the type of the targets.
        success: Whether all targets are met, bool [*batch].
        is_differentiable: Whether an answer has a gradient, bool [*batch]; without one, the gradient is zero. All are
            False if no gradient is requested.
    """

    joint_q: Array
    success: Array
    is_differentiable: Array


class JaxSolver:
    """Solves for targets that are arrays of JAX, with gradients.

    An answer is a minimum, and its gradient is the derivative of this minimum by the targets. The start does not enter,
    so start configurations have no gradient. Gradients are computed on the host in float64.

    Args:
        solver: The solver; only one thread at a time may use this solver.
    """

    def __init__(self, solver: IKSolver) -> None:
        self.solver = solver
        self.calls = jax.jit(foreign_solve(solver), static_argnames=("derives",))  # every trace stays in memory

    def __call__(
        self,
        positions: Any = None,
        orientations_xyzw: Any = None,
        *,
        initial_joint_q: Any = None,
        offsets: Any = None,
    ) -> JaxAnswer:
        """Solve for targets.

        Args:
            positions: Positions [m], shape [*batch, 3] for one target, [*batch, targets, 3] for several; None leaves
                the positions free.
            orientations_xyzw: Unit quaternions, shape [*batch, 4] for one target, [*batch, targets, 4] for several;
                None leaves the orientations free. Their gradient is tangent to the unit sphere.
            initial_joint_q: Start configurations, shape [*batch, coordinates] or a shape that broadcasts to this one.
            offsets: Tool frames, shape [*batch, 7], [*batch, targets, 7] for several targets, or a shape that
                broadcasts; all targets must be declared with a tool frame. None: the tool frames of the solver.

        Raises:
            InputError: No targets, or a wrong shape. Values are checked at run time of the program; an error in a value
                appears inside the error of JAX.
        """
        arrays = {"positions": positions, "orientations_xyzw": orientations_xyzw}
        arrays |= {"initial_joint_q": initial_joint_q, "offsets": offsets}
        batch = batch_axes(self.solver, {k: None if one is None else jnp.shape(one) for k, one in arrays.items()})
        like, count = jnp.asarray(orientations_xyzw if positions is None else positions), len(self.solver.targets)
        if not jnp.issubdtype(like.dtype, jnp.floating):
            raise InputError(f"Targets are of type {like.dtype}. Allowed: floating-point numbers.")

        def flat(one: Any, *last: int) -> Array | None:
            if one is None:
                return None
            one = jnp.asarray(one, like.dtype)
            whole = (*batch, *one.shape[one.ndim - (1 if count == 1 or len(last) == 1 else 2) :])
            return jnp.broadcast_to(one, whole).reshape(-1, *last)

        given = Given(
            flat(positions, count, 3),
            flat(orientations_xyzw, count, 4),
            flat(initial_joint_q, len(self.solver.coordinate_names)),
            flat(offsets, count, POSE),
        )
        return JaxAnswer(*(one.reshape(*batch, *one.shape[1:]) for one in _solve(self, given)))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _solve(own: JaxSolver, given: Given) -> JaxAnswer:
    joint_q, flags = own.calls(given, derives=False)
    return JaxAnswer(joint_q, flags[:, 0] > 0, flags[:, 1] > 0)


def _keep(own: JaxSolver, given: Given) -> tuple[JaxAnswer, tuple[Array, Given]]:
    joint_q, flags, by = own.calls(given, derives=True)
    return JaxAnswer(joint_q, flags[:, 0] > 0, flags[:, 1] > 0), (by, given)


def _pull_back(own: JaxSolver, kept: tuple[Array, Given], by_answer: JaxAnswer) -> tuple[Given]:
    by, given = kept
    positions, orientations, start, offsets = given
    found = pulled_back(jnp, by, by_answer.joint_q, orientations, offsets, len(own.solver.targets))
    by_start = None if start is None else jnp.zeros_like(start)
    return (Given(None if positions is None else found[0], found[1], by_start, found[2]),)


_solve.defvjp(_keep, _pull_back)
