"""Checks of what a solver is made from, before anything is bound or launched."""

import logging
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import warp as wp

from ik_service.errors import in_a_line
from ik_service.robots import RobotModel
from ik_service.solver.device_lock import is_lost
from ik_service.solver.launches.kernel_loading import CacheErrorsExplained
from ik_service.solver.launches.kernel_trust import check_cache
from ik_service.solver.launches.shipped_kernels import use_gpu_code, use_shipped_kernels
from ik_service.solver.options import SolverOptions
from ik_service.warp_start import start_warp
from objectives import InputError

THREADS_MAX = 256

_logger = logging.getLogger(__name__)


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
    """Check the arguments of a solver.

    Raises:
        InputError: An argument has a type or value that is not allowed; the message says which is.
    """
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
    """Return a Warp device; for "auto" the first GPU, or the CPU where there is none that works.

    Raises:
        InputError: Warp does not know it.
        KernelCacheError: The kernel cache cannot be made, or others may have put code there.
    """
    with CacheErrorsExplained():
        start_warp()
        use_shipped_kernels()
        check_cache()
    try:
        found = wp.get_preferred_device() if device == "auto" else wp.get_device(device)
    except (ValueError, RuntimeError) as error:
        known = ", ".join(str(d) for d in wp.get_devices())
        raise InputError(f"device is {device!r}, which Warp does not know. Devices: auto, {known}.") from error
    if device == "auto" and is_lost(found):
        _logger.warning("Device %s does not work: solving on the CPU. Its driver's log may say why.", found)
        found = wp.get_device("cpu")
    use_gpu_code(found)
    return found
