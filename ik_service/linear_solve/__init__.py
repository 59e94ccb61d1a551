"""Islands of trees and rows, and the normal equations, block by block: a block per island."""

from ik_service.linear_solve.block import damped_steps, normal_equations
from ik_service.linear_solve.factors import (
    ActiveDofs,
    Equations,
    allocate_equations,
    eliminate,
    elimination_in_registers,
    predict_decrease,
)
from ik_service.linear_solve.islands import (
    Islands,
    RowStructure,
    allocate_islands,
    discover_islands,
    find_islands,
    record_discovery,
    row_structure,
    zeroed,
)

__all__ = [
    "ActiveDofs",
    "Equations",
    "Islands",
    "RowStructure",
    "allocate_equations",
    "allocate_islands",
    "damped_steps",
    "discover_islands",
    "eliminate",
    "elimination_in_registers",
    "find_islands",
    "normal_equations",
    "predict_decrease",
    "record_discovery",
    "row_structure",
    "zeroed",
]
