"""What both clients have in common: their state, and their methods as generators, see `actions`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import urlencode

import httpx2
from numpy.typing import ArrayLike

from ik_service.client import requests
from ik_service.client.actions import Steps, Wait
from ik_service.client.replies import forward_result, read_reply, robot_description, robot_list, solve_result
from ik_service.client.reply_errors import check_reply, failure
from ik_service.client.requests import Call, Encoding, SolveTarget
from ik_service.client.results import ForwardResult, SolveResult
from ik_service.client.retries import Retries
from ik_service.client.stream_core import StreamCore
from ik_service.client.stream_messages import Conversation, StreamTarget

StreamT = TypeVar("StreamT", bound=StreamCore)
TransportT = TypeVar("TransportT")


class ClientCore(Generic[StreamT, TransportT]):
    """The state of a client."""

    _stream_class: type[StreamT]
    _http_class: Callable[..., httpx2.Client | httpx2.AsyncClient]
    _http: Any  # made by `_http_class`, whose type the clients name

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        timeout_s: float = 60.0,
        retries: int = 3,
        encoding: Encoding = "msgpack",
        transport: TransportT | None = None,
    ) -> None:
        """Check the arguments; the first call connects.

        Args:
            url: Address of the service, such as "http://127.0.0.1:8000".
            api_key: API key, where the service requires one.
            timeout_s: Longest time to connect, to send or to wait for bytes, and of all waits between tries [s]. The
                service gets it as the deadline of a solve. Infinity is eleven days.
            retries: Further tries where the service is busy or there is no connection.
            encoding: Encoding of problems and results, "msgpack" or "json".
            transport: Replaces the network in tests.
        """
        if encoding not in requests.MEDIA_TYPES:
            raise ValueError(f"encoding is {encoding!r}. Allowed: {', '.join(map(repr, requests.MEDIA_TYPES))}.")
        timeout_s = requests.checked_timeout_s(timeout_s)
        headers = {} if api_key is None else {"X-API-Key": api_key}
        self._encoding: Encoding = encoding
        self._timeout_s, self._retries = timeout_s, Retries(retries, timeout_s)
        self._http = self._http_class(base_url=url, headers=headers, timeout=timeout_s, transport=transport)

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
        """Return a stream for a control loop; it opens at the start of its `with` block.

        Args:
            robot: Name of the robot.
            link: Link that follows poses.
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
        conversation = Conversation(followed or (), initial_joint_q, options, tick_timeout_s, self._encoding)
        headers = {name: self._http.headers[name] for name in ("X-API-Key",) if name in self._http.headers}
        url = requests.stream_url(str(self._http.base_url), robot)
        return self._stream_class(url, headers, conversation, self._timeout_s)

    def _send(self, call: Call) -> Steps[httpx2.Response]:
        """Send a request, with retries; return the last reply, even if it is an error."""
        tries, waited_s = 0, 0.0
        while True:
            reply_or_error: httpx2.Response | httpx2.RequestError = yield call
            wait_s = self._retries.wait_s(tries, waited_s, reply_or_error)
            if wait_s is None:
                break
            yield Wait(wait_s)
            tries, waited_s = tries + 1, waited_s + wait_s
        if isinstance(reply_or_error, httpx2.Response):
            return reply_or_error
        raise failure(call.method, self._http.base_url, reply_or_error) from reply_or_error


