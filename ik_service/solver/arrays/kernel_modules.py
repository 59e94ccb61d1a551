"""The Warp modules of the kernels that do not depend on the robot.

Their loops over numbers that are known at run time only are `while` loops: on a CPU those of `range` take three times
as long.
"""

from typing import Any

import warp as wp

from ik_service.compiler import cpu_target

# One module for what every solve runs: a fresh cache compiles it in one go. Others for what few ask for.
SOLVE_IO: Any = wp.get_module("ik_service_solve_io")
SOLVE_EXTRAS: Any = wp.get_module("ik_service_solve_extras")
SOLVE_ON_DEVICE: Any = wp.get_module("ik_service_solve_on_device")
DERIVED_ON_DEVICE: Any = wp.get_module("ik_service_derived_on_device")
for module in (SOLVE_IO, SOLVE_EXTRAS, SOLVE_ON_DEVICE, DERIVED_ON_DEVICE):
    module.options |= {"cpu_compiler_flags": cpu_target().flags, "enable_backward": False}
