"""From the solver's answer to the document that a codec writes: columns straight from the arrays."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.api.codecs.codec import LazyRows
from ik_service.api.documents.solve_request import DecodedSolve
from ik_service.batching.requests.solve_request import SolveRequest
from ik_service.batching.requests.timed_result import TimedResult
from ik_service.result_schema import worst_over_targets
from ik_service.robots import RobotModel
from ik_service.solver import IKResult
from ik_service.solver.lm.status import STATUS_WORDS
from ik_service.solver.results.advice import advice
from ik_service.solver.results.island_results import IslandResult


def answer_document(
    robot: RobotModel,
    name: str,
    decoded: DecodedSolve,
    answer: TimedResult,
    total_ms: float,
    *,
    is_binary: bool = False,
) -> dict[str, Any]:
    """Return the answer as a document whose columns are still arrays; NaN stands where JSON has null.

    Args:
        robot: The robot.
        name: Name under which it is served.
        decoded: What was asked.
        answer: What the solver found.
        total_ms: Time since the request came in [ms].
        is_binary: Whether statuses are codes beside their names and a seed that islands do not share is -1; else they
            are words and null.
    """
    result = answer.result
    request, include, count = decoded.request, decoded.include, decoded.request.problem_count
    document: dict[str, Any] = {
        "robot": name,
        "joint_names": robot.joint_names,
        "coordinate_names": robot.coordinate_names,
        "joint_q": result.joint_q,
        "success": result.success,
        **_status(result, is_binary=is_binary),
        "position_error_m": worst_over_targets(result.position_error),
        "orientation_error_rad": worst_over_targets(result.orientation_error),
        "iterations": result.iterations,
        "seed_index": result.seed_index if is_binary else _or_null(result.seed_index),
        "cost": result.cost,
    }
    if len(request.targets) > 1:
        document["targets"] = _per_target(request, result)
    if "solutions" in include:
        document.update(_solutions(result))
    if "active_limits" in include:
        document["dof_names"] = robot.dof_names
        document["active_limits"] = result.active_limits
    if "islands" in include:
        document["islands"] = LazyRows(count, lambda row: [_island(island) for island in result.islands[row]])
    if "advice" in include:
        advise = partial(advice, robot, request.targets, request.options, result, result.islands)
        document["advice"] = LazyRows(count, lambda row: advise(problem=row))
    document["resolved"] = {"engine": result.engine, "seeds": result.seeds, "device": result.device}
    document["timing_ms"] = {
        "queue": round(answer.queue_ms, 3),
        "solve": round(answer.solve_ms, 3),
        "total": round(total_ms, 3),
    }
    return document


def _status(result: IKResult, *, is_binary: bool) -> dict[str, Any]:
    if is_binary:
        return {"status": result.status.astype(np.uint8), "status_names": STATUS_WORDS}
    return {"status": [STATUS_WORDS[code] for code in result.status.tolist()]}


def _or_null(seeds: NDArray[np.integer[Any]]) -> Any:
    """Seeds as JSON has them: null where islands chose different ones."""
    return seeds if (seeds >= 0).all() else [None if seed < 0 else seed for seed in seeds.tolist()]


def _solutions(result: IKResult) -> dict[str, Any]:
    """The distinct solutions; the answer itself, where it succeeds, if no more were asked for."""
    if result.solutions is not None:
        return {"solutions": result.solutions, "solution_count": result.solution_count}
    alone = np.where(result.success[:, None], result.joint_q, np.nan)[:, None]
    return {"solutions": alone, "solution_count": result.success.astype(np.int32)}


def _island(island: IslandResult) -> dict[str, Any]:
    return {
        "joints": island.joints,
        "rows": island.rows,
        "success": island.success,
        "status": island.status.word,
        "seed_index": island.seed_index,
        "iterations": island.iterations,
        "cost": island.cost,
    }


def _per_target(request: SolveRequest, result: IKResult) -> list[dict[str, Any]]:
    return [
        {
            "link": target.link,
            "position_error_m": result.position_error[:, k].copy(),
            "orientation_error_rad": result.orientation_error[:, k].copy(),
        }
        for k, target in enumerate(request.targets)
    ]