class ClientMethods(ClientCore[Any, Any]):
    """The methods of both clients: of `Client` they return what is said here, of `AsyncClient` they are awaited."""

    def solve(
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
    ) -> Steps[SolveResult]:
        """Solve a batch of problems.

        Args:
            robot: Name of the robot.
            positions: Target positions of `link` [m], shape [n, 3]; None leaves the position free.
            orientations_xyzw: Target orientations of `link`, shape [n, 4]; None leaves the orientation free.
            link: Link of these targets.
            targets: Targets of several links, or with tool frames and weights, instead of these three arguments.
            objectives: Further objectives as in an HTTP request: `{"type": "posture", "joint_q_reference": q,
                "weight": 0.01, "priority": 1}`; columns may be arrays. With objectives, targets are optional.
            problem_count: Number of problems, where no column has a row per problem.
            initial_joint_q: First start of every problem [rad or m], shape [n, joint_coord_count], or one row.
            joint_limits: Limits within the robot's [rad or m]: by names a pair (lower, upper), or pairs, shape [n, 2].
            frozen: Names of joints that stay where `initial_joint_q` has them: one list, or one per problem.
            max_change: How far joints may be from `initial_joint_q` [rad or m]: one number, or by names.
            constraints: Constraints of the robot that are not to be met, as in an HTTP request: `{"disable": names}`,
                one list of names or one per problem.
            world: What is around the robot, as in an HTTP request: `{"objects": {"table": {"shape": "box", "size":
                (1, 1, 0.1), "position": (0.5, 0, -0.1)}}}`.
            options: Options by their names in an HTTP request, such as {"seeds": 16}.
            include: Further columns: "active_limits", "advice", "clearance", "constraints", "islands", "solutions".

        Raises:
            ValueError: The targets are given twice, or not at all.
            ServiceError: The service refuses the request or fails.
            UnreachableError: The service cannot be reached, or does not answer in time.
        """
        chosen = requests.one_target(link, positions, orientations_xyzw, targets, objectives)
        limits = {"joint_limits": joint_limits, "frozen": frozen, "max_change": max_change}
        problems = requests.solve_document(
            chosen, objectives, problem_count, initial_joint_q, limits, constraints, world, options, include
        )
        call = requests.solve_call(robot, problems, self._encoding, self._timeout_s)
        return read_reply((yield from self._send(call)), solve_result)

    def forward(self, robot: str, joint_q: ArrayLike, links: Sequence[str] | None = None) -> Steps[ForwardResult]:
        """Compute poses of links.

        Args:
            robot: Name of the robot.
            joint_q: Configurations [rad or m], shape [n, joint_coord_count].
            links: The links; None is all.

        Raises:
            ServiceError: The service refuses the request or fails.
            UnreachableError: The service cannot be reached, or does not answer in time.
        """
        call = requests.forward_call(robot, joint_q, links, self._encoding)
        return read_reply((yield from self._send(call)), forward_result)

    def robots(self) -> Steps[list[dict[str, Any]]]:
        """Return the served robots: name, sizes and leaf links of each.

        Raises:
            ServiceError: The service refuses the request or fails.
            UnreachableError: The service cannot be reached, or does not answer in time.
        """
        return read_reply((yield from self._send(Call("GET", "/v1/robots"))), robot_list)

    def robot(self, name: str) -> Steps[dict[str, Any]]:
        """Return a robot's joints with their limits, its links and the names of its coordinates and DOFs.

        Raises:
            ServiceError: There is no robot with this name, or the service fails.
            UnreachableError: The service cannot be reached, or does not answer in time.
        """
        return read_reply((yield from self._send(Call("GET", requests.address(name)))), robot_description)

    def put_robot(
        self,
        name: str,
        urdf: str | bytes,
        *,
        constraints: Literal["read", "ignore"] = "read",
        collision: Literal["shapes", "ignore"] = "ignore",
        if_match: str | None = None,
        if_none_match: str | None = None,
    ) -> Steps[dict[str, Any]]:
        """Add a robot to the service, or replace one, and return its description.

        Args:
            name: Name of the robot.
            urdf: Text of a URDF.
            constraints: Whether the service reads the loops that it names; what is none, `warnings` of the description
                says.
            collision: "shapes" takes the spheres that are its collision shapes for what links keep off each other by.
            if_match: Replace the robot only if this is its ETag.
            if_none_match: "*" adds the robot only if there is none with this name.

        Raises:
            ServiceError: The service refuses the robot, or takes no robots.
            UnreachableError: The service cannot be reached, or does not answer in time.
        """
        content = urdf.encode() if isinstance(urdf, str) else urdf
        headers = {"Content-Type": "application/xml", **requests.conditions(if_match, if_none_match)}
        usual = {"constraints": "read", "collision": "ignore"}
        asked = {"constraints": constraints, "collision": collision}
        query = urlencode({key: word for key, word in asked.items() if word != usual[key]})
        call = Call("PUT", requests.address(name) + (f"?{query}" if query else ""), content, headers)
        return read_reply((yield from self._send(call)), robot_description)

    def delete_robot(self, name: str, *, if_match: str | None = None) -> Steps[None]:
        """Remove a robot that was put.

        Args:
            name: Name of the robot.
            if_match: Remove it only if this is its ETag.

        Raises:
            ServiceError: There is no robot with this name, or the service refuses.
            UnreachableError: The service cannot be reached, or does not answer in time.
        """
        call = Call("DELETE", requests.address(name), headers=requests.conditions(if_match))
        check_reply((yield from self._send(call)))
