"""Iterations in modules of their own, called by CPU kernels at their addresses.

Most of the compiler's time for an island goes into code common to all kinds of targets: starts of attempts, and ranking
and storage of answers. A kernel with a called iteration contains only this code, and serves many kinds.
"""

import typing
from typing import Any

import warp as wp

from ik_service.compiler import IterationSource, cpu_target
from ik_service.kernels.kernel_loading import BLOCK_DIM, load_kernels_alone
from ik_service.solver.compiled.island_task import TaskRef
from ik_service.solver.compiled.iteration import IterationFunctions

NUMBERS = {"float32": "float", "float64": "double"}


def cpu_options() -> dict[str, Any]:
    """Return the options of modules with kernels for a CPU."""
    return {"block_dim": BLOCK_DIM, "max_unroll": 1, "enable_backward": False, "cpu_compiler_flags": cpu_target().flags}


@typing.no_type_check
def iteration_kernel(source: IterationSource) -> wp.Kernel:
    """Return a kernel whose output is the address of a function; the function iterates until a lane has finished."""
    number = NUMBERS[source.lanes.precision]
    text = f"""
    struct State {{ {number} numbers[{source.state.size * source.lanes.width}]; }};
    const auto iterate = [](State& state, {number} iterations) -> wp::int32 {{
        const auto once = [](State& state, {number} iterations) -> wp::int32 {{{source.text()}}};
        wp::int32 finished = 0;
        while (finished == 0) finished = once(state, iterations);
        return finished;
    }};
    return (wp::uint64)(auto (*)(State&, {number}) -> wp::int32)iterate;"""

    @wp.func_native(text)
    def address() -> wp.uint64: ...

    @wp.kernel(module="unique", enable_backward=False, module_options=cpu_options())
    def iteration(out: wp.array[wp.uint64]):
        out[0] = address()

    return iteration


def address_of(kernel: wp.Kernel, device: wp.Device) -> tuple[int, Any]:
    """Return the address from an `iteration_kernel`, and the code: the address lasts while the code is kept."""
    load_kernels_alone(kernel.module, device)
    code = kernel.module.load(device, block_dim=BLOCK_DIM)
    out = wp.zeros(1, dtype=wp.uint64, device=device)
    wp.launch(kernel, 1, [out], device=device)
    return int(out.numpy()[0]), code


@typing.no_type_check
def called_iteration(lanes: IterationFunctions) -> Any:
    """Return a function that calls the iteration at the address in the task: (state, iterations, task)."""
    StateRef: Any = lanes.StateRef
    Real: Any = lanes.Real
    function = f"auto (*)(char&, {NUMBERS[lanes.source.lanes.precision]}) -> wp::int32"

    @wp.func_native(f"return (({function})address)((char&)state, iterations);")
    def call(state: StateRef, iterations: Real, address: wp.uint64) -> int: ...

    @wp.func
    def iterate(state: StateRef, iterations: Real, task: TaskRef):
        return call(state, iterations, task.iterate)

    return iterate
