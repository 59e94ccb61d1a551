"""Marks: files in the kernel cache that say which kernels are compiled."""

import hashlib
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import warp as wp

from ik_service.compiler import cpu_target
from ik_service.kernels import kernel_cache
from ik_service.robots import RobotModel
from ik_service.service.queue.solve_request import SolveRequest


def put_mark(mark: Path) -> None:
    """Create the file that says that kernels are compiled."""
    with suppress(OSError):  # a cache that is only read
        kernel_cache.write(mark, b"")


def mark_of(robot: RobotModel, request: SolveRequest, device: str) -> Path:
    """Return the mark of the kernels of a request; it is the same for all GPUs."""
    code = (version("ik-service"), wp.__version__, device.partition(":")[0], cpu_target().name)
    key = (*code, robot.content_hash, request.code_key)
    return kernel_cache.folder() / kernel_cache.MARKS / hashlib.sha256(repr(key).encode()).hexdigest()


def mark_compiled(robot: RobotModel, request: SolveRequest, device: str) -> None:
    """Mark the kernels of a request as compiled, for services on this device and for those on "auto".

    Args:
        robot: The robot.
        request: A request that needs them; its numbers do not matter.
        device: The device that they were compiled for.
    """
    requests = [request]
    if request.options.precision == "float64":  # its kernels include those for a choice among seeds
        requests.append(replace(request, options=replace(request.options, precision="float32", best_of="cost")))
    for one in requests:
        for name in (device, "auto"):
            put_mark(mark_of(robot, one, name))
