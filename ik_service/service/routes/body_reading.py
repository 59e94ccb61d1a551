"""Reading what the body of a request asks for: on the event loop where that is quick, beside it elsewhere.

    body -> memory reserved by its length -> decoded -> checked

Both steps are beside the event loop where the document may be large; the check alone is where there is a world, since a
short body may name one of 4096 objects, or have 256 of its own.
"""

from collections.abc import Callable
from typing import TypeVar

from fastapi import Request

from ik_service.service.codecs.codec import Codec
from ik_service.service.gate.answers import wait_for
from ik_service.service.gate.gate import context_of
from ik_service.service.routes.state import ServiceState

Asked = TypeVar("Asked")


async def read_asked(
    request: Request, state: ServiceState, codec: Codec, body: bytes, check: Callable[[object], Asked]
) -> Asked:
    """Return what a body asks for.

    Args:
        request: The request, its body read.
        state: What the application runs on.
        codec: Reads the body.
        body: The body.
        check: Returns what a decoded document asks for.

    Raises:
        ClientDisconnect: The caller has disconnected.
        QueueFullError: There is no memory for the document.
    """
    limit, context = state.max_body_bytes, context_of(request.scope)

    def decoded() -> object:
        return codec.decode(body, request.scope["query_string"].decode("latin-1"), limit)

    side, owner, reserved = state.side_threads, context.owner, context.reserved
    if len(body) <= codec.blocking_bytes:
        decoded_bytes = codec.decoded_bytes(body, limit)
    else:  # counting takes 1 ms for each megabyte
        with reserved(len(body)):
            decoded_bytes = await wait_for(request, side.run(owner, codec.decoded_bytes, body, limit))
    if decoded_bytes > codec.blocking_bytes:
        with reserved(decoded_bytes):
            return await wait_for(request, side.run(owner, lambda: check(decoded())))
    document = decoded()
    if isinstance(document, dict) and document.get("world") is not None:
        return await wait_for(request, side.run(owner, check, document))
    return check(document)
