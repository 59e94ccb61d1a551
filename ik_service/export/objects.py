"""Kernels compiled ahead of time into relocatable objects that need nothing of Warp.

    kernels -> copies under names of the caller's in a module of its own -> one object with these names

Names in the object begin with the prefix of the export, so that objects of several robots go into one program. Warp
leaves out of that what its headers and struct templates define, so the compiler is told other names for these.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import warp as wp

from ik_service.export.structs import structs_in

BLOCK_DIM = 1  # of launches on a CPU
RUNTIME = ("_wp_assert", "_wp_isfinite", "_wp_isnan", "_wp_isinf")
"""What objects expect of the program that loads them, and the shim defines under prefixed names."""


class _ObjectModule(wp.Module):
    """A module with options of its own where Warp has them for all modules of a process."""

    def resolve_options(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        """Return the options to compile with."""
        options: dict[str, Any] = super().resolve_options(*arguments, **named)
        # Else every call takes 256 KiB of stack, for tiles that there are not; and no headers are kept for these flags.
        return options | {"enable_tiles_in_stack_memory": False, "use_precompiled_headers": False}


@dataclass(frozen=True)
class KernelObject:
    """A relocatable object.

    Attributes:
        name: File name without suffix.
        content: The object.
        source: The C++ that Warp made it from.
        macros: Names that the compiler was told to replace in that, with what they became.
    """

    name: str
    content: bytes
    source: str
    macros: dict[str, str]


def compile_object(name: str, prefix: str, kernels: Mapping[str, wp.Kernel]) -> KernelObject:
    """Compile kernels that have the same module options, for CPUs.

    Args:
        name: File name of the object without suffix, with the prefix at its beginning.
        prefix: What names in the object begin with.
        kernels: The kernels by the names that they are to have.
    """
    macros = {runtime: f"{prefix}{runtime}" for runtime in RUNTIME}
    for kernel in kernels.values():
        structs = structs_in(argument.type for argument in kernel.adj.args)
        macros |= {struct.native_name: f"{name}_{struct.native_name}" for struct in structs}
    defines = " ".join(f"-D{old}={new}" for old, new in macros.items())
    module = _module(name, kernels)
    flags = module.options["cpu_compiler_flags"]
    module.options["cpu_compiler_flags"] = f"{wp.config.cpu_compiler_flags if flags is None else flags} {defines}"
    module.options["block_dim"] = BLOCK_DIM
    # A folder of its own: with stable names Warp takes a file that is there for the one that it would make.
    with tempfile.TemporaryDirectory() as folder:
        (path,) = wp.compile_aot_module(module, device="cpu", module_dir=folder, strip_hash=True)
        (source,) = Path(folder).glob("*.cpp")
        return KernelObject(name, Path(path).read_bytes(), source.read_text(), macros)


def _module(name: str, kernels: Mapping[str, wp.Kernel]) -> Any:
    """A module with copies of kernels under other names."""
    module: Any = _ObjectModule(name, None)
    module.options |= next(iter(kernels.values())).module.options
    module.options["strip_hash"] = True
    for symbol, kernel in kernels.items():
        is_generated = kernel.func.__code__.co_filename.startswith("<")  # its text is in no file
        source = kernel.adj.source if is_generated else None
        wp.Kernel(kernel.func, key=symbol, module=module, options=dict(kernel.options), source=source)
    return module
