"""Conversion of the solver's answer to a document, and upper bounds of its size before any computation.

Columns of a document are views of the arrays. Bounds come from shapes alone: each number counts with the longest text
of its type, so an answer often has half of the bound, and never more.
"""

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ik_service.motion.tracks import ROWS_MAX
from ik_service.motion_columns import CLIP_COLUMNS, PATH_COLUMNS
from ik_service.result_column import Column
from ik_service.result_schema import (
    ALWAYS_COLUMNS,
    CHOICE_COLUMNS,
    EDGE_COLUMNS,
    INCLUDED_COLUMNS,
    ISLAND_COLUMNS,
    RESULT_COLUMNS,
    edge_array,
)
from ik_service.robots import RobotModel
from ik_service.service.codecs.codec import Codec, LazyRows
from ik_service.service.documents.solve_request import DecodedSolve
from ik_service.service.queue.objective_data import ROW_WEIGHTS
from ik_service.service.queue.solve_request import SolveRequest, TimedResult
from ik_service.solver.candidates import FATES
from ik_service.solver.given.worlds import is_checked
from ik_service.solver.lm.status import STATUS_WORDS, IKStatus
from ik_service.solver.result import IKResult
from ik_service.solver.trace import FIRST_SEEDS
from ik_service.solver.verdict.advice import advice
from ik_service.solver.verdict.island_results import IslandResult

_AXIS_NAMES = {
    "dofs": "dof_names",
    "constraints": "constraint_names",
    "closing_coordinates": "closing_coordinate_names",
}
"""Names of the entries along axes of columns that a request includes."""

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
ARRAYS_OF_MOTION, WAYPOINT_BYTES = 8, 1024
"""Results that a motion keeps at once; memory of tracks at a waypoint, for each DOF."""
_PLAIN = re.compile(r"[ !#-\[\]-~]*")  # printable ASCII but quotes and backslashes


def answer_document(
    robot: RobotModel,
    name: str,
    decoded: DecodedSolve,
    answer: TimedResult,
    *,
    arrived_at: float | None = None,
    is_binary: bool = False,
) -> dict[str, Any]:
    """Return the answer as a document with columns as arrays; NaN stands for JSON's null.

    `name` is the robot's name in the catalog; `arrived_at` the arrival of the request on the monotonic clock [s], None
    for its arrival in the queue. With `is_binary`, statuses are codes, with a list of names, and a seed not shared by
    all islands is -1; otherwise statuses are words, and such a seed is null.
    """
    request, include, count = decoded.request, decoded.include, decoded.request.batch.problem_count
    result: Any = _with_solutions(answer.result) if "solutions" in include else answer.result
    document: dict[str, Any] = {
        "robot": name,
        "joint_names": robot.joint_names,
        "coordinate_names": robot.coordinate_names,
    }
    for column in _columns_of(request):
        if (values := getattr(result, column.name)) is None:  # without second poses, or a check for collision
            continue
        if column.is_plain:  # the usual case, kept fast for every request
            document[column.edge_name] = values
            continue
        document[column.edge_name] = _entries(column, result, is_binary=is_binary)
        if column.dtype == "status" and is_binary:
            document["status_names"] = STATUS_WORDS
    if request.choice is not None:
        counts = dict(zip(FATES, result.counts.T.copy(), strict=True))
        return document | {"counts": counts, "timing_ms": _timing_ms(answer, arrived_at)}
    if request.motion is not None:
        document |= {name: np.ascontiguousarray(own) for name, own in document.items() if isinstance(own, np.ndarray)}
        return document | _motion_names(robot, request) | {"timing_ms": _timing_ms(answer, arrived_at)}
    if len(request.targets) > 1:
        document["targets"] = _per_target(request, result)
    for column in INCLUDED_COLUMNS:
        if column.include in include:
            document |= {name: getattr(robot, name) for axis, name in _AXIS_NAMES.items() if axis in column.axes}
            if "pair" in column.axes:
                document["collision_names"] = request.collision_names(robot)
            document[column.edge_name] = _entries(column, result, is_binary=is_binary)
    if "manipulability" in include:
        document["manipulability"] = result.manipulability
    if "islands" in include:
        document["islands"] = LazyRows(count, lambda row: [_island(island) for island in result.islands[row]])
    if "advice" in include:
        names = () if result.clearance is None else request.collision_names(robot)
        given = robot, request.targets, request.options, result, result.islands
        advise = partial(advice, *given, collision_names=names, batch=request.batch)
        document["advice"] = LazyRows(count, lambda row: advise(problem=row))
    if "trace" in include:
        document["trace"] = [result.trace.as_data()]
    collision = request.options.collision or ("self" if request.world is None else "world")
    collision = collision if is_checked(robot, request.options, request.world) else "off"
    resolved = {"engine": result.engine, "seeds": result.seeds, "device": result.device, "collision": collision}
    document["resolved"] = resolved
    document["timing_ms"] = _timing_ms(answer, arrived_at)
    return document


