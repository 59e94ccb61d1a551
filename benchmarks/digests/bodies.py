"""Set-ups of bodies: HTTP in JSON, MessagePack and npz, what the client reads from them, and a stream.

A body is taken apart: every key is a part, the bytes that stand behind it. Times and ids of requests are left out.
"""

import json
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import httpx2
import msgpack
import numpy as np
from fastapi.testclient import TestClient

from benchmarks.digests.answers import HANDS
from benchmarks.digests.documents import OBJECTS, posts, solves
from benchmarks.digests.files import arrays_of
from benchmarks.digests.program import Parts, SetUps
from ik_service.client.messages import read_reply, solve_result
from ik_service.service import create_app
from ik_service.settings import ServiceSettings

READY_TIMEOUT_S = 600.0  # the first solve on a machine compiles kernels
MEDIA_TYPES = ("application/json", "application/msgpack", "application/x-npz")
OTHER_EACH_TIME = ("timing_ms", "request_id")
POSE = {"positions": [[0.4, 0.1, 0.5]], "orientations_xyzw": [[1, 0, 0, 0]]}
FAR = POSE | {"positions": [[0.4, 0.1, 3.0]]}
KEY = "0123456789abcdef0123456789abcdef"
DECODER = json.JSONDecoder()


def bodies() -> SetUps:
    """Yield the set-ups of all routes; the service starts with the first that is made."""
    service = Service()
    for name, (robot, body) in solves().items():
        for media_type in MEDIA_TYPES:
            yield f"http, {name}, {media_type}", partial(service.solved, robot, body, media_type)
            if not media_type.endswith("npz"):
                yield f"client, {name}, {media_type}", partial(service.read_by_client, robot, body, media_type)
    for name, (route, body) in posts().items():
        for media_type in MEDIA_TYPES[:2]:
            yield f"http, {name}, {media_type}", partial(service.posted, route, body, media_type)
    for route in ("/v1/robots", "/v1/robots/panda", "/v1/robots/stewart", "/v1/worlds", "/v1/worlds/cell"):
        yield f"http, {route}", partial(service.got, route)
    for form in ("json", "msgpack"):
        for name, robot in (("one hand", "panda"), ("two hands", "dual_panda")):
            yield f"stream, {name}, {form}", partial(service.streamed, robot, form)


class Service:
    """The application without a server, and a world that it keeps; started when it is first asked."""

    @cache  # noqa: B019  one service for the whole run
    def client(self) -> TestClient:
        """Return its client."""
        self._folder = tempfile.TemporaryDirectory()
        keeps = {"uploads_enabled": True, "catalog_dir": Path(self._folder.name)}
        settings = ServiceSettings(device="cpu", log_level="error", api_keys=f"digests:{KEY}", **keeps)
        application = create_app(settings, compile_apart=False)
        client = TestClient(application, headers={"X-API-Key": KEY})
        client.__enter__()
        application.state.service.warm_up.result(READY_TIMEOUT_S)
        put = client.put("/v1/worlds/cell", json={"objects": OBJECTS})
        assert put.is_success, put.text
        return client

    def solved(self, robot: str, body: dict[str, Any], media_type: str) -> Parts:
        """Return the parts of the answer to a solve."""
        return parts_of(media_type, self._solve(robot, body, media_type))

    def read_by_client(self, robot: str, body: dict[str, Any], media_type: str) -> Parts:
        """Return the fields of the client's result."""
        request = httpx2.Request("POST", "http://localhost")
        content = self._solve(robot, body, media_type)
        reply = httpx2.Response(200, headers={"content-type": media_type}, content=content, request=request)
        fields = vars(read_reply(reply, solve_result))
        return {name: _plain(value) for name, value in fields.items() if name not in OTHER_EACH_TIME}

    def _solve(self, robot: str, body: dict[str, Any], media_type: str) -> bytes:
        included = [one for one in body.get("include", ()) if one != "islands" or media_type != MEDIA_TYPES[2]]
        asked = body | {"include": included}  # an archive holds no islands
        reply = self.client().post(f"/v1/robots/{robot}/solve", json=asked, headers={"accept": media_type})
        assert reply.status_code == 200, reply.text
        return bytes(reply.content)

    def posted(self, route: str, body: dict[str, Any], media_type: str) -> Parts:
        """Return the parts of the answer to another request, or of the problem where it is refused."""
        reply = self.client().post(route, json=body, headers={"accept": media_type})
        content_type = reply.headers["content-type"]
        shown = MEDIA_TYPES[0] if "json" in content_type else content_type
        return {"status": reply.status_code} | dict(parts_of(shown, reply.content))

    def got(self, route: str) -> Parts:
        """Return the parts of what a route shows."""
        return parts_of(MEDIA_TYPES[0], self.client().get(route).content)

    def streamed(self, robot: str, form: str) -> Parts:
        """Return the parts of what a stream answers, by the number of the message."""
        links = HANDS[robot]
        near, far = ([[pose[name][0]] * len(links) for name in POSE] for pose in (POSE, FAR))
        ticks = [dict(zip(POSE, poses, strict=True)) | {"seq": k} for k, poses in enumerate((near, far, near))]
        configuration = {"type": "configure", "targets": [{"link": link} for link in links]}
        found: dict[str, Any] = {}
        with self.client().websocket_connect(f"/v1/robots/{robot}/stream") as stream:
            for number, message in enumerate([configuration, *ticks]):
                if form == "json":
                    stream.send_json(message)
                    parts = parts_of(MEDIA_TYPES[0], stream.receive_text().encode())
                else:
                    stream.send_bytes(msgpack.packb(message))
                    parts = parts_of(MEDIA_TYPES[1], stream.receive_bytes())
                found |= {f"{number} {name}": value for name, value in parts.items()}
        return found


def parts_of(media_type: str, body: bytes) -> Parts:
    """Return what stands behind the keys of a body, byte for byte, without what is other in each."""
    read: Callable[[bytes], Parts] = arrays_of
    if media_type.endswith("json"):
        read = _of_json
    elif media_type.endswith("msgpack"):
        read = _of_msgpack
    return {name: value for name, value in read(body).items() if name.partition(".")[0] not in OTHER_EACH_TIME}


def _of_json(body: bytes) -> Parts:
    text, found = body.decode(), {}
    assert text.startswith("{"), text
    at = 1
    while text[at] != "}":
        key, at = DECODER.raw_decode(text, at)
        _, end = DECODER.raw_decode(text, at + 1)
        found[key] = text[at + 1 : end].encode()
        at = end + (text[end] == ",")
    return found


def _of_msgpack(body: bytes) -> Parts:
    unpacker, found = msgpack.Unpacker(), {}
    unpacker.feed(body)
    for _ in range(unpacker.read_map_header()):
        key, begun = unpacker.unpack(), unpacker.tell()
        unpacker.skip()
        found[key] = body[begun : unpacker.tell()]
    return found


def _plain(value: Any) -> Any:
    """Return a value of the client's result as something that has a digest."""
    if isinstance(value, np.ndarray):
        return value.tolist() if value.dtype.kind in "OU" else value
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value.tolist() if isinstance(value, np.generic) else value
