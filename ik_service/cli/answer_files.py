"""Results to files: CSV with a row per problem, npz with an array per column, JSON with the document of HTTP."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.result_schema import ALWAYS_COLUMNS, Column, edge_array, edge_arrays
from ik_service.robots import RobotModel
from ik_service.service.codecs.json_codec import JsonCodec
from ik_service.service.documents.solve_answer import answer_document
from ik_service.service.documents.solve_request import DecodedSolve
from ik_service.service.queue.queued_request import TimedResult
from ik_service.solver.lm.status import STATUS_WORDS
from ik_service.solver.result import IKResult
from objectives.errors import InputError

SUFFIXES = (".csv", ".npz", ".json")


def check_output(path: Path | None) -> None:
    """Refuse a result file before the solve: InputError for an unknown suffix or a missing folder."""
    if path is None:
        return
    if path.suffix not in SUFFIXES:
        raise InputError(
            f"Output '{path}' has the suffix {path.suffix!r}. Allowed: {', '.join(SUFFIXES)}, or a folder for Parquet."
        )
    if not path.parent.is_dir():
        raise InputError(f"Output '{path}' is in a folder that does not exist.")


def write_answer(path: Path, robot: RobotModel, decoded: DecodedSolve, answer: TimedResult) -> None:
    """Write the results to a file, in the format of its suffix; InputError if the file cannot be written.

    JSON results hold the included columns of the request.
    """
    if path.suffix == ".csv":
        content = csv_text(robot, answer.result).encode()
    elif path.suffix == ".npz":
        content = _npz_bytes(robot, answer.result)
    else:
        content = JsonCodec().encode(answer_document(robot, robot.name, decoded, answer))
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InputError(f"Cannot write '{path}': {error.strerror}.") from error


def csv_text(robot: RobotModel, result: IKResult) -> str:
    """Return the results as CSV: coordinates by name, then the verdict; errors of free axes are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    judgement = [column for column in ALWAYS_COLUMNS if not column.axes or column.is_per_target]
    writer.writerow((*robot.coordinate_names, *(column.edge_name for column in judgement)))
    texts = [_texts(column, edge_array(column, result)) for column in judgement]
    for joint_q, *row in zip(result.joint_q, *texts, strict=True):
        writer.writerow([*(f"{value:.9g}" for value in joint_q), *row])
    return text.getvalue()


def _texts(column: Column, values: NDArray[Any]) -> list[object]:
    if column.dtype == "status":
        return [STATUS_WORDS[code] for code in values]
    if column.dtype == "bool":
        return ["true" if value else "false" for value in values]
    if values.dtype.kind == "f":
        return ["" if np.isnan(value) else f"{value:.6g}" for value in values]
    return list(values)


def _npz_bytes(robot: RobotModel, result: IKResult) -> bytes:
    arrays: dict[str, Any] = {}
    for name, values in edge_arrays(result).items():
        arrays[name] = values
        if name == "status":
            arrays["status_names"] = np.array(result.status_names)
    arrays["joint_names"] = np.array(robot.joint_names)
    arrays["coordinate_names"] = np.array(robot.coordinate_names)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()