def _timing_ms(answer: TimedResult, arrived_at: float | None) -> dict[str, float]:
    waited_ms = answer.queue_ms + answer.solve_ms
    total_ms = waited_ms if arrived_at is None else 1e3 * (time.monotonic() - arrived_at)
    return {"queue": round(answer.queue_ms, 3), "solve": round(answer.solve_ms, 3), "total": round(total_ms, 3)}


def _columns_of(request: SolveRequest) -> Sequence[Column]:
    """Return the columns that the answer has without `include`."""
    if request.motion is not None:
        return CLIP_COLUMNS if request.motion.call == "fit_clip" else PATH_COLUMNS
    return ALWAYS_COLUMNS if request.choice is None else CHOICE_COLUMNS


def _motion_names(robot: RobotModel, request: SolveRequest) -> dict[str, Sequence[str]]:
    """Return the names along the axes of the columns of a motion."""
    names = {"coordinate_names": robot.coordinate_names, "dof_names": robot.dof_names}
    names["links"] = tuple(target.link for target in request.targets)
    if request.motion is not None and request.motion.call == "fit_clip":
        names["held_links"] = tuple(request.motion.arguments.get("held") or ())
    return {"joint_names": robot.joint_names, **names}


def _entries(column: Column, result: IKResult, *, is_binary: bool) -> Any:
    """Return a column for the codec; if the codec is not binary, statuses become words, and -1 becomes null."""
    values = edge_array(column, result)
    if is_binary:
        return values
    if column.dtype == "status":
        return [STATUS_WORDS[code] for code in values.tolist()]
    if column.null == "inf":
        return np.where(np.isinf(values), np.nan, values)
    if column.null == "-1" and np.count_nonzero(values < 0):
        entries = values.astype(object)
        entries[values < 0] = None
        return entries.tolist()
    return values


def _with_solutions(result: IKResult) -> IKResult:
    """Return the result with solutions; without a request for several, the successful answer is the only solution."""
    if result.solutions is not None:
        return result
    alone = np.where(result.success[:, None], result.joint_q, np.nan)[:, None]
    found = result.success.astype(np.int32)
    branch, complete = np.full((len(found), 1), -1, np.int32), np.zeros(len(found), np.bool_)
    return replace(result, solutions=alone, solution_count=found, branch=branch, complete=complete)


def _island(island: IslandResult) -> dict[str, Any]:
    return {**vars(island), "status": island.status.word}


def _per_target(request: SolveRequest, result: IKResult) -> list[dict[str, Any]]:
    columns = [(column.edge_name, getattr(result, column.name)) for column in ALWAYS_COLUMNS if column.is_per_target]
    return [
        {"link": target.link, **{name: values[:, k].copy() for name, values in columns}}
        for k, target in enumerate(request.targets)
    ]


