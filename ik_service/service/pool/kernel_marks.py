"""Marks: empty files in the kernel cache, one for each compiled kind of request."""

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
    """Create the mark of compiled kernels."""
    with suppress(OSError):  # a read-only cache
        kernel_cache.write(mark, b"")


def mark_of(robot: RobotModel, request: SolveRequest, device: str) -> Path:
    """Return the mark of the kernels of a request; all GPUs share one mark."""
    code = (version("ik-service"), wp.__version__, device.partition(":")[0], cpu_target().name)
    key = (*code, robot.content_hash, request.code_key)
    return kernel_cache.folder() / kernel_cache.MARKS / hashlib.sha256(repr(key).encode()).hexdigest()


def mark_compiled(robot: RobotModel, request: SolveRequest, device: str) -> None:
    """Mark the kernels of a request as compiled, for services with this device and for services with "auto"."""
    requests = [request]
    if request.options.precision == "float64":  # float64 kernels include the choice among seeds
        requests.append(replace(request, options=replace(request.options, precision="float32", best_of="cost")))
    for one in requests:
        for name in (device, "auto"):
            put_mark(mark_of(robot, one, name))
