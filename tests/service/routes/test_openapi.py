"""The OpenAPI document: the one in the repository, whose examples run; the short way to an endpoint gives the same."""

import asyncio
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from fastapi import APIRouter, Request, Response
from fastapi.testclient import TestClient
from jsonschema import Draft202012Validator

from ik_service.service import create_app
from ik_service.service.routes.solve import DirectRoute, DirectRoutes
from ik_service.service.routes.state import State
from ik_service.service.schema.examples import EXAMPLE_ROBOTS, SOLVE_REQUESTS
from ik_service.settings import ServiceSettings


@pytest.fixture(scope="module")
def document(client):
    return client.get("/openapi.json").json()


def test_the_committed_document_is_the_one_that_is_served(document):
    committed = json.loads(Path(__file__).parents[3].joinpath("docs", "openapi.json").read_bytes())
    assert committed == document, "The surface has changed; write it anew with 'make openapi'."


def solve_example(client, name):
    return client.post(f"/v1/robots/{EXAMPLE_ROBOTS[name]}/solve", json=SOLVE_REQUESTS[name]).json()


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_every_example_of_a_request_is_answered(client, document):
    posted = Counter()
    for path, method, operation in operations(document):
        content = operation.get("requestBody", {}).get("content", {})
        examples = content.get("application/json", {}).get("examples", {})
        robots = [entry["value"] for p in operation.get("parameters", []) for entry in p.get("examples", {}).values()]
        for name, example in examples.items() if method == "post" else ():
            (robot,) = re.findall(r"\((\w+)\)", example["summary"])
            assert robot in (*robots, "four_bar")
            reply = client.post(path.format(robot=robot), json=example["value"])
            assert reply.status_code == 200, (path, name, reply.text)
            answer = reply.json()
            assert all(answer.get("success", [True])), (path, name, reply.text)
            assert max(answer["position_error_m"] if path.endswith(("/clip", "/follow")) else [[0.0]]) < [1e-3]
            posted[path.rpartition("/")[2]] += 1
    assert posted["solve"] == len(SOLVE_REQUESTS) >= 4
    assert {"solve_any", "clip", "follow", "forward", "check", "close"} < set(posted)
    assert document["components"]["schemas"]["SolveRequestBody"]["examples"] == list(SOLVE_REQUESTS.values())


@pytest.mark.parametrize(("number", "request_name"), [(0, "one_pose"), (1, "two_arms")])
def test_the_example_answer_has_the_fields_of_a_real_one(client, document, number, request_name):
    example = document["components"]["schemas"]["SolveAnswerBody"]["examples"][number]
    real = solve_example(client, request_name)
    assert set(example) == set(real)
    for column in ("robot", "coordinate_names", "success", "status", "advice"):
        assert example.get(column) == real.get(column), column
    assert len(example["joint_q"][0]) == len(real["joint_q"][0])
    for islands, shown in zip(real.get("islands", []), example.get("islands", []), strict=True):
        assert [island["rows"] for island in islands] == [island["rows"] for island in shown]
        assert [island["joints"] for island in islands] == [island["joints"] for island in shown]
        assert all(set(island) == set(other) for island, other in zip(islands, shown, strict=True))


def test_the_documentation_page_is_served(client):
    reply = client.get("/docs")
    assert reply.status_code == 200
    assert "/openapi.json" in reply.text
    linked = re.findall(r'(?:src|href)="([^"]+)"', reply.text)
    assert len(linked) >= 2
    for address in linked:  # of this service, not of a content delivery network
        assert address.startswith("/docs/assets/")
        assert client.get(address).status_code == 200


def test_the_root_tells_where_all_else_is(client, document):
    found = client.get("/").json()
    assert (found["name"], found["version"]) == ("ik-service", document["info"]["version"])
    for name in ("docs", "openapi", "robots"):
        assert client.get(found[name]).status_code == 200, name


def test_what_is_allowed_at_an_address_is_what_its_routes_have(client, document):
    paths = {path: methods for path, methods in document["paths"].items() if path != "/metrics"}  # closed here
    assert len(paths) >= 8
    for path, methods in paths.items():
        reply = client.request("TRACE", path.format(robot="panda", world="cell"))
        assert reply.status_code == 405, path
        allowed = set(reply.headers["Allow"].split(", "))
        assert allowed - {"HEAD"} == {method.upper() for method in methods}, path
        assert ("HEAD" in allowed) == ("GET" in allowed), path
        assert reply.headers["Allow"] in reply.json()["detail"]


