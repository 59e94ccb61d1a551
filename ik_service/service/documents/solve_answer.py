"""Conversion of the solver's answer to a document: columns are views of the arrays."""

import time
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ik_service.result_column import Column
from ik_service.result_schema import ALWAYS_COLUMNS, INCLUDED_COLUMNS, edge_array
from ik_service.robots import RobotModel
from ik_service.service.codecs.codec import LazyRows
from ik_service.service.documents.solve_request import DecodedSolve
from ik_service.service.queue.queued_request import TimedResult
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.solver.given.worlds import is_checked
from ik_service.solver.lm.status import STATUS_WORDS
from ik_service.solver.result import IKResult
from ik_service.solver.verdict.advice import advice
from ik_service.solver.verdict.island_results import IslandResult

_AXIS_NAMES = {
    "dofs": "dof_names",
    "constraints": "constraint_names",
    "closing_coordinates": "closing_coordinate_names",
}
"""Names of the entries along axes of columns that a request includes."""


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

    Args:
        robot: The robot.
        name: Name of the robot in the catalog.
        decoded: The request.
        answer: The result of the solver.
        arrived_at: Arrival of the request on the monotonic clock [s]; None: its arrival in the queue.
        is_binary: True: statuses are codes, with a list of names; a seed not shared by all islands is -1. False:
            statuses are words; such a seed is null.
    """
    request, include, count = decoded.request, decoded.include, decoded.request.batch.problem_count
    result = _with_solutions(answer.result) if "solutions" in include else answer.result
    document: dict[str, Any] = {
        "robot": name,
        "joint_names": robot.joint_names,
        "coordinate_names": robot.coordinate_names,
    }
    for column in ALWAYS_COLUMNS:
        if column.is_plain:  # the usual case, kept fast for every request
            document[column.edge_name] = getattr(result, column.name)
            continue
        document[column.edge_name] = _entries(column, result, is_binary=is_binary)
        if column.dtype == "status" and is_binary:
            document["status_names"] = STATUS_WORDS
    if len(request.targets) > 1:
        document["targets"] = _per_target(request, result)
    for column in INCLUDED_COLUMNS:
        if column.include in include:
            document |= {name: getattr(robot, name) for axis, name in _AXIS_NAMES.items() if axis in column.axes}
            if "pair" in column.axes:
                document["collision_names"] = request.collision_names(robot)
            document[column.edge_name] = _entries(column, result, is_binary=is_binary)
    if "islands" in include:
        document["islands"] = LazyRows(count, lambda row: [_island(island) for island in result.islands[row]])
    if "advice" in include:
        names = () if result.clearance is None else request.collision_names(robot)
        given = robot, request.targets, request.options, result, result.islands
        advise = partial(advice, *given, collision_names=names, batch=request.batch)
        document["advice"] = LazyRows(count, lambda row: advise(problem=row))
    collision = request.options.collision or ("self" if request.world is None else "world")
    collision = collision if is_checked(robot, request.options, request.world) else "off"
    resolved = {"engine": result.engine, "seeds": result.seeds, "device": result.device, "collision": collision}
    document["resolved"] = resolved
    waited_ms = answer.queue_ms + answer.solve_ms
    total_ms = waited_ms if arrived_at is None else 1e3 * (time.monotonic() - arrived_at)
    document["timing_ms"] = {
        "queue": round(answer.queue_ms, 3),
        "solve": round(answer.solve_ms, 3),
        "total": round(total_ms, 3),
    }
    return document


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
