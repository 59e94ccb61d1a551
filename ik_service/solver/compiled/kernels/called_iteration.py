"""Iterations that kernels on a CPU call at their addresses, in modules of their own.

Most of the compiler's time for an island goes into code that does not depend on the kind of its targets: how attempts
begin, how they are judged and kept. A kernel that calls the iteration has only that code, and serves many kinds.
"""

import threading
import typing
from typing import Any
from weakref import WeakValueDictionary

import warp as wp

from ik_service.compiler import IterationSource, cpu_target
from ik_service.solver.compiled.island_task import TaskRef
from ik_service.solver.compiled.kernels.iteration import IterationFunctions
from ik_service.solver.launches.kernel_loading import BLOCK_DIM, load_kernels_alone, unload_with

NUMBERS = {"float32": "float", "float64": "double"}


class KeptKernel:
    """A kernel in a module of its own, which is unloaded when nothing refers to this any more; made by `kept`."""

    def __init__(self, kernel: wp.Kernel) -> None:
        self.kernel = kernel
        self._address = 0
        self._code: Any = None
        unload_with(self, kernel.module)

    def address(self, device: wp.Device) -> int:
        """Return the address that the kernel of `iteration_kernel` writes, which lasts as long as this."""
        if not self._address:
            load_kernels_alone(self.kernel.module, device)
            self._code = self.kernel.module.load(device, block_dim=BLOCK_DIM)  # kept, or Warp might unload the code
            out = wp.zeros(1, dtype=wp.uint64, device=device)
            wp.launch(self.kernel, 1, [out], device=device)
            self._address = int(out.numpy()[0])
        return self._address


_kept: WeakValueDictionary[str, KeptKernel] = WeakValueDictionary()  # by the names of modules, which tell their content
_keeping = threading.Lock()


def kept(kernel: wp.Kernel) -> KeptKernel:
    """Return what keeps a kernel: the same for kernels that are equal, so that none unloads the code of another."""
    with _keeping:
        found = _kept.get(kernel.module.name) or KeptKernel(kernel)
        _kept[kernel.module.name] = found
        return found


def cpu_options() -> dict[str, Any]:
    """Return the options of modules whose kernels run on a CPU."""
    return {"block_dim": BLOCK_DIM, "max_unroll": 1, "enable_backward": False, "cpu_compiler_flags": cpu_target().flags}


@typing.no_type_check
def iteration_kernel(source: IterationSource) -> wp.Kernel:
    """Return the kernel that writes the address of a function, which iterates until a lane has finished."""
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


@typing.no_type_check
def called_iteration(lanes: IterationFunctions) -> Any:
    """Return the function that calls an iteration at the address in the task: (state, iterations, task)."""
    StateRef: Any = lanes.StateRef
    Real: Any = lanes.Real
    function = f"auto (*)(char&, {NUMBERS[lanes.source.lanes.precision]}) -> wp::int32"

    @wp.func_native(f"return (({function})address)((char&)state, iterations);")
    def call(state: StateRef, iterations: Real, address: wp.uint64) -> int: ...

    @wp.func
    def iterate(state: StateRef, iterations: Real, task: TaskRef):
        return call(state, iterations, task.iterate)

    return iterate
