"""Who may ask: the rule on open addresses, API keys, names of this machine, origins of web pages."""

import base64
import hashlib

import pytest
from fastapi.testclient import TestClient
from starlette.testclient import WebSocketDenialResponse

from ik_service import load_robot
from ik_service.service import create_app
from ik_service.service.gate.access import Access
from ik_service.settings import ServiceSettings
from objectives.errors import InputError

KEY, OTHER_KEY = "0123456789abcdef", "fedcba9876543210"
KEYS = f"lab:{KEY},floor:{OTHER_KEY}"
ROBOTS = {"panda": load_robot("panda")}


def app_with(bound_to="127.0.0.1", **options):
    return create_app(ServiceSettings(device="cpu", **options), robots=ROBOTS, bound_to=bound_to, compile_apart=False)


@pytest.fixture(scope="module")
def guarded():
    with TestClient(app_with(api_keys=KEYS, bound_to=None)) as client:
        yield client


@pytest.fixture(scope="module")
def local():
    with TestClient(app_with(), base_url="http://127.0.0.1:8000") as client:
        yield client


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1"])
def test_loopback_needs_nothing(host):
    app_with(bound_to=host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.4", "example.org", "localhost.example.org", "", "::ffff:10.0.0.1", None]
)
def test_the_factory_refuses_any_other_address_without_keys(host):
    with pytest.raises(InputError, match="--insecure"):
        app_with(bound_to=host)
    app_with(bound_to=host, insecure=True)
    app_with(bound_to=host, api_keys=KEYS)


def test_the_factory_reads_the_environment_under_any_server(monkeypatch):
    monkeypatch.setenv("IK_SERVICE_ROBOTS", "panda")
    with pytest.raises(InputError, match="not known"):
        create_app()
    monkeypatch.setenv("IK_SERVICE_API_KEYS", KEYS)
    create_app()


def test_every_key_opens_every_route_and_nothing_else_does(guarded):
    url = "/v1/robots"
    for opening in ({"X-API-Key": KEY}, {"Authorization": f"Bearer {OTHER_KEY}"}, {"authorization": f"bearer {KEY}"}):
        assert guarded.get(url, headers=opening).status_code == 200
    for headers, code in [
        ({}, "missing_api_key"),
        ({"Authorization": f"Basic {KEY}"}, "missing_api_key"),
        ({"Authorization": "Bearer"}, "missing_api_key"),
        ({"X-API-Key": ""}, "invalid_api_key"),
        ({"X-API-Key": KEY[:-1]}, "invalid_api_key"),
        ({"X-API-Key": "lab"}, "invalid_api_key"),
        ({"X-API-Key": f"lab:{KEY}"}, "invalid_api_key"),
        ({"X-API-Key": b"\xff\xfe"}, "invalid_api_key"),
    ]:
        reply = guarded.get(url, headers=headers)
        assert (reply.status_code, reply.json()["code"]) == (401, code), headers
        assert reply.headers["content-type"] == "application/problem+json"
        assert reply.headers["www-authenticate"].startswith("Bearer")
        assert KEY not in reply.text


def test_supervisors_and_readers_need_no_key_and_all_else_is_closed(guarded):
    for path in ("/", "/health/live", "/openapi.json", "/docs", "/docs/assets/swagger-ui.css"):
        assert guarded.get(path).status_code == 200, path
    for path in ("/v1", "/v1/none", "/metrics", "/healthy", "/docsx", "/health"):
        assert guarded.get(path).status_code == 401, path


def digest(key):
    return hashlib.sha256(key.encode()).digest()


def test_digests_of_all_keys_are_compared_whole(monkeypatch):
    access, known, compared = Access(ServiceSettings(api_keys=f"a:{KEY},b:{OTHER_KEY}"), None), digest(KEY), []
    others = {key: digest(key) for key in (f"{k:016d}" for k in range(2**13))}
    for place in range(len(known)):
        near = next(key for key, found in others.items() if found[place] == known[place])
        assert access.name_of(near.encode()) is None, place
    near = next(key for key in (f"{k:016d}" for k in range(2**20)) if digest(key)[:2] == known[:2])
    assert access.name_of(near.encode()) is None
    monkeypatch.setattr("hmac.compare_digest", lambda a, b: compared.append(len(a) == len(b)) or a == b)
    assert access.name_of(KEY.encode()) == "a"
    assert compared == [True] * 2


MIXED_HOSTS = ("[::1]evil.example", "[::1]:80evil", "[::1", "[localhost]", "[::1]]:80", "localhost:evil.example")


