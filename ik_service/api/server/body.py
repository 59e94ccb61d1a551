"""The bytes of a request body, within their bound."""

from fastapi import Request

from ik_service.api.errors.exceptions import BodyTooLargeError

SPLIT = "Split the problems over several requests."


async def read_body(request: Request, limit: int, advice: str = SPLIT) -> bytes:
    """Return the body of a request.

    Args:
        request: The request; its body must not have been read.
        limit: Most bytes allowed.
        advice: What the error says further.

    Raises:
        BodyTooLargeError: More bytes than allowed, announced or sent.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise too_large(limit, advice)
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise too_large(limit, advice)
        chunks.append(chunk)
    return b"".join(chunks)


def too_large(limit: int, advice: str) -> BodyTooLargeError:
    """Return the error that a body with too many bytes is."""
    return BodyTooLargeError(f"The body is larger than {limit} bytes. {advice}")
