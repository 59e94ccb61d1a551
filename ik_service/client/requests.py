"""HTTP requests of the clients."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import quote

import msgpack
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ik_service.packed_columns import packed

Encoding = Literal["msgpack", "json"]
MEDIA_TYPES: Mapping[str, str] = {"msgpack": "application/msgpack", "json": "application/json"}

LEAST_WAIT_S = 1e-3
"""Shorter times are rounded up to it [s]."""
LONGEST_TIMEOUT_S = 1e6
"""Longer times are cut to it [s]: sockets count milliseconds in 32 bits."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TargetFields:
    """What a target is beside its poses.

    Attributes:
        link: The link.
        offset_position: Position of the tool in the link frame [m], shape [3] or [n, 3].
        offset_orientation_xyzw: Orientation of the tool in the link frame, shape [4] or [n, 4].
        reference_link: Link in whose frame the target is given; None is the world.
        row_weights: Weights of x, y, z and of the rotation about x, y, z, shape [6] or [n, 6]; 0 leaves an axis free.
        free: Axes of `frame` along which and about which the link may be anywhere: "x", "y", "z", "rx", "ry", "rz".
        tolerance: How far it may be off along them [m] and about them [rad], shape [6] or [n, 6]; None is not at all.
        frame: "tool", "target", "reference" or "world"; None is the tool's with `free` or `tolerance`, else the
            reference.
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
        offset = {"position": _array(self.offset_position), "orientation_xyzw": _array(self.offset_orientation_xyzw)}
        fields = {
            "link": self.link,
            "offset": _given(offset) or None,
            "reference_link": self.reference_link,
            "row_weights": _array(self.row_weights),
            "free": _names("free", self.free) or None,
            "tolerance": _array(self.tolerance),
            "frame": self.frame,
        }
        return _given(fields)


@dataclass(frozen=True, kw_only=True, eq=False)
class SolveTarget(TargetFields):
    """A target of one link in every problem.

    Attributes:
        positions: Target positions [m], shape [n, 3]; None leaves the position free.
        orientations_xyzw: Target orientations, shape [n, 4]; None leaves the orientation free.
    """

    positions: ArrayLike | None = None
    orientations_xyzw: ArrayLike | None = None

    def document(self) -> dict[str, Any]:
        """Return the target as in an HTTP request, with arrays as columns."""
        poses = {"positions": _array(self.positions), "orientations_xyzw": _array(self.orientations_xyzw)}
        return {**super().document(), **_given(poses)}


@dataclass(frozen=True)
class Call:
    """One HTTP request.

    Attributes:
        method: HTTP method.
        path: Path below the service's address.
        content: Body.
        headers: Headers.
    """

    method: str
    path: str
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def solve_document(
    targets: Sequence[SolveTarget],
    objectives: Sequence[Mapping[str, Any]],
    problem_count: int | None,
    initial_joint_q: ArrayLike | None,
    limits: Mapping[str, Any],
    constraints: Mapping[str, Any] | None,
    world: Mapping[str, Any] | None,
    options: Mapping[str, Any] | None,
    include: Sequence[str],
) -> dict[str, Any]:
    """Return a batch of problems as in an HTTP request, with arrays as columns."""
    fields = {
        "targets": [target.document() for target in targets] or None,
        "objectives": [_plain(objective) for objective in objectives] or None,
        "problem_count": problem_count,
        "initial_joint_q": _array(initial_joint_q),
        **{name: None if value is None else _as_plain_lists(value) for name, value in limits.items()},
        "constraints": dict(constraints) if constraints else None,
        "world": None if world is None else _as_plain_lists(world),
        "options": dict(options) if options else None,
        "include": _names("include", include) or None,
    }
    return _given(fields)


def solve_call(robot: str, document: dict[str, Any], encoding: Encoding, timeout_s: float) -> Call:
    """Return the request that solves a batch of problems; its `Prefer` header has the timeout [s]."""
    wait = f"{max(timeout_s, LEAST_WAIT_S):.3f}".rstrip("0").rstrip(".")
    return _post(f"{address(robot)}/solve", document, encoding, {"Prefer": f"wait={wait}"})


def forward_call(robot: str, joint_q: ArrayLike, links: Sequence[str] | None, encoding: Encoding) -> Call:
    """Return the request that computes poses of links."""
    document = {"joint_q": _array(joint_q), "links": None if links is None else _names("links", links)}
    return _post(f"{address(robot)}/forward", _given(document), encoding)


def address(robot: str) -> str:
    """Return the path of a robot."""
    return f"/v1/robots/{quote(robot, safe='')}"


def conditions(if_match: str | None, if_none_match: str | None = None) -> dict[str, str]:
    """Return the headers of a change that is made only if the robot is as expected."""
    return _given({"If-Match": if_match, "If-None-Match": if_none_match})


def stream_url(base_url: str, robot: str) -> str:
    """Return the address of a robot's stream below that of the service."""
    return f"{base_url.replace('http', 'ws', 1).rstrip('/')}{address(robot)}/stream"


