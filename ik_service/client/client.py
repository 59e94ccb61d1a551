"""The clients: `AsyncClient` for programs with an event loop, `Client` for programs without."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote, urlencode

import httpx2
from numpy.typing import ArrayLike

from ik_service.client import messages
from ik_service.client.blocking import blocking, result_of
from ik_service.client.errors import ClientError, ServiceError, UnreachableError, service_error
from ik_service.client.messages import ForwardResult, SolveAnyResult, SolveResult, SolveTarget, StreamTarget
from ik_service.client.motion_result import MotionResult
from ik_service.client.stream import AsyncStream, Stream, StreamCore

StreamT = TypeVar("StreamT", bound=StreamCore)

LONGEST_TIMEOUT_S = 1e6  # sockets count milliseconds in 32 bits
BUSY, NOT_SENT = (429, 503), (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
"""Statuses and errors after which a request is sent again; the errors happen before anything is sent."""
NO_CONTENT = 204
FIRST_WAIT_S, LONGEST_WAIT_S = 0.05, 5.0


class ClientCore(Generic[StreamT]):
    """Shared part of both clients: settings, sending a request and reading the reply."""

    _stream_class: type[StreamT]
    _http_class: Callable[..., Any]
    _sleep: Callable[[float], Any]

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        timeout_s: float = 60.0,
        retries: int = 3,
        encoding: messages.Encoding = "msgpack",
        transport: httpx2.BaseTransport | httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """Check the arguments; the first call connects.

        Args:
            url: Address of the service, such as "http://127.0.0.1:8000".
            api_key: API key, where the service requires one.
            timeout_s: Longest time to connect, to send or to wait for bytes, and of all waits between tries [s]. Also
                the deadline of a solve in the service. Infinity is eleven days.
            retries: Further tries where the service is busy or there is no connection.
            encoding: Encoding of problems and results, "msgpack" or "json".
            transport: Replaces the network in tests.
        """
        if encoding not in ("msgpack", "json"):
            raise ValueError(f"encoding is {encoding!r}. Allowed: 'msgpack', 'json'.")
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise ValueError("The API key has characters that no header can carry, such as the end of a line.")
        if not timeout_s >= 0.0:
            raise ValueError(f"timeout_s is {timeout_s!r}. Give a time of 0 s or more.")
        self._encoding, self._retries, self._timeout_s = encoding, retries, min(float(timeout_s), LONGEST_TIMEOUT_S)
        self._key = {} if api_key is None else {"X-API-Key": api_key}
        self._http = self._http_class(base_url=url, headers=self._key, timeout=self._timeout_s, transport=transport)

    def stream(
        self,
        robot: str,
        *,
        link: str | None = None,
        targets: Sequence[StreamTarget] | None = None,
        initial_joint_q: ArrayLike | None = None,
        options: Mapping[str, Any] | None = None,
        tick_timeout_s: float = 1.0,
    ) -> StreamT:
        """Return a stream for a control loop; the stream opens at the start of its `with` block.

        Args:
            robot: Name of the robot.
            link: Link with pose targets.
            targets: Targets of several links, or with tool frames and weights, instead of `link`.
            initial_joint_q: Start of the first step [rad or m], shape [joint_coord_count]; None: mid-range.
            options: Options by their names in an HTTP request, such as {"seeds": 4}.
            tick_timeout_s: Deadline of each step [s].

        Raises:
            ValueError: Neither or both of the link and targets are given.
        """
        if (link is None) == (targets is None):
            raise ValueError("Give the link that is to follow poses, or targets=[StreamTarget(...), ...].")
        followed = targets if link is None else [StreamTarget(link=link)]
        configuration = {
            "type": "configure",
            "targets": [target.document() for target in followed or ()],
            "options": dict(options or {}),
            "initial_joint_q": initial_joint_q,
            "tick_timeout_s": tick_timeout_s,
        }
        address = f"{str(self._http.base_url).replace('http', 'ws', 1).rstrip('/')}{_address(robot)}/stream"
        return self._stream_class(address, self._key, configuration, self._timeout_s, self._encoding)

    async def _send(self, method: str, path: str, content: Any = None, **headers: str | None) -> httpx2.Response:
        """Send a request, with a document as optional body; repeat a failed try if safe; return the reply."""
        fields = messages.given(headers)
        if isinstance(content, Mapping):
            content = messages.encoded(content, self._encoding, packs=True)
            fields["Content-Type"] = fields["Accept"] = f"application/{self._encoding}"
        request = self._http.build_request(method, path, content=content, headers=fields)
        tries, waited_s = 0, 0.0
        while True:
            try:
                return await self._try(request)
            except ClientError as failure:
                wait_s = _wait_s(failure, tries)
                if wait_s is None or tries >= self._retries or waited_s + wait_s > self._timeout_s:
                    raise
            await result_of(self._sleep(wait_s))
            tries, waited_s = tries + 1, waited_s + wait_s

    async def _solve(self, robot: str, route: str, document: Mapping[str, Any]) -> httpx2.Response:
        wait = f"wait={round(self._timeout_s, 3):.10g}"
        return await self._send("POST", f"{_address(robot)}/{route}", document, Prefer=wait)

    async def _try(self, request: httpx2.Request) -> httpx2.Response:
        try:
            reply: httpx2.Response = await result_of(self._http.send(request))
        except httpx2.RequestError as error:
            kind = UnreachableError if isinstance(error, httpx2.TransportError) else ClientError  # an unreadable reply
            raise kind(f"{request.method} {request.url}: {str(error) or type(error).__name__}.") from error
        if reply.is_success:
            return reply
        raise service_error(reply.status_code, reply.headers, reply.content)


class AsyncClient(ClientCore[AsyncStream], AbstractAsyncContextManager["AsyncClient"]):
    """A client of the service for event loops; tasks may share a client. Use an `async with` block, or call `aclose`.

    Raises:
        ServiceError: The service refuses a request, or fails.
        UnreachableError: The service cannot be reached, or does not answer in time.
        ClientError: The reply is not a reply of this service.
    """

    _stream_class, _http_class, _sleep = AsyncStream, httpx2.AsyncClient, staticmethod(asyncio.sleep)

    async def solve(
        self,
        robot: str,
        positions: ArrayLike | None = None,
        orientations_xyzw: ArrayLike | None = None,
        *,
        link: str | None = None,
        targets: Sequence[SolveTarget] | None = None,
        objectives: Sequence[Mapping[str, Any]] = (),
        problem_count: int | None = None,
        initial_joint_q: ArrayLike | None = None,
        joint_limits: Mapping[str, ArrayLike] | None = None,
        frozen: Sequence[Any] | None = None,
        max_change: float | Mapping[str, float] | None = None,
        constraints: Mapping[str, Any] | None = None,
        world: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        include: Sequence[str] = (),
    ) -> SolveResult:
        """Solve a batch of problems.

        Args:
            robot: Name of the robot.
            positions: Target positions of `link` [m], shape [n, 3], or whole poses (`ik_service.Poses`, matrices
                [n, 4, 4]); None leaves the position free.
            orientations_xyzw: Target orientations of `link`, shape [n, 4]; None leaves the orientation free.
            link: Link of these targets.
            targets: Targets of several links, or with tool frames and weights, instead of these three arguments.
            objectives: Further objectives as in an HTTP request: `{"type": "posture", "joint_q_reference": q,
                "weight": 0.01, "priority": 1}`; columns may be arrays. With objectives, targets are optional.
            problem_count: Number of problems, where no column has a row per problem.
            initial_joint_q: First start of every problem [rad or m], shape [n, joint_coord_count], or one row.
            joint_limits: Limits within the robot's [rad or m]: by names a pair (lower, upper), or pairs, shape [n, 2].
            frozen: Names of joints fixed at their value in `initial_joint_q`: one list, or one per problem.
            max_change: How far joints may be from `initial_joint_q` [rad or m]: one number, or by names.
            constraints: Disabled constraints of the robot, as in an HTTP request: `{"disable": names}`,
                one list of names or one per problem.
            world: Obstacles, as in an HTTP request: `{"objects": {"table": {"shape": "box", "size":
                (1, 1, 0.1), "position": (0.5, 0, -0.1)}}}`.
            options: Options by their names in an HTTP request, such as {"seeds": 16}.
            include: Further columns: "active_limits", "advice", "clearance", "constraints", "islands",
                "manipulability", "solutions", and "trace" of one problem.

        Raises:
            ValueError: The targets are given twice, or not at all.
        """
        poses = {"link": link, "positions": positions, "orientations_xyzw": orientations_xyzw}
        listed = {"joint_limits": joint_limits, "frozen": frozen, "max_change": max_change, "world": world}
        fields: dict[str, Any] = {"objectives": objectives, "initial_joint_q": initial_joint_q, "options": options}
        fields |= {"constraints": constraints, "problem_count": problem_count}
        fields["include"] = messages.names("include", include)
        document = messages.solve_document(poses, targets, listed, fields)
        return messages.read_reply(await self._solve(robot, "solve", document), messages.solve_result)

    async def solve_any(
        self,
        robot: str,
        positions: ArrayLike | None = None,
        orientations_xyzw: ArrayLike | None = None,
        *,
        group: ArrayLike | None = None,
        group_count: int | None = None,
        criterion: str = "first",
        cost: ArrayLike | None = None,
        via: Mapping[str, Any] | None = None,
        good_enough: float | None = None,
        link: str | None = None,
        targets: Sequence[SolveTarget] | None = None,
        objectives: Sequence[Mapping[str, Any]] = (),
        initial_joint_q: ArrayLike | None = None,
        joint_limits: Mapping[str, ArrayLike] | None = None,
        frozen: Sequence[Any] | None = None,
        max_change: float | Mapping[str, float] | None = None,
        constraints: Mapping[str, Any] | None = None,
        world: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> SolveAnyResult:
        """Choose the best of many candidates, one for each group.

        Arguments are as in `solve`, with a candidate in place of each problem, and as in `IKSolver.solve_any`. `via` is
        as in an HTTP request, its columns may be arrays: `{"targets": [{"positions": p}], "max_change": 0.5}`.
        """
        poses = {"link": link, "positions": positions, "orientations_xyzw": orientations_xyzw}
        listed = {"joint_limits": joint_limits, "frozen": frozen, "max_change": max_change, "world": world}
        fields: dict[str, Any] = {"objectives": objectives, "initial_joint_q": initial_joint_q, "options": options}
        fields |= {"cost": messages.column(cost), "constraints": constraints}
        asked = {"group_count": group_count, "criterion": criterion, "via": via, "good_enough": good_enough}
        document = messages.solve_document(poses, targets, listed | {"group": group}, fields | asked)
        return messages.read_reply(await self._solve(robot, "solve_any", document), messages.solve_any_result)

    async def fit_clip(
        self,
        robot: str,
        positions: ArrayLike | None = None,
        orientations_xyzw: ArrayLike | None = None,
        *,
        dt: float,
        link: str | None = None,
        targets: Sequence[SolveTarget] | None = None,
        velocity: float | Mapping[str, float] | None = None,
        acceleration: float | Mapping[str, float] | None = None,
        held: Mapping[str, ArrayLike] | None = None,
        plane: ArrayLike | None = None,
        smoothness: float = 1.0,
        clip_start: ArrayLike | None = None,
        first_joint_q: ArrayLike | None = None,
        world: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> MotionResult:
        """Fit a clip; targets are as in `solve`, all else as in `IKSolver.fit_clip`."""
        poses = {"link": link, "positions": positions, "orientations_xyzw": orientations_xyzw}
        own = {"held": held, "plane": plane, "clip_start": clip_start, "first_joint_q": first_joint_q, "world": world}
        fields = {"dt": dt, "velocity": velocity, "acceleration": acceleration, "smoothness": smoothness}
        document = messages.solve_document(poses, targets, own, fields | {"options": options})
        return messages.read_reply(await self._solve(robot, "clip", document), messages.motion_result)

    async def follow(
        self,
        robot: str,
        positions: ArrayLike | None = None,
        orientations_xyzw: ArrayLike | None = None,
        *,
        dt: float,
        link: str | None = None,
        targets: Sequence[SolveTarget] | None = None,
        velocity: float | Mapping[str, float] | None = None,
        acceleration: float | Mapping[str, float] | None = None,
        start_joint_q: ArrayLike | None = None,
        solutions: int = 16,
        world: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> MotionResult:
        """Follow a path; targets are as in `solve`, all else as in `IKSolver.follow`."""
        poses = {"link": link, "positions": positions, "orientations_xyzw": orientations_xyzw}
        own = {"start_joint_q": start_joint_q, "world": world}
        fields = {"dt": dt, "velocity": velocity, "acceleration": acceleration, "solutions": solutions}
        document = messages.solve_document(poses, targets, own, fields | {"options": options})
        return messages.read_reply(await self._solve(robot, "follow", document), messages.motion_result)

    async def forward(self, robot: str, joint_q: ArrayLike, links: Sequence[str] | None = None) -> ForwardResult:
        """Compute poses of links.

        Args:
            robot: Name of the robot.
            joint_q: Configurations [rad or m], shape [n, joint_coord_count].
            links: The links; None is all.
        """
        asked = {} if links is None else {"links": messages.names("links", links)}
        document = {"joint_q": messages.column(joint_q), **asked}
        reply = await self._send("POST", f"{_address(robot)}/forward", document)
        return messages.read_reply(reply, messages.forward_result)

    async def robots(self) -> list[dict[str, Any]]:
        """Return the served robots: name, sizes and leaf links of each."""
        reply = await self._send("GET", "/v1/robots")
        return messages.read_reply(reply, lambda document: [messages.described(robot) for robot in document["robots"]])

    async def robot(self, name: str) -> dict[str, Any]:
        """Return a robot's joints with their limits, its links and the names of its coordinates and DOFs."""
        return messages.read_reply(await self._send("GET", _address(name)), messages.described)

    async def put_robot(
        self,
        name: str,
        urdf: str | bytes,
        *,
        constraints: Literal["read", "ignore"] = "read",
        collision: Literal["shapes", "ignore"] = "ignore",
        if_match: str | None = None,
        if_none_match: str | None = None,
    ) -> dict[str, Any]:
        """Add a robot to the service, or replace one, and return its description.

        Args:
            name: Name of the robot.
            urdf: Text of a URDF.
            constraints: "read" takes the loops of the file; `warnings` of the description lists ignored elements.
            collision: "shapes" makes the collision model from the spheres among the collision shapes.
            if_match: Replace the robot only if this is its ETag.
            if_none_match: "*" adds the robot only if no robot has this name.
        """
        usual = {"constraints": "read", "collision": "ignore"}
        asked = {"constraints": constraints, "collision": collision}
        query = urlencode(sorted(asked.items() - usual.items()))
        headers = {"Content-Type": "application/xml", "If-Match": if_match, "If-None-Match": if_none_match}
        reply = await self._send("PUT", f"{_address(name)}?{query}".rstrip("?"), urdf, **headers)
        return messages.read_reply(reply, messages.described)

    async def delete_robot(self, name: str, *, if_match: str | None = None) -> None:
        """Remove an added robot.

        Args:
            name: Name of the robot.
            if_match: Remove the robot only if this is its ETag.
        """
        reply = await self._send("DELETE", _address(name), **{"If-Match": if_match})
        if reply.status_code != NO_CONTENT:
            raise ClientError("The reply is not one of this service; a proxy may stand between.")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Client(ClientCore[Stream], AbstractContextManager["Client"]):
    """A client of the service with blocking versions of the methods of `AsyncClient`; threads may share a client.

    Use a `with` block, or call `close`.
    """

    _stream_class, _http_class, _sleep = Stream, httpx2.Client, staticmethod(time.sleep)

    solve = blocking(AsyncClient.solve)
    solve_any = blocking(AsyncClient.solve_any)
    fit_clip = blocking(AsyncClient.fit_clip)
    follow = blocking(AsyncClient.follow)
    forward = blocking(AsyncClient.forward)
    robots = blocking(AsyncClient.robots)
    robot = blocking(AsyncClient.robot)
    put_robot = blocking(AsyncClient.put_robot)
    delete_robot = blocking(AsyncClient.delete_robot)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def _wait_s(failure: ClientError, tries: int) -> float | None:
    """Return the wait before a further try [s], after `tries` tries; None for failures without a retry.

    Waits double. Each wait is multiplied by a random factor, so callers refused together do not all try again at the
    same time.
    """
    if isinstance(failure, ServiceError) and failure.status in BUSY:
        if failure.retry_after_s is not None:
            return failure.retry_after_s * random.uniform(1.0, 1.5)
    elif not isinstance(failure.__cause__, NOT_SENT):
        return None
    return min(FIRST_WAIT_S * 2.0 ** min(tries, 10), LONGEST_WAIT_S) * random.uniform(0.5, 1.5)


def _address(robot: str) -> str:
    return f"/v1/robots/{quote(robot, safe='')}"
