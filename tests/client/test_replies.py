"""The client against replies that tests make up: when it tries again, and errors of whatever it cannot read."""

import asyncio
import json

import httpx2
import msgpack
import numpy as np
import pytest

from ik_service.client import AsyncClient, Client, ClientError, ServiceError, UnreachableError
from ik_service.client.blocking import blocking
from ik_service.client.messages import encoded
from ik_service.service.gate.admission import preferred_wait_s

JSON = {"Content-Type": "application/json"}
MSGPACK = {"Content-Type": "application/msgpack"}
GZIP = JSON | {"Content-Encoding": "gzip"}
PROBLEM = {"Content-Type": "application/problem+json"}
CALLS = {
    "solve": lambda client: client.solve("panda", [[0, 0, 0]], link="panda_hand"),
    "forward": lambda client: client.forward("panda", [[0.0] * 7]),
    "robots": lambda client: client.robots(),
    "robot": lambda client: client.robot("panda"),
    "put_robot": lambda client: client.put_robot("arm", "<robot/>"),
}
BOTH = pytest.mark.parametrize("kind", [Client, AsyncClient])


class Scripted(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """Answers with one outcome after the other, and keeps the requests."""

    def __init__(self, *outcomes):
        self.outcomes, self.requests = list(outcomes), []

    def handle_request(self, request):
        self.requests.append(request)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def handle_async_request(self, request):
        return self.handle_request(request)


def asked(kind, call, transport, **options):
    """What a call of a client of a kind gives, and how long the client waits [s]; nobody does wait."""
    waits = []

    async def note(wait_s):
        waits.append(wait_s)

    async def run():
        async with AsyncClient("http://service", transport=transport, **options) as client:
            return await CALLS[call](client)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "_sleep", staticmethod(waits.append))
        patch.setattr(AsyncClient, "_sleep", staticmethod(note))
        if kind is AsyncClient:
            return asyncio.run(run()), waits
        with Client("http://service", transport=transport, **options) as client:
            return CALLS[call](client), waits


# ---------------------------------------------------------------------- tries again
def refused(status=503, code="queue_full", **headers):
    return httpx2.Response(status, json={"code": code, "detail": "Too much is waiting."}, headers=PROBLEM | headers)


def robots():
    return httpx2.Response(200, json={"robots": []})


@BOTH
def test_a_busy_service_is_asked_again_when_it_says(kind):
    later = {"Retry-After": "2"}
    outcomes = refused(**later), refused(429, "share_exhausted", **later), refused(), httpx2.ConnectError("no route")
    found, waits = asked(kind, "robots", Scripted(*outcomes, robots()), retries=4)
    assert found == []
    assert all(2.0 <= wait <= 3.0 for wait in waits[:2])
    assert all(0.0 < wait < 1.0 for wait in waits[2:])
    assert len(waits) == 4


def test_waits_double_up_to_a_longest():
    _, waits = asked(Client, "robots", Scripted(*[refused() for _ in range(12)], robots()), retries=12)
    assert all(0.5 <= wait / min(0.05 * 2**k, 5.0) <= 1.5 for k, wait in enumerate(waits))
    assert len(waits) == 12


def test_what_is_sent_again_is_the_same():
    transport = Scripted(refused(), refused(), solved())
    asked(Client, "solve", transport)
    bodies = [request.read() for request in transport.requests]
    assert msgpack.unpackb(bodies[0])["targets"][0]["link"] == "panda_hand"
    assert bodies == bodies[:1] * 3


def test_arrays_go_as_bytes_in_messagepack_but_for_streams():
    numbers = {"x": {"y": np.arange(2)}, "none": None}
    assert msgpack.unpackb(encoded(numbers, "msgpack", packs=True))["x"]["y"]["dtype"] == "float64"
    halves = {"x": np.zeros(2, np.float32)}
    assert msgpack.unpackb(encoded(halves, "msgpack", packs=True))["x"]["dtype"] == "float32"
    assert msgpack.unpackb(encoded(numbers, "msgpack", packs=False)) == {"x": {"y": [0, 1]}}
    assert json.loads(encoded(numbers, "json", packs=True)) == {"x": {"y": [0, 1]}}


@BOTH
@pytest.mark.parametrize(("retries", "wait", "tries"), [(2, None, [3]), (9, "30", [1]), (9, "4", [2, 3])])
def test_it_gives_up_after_some_tries_and_when_all_waits_are_longer_than_its_timeout(kind, retries, wait, tries):
    headers = {} if wait is None else {"Retry-After": wait}
    transport = Scripted(*[refused(**headers) for _ in range(9)])
    with pytest.raises(ServiceError, match="queue_full") as caught:
        asked(kind, "robots", transport, timeout_s=10.0, retries=retries)
    assert (caught.value.code, caught.value.retry_after_s) == ("queue_full", wait and float(wait))
    assert len(transport.requests) in tries


@BOTH
@pytest.mark.parametrize("error", [httpx2.ReadTimeout("slow"), httpx2.WriteError("cut off")])
def test_what_may_have_been_sent_is_not_sent_again(kind, error):
    transport = Scripted(error, robots())
    with pytest.raises(UnreachableError, match="GET http://service"):
        asked(kind, "robots", transport)
    assert len(transport.requests) == 1


@pytest.mark.parametrize(("timeout_s", "wait"), [(60.0, "60"), (2.5, "2.5"), (0.001, "0.001"), (np.inf, "1000000")])
def test_the_service_is_told_how_long_anybody_waits(timeout_s, wait):
    transport = Scripted(solved())
    asked(Client, "solve", transport, timeout_s=timeout_s)
    assert transport.requests[0].headers["Prefer"] == f"wait={wait}"
    assert preferred_wait_s(f"wait={wait}".encode()) == float(wait)


