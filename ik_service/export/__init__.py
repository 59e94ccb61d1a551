"""Solvers and controllers for programs in C and C++: precompiled kernels in objects, and their C source.

solver.recorded() gives the launches with all their arrays:
    objects       kernels under names of the export, compiled by Warp into relocatable objects
    structs       structs of their arguments in C
    values        statements that fill these structs; constant arrays become C constants
    call_frame    a struct of all varying arrays, in memory of the caller, and a C function per launch
    stored_frame  the same for a controller: the caller keeps the frame from tick to tick
solve_entry and tick_entry have the functions that programs call (`ExportedFunction`); `templates` the texts around
them.
"""

from ik_service.export.export import Export, export_controller, export_solver

__all__ = ["Export", "export_controller", "export_solver"]
