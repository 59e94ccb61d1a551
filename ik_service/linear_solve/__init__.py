"""Islands of trees and rows, and the block-decomposed normal equations over them."""

from ik_service.linear_solve.block import Equations, damped_steps, normal_equations
from ik_service.linear_solve.host_islands import find_islands
from ik_service.linear_solve.islands import Islands, discover_islands, record_discovery
from ik_service.linear_solve.structure import RowStructure

__all__ = [
    "Equations",
    "Islands",
    "RowStructure",
    "damped_steps",
    "discover_islands",
    "find_islands",
    "normal_equations",
    "record_discovery",
]
