"""What the tests of the compiler share: states that pass through native text."""

import functools
import typing
from typing import Any

import numpy as np
import warp as wp

from ik_service.compiler import Lanes
from ik_service.compiler.half_angle import FLOAT32_ERROR, FLOAT64_ERROR

WIDTHS = [Lanes(8), Lanes(4, "float64"), Lanes(1), Lanes(1, "float64")]


def lanes_name(lanes):
    return f"{lanes.precision} x {lanes.width}"


def half_angle_error(lanes):
    return FLOAT32_ERROR if lanes.precision == "float32" else FLOAT64_ERROR


def real(lanes):
    return wp.float32 if lanes.precision == "float32" else wp.float64


@functools.cache
@typing.no_type_check
def native_kernel(text, lanes, places):
    """A kernel that runs native text once on each group of lanes: states [groups, places x width]."""
    Real: Any = real(lanes)
    SIZE = places * lanes.width
    State: Any = wp.types.vector(SIZE, Real)
    StateRef: Any = wp.ref[State]

    @wp.func_native(text)
    def run(state: StateRef, iterations: Real) -> bool: ...

    @wp.kernel(module="unique", enable_backward=False, module_options={"max_unroll": 1})
    def run_groups(values: wp.array2d[Real], iterations: Real, returned: wp.array[wp.int32]):
        i = wp.tid()
        state = State()
        for k in range(SIZE):
            state[k] = values[i, k]
        returned[i] = wp.int32(run(state, iterations))
        for k in range(SIZE):
            values[i, k] = state[k]

    return run_groups


def through_native(text, lanes, states, iterations=0.0):
    """Run native text once on every group of lanes.

    Args:
        text: Body of `bool run(State& state, Real iterations)`.
        lanes: Width and precision.
        states: A state for every lane, [n, places]; n is a multiple of the width.
        iterations: The second argument.

    Returns:
        States after it in float64, [n, places], and what it returned for each group, [n / width].
    """
    n, places = states.shape
    assert n % lanes.width == 0
    groups = states.reshape(-1, lanes.width, places).transpose(0, 2, 1).reshape(-1, places * lanes.width)
    values = wp.array(np.ascontiguousarray(groups, lanes.precision), dtype=real(lanes), device="cpu")
    returned = wp.zeros(len(groups), dtype=wp.int32, device="cpu")
    kernel, inputs = native_kernel(text, lanes, places), [values, real(lanes)(iterations)]
    wp.launch(kernel, dim=len(groups), inputs=inputs, outputs=[returned], device="cpu")
    after = values.numpy().reshape(-1, places, lanes.width).transpose(0, 2, 1).reshape(n, places)
    return after.astype(np.float64), returned.numpy().astype(bool)
