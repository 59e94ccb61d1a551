"""Conversion of stream messages to solve requests, and of answers to stream messages."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ik_service.result_column import Column
from ik_service.result_schema import EDGE_COLUMNS, edge_array
from ik_service.robots import RobotModel
from ik_service.service.codecs.codec import Codec, PackedColumn
from ik_service.service.codecs.json_codec import JsonCodec
from ik_service.service.codecs.msgpack_codec import MsgpackCodec
from ik_service.service.documents.columns import check_unit_quaternions, read_row
from ik_service.service.documents.envelope import read_envelope
from ik_service.service.documents.solve_request import read_solve
from ik_service.service.errors.exceptions import faulty_field
from ik_service.service.errors.problem_documents import error_document
from ik_service.service.queue.objective_data import FloatArray
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.service.schema.limits import MAX_SEQUENCE
from ik_service.service.schema.solve import TargetForm
from ik_service.service.schema.stream import StreamConfiguration, Tick
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.targets import has_lines
from ik_service.solver.lm.status import STATUS_WORDS
from ik_service.solver.result import IKResult

JSON, MSGPACK = JsonCodec(), MsgpackCodec()
Message = str | bytes
"""A message: text is JSON, bytes are MessagePack."""

STREAMED = EDGE_COLUMNS[:5]
"""The columns in answers to ticks: the configuration, and its errors at the targets."""
_PLACEHOLDERS = {"positions": [[0, 0, 0]], "orientations_xyzw": [[0, 0, 0, 1]]}
_WIDTHS = {"positions": 3, "orientations_xyzw": 4}
_GIVEN = {"pose": tuple(_PLACEHOLDERS), "position": ("positions",), "orientation": ("orientations_xyzw",)}


@dataclass(frozen=True)
class StreamPlan:
    """Checked configuration of a stream."""

    request: SolveRequest  # template with one problem; its target poses are placeholders
    joint_q: FloatArray  # initial configuration of the first tick, shape [joint_coord_count]
    codec: Codec  # codec of the service's messages
    tick_timeout_s: float  # longest time for the answer to a tick [s]


def decode_message(message: Message) -> Any:
    """Return the document in a message; MalformedBodyError or FaultyFieldsError as in `Codec.decode`."""
    return JSON.decode(message.encode()) if isinstance(message, str) else MSGPACK.decode(message)


def read_configuration(message: Message, robot: RobotModel) -> StreamPlan:
    """Return the configuration in the first message; errors as in `read_solve`, or MalformedBodyError."""
    given = read_envelope(StreamConfiguration, decode_message(message))
    if given.options.solutions != 1:
        raise faulty_field("/options/solutions", "out_of_range", "A stream answers with one solution.")
    if given.options.sensitivity is not None:
        raise faulty_field("/options/sensitivity", "invalid_value", "A stream answers without derivatives.")
    targets = []
    for wanted in given.targets:
        fields = {name: getattr(wanted, name) for name in TargetForm.model_fields}
        targets.append({**fields, **{name: _PLACEHOLDERS[name] for name in _GIVEN[wanted.constrain]}})
    document = {"targets": targets, "options": given.options}
    request = read_solve(document, robot).request
    for k, target in enumerate(request.targets):
        if has_lines(target):
            raise faulty_field(f"/targets/{k}", "wrong_shape", "Give one row of each, for all ticks.")
    joint_q: FloatArray = np.asarray(robot.mid_joint_q, np.float64)
    if given.initial_joint_q is not None:
        joint_q = read_row(given.initial_joint_q, robot.joint_coord_count, "/initial_joint_q")
    encoding = given.encoding or ("json" if isinstance(message, str) else "msgpack")
    codec = JSON if encoding == "json" else MSGPACK
    request = replace(request, batch=request.batch._replace(start=joint_q[None]))
    return StreamPlan(request, joint_q, codec, given.tick_timeout_s)


def sequence_of(document: Any) -> int | None:
    """Return the number of a tick, even if the tick has faults; None without a valid number."""
    seq = document.get("seq") if isinstance(document, dict) else None
    return seq if type(seq) is int and 0 <= seq <= MAX_SEQUENCE else None


def tick_request(tick: Tick, plan: StreamPlan, joint_q: FloatArray) -> SolveRequest:
    """Return the solve request of a tick; FaultyFieldsError for missing or forbidden rows.

    `joint_q` is the initial configuration if the tick gives none, shape [joint_coord_count].
    """
    templates = plan.request.batch
    positions = _rows("positions", tick.positions, templates.positions)
    orientations = _rows("orientations_xyzw", tick.orientations_xyzw, templates.orientations_xyzw)
    start = joint_q if tick.joint_q is None else read_row(tick.joint_q, len(joint_q), "/joint_q")
    batch, chosen = Batch(positions, orientations, 1, start[None]), plan.request
    return SolveRequest(chosen.targets, batch, chosen.options, engine=chosen.engine, islands=chosen.islands)


def configured_message(robot: RobotModel, name: str, warm_up: IKResult) -> dict[str, Any]:
    """Return the answer to a configuration, after the kernels are loaded."""
    return {
        "type": "configured",
        "robot": name,
        "joint_names": robot.joint_names,
        "coordinate_names": robot.coordinate_names,
        "resolved": {"engine": warm_up.engine, "seeds": warm_up.seeds, "device": warm_up.device},
    }


def answer_message(seq: int, answer: IKResult, skipped: int, codec: Codec) -> dict[str, Any]:
    """Return the answer to a tick, a result of one problem; rows are plain lists in MessagePack, too.

    `skipped` is the number of ticks replaced by newer ticks since the last answer.
    """
    return {
        "type": "answer",
        "seq": seq,
        **{column.edge_name: _value(column, edge_array(column, answer)[0], codec) for column in STREAMED},
        "skipped": skipped,
    }


def error_message(error: Exception, seq: int | None, skipped: int = 0) -> dict[str, Any]:
    """Return the answer to a failed message: the problem document of HTTP, and its code."""
    problem = error_document(error)
    return {"type": "error", "seq": seq, "code": problem["code"], "problem": problem, "skipped": skipped}


def _rows(name: str, value: object, templates: tuple[FloatArray | None, ...]) -> tuple[FloatArray | None, ...]:
    """Return the rows of a tick, [1, width] per target; None for targets without this column."""
    wanted = [template is not None for template in templates]
    pointer = f"/{name}"
    if value is None:
        if any(wanted):
            raise faulty_field(pointer, "missing_field", "Give one row per target.")
        return (None,) * len(templates)
    rows: Any = value.array(pointer) if isinstance(value, PackedColumn) else value
    if not isinstance(rows, (list, np.ndarray)):
        raise faulty_field(pointer, "wrong_type", "Give a list with one row per target.")
    if (isinstance(rows, np.ndarray) and rows.ndim == 0) or len(rows) != len(templates):
        raise faulty_field(pointer, "wrong_shape", f"Give one row per target: {len(templates)}.")
    pairs = enumerate(zip(rows, wanted, strict=True))
    return tuple(_row(name, row, is_wanted, f"{pointer}/{k}") for k, (row, is_wanted) in pairs)


def _row(name: str, row: object, is_wanted: bool, pointer: str) -> FloatArray | None:
    if not is_wanted:
        if row is not None:
            raise faulty_field(pointer, "unknown_field", "The target was configured without it. Give null.")
        return None
    numbers = read_row(row, _WIDTHS[name], pointer)
    if name == "orientations_xyzw":
        check_unit_quaternions(numbers, pointer)
    return numbers[None]


def _value(column: Column, value: Any, codec: Codec) -> Any:
    """Return the entry of a column for the single problem of a tick."""
    if column.dtype == "status":
        return STATUS_WORDS[value]
    if column.null == "nan" and np.isnan(value):
        return None
    return value if value.ndim and not codec.is_binary else value.tolist()
