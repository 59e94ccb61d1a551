"""From the solver's answer to the document that a codec writes: columns straight from the arrays."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.api.codecs.codec import LazyRows
from ik_service.api.documents.solve_request import DecodedSolve
from ik_service.batching.requests.solve_answer import SolveAnswer
from ik_service.batching.requests.solve_request import SolveRequest
from ik_service.result_schema import worst_over_targets
from ik_service.robots import RobotModel
from ik_service.solver.lm.status import STATUS_WORDS
from ik_service.solver.results.advice import advice
from ik_service.solver.results.island_results import IslandResult


def answer_document(
    robot: RobotModel,
    name: str,
    decoded: DecodedSolve,
    answer: SolveAnswer,
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
    request, include, count = decoded.request, decoded.include, decoded.request.problem_count
    document: dict[str, Any] = {
        "robot": name,
        "joint_names": robot.joint_names,
        "coordinate_names": robot.coordinate_names,
        "joint_q": answer.joint_q,
        "success": answer.success,
        **_status(answer, is_binary=is_binary),
        "position_error_m": worst_over_targets(answer.position_error),
        "orientation_error_rad": worst_over_targets(answer.orientation_error),
        "iterations": answer.iterations,
        "seed_index": answer.seed_index if is_binary else _or_null(answer.seed_index),
        "cost": answer.cost,
    }
    if len(request.targets) > 1:
        document["targets"] = _per_target(request, answer)
    if "solutions" in include:
        document.update(_solutions(answer))
    if "active_limits" in include:
        document["dof_names"] = robot.dof_names
        document["active_limits"] = answer.active_limits
    if "islands" in include:
        document["islands"] = LazyRows(count, lambda row: [_island(island) for island in answer.islands[row]])
    if "advice" in include:
        advise = partial(advice, robot, request.targets, answer, request.options)
        document["advice"] = LazyRows(count, advise)
    document["resolved"] = {"engine": answer.engine, "seeds": answer.seeds, "device": answer.device}
    document["timing_ms"] = {
        "queue": round(answer.queue_ms, 3),
        "solve": round(answer.solve_ms, 3),
        "total": round(total_ms, 3),
    }
    return document


def _status(answer: SolveAnswer, *, is_binary: bool) -> dict[str, Any]:
    if is_binary:
        return {"status": answer.status.astype(np.uint8), "status_names": STATUS_WORDS}
    return {"status": [STATUS_WORDS[code] for code in answer.status.tolist()]}


def _or_null(seeds: NDArray[np.integer[Any]]) -> Any:
    """Seeds as JSON has them: null where islands chose different ones."""
    return seeds if (seeds >= 0).all() else [None if seed < 0 else seed for seed in seeds.tolist()]


def _solutions(answer: SolveAnswer) -> dict[str, Any]:
    """The distinct solutions; the answer itself, where it succeeds, if no more were asked for."""
    if answer.solutions is not None:
        return {"solutions": answer.solutions, "solution_count": answer.solution_count}
    alone = np.where(answer.success[:, None], answer.joint_q, np.nan)[:, None]
    return {"solutions": alone, "solution_count": answer.success.astype(np.int32)}


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


def _per_target(request: SolveRequest, answer: SolveAnswer) -> list[dict[str, Any]]:
    return [
        {
            "link": target.link,
            "position_error_m": answer.position_error[:, k].copy(),
            "orientation_error_rad": answer.orientation_error[:, k].copy(),
        }
        for k, target in enumerate(request.targets)
    ]
