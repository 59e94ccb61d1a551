"""Targets, results and bodies: requests of the clients, and data read from replies."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import httpx2
import msgpack
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ik_service.client.errors import foreign_refused
from ik_service.client.motion_result import MotionResult
from ik_service.motion_columns import CLIP_COLUMNS, PATH_COLUMNS
from ik_service.packed_columns import PACKED_FIELDS, packed
from ik_service.poses import poses_of
from ik_service.result_column import Column
from ik_service.result_schema import ALWAYS_COLUMNS, CHOICE_COLUMNS, EDGE_COLUMNS, EdgeColumns

T = TypeVar("T")
Encoding = Literal["msgpack", "json"]
_REPLY_DTYPES = ("bool", "uint8", "int8", "int32", "int64", "float32", "float64")


@dataclass(frozen=True, kw_only=True, eq=False)
class TargetFields:
    """Fields of a target beside its poses.

    Attributes:
        link: The link.
        offset_position: Position of the tool in the link frame [m], shape [3] or [n, 3].
        offset_orientation_xyzw: Orientation of the tool in the link frame, shape [4] or [n, 4].
        reference_link: Link in whose frame the target is given; None is the world.
        row_weights: Weights of x, y, z and of the rotation about x, y, z, shape [6] or [n, 6]; 0 leaves an axis free.
        free: Free axes of `frame`, for translation or rotation: "x", "y", "z", "rx", "ry", "rz".
        tolerance: Allowed deviation along [m] and about [rad] the axes of `frame`, shape [6] or [n, 6]; None is zero.
        frame: "tool", "target", "reference" or "world"; None: "tool" with `free` or `tolerance`, else "reference".
    """

    link: str
    offset_position: ArrayLike | None = None
    offset_orientation_xyzw: ArrayLike | None = None
    reference_link: str | None = None
    row_weights: ArrayLike | None = None
    free: Sequence[str] = ()
    tolerance: ArrayLike | None = None
    frame: Literal["reference", "target", "tool", "world"] | None = None

    def document(self) -> dict[str, Any]:
        """Return the target as in a request, with arrays as columns."""
        words = ("link", "reference_link", "free", "frame", "constrain")
        fields = {name: value if name in words else column(value) for name, value in vars(self).items()}
        offset = given({name: fields.pop(f"offset_{name}") for name in ("position", "orientation_xyzw")})
        return given(fields | {"offset": offset or None, "free": names("free", self.free) or None})


@dataclass(frozen=True, kw_only=True, eq=False)
class SolveTarget(TargetFields):
    """A target of one link in every problem.

    Attributes:
        positions: Target positions [m], shape [n, 3], or whole poses: Poses, matrices [n, 4, 4]; None leaves the
            position free.
        orientations_xyzw: Target orientations, shape [n, 4]; None leaves the orientation free.
    """

    positions: ArrayLike | None = None
    orientations_xyzw: ArrayLike | None = None

    def __post_init__(self) -> None:
        poses = poses_of(self.positions)
        if poses is None:
            return
        if self.orientations_xyzw is not None:
            raise ValueError("positions hold whole poses, and orientations_xyzw are given, too. Leave one of them out.")
        numbers = np.atleast_2d(poses.transforms)
        object.__setattr__(self, "positions", numbers[:, :3])
        object.__setattr__(self, "orientations_xyzw", numbers[:, 3:])


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamTarget(TargetFields):
    """A link with targets in a stream; its data have one row for all steps.

    Attributes:
        constrain: Part given by every step: "pose", "position" or "orientation"; the rest is free.
    """

    constrain: Literal["pose", "position", "orientation"] = "pose"


@dataclass(frozen=True, kw_only=True, eq=False)
class SolveResult(EdgeColumns):
    """Results of a batch, in the order of its problems, with the columns of `EdgeColumns`.

    Attributes:
        robot: The robot.
        joint_names: Names of its joints.
        coordinate_names: Names of the columns of `joint_q`.
        engine: Engine of the solve.
        device: Device of the solve.
        seeds: Starts available to each problem.
        collision: Checked collisions, "self", "world" or "off"; None from services without this field.
        timing_ms: Time in the queue, of the solve and in total [ms].
        targets: Errors per target, for several targets.
        dof_names: Names of the columns of `active_limits`, if asked for.
        constraint_names: Names of the columns of `constraint_error`, if asked for.
        closing_coordinate_names: Names of the columns of `closing_joint_q`, if asked for.
        collision_names: Names for the indices in `closest`: links with spheres, attached objects, obstacles, if asked
            for.
        manipulability: Least manipulability of the targets' frames, shape [n], if asked for; NaN where nothing moves.
        islands: The islands of each problem, if asked for.
        advice: Advice on each problem, if asked for.
        trace: The trace of the one problem, if asked for; see `IKSolver.trace`.
    """

    robot: str
    joint_names: tuple[str, ...]
    coordinate_names: tuple[str, ...]
    engine: str
    device: str
    seeds: int
    timing_ms: Mapping[str, float] = field(repr=False)
    collision: str | None = None
    targets: tuple[Mapping[str, Any], ...] = ()
    dof_names: tuple[str, ...] | None = None
    constraint_names: tuple[str, ...] | None = None
    closing_coordinate_names: tuple[str, ...] | None = None
    collision_names: tuple[str, ...] | None = None
    manipulability: NDArray[np.float64] | None = None
    islands: tuple[Any, ...] | None = None
    advice: tuple[str, ...] | None = None
    trace: tuple[Mapping[str, Any], ...] | None = None

    def __repr__(self) -> str:
        """Say how many problems there were and how many are solved."""
        solved = f"{int(self.success.sum())} of {len(self)} problems solved"
        return f"<SolveResult of '{self.robot}': {solved}, engine {self.engine} on {self.device}>"

    def __len__(self) -> int:
        """Return the number of problems."""
        return len(self.success)


@dataclass(frozen=True, kw_only=True, eq=False)
class SolveAnyResult:
    """The best candidate of each group.

    Attributes:
        robot: The robot.
        coordinate_names: Names of the columns of `joint_q`.
        candidate: Index of the candidate, shape [groups]; -1 where none succeeds.
        joint_q: Its configuration [rad or m], shape [groups, joint_coord_count]; NaN where none succeeds.
        value: Its value by the criterion, with its cost, shape [groups]; NaN where none succeeds.
        status: Status of each group, such as "converged" or "no_candidate", shape [groups].
        counts: Numbers of candidates by how they ended, such as "solved" or "proven_blocked", each of shape [groups].
        timing_ms: Time in the queue, of the solve and in total [ms].
        via_joint_q: Configuration at the second pose, as `joint_q`, with `via`.
    """

    robot: str
    coordinate_names: tuple[str, ...]
    candidate: NDArray[np.int32]
    joint_q: NDArray[np.floating[Any]]
    value: NDArray[np.float64]
    status: NDArray[np.str_]
    counts: Mapping[str, NDArray[np.int32]]
    timing_ms: Mapping[str, float] = field(repr=False)
    via_joint_q: NDArray[np.floating[Any]] | None = None


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
        """Return a short text with the number of poses and the links."""
        return f"<ForwardResult of '{self.robot}': {len(self.positions)} poses of {', '.join(self.links)}>"


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with a value other than None."""
    return {name: value for name, value in fields.items() if value is not None}


