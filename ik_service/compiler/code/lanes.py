"""Lanes: how wide a number of the generated arithmetic is, and its source in C++.

A packet holds the same number of several unrelated solves side by side, as many as a vector register has lanes. Clang
gives vector types the operators of numbers, and a plain float is a packet of width 1, which CUDA compiles too: so the
same text serves all widths, but for the few functions here.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ik_service.compiler.code.cpu_targets import cpu_target

Precision = Literal["float32", "float64"]
BYTES = {"float32": 4, "float64": 8}


@dataclass(frozen=True)
class Lanes:
    """The width and precision of a packet `F`."""

    width: int  # lanes; 1 for CUDA
    precision: Precision = "float32"  # of every lane

    @classmethod
    def on_cpu(cls, precision: Precision = "float32") -> "Lanes":
        """Return the lanes of the packets that this machine's code is made for."""
        return cls(cpu_target().register // BYTES[precision], precision)

    @property
    def rounding(self) -> float:
        """Distance from 1 to the next number."""
        return float(np.finfo(self.precision).eps)

    def prologue(self) -> list[str]:
        """Lines at the beginning of a block: the types of a packet in a register and in memory."""
        scalar = "float" if self.precision == "float32" else "double"
        # Products and sums of different statements may fuse; without this no FMA is made on CPUs.
        lines = ["#ifdef __clang__", "#pragma clang fp contract(fast)", "#endif"]
        if self.width == 1:
            return [*lines, f"typedef {scalar} F;", "typedef F U;"]
        size = self.width * BYTES[self.precision]
        aligned = f"typedef {scalar} F __attribute__((vector_size({size})));"
        return [*lines, aligned, f"typedef F U __attribute__((aligned({BYTES[self.precision]})));"]

    def number(self, value: float) -> str:
        """A number; next to a packet it stands in every lane."""
        if self.precision == "float64":
            return f"({value!r})"
        text = repr(float(np.float32(value)))  # equal roundings have equal text
        return f"({text}f)"

    def everywhere(self, text: str) -> str:
        """A number where a packet is needed, as on either side of a choice."""
        return f"(F{{}} + {text})"

    def sqrt(self, text: str) -> str:
        """Square root."""
        return f"__builtin_elementwise_sqrt({text})" if self.width > 1 else self._scalar_function("sqrt", text)

    def nearest(self, text: str) -> str:
        """Nearest whole number."""
        return f"__builtin_elementwise_roundeven({text})" if self.width > 1 else self._scalar_function("rint", text)

    def floor(self, text: str) -> str:
        """Largest whole number that is not larger."""
        return f"__builtin_elementwise_floor({text})" if self.width > 1 else self._scalar_function("floor", text)

    def any(self, text: str) -> str:
        """Condition that another holds in any lane."""
        return f"(__builtin_reduce_or({text}) != 0)" if self.width > 1 else f"({text})"

    def bits(self, text: str) -> str:
        """The lanes in which a condition holds, as bits of a whole number, the first lane's lowest."""
        if self.width == 1:
            return f"(int)({text})"
        each = ", ".join(str(1 << lane) for lane in range(self.width))
        return f"[](auto holds) {{ return (int)__builtin_reduce_or(holds & decltype(holds){{{each}}}); }}({text})"

    def both(self, first: str, second: str) -> str:
        """Condition that two others hold, lane by lane."""
        return f"(({first}) & ({second}))"

    def either(self, first: str, second: str) -> str:
        """Condition that one of two others holds, lane by lane."""
        return f"(({first}) | ({second}))"

    def choose(self, condition: str, first: str, second: str) -> str:
        """The first packet where a condition holds, else the second."""
        return f"({condition} ? {first} : {second})"

    def _scalar_function(self, name: str, text: str) -> str:
        return f"{name}{'f' if self.precision == 'float32' else ''}({text})"
