"""The messages of a stream: writing requests and reading answers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgpack
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ik_service.client.errors import ClientError, ServiceError
from ik_service.client.requests import Encoding, TargetFields, as_list
from ik_service.result_schema import EDGE_COLUMNS

Message = str | bytes
_STREAMED = tuple(column.edge_name for column in EDGE_COLUMNS if column.streamed)


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamTarget(TargetFields):
    """A link that follows targets in a stream; its data have one line for all steps.

    Attributes:
        constrain: What every step gives: "pose", "position" or "orientation"; the rest is free.
    """

    constrain: Literal["pose", "position", "orientation"] = "pose"

    def document(self) -> dict[str, Any]:
        """Return the target as in the message to the service."""
        return {**super().document(), "constrain": self.constrain}


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamAnswer:
    """The answer to one step.

    Attributes:
        seq: Number of the step, from 0.
        joint_q: The configuration [rad or m], shape [joint_coord_count].
        success: Whether every target is met within its tolerance.
        status: How the problem ended, such as "converged".
        position_error_m: Worst over the targets [m]; None where all leave the position free.
        orientation_error_rad: Worst over the targets [rad]; None where all leave the orientation free.
        skipped: Earlier steps that were not solved because this one replaced them.
    """

    seq: int
    joint_q: NDArray[np.float64]
    success: bool
    status: str
    position_error_m: float | None
    orientation_error_rad: float | None
    skipped: int


@dataclass(frozen=True, kw_only=True)
class StreamConfigured:
    """The configuration that the service has accepted.

    Attributes:
        joint_names: Names of the robot's joints.
        coordinate_names: Names of the entries of `joint_q`.
        engine: Engine that runs.
        device: Device that it runs on.
        seeds: Starts that each step can use.
    """

    joint_names: tuple[str, ...]
    coordinate_names: tuple[str, ...]
    engine: str
    device: str
    seeds: int


class Conversation:
    """Numbers the steps of one stream, writes its messages and reads those of the service.

    Args:
        targets: The links that follow targets.
        initial_joint_q: Start of the first step [rad or m], shape [joint_coord_count]; None: mid-range.
        options: Options of the solves.
        tick_timeout_s: Deadline of each step [s].
        encoding: "msgpack" or "json".
    """

    def __init__(
        self,
        targets: Sequence[StreamTarget],
        initial_joint_q: ArrayLike | None,
        options: Mapping[str, Any] | None,
        tick_timeout_s: float,
        encoding: Encoding,
    ) -> None:
        self._targets, self._encoding, self._next_seq = tuple(targets), encoding, 0
        self.configuration = self._write(
            {
                "type": "configure",
                "targets": [target.document() for target in self._targets],
                "options": dict(options) if options else {},
                "initial_joint_q": initial_joint_q,
                "tick_timeout_s": tick_timeout_s,
            }
        )

    def step(
        self, positions: ArrayLike | None, orientations_xyzw: ArrayLike | None, joint_q: ArrayLike | None
    ) -> tuple[int, Message]:
        """Return the number of the next step and its message."""
        seq, self._next_seq = self._next_seq, self._next_seq + 1
        rows = {"positions": self._rows(positions), "orientations_xyzw": self._rows(orientations_xyzw)}
        return seq, self._write({"seq": seq, **rows, "joint_q": joint_q})

    def configured(self, message: Message) -> StreamConfigured:
        """Return the accepted configuration in a message.

        Raises:
            ServiceError: The service refuses the configuration.
            ClientError: The message is not one of this service.
        """
        document = _read(message)
        try:
            _refuse_error(document)
            return StreamConfigured(
                joint_names=tuple(document["joint_names"]),
                coordinate_names=tuple(document["coordinate_names"]),
                **{name: document["resolved"][name] for name in ("engine", "device", "seeds")},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ClientError("The first message of the stream is not one of this service.") from error

    def answer(self, message: Message, seq: int) -> StreamAnswer | None:
        """Return the answer to a step; None where the message answers an earlier step, whose wait has ended.

        Raises:
            ServiceError: The step is refused, or has failed.
            ClientError: The message is not one of this service.
        """
        document = _read(message)
        try:
            if document["seq"] is not None and document["seq"] < seq:
                return None
            _refuse_error(document)
            fields = {name: document[name] for name in ("seq", "skipped", *_STREAMED)}
            return StreamAnswer(**fields | {"joint_q": np.asarray(fields["joint_q"], np.float64)})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ClientError("A message of the stream is not one of this service.") from error

    def _rows(self, given: ArrayLike | None) -> Any:
        """A row per target; a single target may be given without its row."""
        if given is None or (isinstance(given, list | tuple) and any(row is None for row in given)):
            return given
        rows = np.asarray(given, np.float64)
        return rows[None] if rows.ndim == 1 and len(self._targets) == 1 else rows

    def _write(self, document: Mapping[str, Any]) -> Message:
        given = {name: value for name, value in document.items() if value is not None}
        if self._encoding == "json":
            return json.dumps(given, default=as_list)
        packed: bytes = msgpack.packb(given, default=as_list)
        return packed


def _read(message: Message) -> dict[str, Any]:
    try:
        document = json.loads(message) if isinstance(message, str) else msgpack.unpackb(message)
    except (ValueError, RecursionError, msgpack.UnpackException) as error:
        raise ClientError(f"A message of the stream cannot be read: {error}.") from error
    if not isinstance(document, dict):
        raise ClientError("A message of the stream is not a document of this service.")
    return document


def _refuse_error(document: Mapping[str, Any]) -> None:
    if document["type"] == "error":
        problem = document["problem"]
        errors, request_id = problem.get("errors", ()), problem.get("request_id")
        raise ServiceError(problem["status"], document["code"], problem["detail"], errors, None, request_id)
