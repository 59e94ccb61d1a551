"""CPU target of generated code: instruction level, width of a SIMD packet, and compiler flags.

Code of a level runs on every CPU with this level, so machines can share a kernel cache. The flags are part of a
module's key in the cache, so machines of different levels can share the cache, too, each with its own code.
"""

import functools
import os
import platform
from dataclasses import dataclass
from pathlib import Path

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
