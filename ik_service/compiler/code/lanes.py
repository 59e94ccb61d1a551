"""SIMD lanes and CPU targets: width and precision of generated arithmetic, operations on packets, compiler flags.

A SIMD packet holds one number of several unrelated solves, one per SIMD lane of a vector register. Clang has vector
types with operators, and a plain float is a packet of width 1, also for CUDA: the same text serves all widths, except
for the few functions here.

Code of a level runs on every CPU with this level, so machines can share a kernel cache. The flags are part of a
module's key in the cache, so machines of different levels can share the cache, too, each with its own code.
"""

import functools
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from objectives.errors import InputError

CPU_VARIABLE = "IK_SERVICE_CPU_TARGET"
"""Environment variable with the name of a lower target than this machine's, for code for other machines."""
CPU_INFO = Path("/proc/cpuinfo")

_FLAGS_OF_LEVEL_3 = frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"})
_FLAGS_OF_LEVEL_4 = _FLAGS_OF_LEVEL_3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_COMMON_FLAGS = (
    # As in Warp's own flags: LLVM inlines more.
    "-mllvm=-inline-threshold=9000",
    "-mllvm=-inline-cold-callsite-threshold=3000",
    # The next flags change no code and save a tenth of the compiler's time.
    "-fdelayed-template-parsing",
    "-disable-llvm-verifier",
    "-discard-value-names",
)


@dataclass(frozen=True)
class CpuTarget:
    """An instruction level of CPUs."""

    name: str  # name in LLVM
    register: int  # bytes of a SIMD packet
    machine: str  # processor family, a value of `platform.machine`
    needs: frozenset[str] = frozenset()  # required CPU flags, with the names of the Linux kernel

    @property
    def flags(self) -> str:
        """Flags for Warp's compiler."""
        return " ".join(("-target-cpu", self.name, *_COMMON_FLAGS))


# Packets of 64 bytes on AVX-512 measured a tenth faster in large batches, and a tenth slower for a single target.
TARGETS = (
    CpuTarget("x86-64-v4", 32, "x86_64", _FLAGS_OF_LEVEL_4),
    CpuTarget("x86-64-v3", 32, "x86_64", _FLAGS_OF_LEVEL_3),
    CpuTarget("x86-64-v2", 16, "x86_64"),  # with F16C, which Warp needs
    CpuTarget("generic", 16, "aarch64"),
)
"""Highest first."""


@functools.cache
def cpu_target() -> CpuTarget:
    """Return the target of generated code: the level in IK_SERVICE_CPU_TARGET, or the highest level of this machine.

    Raises:
        InputError: This machine cannot run the level in IK_SERVICE_CPU_TARGET.
    """
    return named_target(os.environ.get(CPU_VARIABLE))


def named_target(asked: str | None) -> CpuTarget:
    """Return a target of this machine by name, the highest for None or ""; InputError if the machine cannot run it."""
    return choose_target(platform.machine(), _cpu_flags(), asked)


def portable_target() -> CpuTarget:
    """Return the target of code for most machines: the highest of this machine without AVX-512."""
    highest = named_target(None)
    lower = [target for target in TARGETS if target.machine == highest.machine and target.needs < highest.needs]
    return lower[0] if highest is TARGETS[0] else highest


def choose_target(machine: str, flags: frozenset[str], asked: str | None) -> CpuTarget:
    """Return a target of a machine with these CPU flags; see `named_target`."""
    able = [target for target in TARGETS if target.machine == machine and target.needs <= flags] or [TARGETS[-1]]
    if not asked:
        return able[0]
    for target in able:
        if target.name == asked:
            return target
    raise InputError(f"{CPU_VARIABLE} is {asked!r}. This machine runs: {', '.join(target.name for target in able)}.")


def _cpu_flags() -> frozenset[str]:
    try:
        lines = CPU_INFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    return next((frozenset(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), frozenset())


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
