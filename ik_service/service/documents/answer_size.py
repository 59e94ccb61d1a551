"""Upper bounds of the size of an answer and of its result in memory, from shapes alone, before any computation.

Each number counts with the longest text of its type, so an answer often has half of the bound, and never more.
"""

import math
import re
from collections.abc import Mapping, Sequence

from ik_service.result_column import Column
from ik_service.result_schema import EDGE_COLUMNS, ISLAND_COLUMNS, RESULT_COLUMNS
from ik_service.robots import RobotModel
from ik_service.service.codecs.codec import Codec
from ik_service.service.documents.solve_request import DecodedSolve
from ik_service.service.queue.objective_data import ROW_WEIGHTS
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.solver.lm.status import IKStatus

NUMBER, FLOAT64_TEXT, ROW_TEXT = 8, 25, 3
"""Bytes of a number in a binary answer; in JSON with the comma after it; and of the brackets of a row."""
TEXT = {"status": 3 + max(len(status.name) for status in IKStatus), "bool": 6, "int32": 12, "float64": FLOAT64_TEXT}
TEXT |= {"precision": 15, "float32": 15}
"""Characters in JSON with the comma: false, -2147483648, -1.2345678901234567e-308, -1.2345678e-38."""
ISLAND_TEXT, ADVICE_STATIC_TEXT, CONTACT_TEXT = 200, 300, 64
"""All of an island, of advice on a link that nothing moves, and on two that touch; all but for names."""
ADVICE_TEXT = 3 + max(len(text) for status in IKStatus for text in (status.advice, status.advice_without_targets))
ARRAY_HEAD, DOCUMENT_TEXT = 320, 1024
"""Name, type and shape of an array in a binary answer; and engine, device, times and names of fields of every one."""
CHARACTER, ARRAY_CHARACTER = 12, 4
"""Bytes of a character of a name: in JSON at most, a pair of escapes; and in an array of texts of one length."""
BLOCKING_ANSWER_BYTES = 512 * 1024
"""Answers that may be larger than this are made beside the event loop, and sent in pieces."""
FEW_NUMBERS, FEW_BYTES = 256, 32 * 1024
"""An answer of so few coordinates and targets, and no more than its columns, is not worth a calculation."""
ARRAY_COPIES, ARRAY_NUMBER = 2, 4
"""Results are there twice while those of several batches are put together; a float64 counts as two numbers."""
MOST_ARRAYS = 40
"""Arrays of an answer to a solve beside those of its targets: columns, names, statuses, times."""
ROWS_OF_TARGET = 6
_PLAIN = re.compile(r"[ !#-\[\]-~]*")  # printable ASCII but quotes and backslashes


def solve_bytes(robot: RobotModel, decoded: DecodedSolve, codec: Codec) -> tuple[int, int]:
    """Return the largest size of the answer to a solve, and of its result in memory [bytes]."""
    request = decoded.request
    numbers = request.batch.problem_count * len(robot.coordinate_names) * (1 + len(request.targets))
    is_few = numbers <= FEW_NUMBERS and not decoded.include and request.options.solution_count == 1
    if is_few and request.object_enabled is None and request.batch.limits is None:
        return FEW_BYTES, 0
    return _answer_bytes(robot, decoded, codec), array_bytes(robot, request)


def _answer_bytes(robot: RobotModel, decoded: DecodedSolve, codec: Codec) -> int:
    request, include, is_flat = decoded.request, decoded.include, codec.is_flat
    extents = _extents(robot, request, 1, len(request.targets))
    problem, links = 0, [target.link for target in request.targets]
    for column in EDGE_COLUMNS:
        if not column.include or column.include in include:
            times = 1 + len(links) if column.is_per_target and len(links) > 1 else 1
            problem += times * _column_bytes(column, extents, is_binary=codec.is_binary)
    names = [robot.joint_names, robot.coordinate_names, robot.dof_names]
    names += [robot.constraint_names, robot.closing_coordinate_names]
    touching = request.collision_names(robot) if not include.isdisjoint(("advice", "clearance")) else ()
    if not include.isdisjoint(("islands", "advice")):
        trees = robot.trees.ntree
        couplings = [
            (min(rows, trees), label) for rows, label in _rows(request, robot)
        ]  # each island has at least one row
        islands = min(trees, sum(count for count, _ in couplings))
        labels = sum(count * _text_bytes((label,)) for count, label in couplings)
        if "islands" in include:
            problem += ROW_TEXT + islands * ISLAND_TEXT + labels + _text_bytes(robot.joint_names)
        if "advice" in include:
            advice = (1 + islands) * ADVICE_TEXT + labels + len(links) * ADVICE_STATIC_TEXT + 2 * _text_bytes(links)
            advice += CONTACT_TEXT + 2 * max((_text_bytes((name,)) for name in touching), default=0)
            problem += advice * (ARRAY_CHARACTER if is_flat else 1)
    listed = sum(
        ARRAY_CHARACTER * len(each) * max(map(len, each), default=0) if is_flat else _text_bytes(each)
        for each in (*names, touching)
    )
    heads = (MOST_ARRAYS + 2 * len(links)) * ARRAY_HEAD
    return DOCUMENT_TEXT + heads + _text_bytes(links) + listed + request.problem_count * problem


