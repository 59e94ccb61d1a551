"""The kernels of a solver's islands for GPUs, compiled without one, and what a cubin tells of its kernel."""

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import warp as wp

from ik_service.solver.compiled.island_launches import ThreadLaunches
from ik_service.solver.recording import PartLaunches

# Entries of the section .nv.info of a cubin: numbers of the CUDA toolchain (EIATTR_...), one per function.
FRAME_SIZE, MIN_STACK_SIZE, REGISTER_COUNT = 0x11, 0x12, 0x2F
SIZED = 4  # format of an entry that brings its length
SECTION = "<IIQQQQIIQQ"


@dataclass(frozen=True)
class Usage:
    """What a kernel takes of its multiprocessor.

    Attributes:
        registers: Per thread.
        local_bytes: Per thread, of local memory: registers that were spilled, and arrays with places that vary.
        shared_bytes: Per block.
    """

    registers: int
    local_bytes: int
    shared_bytes: int


def island_kernels(solver, **options):
    """The kernels that a solver would launch on a GPU for one problem, each once; they have not been compiled."""
    found = []

    class Listed(ThreadLaunches):
        def record(self, size, work, part, parts):
            found.extend(one for one, _ in work if one not in found)
            return PartLaunches([])

    solver._core.engine.kernels.launches = Listed()
    targets = len(solver.targets)
    solver.solve(np.full((1, targets, 3), 0.3), np.tile([0.0, 0.0, 0.0, 1.0], (1, targets, 1)), options=options or None)
    return found


def compiled_for(kernel, architecture, folder):
    """The cubin of a kernel's module, in bytes."""
    wp.compile_aot_module(kernel.module, arch=architecture, module_dir=folder, use_ptx=False)
    (path,) = Path(folder).glob(f"*.sm{architecture}.cubin")
    return path.read_bytes()


def usage(cubin):
    """What the kernel in a cubin takes; the largest of its functions."""
    sections = _sections(cubin)
    numbers = {FRAME_SIZE: [], MIN_STACK_SIZE: [], REGISTER_COUNT: []}
    for code, value in _entries(sections[".nv.info"][0]):
        if code in numbers:
            numbers[code].append(struct.unpack("<II", value)[1])
    shared = [size for name, (_, size) in sections.items() if name.startswith(".nv.shared.") and "reserved" not in name]
    return Usage(
        registers=max(numbers[REGISTER_COUNT]),
        local_bytes=max(*numbers[FRAME_SIZE], *numbers[MIN_STACK_SIZE]),
        shared_bytes=max(shared, default=0),
    )


def _sections(elf):
    """Contents and size of every section of a 64-bit ELF file, by name."""
    assert elf[:5] == b"\x7fELF\x02"
    (offset,) = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<HHH", elf, 58)
    heads = [struct.unpack_from(SECTION, elf, offset + k * size) for k in range(count)]
    first = heads[names][4]
    found = {}
    for name, kind, _, _, begin, length, *_ in heads:
        text = elf[first + name : elf.index(b"\0", first + name)].decode()
        found[text] = (b"" if kind == 8 else elf[begin : begin + length], length)  # 8: not in the file
    return found


def _entries(section):
    """Code and value of every entry that has a value of its own."""
    place = 0
    while place < len(section):
        form, code, length = struct.unpack_from("<BBH", section, place)
        place += 4
        if form == SIZED:
            yield code, section[place : place + length]
            place += length
