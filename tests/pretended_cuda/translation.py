"""Kernels for GPUs as code of this machine: the text that Warp writes for CUDA, compiled for the pretended device.

The text stays as it is, but for three things: `native/module.h` gives the words of CUDA their meaning here, threads
may be interrupted where they reach for memory, and each kernel gets an entry by which the device calls it. A whole
number that leaves its type ends the process: on a card it would be a wrong index.
"""

import hashlib
import os
import re
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import warp as wp

NATIVE = Path(__file__).with_name("native")
COMPILER = "g++"
# Products and sums are fused, as NVRTC does; the rest is what Warp's headers need outside of NVRTC.
FLAGS = ("-std=c++17", "-shared", "-fPIC", "-fno-strict-aliasing", "-w")
MODULE_FLAGS = (
    *("-O1", "-march=native", "-ffp-contract=fast"),
    *("-fsanitize=signed-integer-overflow", "-fsanitize-undefined-trap-on-error"),
)
KERNEL = re.compile(r"__global__ void (\w+)\(")
REACHES = re.compile(r"\bwp::(address|array_store|atomic_(?:add|sub|min|max|cas|exch))\(")
BARRIER = re.compile(r"\b__sync(?:warp|threads)\b")
LAST_INCLUDE = '#include "deterministic.h"\n'


def translated(source: str) -> tuple[str, str]:
    """Return the text of a module for the pretended device: its headers, and what comes behind them."""
    head, include, body = source.partition(LAST_INCLUDE)
    kernels = KERNEL.findall(body)
    if not include or not kernels:
        raise RuntimeError("A module of kernels has no kernel, or other headers than expected.")
    has_barriers = int(BARRIER.search(body) is not None)
    head = head.replace("#define WP_NO_CRT\n", "")  # with it Warp's checks of indices are left out
    body = REACHES.sub(r"pretended::\1(", body)
    entries = "\n".join(f"PRETENDED_KERNEL({kernel}, {has_barriers})" for kernel in kernels)
    return f'{head}{include}#include "module.h"\n', f"{body}\n{entries}\n"


def compile_module(source: str, architecture: int, output: str, *, folder: Path, **settings: object) -> None:
    """Compile a module in the place of Warp's compiler for CUDA; a folder keeps headers, which take longest."""
    head, body = translated(Path(source).read_text())
    text = Path(output).with_suffix(".cpp")
    text.write_text(body)
    headers = Path(wp.__file__).parent / "native"
    flags = (*MODULE_FLAGS, f"-I{headers}", f"-I{NATIVE}")
    compile_shared(text, Path(output), *flags, "-include", str(_compiled_header(head, folder, flags)))


def _compiled_header(head: str, folder: Path, flags: Sequence[str]) -> Path:
    """Return a header of this text, beside which the compiler finds it compiled."""
    header = folder / f"head-{hashlib.sha256(head.encode()).hexdigest()[:16]}.h"
    compiled = header.with_name(f"{header.name}.gch")
    if not compiled.exists():
        own = f"{os.getpid()}-{threading.get_ident()}"  # several may do so at once
        text, made = (path.with_name(f"{own}-{path.name}") for path in (header, compiled))
        text.write_text(head)
        text.replace(header)
        compile_shared(header, made, *flags, "-x", "c++-header")
        made.replace(compiled)
    return header


def compile_shared(source: Path, output: Path, *flags: str) -> None:
    """Compile a shared library."""
    command = [COMPILER, *FLAGS, *flags, str(source), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stderr[:4000]}")
