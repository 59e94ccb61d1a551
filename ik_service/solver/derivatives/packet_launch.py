"""Launches, on the host's CPU, of kernels over SIMD packets of problems, and views of their arrays."""

from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kernels.device_lock import DEVICE_LOCK
from ik_service.kernels.kernel_loading import KernelsFor, load_kernels_alone
from ik_service.template_files import TemplateFolder

TEMPLATES = TemplateFolder("ik_service.solver.derivatives")


def shown(values: NDArray[Any]) -> Any:
    """Return numbers as a Warp array, without a copy if possible."""
    return wp.array(np.ascontiguousarray(values), copy=False, device="cpu")


def load(kernel: wp.Kernel) -> None:
    """Load a kernel, compiled if not in the cache; KernelCacheError where kernels can be neither read nor kept."""
    with DEVICE_LOCK, KernelsFor():
        load_kernels_alone(kernel.module, wp.get_device("cpu"))


def launch(kernel: wp.Kernel, count: int, inputs: list[Any]) -> None:
    """Launch a kernel over `count` problems, loaded as in `load`."""
    with DEVICE_LOCK, KernelsFor():
        load_kernels_alone(kernel.module, wp.get_device("cpu"))
        wp.launch(kernel, count, inputs, device="cpu", record_tape=False)