def test_a_coroutine_that_needs_an_event_loop_is_no_method_that_blocks():
    async def waits(_):
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="waits for an event loop"):
        blocking(waits)(None)


# ---------------------------------------------------------------------- reads nothing of others
COLUMNS = {"joint_q": [[0.0]], "success": [True], "status": ["converged"], "iterations": [1], "seed_index": [0]}
COLUMNS |= {"position_error_m": [0.0], "orientation_error_rad": [None], "cost": [0.0]}


def solved(**other):
    names = {"robot": "panda", "joint_names": [], "coordinate_names": [], "timing_ms": {}}
    ran = {"resolved": {"engine": "compiled", "device": "cpu", "seeds": 1}}
    return httpx2.Response(200, json=COLUMNS | names | ran | other)


def column(dtype="float32", shape=(1,), data=b"\0\0\0\0"):
    packed = msgpack.packb({"x": {"dtype": dtype, "shape": shape, "data": data}})
    return httpx2.Response(200, content=packed, headers=MSGPACK)


def document(content):
    return httpx2.Response(200, json=content)


FOREIGN = {
    "a page": ("solve", lambda: httpx2.Response(200, html="<html>Sign in</html>")),
    "nothing": ("solve", lambda: httpx2.Response(200, headers=JSON)),
    "an empty document": ("solve", lambda: document({})),
    "a list": ("solve", lambda: document([1])),
    "nested": ("solve", lambda: httpx2.Response(200, content=b"[" * 100_000, headers=JSON)),
    "not MessagePack": ("solve", lambda: httpx2.Response(200, content=b"\xc1", headers=MSGPACK)),
    "no gzip": ("solve", lambda: httpx2.Response(200, stream=httpx2.ByteStream(b"no gzip at all"), headers=GZIP)),
    "a column of another shape": ("solve", lambda: column(shape=[5])),
    "a column of a huge shape": ("solve", lambda: column(shape=[2**63, 0])),
    "a column of no shape": ("solve", lambda: column(shape="one")),
    "a column of text": ("solve", lambda: column(data="text")),
    "words for numbers": ("solve", lambda: solved(joint_q=[["a"]])),
    "a number that is too large": ("solve", lambda: solved(joint_q=[[10**400]])),
    "columns of several lengths": ("solve", lambda: solved(success=[True, True])),
    "no column of successes": ("solve", lambda: solved(success=True)),
    "no columns": ("solve", lambda: solved(**dict.fromkeys(COLUMNS, 0.0))),
    "codes without a name": ("solve", lambda: solved(status=[7], status_names=["converged"])),
    "no list of poses": ("forward", lambda: document({"robot": "panda", "poses": 5})),
    "poses without columns": ("forward", lambda: document({"robot": "panda", "poses": [{"link": 1}]})),
    "no poses": ("forward", lambda: document({"robot": "panda", "poses": []})),
    "a number of robots": ("robots", lambda: document({"robots": 5})),
    "robots that are words": ("robots", lambda: document({"robots": ["panda"]})),
    "a robot without a name": ("robot", lambda: document({})),
    "a robot named 5": ("robot", lambda: document({"name": 5})),
    "a list for a robot": ("put_robot", lambda: document([1])),
}
IN_A_LOOP = [(AsyncClient, *FOREIGN[name]) for name in ("a page", "a list", "no gzip")]


def test_the_reply_that_others_are_made_from_is_a_good_one():
    assert len(asked(Client, "solve", Scripted(solved()))[0]) == 1


@pytest.mark.parametrize(
    ("kind", "call", "reply"),
    [*((Client, *one) for one in FOREIGN.values()), *IN_A_LOOP],
    ids=[*FOREIGN, "a page in a loop", "a list in a loop", "no gzip in a loop"],
)
def test_a_foreign_reply_is_an_error_of_the_client(kind, call, reply):
    with pytest.raises(ClientError) as caught:
        asked(kind, call, httpx2.MockTransport(lambda _: reply()))
    assert type(caught.value) is ClientError


PROBLEMS = [{"errors": None}, {"errors": [None, "a"], "code": ""}, [], "text", None]
PROBLEMS.append({"errors": 5, "code": 5, "detail": [], "request_id": {}})


@pytest.mark.parametrize("content", [*map(json.dumps, PROBLEMS), "{", "[" * 100_000, "\xff"])
def test_a_foreign_problem_is_an_error_of_the_service(content):
    reply = httpx2.Response(422, content=content.encode("latin1"), headers=PROBLEM)
    with pytest.raises(ServiceError, match="proxy") as caught:
        asked(Client, "robots", Scripted(reply))
    assert (caught.value.status, caught.value.code, caught.value.errors) == (422, "http_422", ())
    assert caught.value.request_id is None


@BOTH
def test_a_reply_of_a_proxy_is_an_error_with_its_status(kind):
    elsewhere = httpx2.Response(302, headers={"Location": "/elsewhere"})
    for reply in (httpx2.Response(502, html="<html>Bad gateway</html>"), elsewhere):
        with pytest.raises(ServiceError, match="proxy") as caught:
            asked(kind, "robots", Scripted(reply))
        assert caught.value.code == f"http_{reply.status_code}"


def test_a_robot_is_deleted_only_where_the_service_says_so():
    client = Client("http://service", transport=Scripted(httpx2.Response(200, html="<html>Sign in</html>")))
    with client, pytest.raises(ClientError, match="proxy"):
        client.delete_robot("my_arm")


def test_a_key_that_no_header_carries_is_refused_without_being_shown():
    with pytest.raises(ValueError, match="API key") as caught:
        Client("http://service", "hidden\n")
    assert "hidden" not in str(caught.value)