def checked_timeout_s(timeout_s: float) -> float:
    """Return a timeout that sockets can take [s].

    Raises:
        ValueError: The timeout is negative or NaN.
    """
    if not timeout_s >= 0.0:
        raise ValueError(f"timeout_s is {timeout_s!r}. Give a time of 0 s or more.")
    return min(float(timeout_s), LONGEST_TIMEOUT_S)


def one_target(
    link: str | None,
    positions: ArrayLike | None,
    orientations_xyzw: ArrayLike | None,
    targets: Sequence[SolveTarget] | None,
    objectives: Sequence[Mapping[str, Any]],
) -> Sequence[SolveTarget]:
    """Return the targets of a solve, which are given as targets or as the columns of a single one.

    Raises:
        ValueError: Both are given, or neither and no objectives.
    """
    given = [value is not None for value in (link, positions, orientations_xyzw)]
    if targets is not None and any(given):
        raise ValueError("Give targets, or link with positions and orientations_xyzw, but not both.")
    if targets is not None:
        return targets
    if objectives and not any(given):
        return []
    if link is None:
        raise ValueError("Give the link that is to reach the targets, or targets=[SolveTarget(...), ...].")
    return [SolveTarget(link=link, positions=positions, orientations_xyzw=orientations_xyzw)]


def _post(
    path: str, document: dict[str, Any], encoding: Encoding, headers: Mapping[str, str] = MappingProxyType({})
) -> Call:
    media_type = MEDIA_TYPES[encoding]
    if encoding == "json":
        content = json.dumps(document, default=as_list, allow_nan=True).encode()
    else:
        content = msgpack.packb(document, default=_as_column)
    return Call("POST", path, content, {"Content-Type": media_type, "Accept": media_type, **headers})


def _array(value: ArrayLike | None) -> NDArray[Any] | None:
    """Numbers as an array; float32 stays float32, all else becomes float64."""
    if value is None:
        return None
    array = np.asarray(value)
    return array if array.dtype == np.float32 else array.astype(np.float64, copy=False)


def _plain(value: Any) -> Any:
    """An objective with arrays of floats and numbers of Python, for the codecs."""
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    return _array(value) if isinstance(value, np.ndarray) else value


def _as_plain_lists(value: Any) -> Any:
    """A document with lists in place of arrays and tuples."""
    if isinstance(value, Mapping):
        return {name: _as_plain_lists(entry) for name, entry in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return [_as_plain_lists(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def as_list(value: Any) -> Any:
    """Return an array as plain lists, for JSON."""
    return np.asarray(value).tolist()


def _as_column(array: Any) -> Any:
    return packed(array) if array.ndim else array.item()


def _names(label: str, names: Sequence[str]) -> list[str]:
    if isinstance(names, str):
        raise ValueError(f"{label} is {names!r}. Give a list of names: [{names!r}].")
    return list(names)


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
