"""The examples for Caddy and nginx: times fit the service, and callers get through them what the service says."""

import base64
import io
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from ik_service import load_robot
from ik_service.service import create_app
from ik_service.service.gate.access import KEY_PROTOCOL, STREAM_PROTOCOL
from ik_service.service.gate.logs import configured_logs
from ik_service.service.queue.errors import QueueFullError
from ik_service.service.routes.stream import IDLE_S
from ik_service.settings import ServiceSettings
from tests.bounded import until
from tests.service.gate.gates import KEYS, Pool, api_keys, real_server

PROXIES = Path(__file__).parents[2] / "docker" / "proxies"
CADDY, NGINX = ((PROXIES / name).read_text() for name in ("Caddyfile", "nginx.conf"))
NAMES = ["caddy", "nginx"]
PATIENCE_S = 120.0
NOBODY = 65534
BURST = 60
MEGABYTE = 2**20
SOLVE = "/v1/robots/panda/solve"
BODY = {"targets": [{"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]], "orientations_xyzw": [[1, 0, 0, 0]]}]}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
MAIN = """daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {included}
}}
"""


def seconds(pattern, text):
    found = re.findall(pattern, text)
    assert found, pattern
    return [float(each) for each in found]


def test_times_of_the_proxies_fit_those_of_the_service():
    settings = ServiceSettings()
    own, of_stream = seconds(r"proxy_read_timeout (\d+)s;", NGINX)
    assert [own, of_stream] == seconds(r"proxy_send_timeout (\d+)s;", NGINX)
    (of_caddy,) = seconds(r"response_header_timeout (\d+)s", CADDY)
    assert min(own, of_caddy) > settings.request_timeout_s
    assert of_stream > IDLE_S
    (kept,) = seconds(r"keepalive_timeout (\d+)s;", NGINX)
    (kept_by_caddy,) = seconds(r"\tkeepalive (\d+)s", CADDY)
    assert max(kept, kept_by_caddy) < settings.keep_alive_s
    assert "client_max_body_size 0;" in NGINX  # nginx would answer 413 with a page of its own


# ---------------------------------------------------------------------- the proxies themselves, on this machine
class Front(NamedTuple):
    """A service behind a proxy."""

    name: str
    url: str  # of the proxy
    direct: str  # of the service
    context: ssl.SSLContext
    folder: Path
    app: Any
    log: io.StringIO  # lines of the service

    @contextmanager
    def client(self, key=None, *, url=None, **headers):
        own = {"X-API-Key": KEYS[key]} if key else {}
        given = {"headers": {**own, **headers}, "timeout": PATIENCE_S, "trust_env": False}
        with httpx2.Client(base_url=url or self.url, verify=self.context, **given) as client:
            yield client

    def stream(self, robot="panda", **options):
        url = f"{self.url.replace('https', 'wss')}/v1/robots/{robot}/stream"
        return connect(url, ssl=self.context, proxy=None, **options)

    def told(self, *figures):
        sys.stdout.write(f"\n{self.name}: {', '.join(map(str, figures))}\n")


def replaced(text, *pairs):
    for old, new in pairs:
        assert text.count(old) == 1, (old, text.count(old))
        text = text.replace(old, new)
    return text


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def command_of(name, folder, port, upstream):
    """The command of a proxy, with the example as it stands, but for names, ports and files."""
    certificate = f"{folder}/certificate.pem", f"{folder}/key.pem"
    if name == "nginx":
        example = replaced(
            NGINX,
            ("server 127.0.0.1:8000;", f"server {upstream};"),
            ("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
            ("server_name ik.example.org;", "server_name localhost;"),
            ("ssl_certificate /etc/nginx/ik-service.pem;", f"ssl_certificate {certificate[0]};"),
            ("ssl_certificate_key /etc/nginx/ik-service.key;", f"ssl_certificate_key {certificate[1]};"),
            ("/var/log/nginx/ik-service.log", f"{folder}/access.log"),
        )
        (folder / "main.conf").write_text(MAIN.format(folder=folder, included=example))
        return ["nginx", "-p", str(folder), "-e", f"{folder}/error.log", "-c", f"{folder}/main.conf"]
    example = replaced(
        CADDY,
        ("ik.example.org {", f"https://localhost:{port} {{\n\tbind 127.0.0.1\n\ttls {' '.join(certificate)}"),
        ("reverse_proxy 127.0.0.1:8000 {", f"reverse_proxy {upstream} {{"),
    )
    (folder / "Caddyfile").write_text("{\n\tadmin off\n\tauto_https disable_redirects\n}\n" + example)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", f"{folder}/Caddyfile"]


@contextmanager
def proxy(name, upstream):
    """A proxy of an ordinary user in front of a service; gives its URL and folder."""
    with tempfile.TemporaryDirectory(prefix="ik-proxy-") as place:
        folder, port = Path(place), free_port()
        names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "1", "-nodes"]
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", f"{folder}/key.pem"]
        made = ["openssl", "req", "-x509", *key, "-out", f"{folder}/certificate.pem", *names]
        subprocess.run(made, check=True, capture_output=True)
        command = command_of(name, folder, port, upstream)
        other = {}
        if os.geteuid() == 0:
            other = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            for path in (folder, *folder.iterdir()):
                os.chown(path, NOBODY, NOBODY)
        environment = {"PATH": os.environ["PATH"], "HOME": place, "XDG_DATA_HOME": place, "XDG_CONFIG_HOME": place}
        with (folder / "stderr.log").open("w") as errors:
            running = subprocess.Popen(command, stderr=errors, stdout=errors, env=environment, **other)
        try:

            def is_open():
                assert running.poll() is None, (folder / "stderr.log").read_text()
                with socket.socket() as opened:
                    return opened.connect_ex(("127.0.0.1", port)) == 0

            until(is_open, PATIENCE_S)
            yield f"https://localhost:{port}", folder
        finally:
            running.terminate()
            running.wait(PATIENCE_S)


@pytest.fixture(scope="module", params=NAMES)
def front(request):
    for program in (request.param, "openssl"):
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is None:
            pytest.skip(f"{program} is not installed; Debian's package of this name has it")
    settings = ServiceSettings(
        device="cpu", api_keys=api_keys(*KEYS), requests_per_s=0.001, requests_burst=BURST, log_format="json"
    )
    log = io.StringIO()
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")
        patch.setattr(sys, "stderr", log)  # of the access log
        app = create_app(settings, robots={"panda": load_robot("panda")}, bound_to="127.0.0.1", compile_apart=False)
        patch.undo()
        patch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")
        stack.enter_context(configured_logs(settings, log))
        _, (host, port) = stack.enter_context(real_server(app, settings))
        app.state.service.warm_up.result(PATIENCE_S)
        url, folder = stack.enter_context(proxy(request.param, f"{host}:{port}"))
        context = ssl.create_default_context(cafile=f"{folder}/certificate.pem")
        yield Front(request.param, url, f"http://{host}:{port}", context, folder, app, log)


def problem(reply):
    assert reply.headers["content-type"] == "application/problem+json", reply.text
    assert reply.json()["request_id"] == reply.headers["x-request-id"]
    return reply.status_code, reply.json()["code"]


@pytest.mark.evidence
def test_tls_ends_at_the_proxy_and_keys_are_asked_for_behind_it(front):
    port = int(front.url.rpartition(":")[2])
    opened = socket.create_connection(("localhost", port))
    with opened, front.context.wrap_socket(opened, server_hostname="localhost") as secured:
        version = secured.version()
    assert version in ("TLSv1.2", "TLSv1.3")
    plainly = httpx2.get(f"http://localhost:{port}/health/ready", trust_env=False)
    assert plainly.status_code == 400
    with front.client() as client:
        assert client.get("/health/ready").json() == {"status": "ready"}
        missing = client.get("/v1/robots")
        assert problem(missing) == (401, "missing_api_key")
        assert missing.headers["www-authenticate"].startswith("Bearer")
        assert problem(client.get("/metrics")) == (401, "missing_api_key")
        bearer = {"Authorization": f"Bearer {KEYS['calm']}"}
        statuses = [client.get("/v1/robots", headers=each).status_code for each in ({"X-API-Key": "no key"}, bearer)]
        assert statuses == [401, 200]
    front.told(version, "plain HTTP 400", "no key 401", "wrong key 401", "key 200")


@pytest.mark.evidence
def test_answers_are_those_of_the_service_and_ids_stand_in_both_logs(front):
    given = {"X-Request-ID": "my-own", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "X-Forwarded-For": "192.0.2.7"}
    many = {"targets": [{"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]] * 20_000}], "options": {"seeds": 1}}
    with front.client("calm") as client, front.client("calm", url=front.direct) as direct:
        own, reply = (each.post(SOLVE, json=BODY, headers=given) for each in (direct, client))
        assert (own.status_code, reply.status_code) == (200, 200)
        assert own.json()["joint_q"] == reply.json()["joint_q"]
        assert reply.headers["x-request-id"] == "my-own"
        large = client.post(SOLVE, json=many)
        assert large.status_code == 200
        assert len(large.json()["success"]) == 20_000
        tags = {each.get("/v1/robots/panda").headers["etag"] for each in (direct, client)}
        assert len(tags) == 1
        assert client.get("/v1/robots/panda", headers={"If-None-Match": tags.pop()}).status_code == 304
    lines = [json.loads(line) for line in front.log.getvalue().splitlines()]
    (_, line) = (line for line in lines if line.get("request_id") == "my-own")
    assert (line["client"], line["key"], line["trace_id"]) == ("127.0.0.1", "calm", TRACE)
    log = front.folder / ("access.log" if front.name == "nginx" else "stderr.log")
    until(lambda: "my-own" in log.read_text(), PATIENCE_S)
    assert "127.0.0.1" in log.read_text()
    front.told(f"answer of {len(large.content)} bytes", "ETag and 304 kept", "id in both logs")


@pytest.mark.evidence
def test_what_is_too_large_or_too_late_is_refused_in_the_words_of_the_service(front):
    size = ServiceSettings().max_body_bytes + MEGABYTE

    def pieces():
        for _ in range(size // MEGABYTE):
            yield b" " * MEGABYTE

    with front.client("calm", **{"Content-Type": "application/json"}) as client:
        for content in (b" " * size, pieces(), b" " * size):
            assert problem(client.post(SOLVE, content=content)) == (413, "body_too_large")
        assert client.post(SOLVE, json=BODY).status_code == 200
        late = client.post(SOLVE, json=BODY, headers={"Prefer": "wait=0"})
        assert problem(late) == (504, "deadline_passed")
        timely = client.post(SOLVE, json=BODY, headers={"Prefer": "wait=50"})
        assert timely.status_code == 200
    front.told(f"{size} bytes 413, with and without Content-Length", "wait=0 504", "wait=50 200")


@pytest.mark.evidence
def test_refusals_keep_their_retry_after_however_long_the_body_is(front):
    admission = front.app.state.service.admission
    own, admission.pool = admission.pool, Pool(QueueFullError("full", "wait", 7))
    try:
        with front.client("calm", **{"Content-Type": "application/json"}) as client:
            for size in 10 * (100, 100_000, 300_000, MEGABYTE, 8 * MEGABYTE):  # a reset would come now and then
                refused = client.post(SOLVE, content=b" " * size)
                assert problem(refused) == (503, "queue_full")
                assert refused.headers["retry-after"] == "7"
    finally:
        admission.pool = own
    with front.client("flood") as client:
        statuses = [client.get("/v1/robots").status_code for _ in range(BURST)]
        refused = client.get("/v1/robots")
    assert statuses == [200] * BURST
    assert problem(refused) == (429, "rate_exceeded")
    assert int(refused.headers["retry-after"]) > 60
    front.told("queue_full 503 with bodies of 100 bytes to 8 MiB", f"rate_exceeded 429 after {BURST} requests")


@pytest.mark.evidence
def test_streams_pass_with_a_key_in_a_header_or_among_the_subprotocols(front):
    text = base64.urlsafe_b64encode(KEYS["calm"].encode()).decode().rstrip("=")
    header = {"additional_headers": {"X-API-Key": KEYS["calm"]}}
    offered = {"subprotocols": [STREAM_PROTOCOL, KEY_PROTOCOL + text], "origin": front.url}
    ticks = 0
    for options in (header, offered):
        with front.stream(**options) as stream:
            assert stream.subprotocol == (STREAM_PROTOCOL if options is offered else None)
            stream.send(json.dumps({"type": "configure", "targets": [{"link": "panda_hand"}]}))
            assert json.loads(stream.recv(PATIENCE_S))["type"] == "configured"
            for seq in range(50):
                pose = {"positions": [[0.4, 0.002 * seq, 0.5]], "orientations_xyzw": [[1, 0, 0, 0]]}
                stream.send(json.dumps({"seq": seq, **pose}))
                answer = json.loads(stream.recv(PATIENCE_S))
                assert (answer["seq"], answer["success"]) == (seq, True)
                ticks += 1
    refusals = []
    for options in ({}, {**offered, "origin": "https://evil.example"}, {**header, "robot": "none"}):
        with pytest.raises(InvalidStatus) as caught:
            front.stream(**options)
        response = caught.value.response
        refusals.append((response.status_code, json.loads(response.body)["code"]))
    assert refusals == [(401, "missing_api_key"), (403, "untrusted_origin"), (404, "unknown_robot")]
    logs = "".join(path.read_text() for path in front.folder.glob("*.log"))
    assert logs
    assert not [name for name in KEYS if KEYS[name] in logs or text in logs]
    front.told(f"{ticks} ticks of two streams", "handshakes refused with 401, 403 and 404", "no key in its log")


@pytest.mark.evidence
@pytest.mark.parametrize("name", NAMES)
def test_without_a_service_the_proxy_says_502(name):
    if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None:
        pytest.skip(f"{name} is not installed; Debian's package of this name has it")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")
        with proxy(name, f"127.0.0.1:{free_port()}") as (url, folder):
            context = ssl.create_default_context(cafile=f"{folder}/certificate.pem")
            assert httpx2.get(f"{url}/v1/robots", verify=context, trust_env=False).status_code == 502
    sys.stdout.write(f"\n{name}: 502 where there is no service\n")
