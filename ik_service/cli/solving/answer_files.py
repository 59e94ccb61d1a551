"""Results to files: CSV with a row per problem, npz with an array per column, JSON as the HTTP answer has it."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ik_service.api.codecs.json_codec import JsonCodec
from ik_service.api.documents.solve_answer import answer_document
from ik_service.api.documents.solve_request import DecodedSolve
from ik_service.batching.requests.solve_answer import SolveAnswer, worst_over_targets
from ik_service.robots import RobotModel
from objectives.errors import InputError

SUFFIXES = (".csv", ".npz", ".json")


def check_output(path: Path | None) -> None:
    """Refuse a result file that could not be written, before anything is solved.

    Raises:
        InputError: Its suffix names no format, or its folder is not there.
    """
    if path is None:
        return
    if path.suffix not in SUFFIXES:
        raise InputError(f"Output '{path}' has the suffix {path.suffix!r}. Allowed: {', '.join(SUFFIXES)}.")
    if not path.parent.is_dir():
        raise InputError(f"Output '{path}' is in a folder that does not exist.")


def write_answer(path: Path, robot: RobotModel, decoded: DecodedSolve, answer: SolveAnswer) -> None:
    """Write the results to a file, in the format of its suffix.

    Args:
        path: The file.
        robot: The robot.
        decoded: What was asked; JSON results hold what it includes.
        answer: What the solver found.

    Raises:
        InputError: The file cannot be written.
    """
    if path.suffix == ".csv":
        content = csv_text(robot, answer).encode()
    elif path.suffix == ".npz":
        content = _npz_bytes(robot, answer)
    else:
        total_ms = answer.queue_ms + answer.solve_ms
        content = JsonCodec().encode(answer_document(robot, robot.name, decoded, answer, total_ms))
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InputError(f"Cannot write '{path}': {error.strerror}.") from error


def csv_text(robot: RobotModel, answer: SolveAnswer) -> str:
    """Return the results as CSV: coordinates by name, then the judgement; an error that is not constrained is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    judgement = ("success", "status", "position_error_m", "orientation_error_rad", "iterations", "seed_index", "cost")
    writer.writerow((*robot.coordinate_names, *judgement))
    writer.writerows(_csv_rows(answer))
    return text.getvalue()


def _csv_rows(answer: SolveAnswer) -> Iterator[list[object]]:
    position_error = worst_over_targets(answer.position_error)
    orientation_error = worst_over_targets(answer.orientation_error)
    for k, status in enumerate(answer.status_names):
        yield [
            *(f"{value:.9g}" for value in answer.joint_q[k]),
            "true" if answer.success[k] else "false",
            status,
            _number(position_error[k]),
            _number(orientation_error[k]),
            int(answer.iterations[k]),
            int(answer.seed_index[k]),
            _number(answer.cost[k]),
        ]


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.6g}"


def _npz_bytes(robot: RobotModel, answer: SolveAnswer) -> bytes:
    buffer = io.BytesIO()
    np.savez(
        buffer,
        joint_q=answer.joint_q,
        success=answer.success,
        status=answer.status.astype(np.uint8),
        status_names=np.array(answer.status_names),
        position_error_m=worst_over_targets(answer.position_error),
        orientation_error_rad=worst_over_targets(answer.orientation_error),
        iterations=answer.iterations,
        seed_index=answer.seed_index,
        cost=answer.cost,
        joint_names=np.array(robot.joint_names),
        coordinate_names=np.array(robot.coordinate_names),
    )
    return buffer.getvalue()
