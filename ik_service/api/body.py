"""The bytes of a request body, within their bound."""

from fastapi import Request

from ik_service.api.problems import BodyTooLargeError


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body of a request.

    Args:
        request: The request; its body must not have been read.
        limit: Most bytes allowed.

    Raises:
        BodyTooLargeError: More bytes than allowed, announced or sent.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise _too_large(limit)
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large(limit: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"The body is larger than {limit} bytes. Split the problems over several requests.")
