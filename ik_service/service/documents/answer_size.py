"""How many bytes an answer will have at most, from its shape alone, before it is made.

Numbers are taken to be as long as numbers of their type can be written, so an answer has often half of what stands
here, and never more.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from ik_service.result_schema import EDGE_COLUMNS, ISLAND_COLUMNS, RESULT_COLUMNS, Column
from ik_service.robots import RobotModel
from ik_service.service.codecs.codec import Codec
from ik_service.service.documents.solve_request import DecodedSolve
from ik_service.service.queue.objective_data import ROW_WEIGHTS
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.solver.lm.status import IKStatus

FLOAT32_TEXT, FLOAT64_TEXT, INTEGER_TEXT, FLAG_TEXT = 15, 25, 12, 6
"""Characters of a number in JSON with the comma after it: -1.2345678e-38, -1.2345678901234567e-308, -2147483648, false.
"""
STATUS_TEXT = 3 + max(len(status.name) for status in IKStatus)
TEXT = {"status": STATUS_TEXT, "bool": FLAG_TEXT, "int32": INTEGER_TEXT, "float64": FLOAT64_TEXT}
TEXT |= {"precision": FLOAT32_TEXT, "float32": FLOAT32_TEXT}
ROW_TEXT = 3
"""Brackets of a row, and the comma after it."""
ISLAND_TEXT = 200
"""All of an island but for names: 145 characters of fields and numbers, in any form."""
ADVICE_TEXT = 3 + max(len(text) for status in IKStatus for text in (status.advice, status.advice_without_targets))
ADVICE_STATIC_TEXT = 300
"""Advice on a link that nothing moves, but for names."""
ARRAY_HEAD = 320
"""Name, type and shape of an array in a binary answer; in an archive its two headers too."""
ARRAY_CHARACTER = 4
"""Bytes of a character in an array of texts, in which each takes as much room as the longest."""
CHARACTER = 12
"""Bytes of a character of a name in JSON, at most: a pair of escapes."""
CONTACT_TEXT = 64
"""Advice on two that touch, but for their names."""
DOCUMENT_TEXT = 1024
"""What every answer has besides: engine, device, times, names of fields."""
BLOCKING_ANSWER_BYTES = 512 * 1024
"""Answers that may be larger than this are made beside the event loop, and sent in pieces."""
FEW_NUMBERS, FEW_BYTES = 256, 64 * 1024
"""An answer of so few coordinates and targets, and no more than its columns, is not worth a calculation."""
ARRAY_COPIES = 2
"""Results are there twice while those of several batches are put together."""
ROWS_OF_TARGET = 6
_ARRAY_NUMBER = 4  # bytes of a number of a result; an error has eight and counts as two
_NUMBER = 8  # bytes of a number in a binary answer, at most


def solve_answer_bytes(robot: RobotModel, decoded: DecodedSolve, codec: Codec) -> int:
    """Return how many bytes the answer to a solve has at most.

    Args:
        robot: The robot.
        decoded: What was asked.
        codec: Writes it.
    """
    request, include = decoded.request, decoded.include
    coordinates, targets = robot.joint_coord_count, len(request.targets)
    if request.problem_count * coordinates * (1 + targets) <= FEW_NUMBERS and not include:
        return FEW_BYTES
    solutions = request.options.solutions if "solutions" in include else 0
    extents = {"coordinates": coordinates, "dofs": robot.joint_dof_count, "solutions": solutions, "targets": 1}
    extents |= _further_extents(robot, targets)
    problem = 0
    for column in EDGE_COLUMNS:
        if not column.include or column.include in include:
            times = 1 + targets if column.is_per_target and targets > 1 else 1
            problem += times * _column_bytes(column, extents, is_binary=codec.is_binary)
    if not include.isdisjoint(("islands", "advice")):
        islands, labels = _islands(decoded, robot)
        if "islands" in include:
            problem += ROW_TEXT + islands * ISLAND_TEXT + labels + _names_bytes(robot.joint_names)
        if "advice" in include:
            links = sum(ADVICE_STATIC_TEXT + 2 * _text_bytes(target.link) for target in request.targets)
            problem += ((1 + islands) * ADVICE_TEXT + labels + links) * (ARRAY_CHARACTER if codec.is_flat else 1)
    names = _names_bytes(robot.joint_names, robot.coordinate_names, robot.dof_names)
    names *= ARRAY_CHARACTER * len(robot.dof_names) if codec.is_flat else 1  # each takes as much as the longest
    closing = robot.constraint_names, robot.closing_coordinate_names
    names += _names_bytes(*closing) * (ARRAY_CHARACTER * sum(map(len, closing)) if codec.is_flat else 1)
    own = request.collision_names(robot) if not include.isdisjoint(("advice", "clearance")) else ()
    if "advice" in include and own:
        longest = max(map(len, own)) * ARRAY_CHARACTER if codec.is_flat else max(map(_name_bytes, own))
        problem += 2 * longest + CONTACT_TEXT * (ARRAY_CHARACTER if codec.is_flat else 1)
    names += ARRAY_CHARACTER * len(own) * max(map(len, own), default=0) if codec.is_flat else _object_bytes(own)
    links = sum(_text_bytes(target.link) + 2 * ARRAY_HEAD for target in request.targets)
    return DOCUMENT_TEXT + 16 * ARRAY_HEAD + names + links + request.problem_count * problem


def solve_array_bytes(robot: RobotModel, request: SolveRequest) -> int:
    """Return how much memory a solve takes at most for its results, before they are written, and objects by problem.

    Args:
        robot: The robot.
        request: What was asked; solutions are found whether or not the answer includes them.
    """
    rows = sum(ROWS_OF_TARGET for _ in request.targets)
    rows += sum(int(objective.data[ROW_WEIGHTS].shape[-1]) for objective in request.objectives)
    rows += sum(one.rows().residual_dim() for one in robot.every_constraint)
    extents = {"coordinates": robot.joint_coord_count, "dofs": robot.joint_dof_count, "targets": len(request.targets)}
    extents |= {"solutions": request.options.solutions, "trees": robot.trees.ntree, "rows": rows}
    extents |= _further_extents(robot, 0 if request.options.sensitivity is None else len(request.targets))
    numbers = sum(
        (2 if column.dtype == "float64" else 1) * math.prod(extents[axis] for axis in column.axes)
        for column in (*RESULT_COLUMNS, *ISLAND_COLUMNS)
    )
    switches = 0 if request.object_enabled is None else request.object_enabled.nbytes
    switches += 0 if request.limits is None else sum(lines.nbytes for lines in request.limits)
    return ARRAY_COPIES * _ARRAY_NUMBER * numbers * request.problem_count + switches


def _further_extents(robot: RobotModel, poses: int) -> dict[str, int]:
    """How many entries columns have that stand for constraints, for collision, and for derivatives by so many poses."""
    constraints, closing = len(robot.constraint_names), len(robot.closing_coordinate_names)
    return {"constraints": constraints, "closing_coordinates": closing, "pair": 2, "poses": poses, "twist": 6}


def _column_bytes(column: Column, extents: Mapping[str, int], *, is_binary: bool) -> int:
    """Bytes of one problem in a column, for the number of entries along each axis."""
    numbers = math.prod(extents[axis] for axis in column.axes)
    if is_binary:
        return numbers if column.dtype == "bool" else _NUMBER * numbers
    lists = [math.prod(extents[axis] for axis in column.axes[:k]) for k in range(len(column.axes))]
    return TEXT[column.dtype] * numbers + (0 if column.is_per_target else ROW_TEXT * sum(lists))


def forward_answer_bytes(links: Sequence[str], configurations: int, *, is_binary: bool) -> int:
    """Return how many bytes the answer of forward kinematics has at most.

    Args:
        links: Names of the links.
        configurations: Number of configurations.
        is_binary: Whether columns are arrays of bytes rather than text.
    """
    pose = 7 * _NUMBER if is_binary else 7 * FLOAT64_TEXT + 2 * ROW_TEXT
    return DOCUMENT_TEXT + sum(map(_text_bytes, links)) + len(links) * (2 * ARRAY_HEAD + configurations * pose)


def column_answer_bytes(names: tuple[str, ...], numbers: int, *, is_binary: bool) -> int:
    """Return how many bytes an answer of columns has at most.

    Args:
        names: The names in it.
        numbers: The numbers in all its columns.
        is_binary: Whether columns are arrays of bytes rather than text.
    """
    one = _NUMBER if is_binary else FLOAT64_TEXT + ROW_TEXT
    return DOCUMENT_TEXT + 16 * ARRAY_HEAD + _object_bytes(names) + one * numbers


def _islands(decoded: DecodedSolve, robot: RobotModel) -> tuple[int, int]:
    """How many islands a problem has at most, and the bytes of what couples them: an island has a row of its own."""
    trees = robot.trees.ntree
    labels = [(ROWS_OF_TARGET, f"target {target.link}") for target in decoded.request.targets]
    labels += [(it.data[ROW_WEIGHTS].shape[-1], it.label) for it in decoded.request.objectives]
    labels += [(one.rows().residual_dim(), f"constraint {one.name}") for one in robot.every_constraint]
    rows = sum(min(count, trees) for count, _ in labels)
    return min(trees, rows), sum(min(count, trees) * _text_bytes(label) for count, label in labels)


def _object_bytes(names: Sequence[str]) -> int:
    """Bytes of names that a caller gives, at most; not kept."""
    return sum(map(_name_bytes, names))


def _name_bytes(name: str) -> int:
    is_plain = name.isascii() and name.isprintable() and '"' not in name and "\\" not in name
    return 3 + len(name) * (1 if is_plain else CHARACTER)


@lru_cache(maxsize=256)
def _names_bytes(*lists: tuple[str, ...]) -> int:
    return sum(_text_bytes(name) for names in lists for name in names)


@lru_cache(maxsize=4096)
def _text_bytes(text: str) -> int:
    """Bytes of a text in JSON with its quotes and a comma; a character that JSON escapes takes six."""
    return 3 + len(text.encode()) + 5 * sum(not 32 <= ord(c) < 127 or c in '"\\' for c in text)
