"""Replies of the service as results with NumPy columns, or as errors."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import msgpack
import numpy as np
from numpy.typing import NDArray

from ik_service.client.errors import ClientError, ServiceError, UnreachableError

_COLUMN = {"dtype", "shape", "data"}
_DTYPES = ("bool", "uint8", "int8", "int32", "int64", "float32", "float64")
_PER_PROBLEM = ("joint_q", "success", "status", "position_error_m", "orientation_error_rad", "iterations", "seed_index")
PROBLEM_MEDIA_TYPE = "application/problem+json"


@dataclass(frozen=True, kw_only=True, eq=False)
class SolveResult:
    """Results of a batch, in the order of its problems.

    Attributes:
        robot: The robot.
        joint_names: Names of its joints.
        coordinate_names: Names of the columns of `joint_q`.
        joint_q: Configurations [rad or m], shape [n, joint_coord_count].
        success: Whether every target is met within its tolerance, shape [n].
        status: How each problem ended, such as "converged", shape [n].
        position_error_m: Worst over the targets [m], shape [n]; NaN where all leave the position free.
        orientation_error_rad: Worst over the targets [rad], shape [n]; NaN where all leave the orientation free.
        iterations: Iterations of the winning start, shape [n].
        seed_index: The winning start, shape [n]; -1 where islands chose different ones.
        cost: 1/2 |r|^2 of the weighted residuals, shape [n].
        engine: Engine that ran.
        device: Device that it ran on.
        seeds: Starts that each problem could use.
        timing_ms: Time in the queue, of the solve and in total [ms].
        targets: Errors per target, where there are several.
        solutions: Distinct solutions, shape [n, solutions, joint_coord_count], if asked for; NaN past the last one.
        solution_count: How many were found, shape [n], if asked for.
        dof_names: Names of the columns of `active_limits`, if asked for.
        active_limits: DOFs that sit at a limit, shape [n, joint_dof_count], if asked for.
        islands: The islands of each problem, if asked for.
        advice: What to do about each problem, if asked for.
    """

    robot: str
    joint_names: tuple[str, ...]
    coordinate_names: tuple[str, ...]
    joint_q: NDArray[np.floating[Any]]
    success: NDArray[np.bool_]
    status: NDArray[np.str_]
    position_error_m: NDArray[np.float64]
    orientation_error_rad: NDArray[np.float64]
    iterations: NDArray[np.integer[Any]]
    seed_index: NDArray[np.integer[Any]]
    cost: NDArray[np.floating[Any]]
    engine: str
    device: str
    seeds: int
    timing_ms: Mapping[str, float] = field(repr=False)
    targets: tuple[Mapping[str, Any], ...] = ()
    solutions: NDArray[np.floating[Any]] | None = None
    solution_count: NDArray[np.integer[Any]] | None = None
    dof_names: tuple[str, ...] | None = None
    active_limits: NDArray[np.bool_] | None = None
    islands: tuple[Any, ...] | None = None
    advice: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        """Say how many problems there were and how many are solved."""
        solved = f"{int(self.success.sum())} of {len(self)} problems solved"
        return f"<SolveResult of '{self.robot}': {solved}, engine {self.engine} on {self.device}>"

    def __len__(self) -> int:
        """Return the number of problems."""
        return len(self.success)


@dataclass(frozen=True, kw_only=True, eq=False)
class ForwardResult:
    """Where links are, in the world frame.

    Attributes:
        robot: The robot.
        links: The links.
        positions: [m], shape [n, links, 3].
        orientations_xyzw: Unit quaternions, shape [n, links, 4].
    """

    robot: str
    links: tuple[str, ...]
    positions: NDArray[np.float64]
    orientations_xyzw: NDArray[np.float64]

    def __repr__(self) -> str:
        """Say how many poses of which links there are."""
        return f"<ForwardResult of '{self.robot}': {len(self.positions)} poses of {', '.join(self.links)}>"


def read_solve_reply(reply: httpx2.Response) -> SolveResult:
    """Return the results in a reply.

    Raises:
        ServiceError: The reply is an error.
        ClientError: The reply is not one of this service.
    """
    document = read_document(reply)
    with _told(reply):
        return _solve_result(document)


def _solve_result(document: dict[str, Any]) -> SolveResult:
    resolved = document["resolved"]
    status = np.asarray(document["status"])
    if "status_names" in document:
        status = np.asarray(document["status_names"])[status]
    seeds = document["seed_index"]
    if isinstance(seeds, list):
        seeds = [-1 if seed is None else seed for seed in seeds]
    optional: dict[str, Any] = {name: _floats(document[name]) for name in ("solutions",) if name in document}
    optional |= {name: np.asarray(document[name]) for name in ("solution_count", "active_limits") if name in document}
    optional |= {name: tuple(document[name]) for name in ("dof_names", "islands", "advice") if name in document}
    result = SolveResult(
        robot=document["robot"],
        joint_names=tuple(document["joint_names"]),
        coordinate_names=tuple(document["coordinate_names"]),
        joint_q=_floats(document["joint_q"]),
        success=np.asarray(document["success"]),
        status=status,
        position_error_m=_floats(document["position_error_m"]),
        orientation_error_rad=_floats(document["orientation_error_rad"]),
        iterations=np.asarray(document["iterations"]),
        seed_index=np.asarray(seeds),
        cost=_floats(document["cost"]),
        engine=resolved["engine"],
        device=resolved["device"],
        seeds=resolved["seeds"],
        timing_ms=document["timing_ms"],
        targets=tuple(_target_errors(target) for target in document.get("targets", ())),
        **optional,
    )
    lengths = {np.shape(getattr(result, name))[:1] for name in _PER_PROBLEM}
    if len(lengths) != 1 or lengths == {()}:
        raise ValueError("the columns have not a row per problem")
    return result


def read_forward_reply(reply: httpx2.Response) -> ForwardResult:
    """Return the poses in a reply.

    Raises:
        ServiceError: The reply is an error.
        ClientError: The reply is not one of this service.
    """
    document = read_document(reply)
    with _told(reply):
        poses = document["poses"]
        return ForwardResult(
            robot=document["robot"],
            links=tuple(pose["link"] for pose in poses),
            positions=np.stack([_floats(pose["positions"]) for pose in poses], axis=1),
            orientations_xyzw=np.stack([_floats(pose["orientations_xyzw"]) for pose in poses], axis=1),
        )


def read_robots_reply(reply: httpx2.Response) -> list[dict[str, Any]]:
    """Return the list of robots in a reply.

    Raises:
        ServiceError: The reply is an error.
        ClientError: The reply is not one of this service.
    """
    listed = read_document(reply).get("robots")
    if not isinstance(listed, list) or not all(isinstance(robot, dict) for robot in listed):
        raise _foreign(reply)
    return listed


def read_robot_reply(reply: httpx2.Response) -> dict[str, Any]:
    """Return the description of a robot in a reply.

    Raises:
        ServiceError: The reply is an error.
        ClientError: The reply is not one of this service.
    """
    document = read_document(reply)
    if not isinstance(document.get("name"), str):
        raise _foreign(reply)
    return document


def read_document(reply: httpx2.Response) -> dict[str, Any]:
    """Return the document in a reply; numeric columns of MessagePack are arrays.

    Raises:
        ServiceError: The reply is an error.
        ClientError: The reply is not one of this service.
    """
    check_reply(reply)
    try:
        if _media_type(reply) == "application/msgpack":
            document = msgpack.unpackb(reply.content, object_hook=_unpacked)
        else:
            document = json.loads(reply.content)
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        raise ClientError(f"The reply of {reply.url} cannot be read: {error}.") from error
    if not isinstance(document, dict):
        raise _foreign(reply)
    return document


def check_reply(reply: httpx2.Response) -> None:
    """Refuse a reply that is an error.

    Raises:
        ServiceError: It is one.
    """
    if reply.is_success:
        return
    problem = _problem(reply)
    faults = problem.get("errors")
    raise ServiceError(
        reply.status_code,
        _text(problem, "code") or f"http_{reply.status_code}",
        _text(problem, "detail") or "The reply is not one of this service; a proxy may stand between.",
        [fault for fault in faults if isinstance(fault, dict)] if isinstance(faults, list) else (),
        retry_after_s(reply),
        _text(problem, "request_id") or reply.headers.get("x-request-id"),
    )


def failure(method: str, url: object, error: httpx2.RequestError) -> ClientError:
    """Return what it means to the caller that a request has brought no reply.

    Args:
        method: Of HTTP.
        url: Where it went.
        error: What happened.
    """
    reason = str(error) or type(error).__name__
    kind = UnreachableError if isinstance(error, httpx2.TransportError) else ClientError  # a reply that cannot be read
    return kind(f"{method} {url}: {reason}.")


def _foreign(reply: httpx2.Response) -> ClientError:
    return ClientError(f"The reply of {reply.url} is not a document of this service; a proxy may stand between.")


@contextmanager
def _told(reply: httpx2.Response) -> Iterator[None]:
    """Tell of fields that are missing, or are not what they must be, as an error of the client."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _foreign(reply) from error


