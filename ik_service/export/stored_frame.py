"""A frame of fixed size, kept by the caller between calls, with the arguments of all kernels.

    typedef struct { ... } NAME_frame           its `numbers` (all varying arrays) and the arguments
    place_NAME(frame)                           sets all pointers into the frame
    NAME_step_0(frame), NAME_step_1(frame) ...  call a kernel on its arguments

A frame may be copied like any struct: before each use, `self` is compared with the frame's address, and pointers are
set
again if they differ.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

from ik_service.export.call_frame import CallFrame
from ik_service.export.structs import BOUNDS_SIZE, SCALARS
from ik_service.solver.recorded_launches import RecordedStep

CTYPES: dict[str, Any] = {name: kind._type_ for kind, name in SCALARS.items()}
WORD = 8  # bytes, the alignment of arguments


class StoredFrame(CallFrame):
    """The frame of one function without arrays of a line per problem: all arrays are in `numbers`."""

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
        """Give the structs of the arguments of all steps."""
        return [f"{self._symbols[step.kernel]}_arguments" for step in self._recorded.steps]

    def _functions_of(self, k: int, step: RecordedStep, filled: list[str]) -> str:
        symbol = self._symbols[step.kernel]
        fill = self._function(f"{self._name}_fill_{k}", [*filled, f"f->arguments_{k} = a;", f"f->bounds_{k} = bounds;"])
        call = f"{symbol}_cpu_forward(&f->bounds_{k}, &f->arguments_{k});"
        return "\n\n".join([fill, self._function(f"{self._name}_step_{k}", [call])])


def _struct(fields: list[tuple[str, Any]]) -> type[ctypes.Structure]:
    return type("Laid", (ctypes.Structure,), {"_fields_": fields})
