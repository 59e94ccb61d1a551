"""Checks of a solver's arguments, before anything is bound or launched, and the record of its setup."""

import ctypes
import functools
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import warp as wp

from ik_service.errors import in_a_line
from ik_service.kernels.device_lock import is_lost
from ik_service.kernels.kernel_cache import check_cache, use_gpu_code, use_shipped_kernels
from ik_service.kernels.kernel_loading import KernelsFor
from ik_service.robots import RobotModel
from ik_service.solver.given.options import SolverOptions
from ik_service.warp_start import start_warp
from objectives import InputError

THREADS_MAX = 256
DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
HIDING = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
"""Environment variables by which GPUs are chosen for a process or a container."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SolverSetup:
    """Device, engine and options of a solver."""

    device: wp.Device
    engine: str  # "auto", "compiled" or "staged"
    join: bool  # whether all touched trees are one island
    threads: int  # most threads of the compiled engine on a CPU
    options: SolverOptions


def check_construction(
    robot: object,
    targets: object,
    objectives: object,
    engine: object,
    threads: Any,
    islands: object,
    options: object,
    wxyz: object = False,
) -> None:
    """Check the arguments of a solver; the InputError names an argument of a wrong type or value."""
    if not isinstance(robot, RobotModel):
        raise InputError(f"robot is {in_a_line(robot)}. Allowed: a RobotModel, as load_robot('panda') returns it.")
    for name, value in (("targets", targets), ("objectives", objectives)):
        if isinstance(value, str) or not isinstance(value, Sequence):
            content = "link names or Targets" if name == "targets" else "objectives"
            raise InputError(f"{name} is {in_a_line(value)}. Allowed: a list of {content}.")
    if not targets and not objectives and not robot.constraint_names:
        raise InputError("The solver has nothing to solve for. Give targets=[...] or objectives=[...].")
    if robot.active_dof_count == 0:
        raise InputError(f"Robot '{robot.name}' has no active DOF. Unlock a joint.")
    if engine not in ("auto", "compiled", "staged"):
        raise InputError(f"engine is {engine!r}. Allowed: 'auto', 'compiled', 'staged'.")
    for name, value in (("islands", islands), ("wxyz", wxyz)):
        if not isinstance(value, bool):
            raise InputError(f"{name} is {value!r}. Allowed: True, False.")
    if options is not None and not isinstance(options, SolverOptions):
        raise InputError(f"options is {options!r}. Allowed: SolverOptions(...).")
    whole = isinstance(threads, Integral) and not isinstance(threads, bool)
    if threads is not None and not (whole and 1 <= int(threads) <= THREADS_MAX):
        raise InputError(f"threads is {threads!r}. Allowed: a whole number from 1 to {THREADS_MAX}, or None for one.")


def resolve_device(device: Any) -> wp.Device:
    """Return a Warp device; for "auto" the first GPU, or the CPU if no GPU works."""
    # Raises InputError for a device unknown to Warp, KernelCacheError where the kernel cache cannot be made, or others
    # may have put code there
    with KernelsFor():
        start_warp()
        use_shipped_kernels()
        check_cache()
    try:
        found = wp.get_preferred_device() if device == "auto" else wp.get_device(device)
    except (ValueError, RuntimeError) as error:
        known = ", ".join(str(d) for d in wp.get_devices())
        why = why_no_gpu() if str(device).startswith("cuda") else None
        reason = "which Warp does not know" if why is None else f"but {why}"
        raise InputError(f"device is {device!r}, {reason}. Devices: auto, {known}.") from error
    if device == "auto" and found.is_cpu and is_gpu_expected():
        _warn_once(why_no_gpu())
    if device == "auto" and is_lost(found):
        _logger.warning("Device %s does not work: solving on the CPU. Its driver's log may say why.", found)
        found = wp.get_device("cpu")
    use_gpu_code(found)
    if found.is_cuda:
        _tell_once(str(found))
    return found


@functools.cache
def _tell_once(name: str) -> None:
    """Log the GPU of a name: a whole one, or a MIG instance."""
    gpu = wp.get_device(name)
    version = f"{gpu.arch // 10}.{gpu.arch % 10}"
    facts = name, gpu.name, version, gpu.sm_count, gpu.total_memory / 2**30
    _logger.info("Device %s is %s: compute capability %s, %d multiprocessors, %.0f GiB.", *facts)


@functools.cache
def _warn_once(why: str | None) -> None:
    _logger.warning("Solving on the CPU: %s.", why)


def driver_version() -> tuple[int, int] | None:
    """Return the newest CUDA version supported by the NVIDIA driver of this machine; None without a driver."""
    # Warp reports the version only if a GPU is found
    version = ctypes.c_int()
    try:
        driver = ctypes.CDLL(DRIVER)
        if driver.cuDriverGetVersion(ctypes.byref(version)) != 0:
            return None
    except (OSError, AttributeError):
        return None
    return version.value // 1000, version.value % 1000 // 10


def why_no_gpu() -> str | None:
    """Return why Warp sees no GPU; None if there is one."""
    if wp.get_cuda_device_count() > 0:
        return None
    driver, toolkit = driver_version(), wp.get_cuda_toolkit_version()
    chosen = ", ".join(f"{name}={os.environ[name]}" for name in HIDING if name in os.environ)
    if driver is None:
        why = "no NVIDIA driver is found here; a container gets it by --gpus and NVIDIA's container toolkit"
    elif toolkit is not None and driver[0] < toolkit[0]:
        why = f"the NVIDIA driver is for CUDA up to {driver[0]}.{driver[1]}, and Warp needs {toolkit[0]}.0"
    else:
        why = "the NVIDIA driver shows no GPU"
    return f"{why} ({chosen})" if chosen else why


def is_gpu_expected() -> bool:
    """Return whether there is a driver, or GPUs have been requested for a container."""
    chosen = os.environ.get("NVIDIA_VISIBLE_DEVICES", "")
    return driver_version() is not None or chosen not in ("", "none", "void")
