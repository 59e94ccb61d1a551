"""What the model takes from elsewhere: cards, and how long and how often each sort of instruction keeps them.

Everything stands in one table of the report, with where it comes from.
"""

from collections.abc import Mapping
from dataclasses import dataclass

GUIDE = "CUDA C++ Programming Guide, throughput of native arithmetic instructions"
HOPPER = "arXiv 2402.13499, latencies of memories"
ASSUMED = "assumed"


@dataclass(frozen=True)
class Card:
    """A card.

    Attributes:
        name: As it is sold.
        architecture: Such as 90 for compute capability 9.0.
        multiprocessors: How many.
        clock: Of the multiprocessors under load [Hz].
        registers: Of a sub-partition; a multiprocessor has four.
        copy_rate: Of the bus between host and card, one way [bytes/s].
        memory_rate: Of the card's memory [bytes/s].
        near: Cycles until a load from the first cache stands.
        shared: The same of shared memory.
        far: The same of the second cache.
        float64_results: Results of float64 operations of a multiprocessor in a cycle, and of conversions with float64.
        source: Where the figures come from.
    """

    name: str
    architecture: int
    multiprocessors: int
    clock: float
    copy_rate: float
    memory_rate: float
    near: int
    shared: int
    far: int
    float64_results: tuple[int, int]
    source: str
    registers: int = 16384


H200 = Card(
    "H200", 90, 132, 1.98e9, 50e9, 4.8e12, 41, 29, 263, (64, 16), "H200 data sheet; the chip is that of an H100 SXM"
)
H100 = Card("H100", 90, 132, 1.98e9, 50e9, 3.35e12, 41, 29, 263, (64, 16), "H100 SXM data sheet")
RTX_4090 = Card("RTX 4090", 89, 128, 2.52e9, 25e9, 1.0e12, 43, 30, 273, (2, 2), "Ada GPU architecture, appendix A")
L4 = Card("L4", 89, 58, 1.6e9, 25e9, 0.3e12, 43, 30, 273, (2, 2), "L4 data sheet; 72 W hold it under its 2.04 GHz")
CARDS = (H200, H100, RTX_4090, L4)

SUB_PARTITIONS = 4
WARP = 32
RESULTS: Mapping[str, int] = {
    "float32": 128,
    "integers": 64,
    "special": 16,
    "conversions": 16,
    "memory": 32,
    "uniform": 128,
    "other": 64,
}
"""Results of a multiprocessor in a cycle."""
IN_GUIDE = ("float32", "integers", "special", "conversions")

SPECIAL, CONVERSION, VOTE, CONSTANT, ATOMIC, FLOAT64, STORE_READ = 23, 23, 25, 30, 500, 40, 20
"""Cycles until results stand that the code waits for by barriers, and until a store has read its operands."""

FLOAT32 = ("FFMA", "FMUL", "FADD", "HFMA2")
SPECIALS = ("MUFU", "POPC", "FLO", "BREV")
CONVERSIONS = ("F2F", "F2I", "I2F", "FRND", "F2FP")
LOADS = ("LDG", "LD", "LDL")
STORES = ("STG", "ST", "STS", "STL", "REDG", "RED")
ATOMICS = ("ATOM", "ATOMG", "ATOMS")
FLOATS64 = ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX")
VOTES = ("SHFL", "VOTE", "S2R", "S2UR", "CS2R", "MATCH")
CONSTANTS = ("LDC", "LDCU")


def pipe(name: str, operation: str) -> str:
    """Return which part of a sub-partition an instruction keeps.

    Args:
        name: Its name.
        operation: Its name with modifiers.
    """
    if name in FLOATS64:
        return "float64"
    if name == "F2F" and "F64" in operation:
        return "float64 conversions"
    table = {"float32": FLOAT32, "special": SPECIALS, "conversions": CONVERSIONS}
    table["memory"] = (*LOADS, *STORES, *ATOMICS, "LDS", "SHFL", *CONSTANTS)
    for found, names in table.items():
        if name in names:
            return found
    if name.startswith("U") or name in ("VOTEU", "R2UR"):
        return "uniform"
    return "other" if name in ("BRA", "BSSY", "BSYNC", "NOP", "WARPSYNC", "YIELD") else "integers"


def interval(card: Card, kind: str) -> float:
    """Return for how many cycles a warp keeps that part of its sub-partition."""
    results = dict(RESULTS) | {"float64": card.float64_results[0], "float64 conversions": card.float64_results[1]}
    return SUB_PARTITIONS * WARP / results[kind]


def latency(card: Card, name: str, operation: str, *, is_far: bool) -> int:
    """Return after how many cycles the result of an instruction stands that is waited for by a barrier.

    Args:
        card: The card.
        name: Its name.
        operation: Its name with modifiers.
        is_far: Whether it loads what another problem has not loaded before.
    """
    if name in LOADS:
        return card.far if is_far or "STRONG" in operation else card.near
    if name in ATOMICS:
        return ATOMIC
    if name in FLOATS64 or (name == "F2F" and "F64" in operation):
        return FLOAT64
    if name == "LDS":
        return card.shared
    if name in CONSTANTS:
        return CONSTANT
    if name in VOTES:
        return VOTE
    return SPECIAL if name in SPECIALS else CONVERSION
