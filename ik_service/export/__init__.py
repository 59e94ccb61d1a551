"""Solvers and controllers for programs in C and C++: kernels ahead of time in objects, with a source that calls them.

solver --recorded--> its launches, with all arrays that they work on
launches --objects--> kernels under names of the export's own, compiled by Warp into relocatable objects
         --c_layout--> structs of their arguments in C
         --c_values--> statements that fill these; arrays that never change become constants
         --frame--> a struct of all arrays that change, in memory of the caller, and a C function for every launch
         --gpu_frame--> the same for arrays in the memory of a GPU, with kernels in cubins that the CUDA driver launches
functions that programs call are entries (`export.Entry`): recorded launches with a header and a source around a frame;
a controller's frame (`kept_frame`) is kept by the caller from tick to tick, arguments and all
"""

from ik_service.export.export import Export, export_controller, export_solver
from ik_service.export.gpu_export import export_for_gpus
from ik_service.solver.gpu_kernels import ARCHITECTURES

__all__ = ["ARCHITECTURES", "Export", "export_controller", "export_for_gpus", "export_solver"]
