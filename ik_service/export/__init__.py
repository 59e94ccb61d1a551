"""Solvers for programs in C and C++: the kernels ahead of time in objects, with a source that calls them.

solver --recorded--> its launches, with all arrays that they work on
launches --objects--> kernels under names of the export's own, compiled by Warp into relocatable objects
         --c_layout--> structs of their arguments in C
         --c_values--> statements that fill these; arrays that never change become constants
         --solve_source--> one function in C that calls the kernels in order over memory of the caller's
"""

from ik_service.export.export import Export, export_solver

__all__ = ["Export", "export_solver"]
