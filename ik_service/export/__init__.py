"""Solvers and controllers for programs in C and C++: kernels ahead of time in objects, with a source that calls them.

solver.recorded() gives its launches, with all arrays that they work on. Of these are made
    by c_code.objects       kernels under names of the export's own, compiled by Warp into relocatable objects
    by c_code.structs       structs of their arguments in C
    by c_code.values        statements that fill these; arrays that never change become constants
    by frames.call_frame    a struct of all arrays that change, in memory of the caller, and a C function per launch
    by frames.stored_frame  the same for a controller, whose frame the caller keeps from tick to tick
`entries` has the functions that programs call (`ExportedFunction`); `templates` the texts around all this.
"""

from ik_service.export.export import export_controller, export_solver
from ik_service.export.export_files import Export

__all__ = ["Export", "export_controller", "export_solver"]
