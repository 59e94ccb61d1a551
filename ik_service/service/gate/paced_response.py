"""Answers that are sent in pieces, each once the caller has read most of the one before.

So the buffer of the connection stays small, and the memory of the request is reserved until nearly all is sent.
"""

from collections.abc import Sequence

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ik_service.service.codecs.codec import PIECE_BYTES

Piece = bytes | memoryview


class PacedResponse(Response):
    """An answer of known length, sent in pieces.

    Args:
        pieces: Its bytes, in order.
        media_type: Its media type.
    """

    def __init__(self, pieces: Sequence[Piece], media_type: str) -> None:
        length = sum(memoryview(piece).nbytes for piece in pieces)
        super().__init__(headers={"content-length": str(length)}, media_type=media_type)
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for piece in self._pieces:
            view = memoryview(piece).cast("B")
            for start in range(0, view.nbytes, PIECE_BYTES):
                body = bytes(view[start : start + PIECE_BYTES])  # servers accept nothing else
                await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
