"""Compiler: rows and joints -> program of an island (scalar expressions) -> text of kernels in `code`."""

from ik_service.compiler.build import ATTEMPT_SLACK, build_program
from ik_service.compiler.code.elimination import Elimination, StepSpace
from ik_service.compiler.code.functions import function_lines, packet, statements
from ik_service.compiler.code.iteration import IterationSource
from ik_service.compiler.code.lanes import CpuTarget, Lanes, Precision, cpu_target, portable_target
from ik_service.compiler.code.measure import MeasureSource
from ik_service.compiler.code.state import (
    NOT_EVALUATED,
    SECONDARY_STAGE,
    SECONDARY_STAGE_STEPS,
    Damping,
    LaneState,
    coordinate_names,
    error_outputs,
    stage_range,
)
from ik_service.compiler.half_angle import FLOAT32_ERROR, FLOAT64_ERROR
from ik_service.compiler.island_program import (
    FACTORS,
    FIXED,
    GOAL,
    TURN,
    TURN_WIDTH,
    DataInput,
    IslandProgram,
    IslandSignature,
    level_numbers,
    uncovered,
)

__all__ = [
    "ATTEMPT_SLACK",
    "FACTORS",
    "FIXED",
    "FLOAT32_ERROR",
    "FLOAT64_ERROR",
    "GOAL",
    "NOT_EVALUATED",
    "SECONDARY_STAGE",
    "SECONDARY_STAGE_STEPS",
    "TURN",
    "TURN_WIDTH",
    "CpuTarget",
    "Damping",
    "DataInput",
    "Elimination",
    "IslandProgram",
    "IslandSignature",
    "IterationSource",
    "LaneState",
    "Lanes",
    "MeasureSource",
    "Precision",
    "StepSpace",
    "build_program",
    "coordinate_names",
    "cpu_target",
    "error_outputs",
    "function_lines",
    "level_numbers",
    "packet",
    "portable_target",
    "stage_range",
    "statements",
    "uncovered",
]
