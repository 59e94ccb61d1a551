"""The call of a solver out of a program of JAX, through Warp's handler of XLA's foreign functions."""

from typing import Any, NamedTuple, Protocol
from weakref import ref

import jax.numpy as jnp
import numpy as np
import warp as wp
from jax import Array
from warp import JaxCallableGraphMode, jax_callable

from ik_service.derived_solve import POSE, derived_solve, rates_shape
from ik_service.solver import IKSolver
from objectives.errors import InputError


class Given(NamedTuple):
    """What a solve is given, with one axis of problems, n.

    Attributes:
        positions: Shape [n, targets, 3]; None where they are free.
        orientations_xyzw: Alike, with 4.
        start: Where to start, shape [n, coordinates]; None for the solver's own.
        offsets: Tool frames, shape [n, targets, 7]; None for those that the solver has.
    """

    positions: Array | None
    orientations_xyzw: Array | None
    start: Array | None
    offsets: Array | None


class ForeignSolve(Protocol):
    """Solves in a program of JAX."""

    def __call__(self, given: Given, *, derives: bool) -> tuple[Array, ...]:
        """Give configurations, flags [n, 2] and, if asked, derivatives [n, coordinates, poses, 6].

        The flags are success and whether an answer has derivatives.
        """


def foreign_solve(solver: IKSolver) -> ForeignSolve:
    """Return the call of a solver, which it does not keep alive: Warp keeps what JAX calls for ever."""
    known, tail = ref(solver), rates_shape(solver, 0)[1:]
    coordinates, targets = len(solver.coordinate_names), len(solver.targets)
    widths = (targets, 3), (targets, 4), (coordinates,), (targets, POSE)
    made: dict[tuple[str, bool], Any] = {}

    def call(given: Given, *, derives: bool) -> tuple[Array, ...]:
        some = next(one for one in given if one is not None)
        n, key = len(some), (some.dtype.name, derives)
        if key not in made:
            made[key] = _callable(known, *key)
        pairs = zip(given, widths, strict=True)
        arrays = [jnp.zeros((n, *width), some.dtype) if one is None else one for one, width in pairs]
        shapes: dict[str, tuple[int, ...]] = {"joint_q": (n, coordinates), "flags": (n, 2)}
        shapes |= {"rates": (n, *tail)} if derives else {}
        which = sum(1 << k for k, one in enumerate(given) if one is not None)
        return tuple(made[key](*arrays, which, output_dims=shapes))

    return call


def _callable(known: "ref[IKSolver]", dtype: str, derives: bool) -> Any:
    """Return the function that JAX calls, for one type of numbers.

    Raises:
        InputError: There is no code for this type.
    """
    numbers: dict[str, Any] = {"float32": wp.float32, "float64": wp.float64}
    if dtype not in numbers:
        raise InputError(f"Targets are of type {dtype}. Allowed: {', '.join(numbers)}.")
    number = numbers[dtype]
    matrix, block, tensor = list[Any](wp.array(dtype=number, ndim=ndim) for ndim in (2, 3, 4))
    given = dict(
        zip(("positions", "orientations_xyzw", "start", "offsets"), (block, block, matrix, block), strict=True)
    )
    found = {"joint_q": matrix, "flags": wp.array(dtype=wp.int32, ndim=2)}

    def solve(positions: Any, orientations_xyzw: Any, start: Any, offsets: Any, which: Any, *out: Any) -> None:
        arrays = (positions, orientations_xyzw, start, offsets)
        some = [one.numpy() if which >> k & 1 else None for k, one in enumerate(arrays)]
        solver = known()
        if solver is None:
            raise InputError("The solver of this program is gone. Keep its JaxSolver for as long as programs call it.")
        answer = derived_solve(solver, *some, derives=derives)
        flags = np.stack([answer.success, answer.is_differentiable], axis=1)
        for array, values in zip(out, (answer.joint_q, flags, answer.rates), strict=False):
            array.assign(np.ascontiguousarray(values, dtype=wp.dtype_to_numpy(array.dtype)))

    # Warp reads names and types of the arguments; the types stand below, since they depend on the numbers.
    def solve_alone(
        positions: Any, orientations_xyzw: Any, start: Any, offsets: Any, which: Any, joint_q: Any, flags: Any
    ) -> None:
        solve(positions, orientations_xyzw, start, offsets, which, joint_q, flags)

    def solve_and_derive(
        positions: Any,
        orientations_xyzw: Any,
        start: Any,
        offsets: Any,
        which: Any,
        joint_q: Any,
        flags: Any,
        rates: Any,
    ) -> None:
        solve(positions, orientations_xyzw, start, offsets, which, joint_q, flags, rates)

    function: Any = solve_and_derive if derives else solve_alone
    function.__annotations__ = {**given, "which": int, **found, **({"rates": tensor} if derives else {})}
    return jax_callable(function, num_outputs=3 if derives else 2, graph_mode=JaxCallableGraphMode.NONE)
