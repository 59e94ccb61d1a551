"""From the solver's answer to the JSON document: columns straight from the arrays."""

from collections.abc import Set
from typing import Any

import orjson

from ik_service.api.solve_schema import Include
from ik_service.batching.answer import SolveAnswer, worst_over_targets
from ik_service.batching.request import SolveRequest
from ik_service.robots import RobotModel
from ik_service.solver.advice import advice
from ik_service.solver.island_results import IslandResult


def answer_document(
    robot: RobotModel, name: str, request: SolveRequest, answer: SolveAnswer, include: Set[Include], total_ms: float
) -> dict[str, Any]:
    """Return the answer as a document whose columns are still arrays; NaN stands where JSON has null.

    Args:
        robot: The robot.
        name: Name under which it is served.
        request: What was asked.
        answer: What the solver found.
        include: Further columns wanted.
        total_ms: Time since the request came in [ms].
    """
    document: dict[str, Any] = {
        "robot": name,
        "joint_names": robot.joint_names,
        "coordinate_names": robot.coordinate_names,
        "joint_q": answer.joint_q,
        "success": answer.success,
        "status": answer.status_names,
        "position_error_m": worst_over_targets(answer.position_error),
        "orientation_error_rad": worst_over_targets(answer.orientation_error),
        "iterations": answer.iterations,
        "seed_index": [None if seed < 0 else seed for seed in answer.seed_index.tolist()],
        "cost": answer.cost,
    }
    if len(request.targets) > 1:
        document["targets"] = _per_target(request, answer)
    if "active_limits" in include:
        document["dof_names"] = robot.dof_names
        document["active_limits"] = answer.active_limits
    if "islands" in include:
        document["islands"] = [[_island(island) for island in islands] for islands in answer.islands]
    if "advice" in include:
        document["advice"] = [
            advice(robot, request.targets, answer, request.options, problem) for problem in range(request.problem_count)
        ]
    document["resolved"] = {"engine": answer.engine, "seeds": answer.seeds, "device": answer.device}
    document["timing_ms"] = {
        "queue": round(answer.queue_ms, 3),
        "solve": round(answer.solve_ms, 3),
        "total": round(total_ms, 3),
    }
    return document


def encode_json(document: dict[str, Any]) -> bytes:
    """Return a document as JSON; NaN becomes null."""
    return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)


def _island(island: IslandResult) -> dict[str, Any]:
    return {
        "joints": island.joints,
        "rows": island.rows,
        "success": island.success,
        "status": island.status.name.lower(),
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
