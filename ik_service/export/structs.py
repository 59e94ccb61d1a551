"""Structs of Warp kernels in C: their argument lists, the structs in these, and Warp's arrays.

The layout is taken from Warp itself: members and their order from its argument lists and structs, sizes from its
ctypes. It belongs to the release of Warp that compiles the kernels: after a change of Warp, export again.
"""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import warp as wp

from ik_service.export.template_files import filled

SCALARS: dict[Any, str] = {
    wp.bool: "uint8_t",
    wp.int8: "int8_t",
    wp.uint8: "uint8_t",
    wp.int16: "int16_t",
    wp.uint16: "uint16_t",
    wp.int32: "int32_t",
    wp.uint32: "uint32_t",
    wp.int64: "int64_t",
    wp.uint64: "uint64_t",
    wp.float32: "float",
    wp.float64: "double",
}
"""C types of Warp's numbers."""
BOUNDS_SIZE = 24  # bytes


@dataclass(frozen=True)
class CStruct:
    """A C struct that has the layout of one of Warp's.

    Attributes:
        name: Its name in C.
        native_name: Its name in the C++ that Warp generates.
        members: C types and names.
        size: Bytes, as Warp has it.
    """

    name: str
    native_name: str
    members: tuple[tuple[str, str], ...]
    size: int

    def declaration(self) -> str:
        """Return it in C, with a check of its size at compile time."""
        lines = [f"    {kind} {name};" for kind, name in self.members]
        check = f"typedef char {self.name}_has_its_size[sizeof({self.name}) == {self.size} ? 1 : -1];"
        return "\n".join(["typedef struct {", *lines, f"}} {self.name};", check])


class CLayout:
    """The structs of a program's kernels.

    Args:
        prefix: What all names begin with.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.structs: dict[str, CStruct] = {}
        self._array: type[ctypes.Structure] = type(wp.empty(1, dtype=wp.int32, device="cpu").__ctype__())

    def argument_struct(self, kernel: wp.Kernel, symbol: str) -> str:
        """Return the name of the struct with the arguments of a kernel.

        Args:
            kernel: The kernel.
            symbol: Its name in the object.
        """
        members = tuple((argument.label, argument.type) for argument in kernel.adj.args)
        return self._declare(f"{symbol}_arguments", f"wp_args_{symbol}", members)

    def c_type(self, kind: Any) -> str:
        """Return the C type of an argument or a struct's member.

        Raises:
            NotImplementedError: Kernels with such arguments cannot be exported.
        """
        if wp.types.is_array(kind):
            return f"{self.prefix}_array"
        if is_struct(kind):
            members = tuple((label, var.type) for label, var in kind.vars.items())
            return self._declare(f"{self.prefix}_{kind.key}", kind.native_name, members)
        if kind in SCALARS:
            return SCALARS[kind]
        raise NotImplementedError(f"Arguments of type {kind} cannot be exported.")

    def declarations(self) -> str:
        """Return all structs in C, each after those in it."""
        arrays = filled("arrays.c", {"prefix": self.prefix})
        sizes = {"array": ctypes.sizeof(self._array), "bounds": BOUNDS_SIZE}
        checks = [
            f"typedef char {self.prefix}_{name}_has_its_size[sizeof({self.prefix}_{name}) == {size} ? 1 : -1];"
            for name, size in sizes.items()
        ]
        return "\n\n".join(["\n".join([arrays, "", *checks]), *(one.declaration() for one in self.structs.values())])

    def _declare(self, name: str, native_name: str, members: tuple[tuple[str, Any], ...]) -> str:
        if name not in self.structs:
            typed = tuple((self.c_type(kind), label) for label, kind in members)
            fields = [(label, self._ctype(kind)) for label, kind in members]
            laid_out = type(name, (ctypes.Structure,), {"_fields_": fields})
            self.structs[name] = CStruct(name, native_name, typed, ctypes.sizeof(laid_out))
        return name

    def _ctype(self, kind: Any) -> Any:
        if wp.types.is_array(kind):
            return self._array
        return kind.ctype if is_struct(kind) else kind._type_


def is_struct(kind: Any) -> bool:
    """Return whether a type is a Warp struct."""
    return hasattr(kind, "native_name") and hasattr(kind, "vars")


def structs_in(kinds: Iterator[Any]) -> Iterator[Any]:
    """Yield all Warp structs among types and in these."""
    for kind in kinds:
        if is_struct(kind):
            yield kind
            yield from structs_in(var.type for var in kind.vars.values())