def array_bytes(robot: RobotModel, request: SolveRequest) -> int:
    """Return the largest memory of the result of a solve, including object switches and requested limits [bytes].

    Args:
        robot: The robot.
        request: The request; the solver keeps all solutions even if the answer does not include them.
    """
    poses = 0 if request.options.sensitivity is None else len(request.targets)
    extents = _extents(robot, request, len(request.targets), poses)
    extents |= {"trees": robot.trees.ntree, "rows": sum(count for count, _ in _rows(request, robot))}
    numbers = sum(
        (2 if column.dtype == "float64" else 1) * math.prod(extents[axis] for axis in column.axes)
        for column in (*RESULT_COLUMNS, *ISLAND_COLUMNS)
    )
    switches = 0 if request.object_enabled is None else request.object_enabled.nbytes
    switches += 0 if request.batch.limits is None else sum(lines.nbytes for lines in request.batch.limits)
    return ARRAY_COPIES * ARRAY_NUMBER * numbers * request.problem_count + switches


def column_answer_bytes(
    names: Sequence[str], numbers: int, *, rows: int | None = None, arrays: int = 16, is_binary: bool
) -> int:
    """Return the largest size of an answer of columns [bytes].

    Args:
        names: All names in the answer.
        numbers: Number of numbers in all columns.
        rows: Number of rows in all columns; None: one row per number.
        arrays: Largest number of columns.
        is_binary: Whether columns are arrays of bytes rather than text.
    """
    rows = numbers if rows is None else rows
    return (
        DOCUMENT_TEXT
        + _text_bytes(names)
        + arrays * ARRAY_HEAD
        + (NUMBER * numbers if is_binary else FLOAT64_TEXT * numbers + ROW_TEXT * rows)
    )


def _extents(robot: RobotModel, request: SolveRequest, targets: int, poses: int) -> dict[str, int]:
    constraints, closing = len(robot.constraint_names), len(robot.closing_coordinate_names)
    extents = {"coordinates": robot.joint_coord_count, "dofs": robot.joint_dof_count, "targets": targets}
    extents |= {"solutions": request.options.solution_count, "constraints": constraints, "closing_coordinates": closing}
    return extents | {"pair": 2, "poses": poses, "twist": 6}


def _column_bytes(column: Column, extents: Mapping[str, int], *, is_binary: bool) -> int:
    """Return the size of one problem in a column [bytes]."""
    numbers = math.prod(extents[axis] for axis in column.axes)
    if is_binary:
        return numbers if column.dtype == "bool" else NUMBER * numbers
    lists = [math.prod(extents[axis] for axis in column.axes[:k]) for k in range(len(column.axes))]
    return TEXT[column.dtype] * numbers + (0 if column.is_per_target else ROW_TEXT * sum(lists))


def _rows(request: SolveRequest, robot: RobotModel) -> list[tuple[int, str]]:
    """Return the number of rows and the label of each target, objective and constraint."""
    rows = [(ROWS_OF_TARGET, f"target {target.link}") for target in request.targets]
    rows += [(int(it.data[ROW_WEIGHTS].shape[-1]), it.label) for it in request.objectives]
    return rows + [(one.rows().residual_dim(), f"constraint {one.name}") for one in robot.every_constraint]


def _text_bytes(texts: Sequence[str]) -> int:
    """Return the size of texts in JSON [bytes], with quotes and comma; advice may escape a text twice."""
    return sum(3 + len(text) * (1 if _PLAIN.fullmatch(text) else CHARACTER) for text in texts)