def solve_bytes(robot: RobotModel, decoded: DecodedSolve, codec: Codec) -> tuple[int, int]:
    """Return the largest size of the answer to a solve, and of its result in memory [bytes]."""
    request = decoded.request
    if request.choice is not None:
        own = {"joints": robot.joint_names, "coordinates": robot.coordinate_names}
        size = _columns_bytes(request, own, request.choice.groups.number, codec)
        size += request.choice.groups.number * len(FATES) * TEXT["int32"]
        return size, array_bytes(robot, request) + size
    if request.motion is not None:
        size = _columns_bytes(request, _motion_names(robot, request), request.problem_count, codec)
        tracked = max(request.problem_count, ROWS_MAX) if request.motion.call == "follow" else 0
        tracks = WAYPOINT_BYTES * robot.joint_dof_count * tracked
        return size, ARRAYS_OF_MOTION * array_bytes(robot, request) + tracks
    numbers = request.batch.problem_count * len(robot.coordinate_names) * (1 + len(request.targets))
    is_few = numbers <= FEW_NUMBERS and not decoded.include and request.options.solution_count == 1
    if is_few and request.object_enabled is None and request.batch.limits is None:
        return FEW_BYTES, 0
    return _answer_bytes(robot, decoded, codec), array_bytes(robot, request)


def _columns_bytes(request: SolveRequest, names: Mapping[str, Sequence[str]], rows: int, codec: Codec) -> int:
    """Return the largest size of an answer of columns, with names of the entries along their axes [bytes]."""
    extents = {axis: len(own) for axis, own in names.items()}
    row = sum(_column_bytes(one, extents, is_binary=codec.is_binary) for one in _columns_of(request))
    return DOCUMENT_TEXT + MOST_ARRAYS * ARRAY_HEAD + _listed_bytes([*names.values()], codec) + rows * row


def _answer_bytes(robot: RobotModel, decoded: DecodedSolve, codec: Codec) -> int:
    request, include, is_flat = decoded.request, decoded.include, codec.is_flat
    extents = _extents(robot, request, 1, len(request.targets))
    problem, links = 0, [target.link for target in request.targets]
    for column in EDGE_COLUMNS:
        if not column.include or column.include in include:
            times = 1 + len(links) if column.is_per_target and len(links) > 1 else 1
            problem += times * _column_bytes(column, extents, is_binary=codec.is_binary)
    if "manipulability" in include:
        problem += NUMBER if codec.is_binary else FLOAT64_TEXT
    if "trace" in include:
        problem += _trace_bytes(robot, request)
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
    listed = _listed_bytes((*names, touching), codec)
    heads = (MOST_ARRAYS + 2 * len(links)) * ARRAY_HEAD
    return DOCUMENT_TEXT + heads + _text_bytes(links) + listed + request.problem_count * problem


def _trace_bytes(robot: RobotModel, request: SolveRequest) -> int:
    """Return the largest size of a trace [bytes]."""
    islands, labels = robot.trees.ntree, [label for _, label in _rows(request, robot)]
    attempts, links = FIRST_SEEDS + islands, [target.link for target in request.targets]
    numbers = robot.joint_coord_count + robot.joint_dof_count + 3 * islands + 2 * len(links) + len(labels)
    entries = (1 + request.options.max_iterations) * (attempts * (FLOAT64_TEXT * numbers + 6 * ROW_TEXT) + ROW_TEXT)
    names = _text_bytes([*robot.coordinate_names, *robot.dof_names, *links, *labels])
    return entries + names + attempts * islands * ISLAND_TEXT


def array_bytes(robot: RobotModel, request: SolveRequest) -> int:
    """Return the largest memory of the result of a solve, including object switches and requested limits [bytes].

    The solver keeps all solutions even if the answer does not include them.
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
    """Return the largest size of an answer of columns, with all their names, numbers and rows [bytes].

    Without `rows`, each number is a row. `arrays` is the largest number of columns. With `is_binary`, columns are
    arrays of bytes rather than text.
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


def _listed_bytes(lists: Sequence[Sequence[str]], codec: Codec) -> int:
    if codec.is_flat:
        return sum(ARRAY_CHARACTER * len(each) * max(map(len, each), default=0) for each in lists)
    return sum(map(_text_bytes, lists))


def _text_bytes(texts: Sequence[str]) -> int:
    """Return the size of texts in JSON [bytes], with quotes and comma; advice may escape a text twice."""
    return sum(3 + len(text) * (1 if _PLAIN.fullmatch(text) else CHARACTER) for text in texts)
