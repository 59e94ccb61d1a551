"""The Warp modules of the kernels independent of the robot.

Loops with a run-time bound are `while` loops: on a CPU `range` loops take three times as long.
"""

from typing import Any

import warp as wp

from ik_service.compiler import cpu_target

# One module for the kernels of every solve: a fresh cache compiles them in one go. Others for rare kernels.
SOLVE_IO: Any = wp.get_module("ik_service_solve_io")
SOLVE_EXTRAS: Any = wp.get_module("ik_service_solve_extras")
SOLVE_ON_DEVICE: Any = wp.get_module("ik_service_solve_on_device")
DERIVED_ON_DEVICE: Any = wp.get_module("ik_service_derived_on_device")
for module in (SOLVE_IO, SOLVE_EXTRAS, SOLVE_ON_DEVICE, DERIVED_ON_DEVICE):
    module.options |= {"cpu_compiler_flags": cpu_target().flags, "enable_backward": False}
