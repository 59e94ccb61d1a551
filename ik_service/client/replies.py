"""Replies of the service as results with NumPy columns."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import httpx2
import msgpack
import numpy as np
from numpy.typing import NDArray

from ik_service.client.errors import ClientError
from ik_service.client.reply_errors import check_reply, foreign_reply, media_type
from ik_service.client.results import ForwardResult, SolveResult
from ik_service.packed_columns import PACKED_FIELDS
from ik_service.result_schema import ALWAYS_COLUMNS, EDGE_COLUMNS, Column

Result = TypeVar("Result")
_DTYPES = ("bool", "uint8", "int8", "int32", "int64", "float32", "float64")


def read_reply(reply: httpx2.Response, read: Callable[[dict[str, Any]], Result]) -> Result:
    """Return what a reply holds.

    Args:
        reply: The reply.
        read: Returns it, from the document in the reply; numeric columns of MessagePack are arrays.

    Raises:
        ServiceError: The reply is an error.
        ClientError: The reply is not one of this service.
    """
    check_reply(reply)
    try:
        if media_type(reply) == "application/msgpack":
            document = msgpack.unpackb(reply.content, object_hook=_unpacked)
        else:
            document = json.loads(reply.content)
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        raise ClientError(f"The reply of {reply.url} cannot be read: {error}.") from error
    if not isinstance(document, dict):
        raise foreign_reply(reply)
    try:
        return read(document)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise foreign_reply(reply) from error


def solve_result(document: Mapping[str, Any]) -> SolveResult:
    """Return the results in a document."""
    resolved = document["resolved"]
    present: dict[str, Any] = {
        column.edge_name: _read_column(column, document) for column in EDGE_COLUMNS if column.edge_name in document
    }
    lists = ("dof_names", "constraint_names", "closing_coordinate_names", "collision_names", "islands", "advice")
    present |= {name: tuple(document[name]) for name in lists if name in document}
    result = SolveResult(
        robot=document["robot"],
        joint_names=tuple(document["joint_names"]),
        coordinate_names=tuple(document["coordinate_names"]),
        engine=resolved["engine"],
        device=resolved["device"],
        seeds=resolved["seeds"],
        collision=resolved.get("collision"),
        timing_ms=document["timing_ms"],
        targets=tuple(_target_errors(target) for target in document.get("targets", ())),
        **present,
    )
    per_problem = [column.edge_name for column in ALWAYS_COLUMNS if column.edge_name in present]
    lengths = {np.shape(present[name])[:1] for name in per_problem}
    if len(lengths) != 1 or lengths == {()}:
        raise ValueError("the columns have not a row per problem")
    return result


def _read_column(column: Column, document: Mapping[str, Any]) -> NDArray[Any]:
    """A column as an array: statuses as words, NaN, infinity or -1 for null."""
    values = document[column.edge_name]
    if column.dtype == "status":
        status = np.asarray(values)
        return np.asarray(document["status_names"])[status] if "status_names" in document else status
    if column.dtype in ("precision", "float32", "float64"):
        numbers = _floats(values)
        return np.where(np.isnan(numbers), np.inf, numbers) if column.null == "inf" else numbers
    if column.null == "-1" and isinstance(values, list):
        values = [-1 if value is None else value for value in values]
    return np.asarray(values)


def forward_result(document: Mapping[str, Any]) -> ForwardResult:
    """Return the poses in a document."""
    poses = document["poses"]
    return ForwardResult(
        robot=document["robot"],
        links=tuple(pose["link"] for pose in poses),
        positions=np.stack([_floats(pose["positions"]) for pose in poses], axis=1),
        orientations_xyzw=np.stack([_floats(pose["orientations_xyzw"]) for pose in poses], axis=1),
    )


def robot_list(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the robots in a document."""
    listed = document.get("robots")
    if not isinstance(listed, list) or not all(isinstance(robot, dict) for robot in listed):
        raise TypeError("the robots are no list of documents")
    return listed


def robot_description(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document that describes a robot."""
    if not isinstance(document.get("name"), str):
        raise TypeError("the robot has no name")
    return document


def _unpacked(entries: dict[str, Any]) -> Any:
    """A packed column as an array, anything else as it is."""
    if entries.keys() != PACKED_FIELDS or entries["dtype"] not in _DTYPES:
        return entries
    wire_type = np.dtype(entries["dtype"]).newbyteorder("<")
    return np.frombuffer(entries["data"], wire_type).reshape(entries["shape"])


def _floats(column: Any) -> NDArray[Any]:
    """A column of numbers, NaN for null."""
    return column if isinstance(column, np.ndarray) else np.asarray(column, dtype=np.float64)


def _target_errors(target: Mapping[str, Any]) -> dict[str, Any]:
    names = [column.edge_name for column in ALWAYS_COLUMNS if column.is_per_target]
    return {"link": target["link"], **{name: _floats(target[name]) for name in names}}
