"""Requests and answers in each encoding, and refusals."""

import io
import json
from typing import Any

import msgpack
import numpy as np

JSON, MSGPACK, NPZ = KINDS = "application/json", "application/msgpack", "application/x-npz"
PROBLEM = "application/problem+json"


def packed(array: Any, dtype: str = "float64") -> dict[str, Any]:
    """A column as MessagePack has it."""
    rows = np.asarray(array, dtype)
    return {"dtype": dtype, "shape": list(rows.shape), "data": rows.tobytes()}


def archive(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def written(document: Any, kind: str = JSON) -> bytes:
    """A document with arrays among its values, as lists."""
    if kind == MSGPACK:
        return msgpack.packb(document, default=np.ndarray.tolist)
    return json.dumps(document, default=np.ndarray.tolist).encode()


def post(client: Any, url: str, content: Any, kind: str = JSON, accept: str | None = None) -> Any:
    """Send a document, or bytes as they are, and ask for an answer in the same encoding unless told otherwise."""
    body = content if isinstance(content, bytes) else written(content, kind)
    return client.post(url, content=body, headers={"Content-Type": kind, "Accept": accept or kind})


def read(content: bytes, kind: str) -> Any:
    """A document with columns as arrays, where its encoding has columns."""
    if kind == NPZ:
        return np.load(io.BytesIO(content), allow_pickle=False)
    if kind == JSON:
        return json.loads(content)

    def column(entries: dict[str, Any]) -> Any:
        if set(entries) != {"dtype", "shape", "data"}:
            return entries
        return np.frombuffer(entries["data"], entries["dtype"]).reshape(entries["shape"])

    return msgpack.unpackb(content, object_hook=column)


def answered(client: Any, url: str, content: Any, kind: str = JSON, accept: str | None = None) -> Any:
    """The document of an answer that has to be a good one."""
    reply = post(client, url, content, kind, accept)
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == (accept or kind)
    return read(reply.content, accept or kind)


def problem(reply: Any, status: int, code: str, pointer: str | None = None) -> Any:
    """The document of a refusal, whose first fault has to be at a place."""
    document = reply.json()
    assert (reply.status_code, document["code"]) == (status, code), reply.text
    assert reply.headers["content-type"] == PROBLEM
    if pointer is not None:
        assert (document["errors"][0]["pointer"], document["errors"][0]["code"]) == (pointer, code)
    return document