def _text(problem: Mapping[str, Any], name: str) -> str | None:
    value = problem.get(name)
    return value if isinstance(value, str) else None


def _problem(reply: httpx2.Response) -> dict[str, Any]:
    """The problem document in a reply; empty where there is none."""
    if _media_type(reply) != PROBLEM_MEDIA_TYPE:
        return {}
    try:
        document = json.loads(reply.content)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def retry_after_s(reply: httpx2.Response) -> float | None:
    """Return how long a reply asks to wait [s]; None where it does not, or gives a date."""
    text = reply.headers.get("retry-after", "")
    return float(text) if text.isdecimal() else None


def _media_type(reply: httpx2.Response) -> str:
    return str(reply.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _unpacked(entries: dict[str, Any]) -> Any:
    """A packed column as an array, anything else as it is."""
    if entries.keys() != _COLUMN or entries["dtype"] not in _DTYPES:
        return entries
    wire_type = np.dtype(entries["dtype"]).newbyteorder("<")
    return np.frombuffer(entries["data"], wire_type).reshape(entries["shape"])


def _floats(column: Any) -> NDArray[Any]:
    """A column of numbers, NaN for null."""
    return column if isinstance(column, np.ndarray) else np.asarray(column, dtype=np.float64)


def _target_errors(target: Mapping[str, Any]) -> dict[str, Any]:
    names = ("position_error_m", "orientation_error_rad")
    return {"link": target["link"], **{name: _floats(target[name]) for name in names}}
