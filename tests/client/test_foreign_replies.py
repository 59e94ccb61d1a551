"""Replies of another server or of a proxy: whatever they hold, the caller meets an error of the client."""

import asyncio
import json

import httpx2
import msgpack
import pytest

from ik_service.client import AsyncClient, Client, ClientError, ServiceError, UnreachableError

JSON = {"Content-Type": "application/json"}
MSGPACK = {"Content-Type": "application/msgpack"}
PROBLEM = {"Content-Type": "application/problem+json"}
SOLVED = {
    "robot": "panda",
    "joint_names": [],
    "coordinate_names": [],
    "joint_q": [[0.0]],
    "success": [True],
    "status": ["converged"],
    "position_error_m": [0.0],
    "orientation_error_rad": [None],
    "iterations": [1],
    "seed_index": [0],
    "cost": [0.0],
    "resolved": {"engine": "compiled", "device": "cpu", "seeds": 1},
    "timing_ms": {},
}


def column(dtype="float32", shape=(1,), data=b"\0\0\0\0"):
    return msgpack.packb({"x": {"dtype": dtype, "shape": shape, "data": data}})


OTHERS = {
    "a page": lambda: httpx2.Response(200, html="<html>Sign in</html>"),
    "nothing": lambda: httpx2.Response(200, headers=JSON),
    "an empty document": lambda: httpx2.Response(200, json={}),
    "a list": lambda: httpx2.Response(200, json=[1]),
    "a number of robots": lambda: httpx2.Response(200, json={"robots": 5, "name": 5, "poses": 5}),
    "robots that are words": lambda: httpx2.Response(200, json={"robots": ["panda"], "poses": [{"link": 1}]}),
    "no poses": lambda: httpx2.Response(200, json={"robot": "panda", "poses": []}),
    "nested": lambda: httpx2.Response(200, content=b"[" * 100_000, headers=JSON),
    "not the gzip that it says": lambda: httpx2.Response(
        200, content=b"x", headers=JSON | {"Content-Encoding": "gzip"}
    ),
    "a column of another shape": lambda: httpx2.Response(200, content=column(shape=[5]), headers=MSGPACK),
    "a column of a huge shape": lambda: httpx2.Response(200, content=column(shape=[2**63, 0]), headers=MSGPACK),
    "a column of no shape": lambda: httpx2.Response(200, content=column(shape="one"), headers=MSGPACK),
    "a column of text": lambda: httpx2.Response(200, content=column(data="text"), headers=MSGPACK),
    "words for numbers": lambda: httpx2.Response(200, json=SOLVED | {"joint_q": [["a"]]}),
    "columns of several lengths": lambda: httpx2.Response(200, json=SOLVED | {"success": [True, True]}),
    "no columns": lambda: httpx2.Response(200, json=SOLVED | {"success": True}),
    "codes without a name": lambda: httpx2.Response(200, json=SOLVED | {"status": [7], "status_names": ["converged"]}),
    "another place": lambda: httpx2.Response(302, headers={"Location": "/elsewhere"}),
}
PROBLEMS = [
    {"errors": None},
    {"errors": 5, "code": 5, "detail": [], "request_id": {}},
    {"errors": [None, "a"]},
    [],
    "text",
]
CALLS = {
    "solve": lambda client: client.solve("panda", [[0, 0, 0]], link="panda_hand"),
    "forward": lambda client: client.forward("panda", [[0.0] * 7]),
    "robots": lambda client: client.robots(),
    "robot": lambda client: client.robot("panda"),
    "put_robot": lambda client: client.put_robot("arm", "<robot/>"),
}


def asked(kind, call, reply):
    """What a call of a client of a kind gives, answered by a reply."""
    transport = httpx2.MockTransport(lambda request: reply())
    if kind is Client:
        with Client("http://service", transport=transport, encoding="json") as client:
            return CALLS[call](client)

    async def run():
        async with AsyncClient("http://service", transport=transport, encoding="json") as client:
            return await CALLS[call](client)

    return asyncio.run(run())


@pytest.fixture(params=[Client, AsyncClient])
def kind(request):
    return request.param


def test_the_reply_that_others_are_made_from_is_a_good_one(kind):
    assert len(asked(kind, "solve", lambda: httpx2.Response(200, json=SOLVED))) == 1


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("reply", OTHERS.values(), ids=OTHERS)
def test_a_foreign_reply_is_an_error_of_the_client(kind, call, reply):
    with pytest.raises(ClientError) as caught:
        asked(kind, call, reply)
    assert not isinstance(caught.value, UnreachableError)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_foreign_problem_is_an_error_of_the_service(kind, call, problem):
    content = json.dumps(problem).encode()
    with pytest.raises(ServiceError) as caught:
        asked(kind, call, lambda: httpx2.Response(422, content=content, headers=PROBLEM))
    error = caught.value
    assert (error.status, error.code, error.errors, error.request_id) == (422, "http_422", (), None)
    assert "proxy" in error.detail