PLACED = {"link": "panda_hand", "positions": [[0.4, 0, 0.5]]}
REFUSED = [
    {},
    {"targets": []},
    {"targets": [], "objectives": []},
    {"targets": [{"link": "panda_hand"}]},
    {"targets": [{"link": "panda_hand", "positions": None, "orientations_xyzw": None}]},
    {"targets": [PLACED], "options": {"seeds": 1.5}},
]
TAKEN = [
    {"targets": [PLACED], "objectives": []},
    {"targets": [{"link": "panda_hand", "positions": None, "orientations_xyzw": [[1, 0, 0, 0]]}]},
    {"objectives": [{"type": "posture", "joint_q_reference": [0, 0, 0, -2, 0, 2, 0]}], "problem_count": 1.0},
    {"targets": [PLACED], "options": {"seeds": 4.0, "random_seed": 1e3}},
]


@pytest.mark.evidence_cases("body7-True", "body8-True")
@pytest.mark.parametrize(("body", "taken"), [*((one, False) for one in REFUSED), *((one, True) for one in TAKEN)])
def test_the_schema_and_the_service_take_the_same(client, document, body, taken):
    schema = {"$ref": "#/components/schemas/SolveRequestBody", "components": document["components"]}
    assert Draft202012Validator(schema).is_valid(body) is taken
    reply = client.post("/v1/robots/panda/solve", json=body)
    assert reply.status_code == (200 if taken else 422), reply.text


# ---------------------------------------------------------------------- the short way to an endpoint
async def with_query(request: Request, state: State, page: str) -> None: ...


async def with_number(request: Request, state: State, number: int) -> None: ...


async def without_state(request: Request) -> None: ...


@pytest.mark.parametrize("endpoint", [with_query, with_number, without_state])
def test_an_endpoint_that_needs_more_is_refused(endpoint):
    router = APIRouter(route_class=DirectRoute)
    with pytest.raises(TypeError, match="DirectRoute"):
        router.get("/{number}")(endpoint)


def test_only_posts_to_the_solve_routes_pass_fastapi_by(monkeypatch):
    handled, passed_on = [], []

    async def handle(route, scope, receive, send):
        handled.append((route.path, scope["route"].path, scope["path_params"]))

    async def fastapi(scope, receive, send):
        passed_on.append(scope)

    monkeypatch.setattr(DirectRoute, "handle", handle)
    post = {"type": "http", "method": "POST", "path": "/v1/robots/panda/solve"}
    others = [{"method": "GET"}, {"path": "/v1/robots/panda/close"}, {"root_path": "/ik"}, {"type": "websocket"}]
    others.append({"fastapi.telemetry": object()})
    scopes = [post | other for other in others]
    layer = DirectRoutes(fastapi)
    for name in ("solve", "solve_any", "clip", "follow"):
        asyncio.run(layer(post | {"path": f"/v1/robots/a b/{name}"}, None, None))
        path = f"/v1/robots/{{robot}}/{name}"
        assert handled.pop() == (path, path, {"robot": "a b"})
    for scope in scopes:
        asyncio.run(layer(scope, None, None))
    assert (passed_on, handled) == (scopes, [])


@pytest.mark.parametrize("has_layer", [False, True])
def test_a_layer_that_somebody_adds_sees_solves_too(has_layer):
    seen = []
    app = create_app(ServiceSettings(device="cpu", robots="panda", warm_up_robots=""), bound_to="127.0.0.1")
    if has_layer:

        @app.middleware("http")
        async def layer(request: Request, call_next) -> Response:
            seen.append(request.url.path)
            return await call_next(request)

    paths = [f"/v1/robots/{name}/{route}" for name in ("panda", "nobody") for route in ("solve", "solve_any")]
    with TestClient(app, base_url="http://localhost") as client:
        answers = [client.post(path, content=b"[", headers={"content-type": "application/json"}) for path in paths]
    assert [answer.json()["code"] for answer in answers] == ["malformed_json"] * 2 + ["unknown_robot"] * 2
    assert seen == (paths if has_layer else [])
