"""SIMD lanes: width and precision of generated arithmetic, and C++ of operations on packets.

A SIMD packet holds one number of several unrelated solves, one per SIMD lane of a vector register. Clang has vector
types with operators, and a plain float is a packet of width 1, also for CUDA: the same text serves all widths, except
for the few functions here.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ik_service.compiler.code.cpu_targets import cpu_target

Precision = Literal["float32", "float64"]
BYTES = {"float32": 4, "float64": 8}


@dataclass(frozen=True)
class Lanes:
    """Width and precision of a SIMD packet `F`."""

    width: int  # SIMD lanes; 1 for CUDA
    precision: Precision = "float32"

    @classmethod
    def on_cpu(cls, precision: Precision = "float32") -> "Lanes":
        """Return the lanes of the CPU target."""
        return cls(cpu_target().register // BYTES[precision], precision)

    @property
    def rounding(self) -> float:
        """Distance from 1 to the next float."""
        return float(np.finfo(self.precision).eps)

    def prologue(self) -> list[str]:
        """Write the first lines of a block: types of a packet in a register and in memory."""
        scalar = "float" if self.precision == "float32" else "double"
        # lets products and sums of different statements fuse to FMA on CPUs
        lines = ["#ifdef __clang__", "#pragma clang fp contract(fast)", "#endif"]
        if self.width == 1:
            return [*lines, f"typedef {scalar} F;", "typedef F U;"]
        size = self.width * BYTES[self.precision]
        aligned = f"typedef {scalar} F __attribute__((vector_size({size})));"
        return [*lines, aligned, f"typedef F U __attribute__((aligned({BYTES[self.precision]})));"]

    def number(self, value: float) -> str:
        """Write a number; next to a packet, the compiler broadcasts the number."""
        if self.precision == "float64":
            return f"({value!r})"
        text = repr(float(np.float32(value)))  # equal roundings have equal text
        return f"({text}f)"

    def everywhere(self, text: str) -> str:
        """Write a broadcast number, for places that need a packet, such as sides of a choice."""
        return f"(F{{}} + {text})"

    def sqrt(self, text: str) -> str:
        """Write a square root."""
        return f"__builtin_elementwise_sqrt({text})" if self.width > 1 else self._scalar_function("sqrt", text)

    def nearest(self, text: str) -> str:
        """Write rounding to the nearest integer."""
        return f"__builtin_elementwise_roundeven({text})" if self.width > 1 else self._scalar_function("rint", text)

    def floor(self, text: str) -> str:
        """Write rounding down."""
        return f"__builtin_elementwise_floor({text})" if self.width > 1 else self._scalar_function("floor", text)

    def any(self, text: str) -> str:
        """Write a test: the condition holds in any lane."""
        return f"(__builtin_reduce_or({text}) != 0)" if self.width > 1 else f"({text})"

    def bits(self, text: str) -> str:
        """Write the bit mask of lanes in which a condition holds; lane 0 is the lowest bit."""
        if self.width == 1:
            return f"(int)({text})"
        each = ", ".join(str(1 << lane) for lane in range(self.width))
        return f"[](auto holds) {{ return (int)__builtin_reduce_or(holds & decltype(holds){{{each}}}); }}({text})"

    def both(self, first: str, second: str) -> str:
        """Write the conjunction of two conditions, lane by lane."""
        return f"(({first}) & ({second}))"

    def either(self, first: str, second: str) -> str:
        """Write the disjunction of two conditions, lane by lane."""
        return f"(({first}) | ({second}))"

    def choose(self, condition: str, first: str, second: str) -> str:
        """Write a choice, lane by lane: the first packet if a condition holds, else the second."""
        return f"({condition} ? {first} : {second})"

    def _scalar_function(self, name: str, text: str) -> str:
        return f"{name}{'f' if self.precision == 'float32' else ''}({text})"