def solve_document(
    poses: dict[str, Any], targets: Sequence[SolveTarget] | None, listed: dict[str, Any], fields: dict[str, Any]
) -> dict[str, Any]:
    """Return the body of a request to solve, of arguments by name; ValueError for targets given twice or not at all."""
    poses = given(poses)
    if targets is not None and poses:
        raise ValueError("Give targets, or link with positions and orientations_xyzw, but not both.")
    objectives = list(fields.get("objectives", ()))
    if targets is None and "link" not in poses and (poses or not objectives):
        raise ValueError("Give the link that is to reach the targets, or targets=[SolveTarget(...), ...].")
    chosen = [SolveTarget(**poses)] if poses else targets or ()
    fields = fields | {"targets": [target.document() for target in chosen], "objectives": objectives}
    for name in ("targets", "objectives", "constraints", "options", "include"):
        fields[name] = fields.get(name) or None
    # Arrays in `listed` are lists: a service takes no columns there.
    fields |= msgpack.unpackb(encoded(listed, "msgpack", packs=False))
    return fields | {"initial_joint_q": column(fields.get("initial_joint_q"))}


def names(label: str, of: Sequence[str]) -> list[str]:
    """Return names as a list; refuse a single string in place of the list."""
    if isinstance(of, str):
        raise ValueError(f"{label} is {of!r}. Give a list of names: [{of!r}].")
    return list(of)


def column(value: ArrayLike | None) -> NDArray[Any] | None:
    """Return numbers as an array; float32 stays float32, all else becomes float64."""
    if value is None:
        return None
    array = np.asarray(value)
    return array if array.dtype == np.float32 else array.astype(np.float64, copy=False)


