"""Kernels that came with an installation, such as a container image, made known to the cache in use and to GPUs.

Warp reads one folder of kernels. Files of another folder that holds kernels are linked into it: what came with the
installation is found, and what is missing is compiled and stored beside it.

A GPU runs code of its own architecture, or PTX of an older one, which its driver translates at every start. A cache
that was filled for GPUs has a list of its architectures, so that Warp looks for what is there.
"""

import functools
import json
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import warp as wp

SHIPPED_VARIABLE = "IK_SERVICE_SHIPPED_KERNELS"
"""Environment variable that names a folder which `ik-service warmup` has filled, as WARP_CACHE_PATH it."""
GPU_CODE = "ik_service_gpu_code.json"
"""File in a cache that says for which architectures it holds code."""


@functools.cache
def use_shipped_kernels() -> None:
    """Have this process find what came with the installation; once Warp has chosen its cache.

    Raises:
        OSError: The cache cannot be written.
    """
    shipped, cache = os.environ.get(SHIPPED_VARIABLE), Path(str(wp.config.kernel_cache_dir))
    if shipped:
        link_kernels(Path(shipped, str(wp.config.version)).resolve(), cache.resolve())


def link_kernels(shipped: Path, cache: Path) -> int:
    """Link the files of a folder into a cache that lacks them; return how many.

    Args:
        shipped: Where the files are.
        cache: Where they are to be found. Links that lead nowhere, after an upgrade for example, are replaced.
    """
    if shipped == cache:
        return 0
    linked = 0
    for source in shipped.rglob("*"):
        link = cache / source.relative_to(shipped)
        if source.is_file() and not link.exists():
            link.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            made = link.with_name(f"{link.name}.{os.getpid()}.{threading.get_ident()}")
            made.symlink_to(source)
            os.replace(made, link)  # any number of processes may do so at once
            linked += 1
    return linked


def note_gpu_code(architectures: Iterable[int], ptx: int) -> None:
    """Say in the cache for which GPUs it holds code, besides what it said before.

    Args:
        architectures: With code of their own, such as 90.
        ptx: Architecture of the PTX.
    """
    path = Path(str(wp.config.kernel_cache_dir), GPU_CODE)
    cubins = sorted({*read_gpu_code().get("cubins", ()), *architectures})
    path.write_text(json.dumps({"cubins": cubins, "ptx": ptx}) + "\n")


def read_gpu_code() -> dict[str, Any]:
    """Return what the cache says of code for GPUs; nothing where it was not filled for them."""
    try:
        said: dict[str, Any] = json.loads(Path(str(wp.config.kernel_cache_dir), GPU_CODE).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return said


def use_gpu_code(device: wp.Device) -> None:
    """Have Warp look for the code that the cache holds for a GPU, unless told otherwise.

    By itself Warp prefers PTX of the very architecture where the driver is recent.

    Args:
        device: The device.
    """
    said = read_gpu_code() if device.is_cuda else {}
    if not said or wp.config.cuda_output is not None or wp.config.ptx_target_arch is not None:
        return
    if device.arch in said["cubins"]:
        wp.config.cuda_output = "cubin"
    else:
        wp.config.ptx_target_arch = int(said["ptx"])
