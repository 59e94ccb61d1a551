"""Arguments of kernels as C: statements to fill their structs, and constant arrays as C constants."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.export.structs import SCALARS, CLayout, is_struct

NUMBERS_PER_LINE = 6


@dataclass(frozen=True)
class Place:
    """Location of an array at run time."""

    pointer: str  # c expression of its address
    shape: tuple[str, ...] = ()  # c expressions of the varying first dimensions


class Constants:
    """Constant arrays, each stored once."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, bytes], str] = {}
        self._definitions: list[str] = []

    def name(self, array: "wp.array[Any]", label: str) -> str:
        """Return the name of an array in C; a new name begins with `label`."""
        values, kind = array.numpy(), c_scalar(array)
        key = (kind, values.tobytes())
        if key not in self._names:
            name = f"{label}_{len(self._names)}"
            self._names[key] = name
            texts = c_numbers(values)
            starts = range(0, len(texts), NUMBERS_PER_LINE)
            rows = ",\n    ".join(", ".join(texts[k : k + NUMBERS_PER_LINE]) for k in starts)
            self._definitions.append(f"static const {kind} {name}[{len(texts)}] = {{\n    {rows}\n}};")
        return self._names[key]

    def definitions(self) -> str:
        """Return all definitions in C."""
        return "\n".join(self._definitions)


class Filler:
    """Writer of statements to fill argument structs; `places` are locations of varying arrays, by their address."""

    def __init__(self, layout: CLayout, constants: Constants, places: Mapping[int, Place]) -> None:
        self._layout, self._constants, self._places = layout, constants, dict(places)
        self.used: set[str] = set()

    def place(self, array: "wp.array[Any]", place: Place) -> None:
        """Register the location of a further array."""
        self._places[array.ptr] = place

    def fill(self, kernel: wp.Kernel, symbol: str, arguments: tuple[Any, ...], size: str) -> list[str]:
        """Return the statements that fill the arguments `a` of a kernel and the `bounds` of its launch.

        `symbol` is the kernel's name in the object, `size` the C expression of the launch dimension. A text among the
        recorded arguments is a C expression.
        """
        struct = self._layout.argument_struct(kernel, symbol)
        lines = [
            f"{struct} a;",
            f"{self._layout.prefix}_bounds bounds = bounds_of({size});",
            "memset(&a, 0, sizeof a);",
        ]
        for argument, value in zip(kernel.adj.args, arguments, strict=True):
            written = argument.label.endswith("_out")
            lines += self._fill(f"a.{argument.label}", argument.type, value, written)
        return lines

    def _fill(self, target: str, kind: Any, value: Any, written: bool = False) -> Iterator[str]:
        if isinstance(value, str):
            yield f"{target} = {value};"
        elif wp.types.is_array(kind):
            if value is not None:
                label = target.rpartition(".")[2]
                yield f"{target} = {self._array(value, label, written)};"
        elif is_struct(kind):
            for label, var in kind.vars.items():
                yield from self._fill(f"{target}.{label}", var.type, getattr(value, label))
        elif value != 0:
            yield f"{target} = {c_number(value, SCALARS[kind])};"

    def _array(self, array: "wp.array[Any]", label: str, written: bool) -> str:
        item = wp.types.type_size_in_bytes(array.dtype)
        shape = [str(n) for n in array.shape]
        if not array.is_contiguous or len(shape) > 3:
            raise NotImplementedError(
                f"An array of shape {array.shape} and strides {array.strides} cannot be exported."
            )
        if array.size == 0:
            pointer = "NULL"
        elif array.ptr in self._places:
            place = self._places[array.ptr]
            pointer = place.pointer
            self.used.add(pointer)
            shape[: len(place.shape)] = place.shape
        elif written:
            raise NotImplementedError("A kernel writes to an array of which nothing is known.")
        else:
            pointer = self._constants.name(array, label)
        padded = shape + ["1"] * (3 - len(shape))
        return f"array_of({pointer}, {item}, {len(shape)}, {', '.join(padded)})"


def c_scalar(array: "wp.array[Any]") -> str:
    """Return the C type of an array's numbers; elements may be vectors."""
    return SCALARS[wp.dtype_from_numpy(array.numpy().dtype)]


def c_numbers(values: NDArray[Any]) -> list[str]:
    """Return the numbers of an array in C."""
    kind = SCALARS[wp.dtype_from_numpy(values.dtype)]
    return [c_number(value, kind) for value in np.asarray(values).reshape(-1).tolist()]


def c_number(value: Any, kind: str) -> str:
    """Return a number in C of a C type, exactly."""
    if kind not in ("float", "double"):
        suffix = {"uint32_t": "u", "uint64_t": "u"}.get(kind, "")
        return f"{int(value)}{suffix}"
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    digits, _, exponent = float(value).hex().partition("p")
    return f"{digits.rstrip('0').rstrip('.')}p{exponent}" + ("f" if kind == "float" else "")


def c_string(text: str) -> str:
    """Return a text as a C literal."""
    escaped = json.dumps(text)[1:-1].replace("?", "\\?")  # no trigraphs
    if not escaped.isascii() or "\\u" in escaped:
        escaped = "".join(f"\\{byte:03o}" for byte in text.encode())
    return f'"{escaped}"'


def c_comment(text: str) -> str:
    """Make a text safe inside a C comment."""
    return (
        "".join(c if c.isprintable() and c.isascii() else "?" for c in text).replace("*/", "* /").replace("/*", "/ *")
    )
