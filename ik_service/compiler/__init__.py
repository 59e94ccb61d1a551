"""Small compiler: the rows of an island on one robot as straight-line arithmetic, and that arithmetic on packets."""

from ik_service.compiler.packet import packet_functions
from ik_service.compiler.packet_source import packet_lines, packet_name
from ik_service.compiler.program import IslandProgram, build_program, uncovered

__all__ = ["IslandProgram", "build_program", "packet_functions", "packet_lines", "packet_name", "uncovered"]
