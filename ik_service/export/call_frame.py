"""Working memory of an exported function in C: a struct with all varying arrays, and a step per launch.

Recorded launches become, under a name of their own:

    typedef struct { ... } NAME_frame           its `numbers`, and pointers to arrays with a line per problem
    lay_out_NAME(frame, memory)                 places the arrays not given by the caller
    set_addresses_of_NAME(frame)                sets the addresses in tasks, after all arrays have a place
    NAME_step_0(frame), NAME_step_1(frame) ...  fill the arguments of a kernel and call it
"""

import ctypes
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import warp as wp

from ik_service.export.values import BOUNDS_SIZE, SCALARS, CLayout, Constants, Filler, Place, c_scalar, filled
from ik_service.solver.recorded_launches import RecordedLaunches, RecordedStep


@dataclass(frozen=True)
class FrameArray:
    """An array addressed by a frame."""

    array: "wp.array[Any]"  # the recorded array
    shape: tuple[str, ...]  # c expressions of the varying first dimensions; `n` is the number of problems

    def size(self) -> str:
        """Return the C expression of the array's size in bytes."""
        width = self.array.numpy().size // math.prod(self.array.shape[: len(self.shape)])
        factors = [*self.shape, *([] if width == 1 else [str(width)])]
        return " * ".join([*factors, f"sizeof({c_scalar(self.array)})"])


class CallFrame:
    """The frame of one function."""

    def __init__(
        self,
        name: str,  # part of its names in C
        recorded: RecordedLaunches,
        symbols: Mapping[wp.Kernel, str],  # names of the kernels in the objects
        layout: CLayout,
        constants: Constants,
        further: Mapping[str, FrameArray] | None = None,  # arrays besides the arrays with a line per problem
    ) -> None:
        self._name, self._recorded, self._symbols = name, recorded, symbols
        self._layout, self._constants = layout, constants
        lines = {label: FrameArray(array, ("n",)) for label, array in recorded.lines.items()}
        self._arrays = lines | dict(further or {})
        places: dict[int, Place] = {}
        for label, item in self._arrays.items():
            shape = tuple("(size_t)f->count" if one == "n" else one for one in item.shape)
            places[item.array.ptr] = Place(f"f->{label}", shape)
        numbers = {label: array for label, array in recorded.numbers.items() if array.size > 0}
        places |= {array.ptr: self._number_place(label) for label, array in numbers.items()}
        self._filler = Filler(layout, constants, places)
        self._addresses: list[str] = []
        self._noted: set[int] = set()
        self._numbers = [(c_scalar(array), label, array.numpy().size) for label, array in numbers.items()]
        self._steps = [self._step(k) for k in range(len(recorded.steps))]

    def source(self, given: Collection[str], further: Sequence[str] = ()) -> str:
        """Return structs and functions, with `further` members; the caller brings the `given` arrays."""
        used = {label: item for label, item in self._arrays.items() if self.uses(label)}
        lines = [f"{c_scalar(item.array)} *{label};" for label, item in used.items()]
        pieces = []
        for label, item in used.items():
            if label not in given:
                pieces.append(f"f->{label} = ({c_scalar(item.array)} *)take(memory, &used, {item.size()});")
        structs = self._structs(["int32_t count;", *further, f"{self._name}_numbers numbers;", *lines])
        lay_out = filled("frame/lay_out.c", {"name": self._name, "pieces": "\n".join(indented(pieces))})
        return "\n\n".join([structs, lay_out, self._set_addresses(), *self._steps])

    def uses(self, label: str) -> bool:
        """Return whether an array is a member, because a step uses the array."""
        return f"f->{label}" in self._filler.used

    def calls(self, *phases: str) -> list[str]:
        """Return the statements that run all steps of some phases on a frame `f`."""
        return [f"{self._name}_step_{k}(&f);" for k, step in enumerate(self._recorded.steps) if step.phase in phases]

    def _structs(self, members: Sequence[str]) -> str:
        numbers = "\n".join(indented([f"{kind} {label}[{size}];" for kind, label, size in self._numbers]))
        words = {"name": self._name, "numbers": numbers, "members": "\n".join(indented(members))}
        return filled("frame/structs.c", words)

    def _set_addresses(self) -> str:
        addresses = "\n".join(indented(self._addresses or ["(void)f;"]))
        return filled("frame/set_addresses.c", {"name": self._name, "addresses": addresses})

    def _number_place(self, label: str) -> Place:
        return Place(f"f->numbers.{label}")

    def _step(self, k: int) -> str:
        """Give the function of a step, and register the addresses in its task."""
        step = self._recorded.steps[k]
        for argument, value in zip(step.kernel.adj.args, step.arguments, strict=True):
            if argument.label == "task":
                self._note_addresses(k, value)
        size = step.size or ("(size_t)f->count" if step.per_problem else "1")
        filled = self._filler.fill(step.kernel, self._symbols[step.kernel], step.arguments, size)
        return self._functions_of(k, step, filled)

    def _functions_of(self, k: int, step: RecordedStep, filled: list[str]) -> str:
        """Give the function of a step, with statements for its arguments."""
        return self._function(
            f"{self._name}_step_{k}", [*filled, f"{self._symbols[step.kernel]}_cpu_forward(&bounds, &a);"]
        )

    def _function(self, name: str, body: Sequence[str]) -> str:
        lines = "\n".join(indented(body))
        return f"static void {name}({self._name}_frame *f)\n{{\n{lines}\n}}"

    def _note_addresses(self, k: int, task: Any) -> None:
        """Put a task's addresses, and the line counts of the addressed arrays, into the frame."""
        if not hasattr(task, "source") or task.source.ptr in self._noted:  # proofs read no addresses
            return
        self._noted.add(task.source.ptr)
        addresses, line_counts = task.source.numpy().tolist(), task.source_lines.numpy().tolist()
        if not addresses:
            return
        self._filler.place(task.source, self._number_place(f"source_{k}"))
        self._filler.place(task.source_lines, self._number_place(f"source_lines_{k}"))
        count = len(addresses)
        self._numbers += [("uint64_t", f"source_{k}", count), ("int32_t", f"source_lines_{k}", count)]
        for m, (address, lines) in enumerate(zip(addresses, line_counts, strict=True)):
            if lines == 0:  # an input set by the kernel
                continue
            base, first, rows = self._found(address, lines)
            self._addresses.append(f"f->numbers.source_{k}[{m}] = (uint64_t)(uintptr_t)({base} + {first});")
            self._addresses.append(f"f->numbers.source_lines_{k}[{m}] = {rows};")

    def _found(self, address: int, lines: int) -> tuple[str, int, str]:
        """Give C expressions for an address: array, index, and number of lines of the array."""
        recorded = self._recorded
        for label, array in recorded.lines.items():
            if _holds(array, address):
                self._filler.used.add(f"f->{label}")
                return f"f->{label}", _number_at(array, address), "f->count" if lines == array.shape[0] else str(lines)
        for label, array in recorded.numbers.items():
            if _holds(array, address):
                return self._number_place(label).pointer, _number_at(array, address), str(lines)
        for array in recorded.data:
            if _holds(array, address):
                return self._constants.name(array, "data"), _number_at(array, address), str(lines)
        raise NotImplementedError("A task holds the address of an array of which nothing is known.")


