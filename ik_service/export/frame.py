"""What a function of an export works on, in C: a struct with all arrays that change, and a step for every launch.

This knows nothing of solves. Whatever is recorded as launches becomes, under a name of its own:

    typedef struct { ... } NAME_frame           arrays with a line for every problem, and arrays of a few numbers
    lay_out_NAME(frame, memory)                 gives those a place that the caller does not bring
    NAME_step_0(frame), NAME_step_1(frame) ...  fill the arguments of a kernel and call it
"""

from collections.abc import Collection, Mapping
from string import Template
from typing import Any

import warp as wp

from ik_service.export.c_layout import CLayout
from ik_service.export.c_values import Constants, Filler, Place, c_scalar
from ik_service.solver.recorded_launches import RecordedLaunches

TAKE = """\
/* The next piece of the workspace, or, to see how large it is, nothing. */
static void *take(char *memory, size_t *used, size_t bytes)
{
    size_t at = *used;
    *used = at + (bytes + 63) / 64 * 64;
    return memory == NULL ? NULL : memory + at;
}"""
LAY_OUT = Template("""\
static size_t lay_out_${name}(${name}_frame *f, char *memory)
{
    size_t n = (size_t)f->count, used = 0;
$pieces
    return used;
}""")


class Frame:
    """The frame of one function.

    Args:
        name: What its names in C hold.
        recorded: The launches.
        symbols: Names of the kernels in the objects.
        layout: Where structs are declared.
        constants: Where constants are kept.

    Attributes:
        addresses: Statements that set the addresses that tasks hold, for a frame `f`, once all arrays have a place.
    """

    def __init__(
        self,
        name: str,
        recorded: RecordedLaunches,
        symbols: Mapping[wp.Kernel, str],
        layout: CLayout,
        constants: Constants,
    ) -> None:
        self._name, self._recorded, self._symbols, self._constants = name, recorded, symbols, constants
        places = {array.ptr: Place(f"f->{label}", "(size_t)f->count") for label, array in recorded.lines.items()}
        places |= {array.ptr: Place(f"f->{label}") for label, array in recorded.numbers.items()}
        self._filler = Filler(layout, constants, places)
        self.addresses: list[str] = []
        self._members = [f"{c_scalar(array)} {label}[{array.size}];" for label, array in recorded.numbers.items()]
        self._steps = [self._step(k) for k in range(len(recorded.steps))]

    def source(self, given: Collection[str]) -> str:
        """Return struct and functions.

        Args:
            given: Arrays that the caller brings.
        """
        used = {label: array for label, array in self._recorded.lines.items() if f"f->{label}" in self._filler.used}
        lines = [f"{c_scalar(array)} *{label};" for label, array in used.items()]
        members = "\n".join(indented(["int32_t count;", *self._members, *lines]))
        frame = f"typedef struct {{\n{members}\n}} {self._name}_frame;"
        pieces = []
        for label, array in used.items():
            if label not in given:
                kind, width = c_scalar(array), array.size // array.shape[0]
                size = "n" if width == 1 else f"n * {width}"
                pieces.append(f"f->{label} = ({kind} *)take(memory, &used, {size} * sizeof({kind}));")
        lay_out = LAY_OUT.substitute(name=self._name, pieces="\n".join(indented(pieces)))
        return "\n\n".join([frame, lay_out, *self._steps])

    def calls(self, *phases: str) -> list[str]:
        """Return the statements that run all steps of some phases on a frame `f`."""
        steps = enumerate(self._recorded.steps)
        return [f"{self._name}_step_{k}(&f);" for k, step in steps if step.phase in phases]

    def _step(self, k: int) -> str:
        """The function of a step; notes the addresses that its task holds."""
        step = self._recorded.steps[k]
        for argument, value in zip(step.kernel.adj.args, step.arguments, strict=True):
            if argument.label == "task":
                self._note_addresses(k, value)
        size = "(size_t)f->count" if step.per_problem else "1"
        body = self._filler.call(step.kernel, self._symbols[step.kernel], step.arguments, size)
        return f"static void {self._name}_step_{k}({self._name}_frame *f)\n{{\n{body}\n}}"

    def _note_addresses(self, k: int, task: Any) -> None:
        """Give a task's addresses, and whether there is a line for every problem behind them, a place in the frame."""
        addresses, line_counts = task.source.numpy().tolist(), task.source_lines.numpy().tolist()
        if not addresses:
            return
        self._filler.place(task.source, Place(f"f->source_{k}"))
        self._filler.place(task.source_lines, Place(f"f->source_lines_{k}"))
        count = len(addresses)
        self._members += [f"uint64_t source_{k}[{count}];", f"int32_t source_lines_{k}[{count}];"]
        for m, (address, lines) in enumerate(zip(addresses, line_counts, strict=True)):
            base, first, rows = self._found(address, lines)
            self.addresses.append(f"f.source_{k}[{m}] = (uint64_t)(uintptr_t)({base} + {first});")
            self.addresses.append(f"f.source_lines_{k}[{m}] = {rows};")

    def _found(self, address: int, lines: int) -> tuple[str, int, str]:
        """C expressions of the array that an address lies in, its place there, and the array's lines."""
        named = [*self._recorded.lines.items(), *(("", array) for array in self._recorded.data)]
        for label, array in named:
            if array.ptr <= address < array.ptr + array.capacity:
                first = (address - array.ptr) // array.numpy().itemsize
                if label:
                    self._filler.used.add(f"f->{label}")
                    return f"f.{label}", first, "f.count"
                return self._constants.name(array, "data"), first, str(lines)
        raise NotImplementedError("A task holds the address of an array of which nothing is known.")


def indented(lines: list[str]) -> list[str]:
    """Return lines of a body."""
    return [f"    {line}" for line in lines]