def test_without_keys_only_names_of_this_machine_are_answered(local):
    for host in ("127.0.0.1:8000", "localhost", "LOCALHOST:8000", "[::1]:8000", "127.0.0.2"):
        assert local.get("/v1/robots", headers={"Host": host}).status_code == 200, host
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", *MIXED_HOSTS):
        reply = local.get("/v1/robots", headers={"Host": host})
        assert (reply.status_code, reply.json()["code"]) == (403, "untrusted_host"), host


def test_cors_opens_for_the_origins_of_the_settings_alone(local):
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    assert local.options("/v1/robots/panda/solve", headers=asked).status_code == 405
    assert "access-control-allow-origin" not in local.get("/v1/robots", headers=asked).headers
    good = {**asked, "Origin": "https://lab.example"}
    good["Access-Control-Request-Headers"] = "content-type,prefer,traceparent,x-api-key"
    with TestClient(app_with(api_keys=KEYS, cors_origins="https://lab.example")) as client:
        preflight = client.options("/v1/robots/panda/solve", headers=good)
        unauthorised = client.get("/v1/robots", headers={"Origin": "https://lab.example"})
        assert (preflight.status_code, unauthorised.status_code) == (200, 401)
        for reply in (preflight, unauthorised):
            assert reply.headers["access-control-allow-origin"] == "https://lab.example"
            assert "access-control-allow-credentials" not in reply.headers
        refused = client.options("/v1/robots/panda/solve", headers=asked)
        assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")
        assert "access-control-allow-origin" not in refused.headers


def offers(key):
    """What a browser offers: the protocol of streams, and a key as the documentation writes it."""
    text = base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")
    return ["ik-service.v1", f"ik-service.key.{text}"]


STREAM = "/v1/robots/panda/stream"
ODD_KEYS = [KEY, f"{KEY}~", "~~>>??~~of_a_page>"]  # base64 of them ends in '==', '=' and neither; it has '+' and '/'


@pytest.mark.parametrize("key", ODD_KEYS)
def test_browsers_offer_the_key_of_a_web_socket_among_the_protocols(key):
    app = app_with(api_keys=f"lab:{key}", cors_origins="https://lab.example")
    with TestClient(app) as client:
        for headers in ({}, {"Origin": "https://lab.example"}):
            with client.websocket_connect(STREAM, subprotocols=offers(key), headers=headers) as stream:
                assert stream.accepted_subprotocol == "ik-service.v1"


@pytest.mark.parametrize(
    ("protocols", "headers", "status", "code"),
    [
        (["ik-service.v1"], {}, 401, "missing_api_key"),
        (offers("0123456789abcdeg"), {}, 401, "invalid_api_key"),
        (["ik-service.v1", "ik-service.key."], {}, 401, "invalid_api_key"),
        (["ik-service.v1", "ik-service.key.a"], {}, 401, "invalid_api_key"),
        (["ik-service.v1", f"ik-service.key.{KEY}~"], {}, 401, "invalid_api_key"),
        ([offers("0123456789abcdeg")[1], offers(KEY)[1]], {}, 401, "invalid_api_key"),
        (offers(KEY), {"X-API-Key": OTHER_KEY[:-1]}, 401, "invalid_api_key"),
        (offers(KEY), {"Origin": "https://evil.example"}, 403, "untrusted_origin"),
    ],
)
def test_offered_keys_that_do_not_open(guarded, protocols, headers, status, code):
    with (
        pytest.raises(WebSocketDenialResponse) as caught,
        guarded.websocket_connect(STREAM, subprotocols=protocols, headers=headers),
    ):
        pass
    reply = caught.value
    assert (reply.status_code, reply.json()["code"]) == (status, code)
    assert "sec-websocket-protocol" not in reply.headers
    assert all(protocol not in reply.text for protocol in protocols)


def test_without_keys_web_sockets_need_a_known_origin_and_offered_keys_open_no_other_route(guarded, local):
    headers = {"Sec-WebSocket-Protocol": ", ".join(offers(KEY))}
    assert guarded.get("/v1/robots", headers=headers).status_code == 401
    evil = {"Origin": "https://evil.example"}
    with pytest.raises(WebSocketDenialResponse) as caught, local.websocket_connect(STREAM, headers=evil):
        pass
    assert caught.value.status_code == 403


@pytest.mark.parametrize("prefix", ["/health", "/docs", "/ik"])
def test_a_prefix_of_all_routes_neither_opens_nor_shuts_any(prefix):
    with TestClient(app_with(api_keys=KEYS, bound_to=None), root_path=prefix) as client:
        assert client.get(f"{prefix}/v1/robots").status_code == 401
        assert client.get(f"{prefix}/v1/robots", headers={"X-API-Key": KEY}).status_code == 200
        assert client.get(f"{prefix}/health/live").status_code == 200
        assert client.get(f"{prefix}/metrics").status_code == 401
