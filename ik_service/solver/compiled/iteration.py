"""The state of lanes and its iteration, as functions for kernels, contained in a kernel or called at its address.

The functions are made per program, because the program sets the size of a state. They serve packets and single lanes:
place k of lane l is at `k * width + l` of the state.

Most of the compiler's time for an island goes into code common to all kinds of targets: starts of attempts, and ranking
and storage of answers. A kernel with a called iteration contains only this code, and serves many kinds.
"""

import typing
from collections.abc import Sequence
from typing import Any

import warp as wp

from ik_service.compiler import IslandProgram, IterationSource, Lanes, coordinate_names, cpu_target
from ik_service.kernels.kernel_loading import BLOCK_DIM, load_kernels_alone
from ik_service.kernels.typed_warp import reference_to
from ik_service.solver.compiled.island_task import TaskRef
from ik_service.solver.lm.damping import DAMPING, LEVEL_DAMPING, OBJECTIVE_DAMPING

SHARING_DOFS = 16  # largest island with a called iteration; larger iterations dominate compile time
POSE_INPUTS = 3 + 4 + 6  # of a whole pose: position, quaternion, weights


def iteration_of(program: IslandProgram, lanes: Lanes, entries_max: float, *, data_columns: int = 0) -> IterationSource:
    """Return the iteration of an island; `entries_max` and `data_columns` as in `IterationSource`."""
    has_target = bool(program.errors)
    damping = DAMPING if has_target else OBJECTIVE_DAMPING
    if has_target and program.level_norms2:
        damping = LEVEL_DAMPING
    padded = lanes.width > 1 and len(program.dofs) <= SHARING_DOFS and not is_plain(program)
    padded = padded and program.row_error2 is None and not program.level_norms2
    given = (program, lanes, damping, data_columns)
    return IterationSource(*given, with_hessian=not has_target, entries_max=entries_max, padded=padded)


def is_plain(program: IslandProgram) -> bool:
    """Return whether an island has only targets of whole poses, without offsets and free axes."""
    whole = all(one.position2 is not None and one.chord2 is not None for one in program.errors)
    return bool(program.errors) and whole and len(program.inputs) == POSE_INPUTS * len(program.errors)


class IterationFunctions:
    """The state of lanes and its iteration, for use in kernels."""

    further_places = 0  # of a lane's state, behind those of the iteration

    def __init__(self, source: IterationSource) -> None:
        self.source = source
        self.Real: Any = wp.float32 if source.lanes.precision == "float32" else wp.float64  # type of a number
        # type of a state
        self.State: Any = wp.types.vector((source.state.size + self.further_places) * source.lanes.width, self.Real)
        self.StateRef: Any = reference_to(self.State)  # type of a reference to one
        self._define_state()

    @typing.no_type_check
    def _define_state(self) -> None:
        StateRef: Any = self.StateRef
        Real: Any = self.Real
        text = self.source.text()

        if self.source.data_columns > 0:

            @wp.func_native(text)
            def iterate(state: StateRef, iterations: Real, data: wp.array3d[Real], lane: int) -> int: ...
        else:

            @wp.func_native(text)
            def iterate(state: StateRef, iterations: Real) -> int: ...

        @wp.func_native("return state.c[place];")  # an index on a reference would first copy the whole state
        def at(state: StateRef, place: int) -> Real: ...

        # iterate: lanes finished after one more iteration, as bits: (state, iterations); with separate data:
        # (state, iterations, data, lane)
        # at: a number of a state: (state, place)
        self.iterate, self.at = iterate, at


def integers(values: Sequence[int]) -> Any:
    """Return whole numbers as a constant for kernels, at least one."""
    padded = [*values, 0][: max(len(values), 1)]
    return wp.types.vector(len(padded), int)(*padded)


def coordinate_places(program: IslandProgram) -> Any:
    """Return a constant for kernels: the place of each DOF's coordinate; of a rotation's second and third DOF: -1."""
    active = [a for a, _ in coordinate_names(program)]
    return wp.types.vector(len(program.dofs), int)(*(active.index(a) if a in active else -1 for a in program.dofs))


def rotation_bits(program: IslandProgram) -> int:
    """Return a constant for kernels: the bits of the first DOFs of rotations with a quaternion."""
    return sum(1 << k for k, a in enumerate(program.dofs) if a in program.quaternions)


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