def _holds(array: "wp.array[Any]", address: int) -> bool:
    return array.size > 0 and bool(array.ptr <= address < array.ptr + array.capacity)


def _number_at(array: "wp.array[Any]", address: int) -> int:
    return int(address - array.ptr) // int(array.numpy().itemsize)


def indented(lines: Sequence[str]) -> list[str]:
    """Indent the lines of a body."""
    return [f"    {line}" for line in lines]


CTYPES: dict[str, Any] = {name: kind._type_ for kind, name in SCALARS.items()}
WORD = 8  # bytes, the alignment of arguments


class StoredFrame(CallFrame):
    """The frame of one function without arrays of a line per problem; the caller keeps the frame between calls.

    Further functions: place_NAME(frame) sets all pointers into the frame, and NAME_step_0(frame) calls a kernel on its
    arguments, which the frame holds beside its `numbers` (all varying arrays). A frame may be copied like any struct:
    before each use, `self` is compared with the frame's address, and pointers are set again if they differ.
    """

    def functions_and_structs(self, further: Sequence[tuple[str, str]]) -> tuple[str, int]:
        """Return structs and functions, and the bytes of a frame; `further` are C types and names of more members."""
        count, bounds = len(self._recorded.steps), f"{self._layout.prefix}_bounds"
        kept = [(struct, f"arguments_{k}") for k, struct in enumerate(self._arguments())]
        kept += [(bounds, f"bounds_{k}") for k in range(count)]
        members = [("const void *", "self"), *further, *kept, (f"{self._name}_numbers", "numbers")]
        structs = self._structs([f"{kind} {label};" for kind, label in members])
        fills = [f"{self._name}_fill_{k}(f);" for k in range(count)]
        place = [f"set_addresses_of_{self._name}(f);", *fills, "f->self = f;"]
        text = "\n\n".join([structs, self._set_addresses(), *self._steps, self._function(f"place_{self._name}", place)])
        return text, self._size([kind for kind, _ in further])

    def _size(self, further: Sequence[str]) -> int:
        numbers = [(label, CTYPES[kind] * size) for kind, label, size in self._numbers]
        bytes_kept = sum(self._layout.structs[struct].size + BOUNDS_SIZE for struct in self._arguments())
        return ctypes.sizeof(
            _struct(
                [
                    ("self", ctypes.c_void_p),
                    *((f"further_{k}", CTYPES[kind]) for k, kind in enumerate(further)),
                    ("kept", ctypes.c_uint64 * (bytes_kept // WORD)),
                    ("numbers", _struct(numbers)),
                ]
            )
        )

    def _arguments(self) -> list[str]:
        return [f"{self._symbols[step.kernel]}_arguments" for step in self._recorded.steps]

    def _functions_of(self, k: int, step: RecordedStep, filled: list[str]) -> str:
        symbol = self._symbols[step.kernel]
        fill = self._function(f"{self._name}_fill_{k}", [*filled, f"f->arguments_{k} = a;", f"f->bounds_{k} = bounds;"])
        call = f"{symbol}_cpu_forward(&f->bounds_{k}, &f->arguments_{k});"
        return "\n\n".join([fill, self._function(f"{self._name}_step_{k}", [call])])


def _struct(fields: list[tuple[str, Any]]) -> type[ctypes.Structure]:
    return type("Laid", (ctypes.Structure,), {"_fields_": fields})