def encoded(document: Mapping[str, Any], encoding: Encoding, *, packs: bool) -> str | bytes:
    """Return an encoded document without None values; arrays become lists, or packed columns in MessagePack."""
    if encoding == "json":
        return json.dumps(given(document), default=_as_list)
    content: bytes = msgpack.packb(given(document), default=_as_column if packs else _as_list)
    return content


def _as_list(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else np.asarray(value).tolist()


def _as_column(value: Any) -> Any:
    numbers = column(value) if isinstance(value, np.ndarray) and value.ndim else None
    return _as_list(value) if numbers is None else packed(numbers)


def read_reply(reply: httpx2.Response, read: Callable[[dict[str, Any]], T]) -> T:
    """Return `read` applied to the document of a reply; columns of MessagePack are arrays in the document."""
    with foreign_refused(f"The reply of {reply.url}"):
        if "application/msgpack" in reply.headers.get("content-type", "").lower():
            return read(msgpack.unpackb(reply.content, object_hook=_unpacked))
        return read(json.loads(reply.content))


def solve_result(document: Mapping[str, Any]) -> SolveResult:
    """Return the results in a document."""
    columns = {c.edge_name: _read_column(c, document) for c in EDGE_COLUMNS if c.edge_name in document}
    lengths = {columns[c.edge_name].shape[:1] for c in ALWAYS_COLUMNS if c.edge_name in columns}
    if len(lengths) != 1 or lengths == {()}:
        raise ValueError("the columns have not a row per problem")
    resolved, present = document["resolved"], [name for name in SolveResult.__dataclass_fields__ if name in document]
    tuples = [name for name in present if name.endswith("_names") or name in ("islands", "advice", "trace")]
    fields: dict[str, Any] = {name: tuple(document[name]) for name in tuples}
    fields |= columns | {name: resolved[name] for name in ("engine", "device", "seeds")}
    errors = [column.edge_name for column in ALWAYS_COLUMNS if column.is_per_target]
    fields["targets"] = tuple(
        {"link": target["link"], **{name: _floats(target[name]) for name in errors}}
        for target in document.get("targets", ())
    )
    if "manipulability" in document:
        fields["manipulability"] = _floats(document["manipulability"])
    fields |= {"collision": resolved.get("collision"), "timing_ms": document["timing_ms"]}
    return SolveResult(robot=document["robot"], **fields)


def solve_any_result(document: Mapping[str, Any]) -> SolveAnyResult:
    """Return the best candidates in a document."""
    fields: dict[str, Any] = {one.name: _read_column(one, document) for one in CHOICE_COLUMNS if one.name in document}
    fields |= {"robot": document["robot"], "coordinate_names": tuple(document["coordinate_names"])}
    counts = {name: np.asarray(numbers, np.int32) for name, numbers in document["counts"].items()}
    return SolveAnyResult(counts=counts, timing_ms=document["timing_ms"], **fields)


def motion_result(document: Mapping[str, Any]) -> MotionResult:
    """Return the clip or path in a document."""
    columns = {one.edge_name: one for one in (*CLIP_COLUMNS, *PATH_COLUMNS) if one.edge_name in document}
    fields: dict[str, Any] = {name: _read_column(one, document) for name, one in columns.items()}
    names = ("coordinate_names", "dof_names", "links", "held_links")
    fields |= {name: tuple(document[name]) for name in names if name in document}
    return MotionResult(robot=document["robot"], timing_ms=document["timing_ms"], **fields)


def forward_result(document: Mapping[str, Any]) -> ForwardResult:
    """Return the poses in a document."""
    poses, columns = document["poses"], ("positions", "orientations_xyzw")
    stacked = {name: np.stack([_floats(pose[name]) for pose in poses], axis=1) for name in columns}
    return ForwardResult(robot=document["robot"], links=tuple(pose["link"] for pose in poses), **stacked)


def described(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document with the description of a robot."""
    if not isinstance(document["name"], str):
        raise TypeError("the robot has no name")
    return document


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


def _floats(column: Any) -> NDArray[Any]:
    """A column of numbers, NaN for null."""
    return column if isinstance(column, np.ndarray) else np.asarray(column, dtype=np.float64)


def _unpacked(entries: dict[str, Any]) -> Any:
    """A packed column as an array; other values unchanged."""
    if entries.keys() != PACKED_FIELDS or entries["dtype"] not in _REPLY_DTYPES:
        return entries
    wire_type = np.dtype(entries["dtype"]).newbyteorder("<")
    return np.frombuffer(entries["data"], wire_type).reshape(entries["shape"])
