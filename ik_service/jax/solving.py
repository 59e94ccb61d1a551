"""A solver as a function of JAX.

arrays -> a call through XLA's foreign functions, which solves and, where gradients are wanted, linearises
-> configurations, and what gradients need, so that the way back is arithmetic of JAX

`jax.jit`, `jax.vmap` and `jax.grad` know it. The call has no derivative itself: a second one is refused.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ik_service.derived_solve import POSE, batch_axes
from ik_service.jax.foreign_call import Given, foreign_solve
from ik_service.solver import IKSolver
from objectives.errors import InputError


class JaxAnswer(NamedTuple):
    """Answers of a solve.

    Attributes:
        joint_q: Configurations, shape [*batch, coordinates], of the type of the targets.
        success: Whether all targets are met, bool [*batch].
        is_differentiable: Whether an answer has a gradient, bool [*batch]; where it has none, that is zero. All are
            False where no gradient is wanted.
    """

    joint_q: Array
    success: Array
    is_differentiable: Array


class JaxSolver:
    """Solves for targets that are arrays of JAX, with gradients.

    A gradient is that of the minimum that an answer is, as it moves with its targets; that it is found from a start
    plays no part, so configurations to start from have none. It is computed on the host in float64.

    Args:
        solver: The solver; it is used by one thread at a time.
    """

    def __init__(self, solver: IKSolver) -> None:
        self.solver = solver
        self.calls = jax.jit(foreign_solve(solver), static_argnames=("derives",))  # each trace of it stays in memory

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
                them free.
            orientations_xyzw: Unit quaternions, alike with 4. Their gradient is tangent to the unit sphere.
            initial_joint_q: Where to start, shape [*batch, coordinates] or one that broadcasts to it.
            offsets: Tool frames, shape [*batch, 7], [*batch, targets, 7] for several, or one that broadcasts to it; all
                targets have been declared with one. None: those of the solver.

        Raises:
            InputError: No targets, or of a wrong shape. Values are checked where the program runs: what is wrong with
                them is in the error of JAX.
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
    """Give gradients by the inputs from that by configurations."""
    by, given = kept
    rates = jnp.einsum("ncpk,nc->npk", by, by_answer.joint_q)
    of_targets, of_tools = jnp.split(rates, [len(own.solver.targets)], axis=1)
    positions, orientations, start, offsets = given
    by_offsets = None
    if offsets is not None:
        turned = _by_quaternion(of_tools[..., 3:], offsets[..., 3:])
        by_offsets = jnp.concatenate([of_tools[..., :3], turned], axis=-1)
    return (
        Given(
            None if positions is None else of_targets[..., :3],
            None if orientations is None else _by_quaternion(of_targets[..., 3:], orientations),
            None if start is None else jnp.zeros_like(start),
            by_offsets,
        ),
    )


def _by_quaternion(by_rotation: Array, q_xyzw: Array) -> Array:
    """Give a gradient by a quaternion q from that by the rotation vector w of exp(w) q: 2 (w, 0) q / |q|^2."""
    w, vector, scalar = by_rotation, q_xyzw[..., :3], q_xyzw[..., 3:]
    imaginary = scalar * w + jnp.cross(w, vector)
    found = jnp.concatenate([imaginary, -(w * vector).sum(axis=-1, keepdims=True)], axis=-1)
    return 2.0 * found / (q_xyzw * q_xyzw).sum(axis=-1, keepdims=True)


_solve.defvjp(_keep, _pull_back)
