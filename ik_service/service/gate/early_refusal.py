"""Early refusal: requests to solve that admission refuses are answered before their body is read.

It is the outermost ASGI layer, so a refusal passes no other. The answer is the problem document that the application
would send, written once except for the request's id. The connection stays open, and the server discards the rest of
the body. It is closed where the body may be long, or may never come.
"""

from collections.abc import Mapping

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from ik_service.service.errors import request_id
from ik_service.service.errors.problem_documents import PROBLEM_MEDIA_TYPE, kind_of, problem_document
from ik_service.service.gate.admission import Admission
from ik_service.service.queue.errors import ClosedError, ExpiredError, QueueFullError, ShareExhaustedError

DISCARDED_BYTES_MAX = 256 * 1024
"""Longest body [bytes] that is read and discarded to keep a connection open."""
_ID = "0" * 16


class EarlyRefusal:
    """One answer to requests that are not read.

    Args:
        error: The error that it stands for.
        detail: Its text.

    Attributes:
        status: HTTP status.
    """

    def __init__(self, error: QueueFullError | ExpiredError, detail: str) -> None:
        kind = kind_of(error)
        token = request_id.current_request_id.set(_ID)
        body = orjson.dumps(problem_document(kind, detail))
        request_id.current_request_id.reset(token)
        self.status = kind.status
        self._before, self._after = body.split(_ID.encode())

    async def send(self, scope: Scope, send: Send, retry_after_s: int | None) -> None:
        """Answer a request.

        Args:
            scope: The request's scope.
            send: Sends the answer.
            retry_after_s: When it is worth trying again [s].
        """
        given = dict(scope["headers"])
        own_id = request_id.request_id(given.get(request_id.REQUEST_ID_HEADER)).encode()
        body = self._before + own_id + self._after
        headers = [
            (b"content-type", PROBLEM_MEDIA_TYPE.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"content-length", b"%d" % len(body)),
            (request_id.REQUEST_ID_HEADER, own_id),
        ]
        if retry_after_s is not None:
            headers.append((b"retry-after", b"%d" % retry_after_s))
        if not _is_discarded(given):
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


_FULL = EarlyRefusal(
    QueueFullError("", "wait"),
    "More is asked than can be answered in time. The request was not read; try again later.",
)
_SHARE = EarlyRefusal(
    ShareExhaustedError(""),
    "Your API key has its share of what may wait already. The request was not read; wait until some have ended, and "
    "have fewer at once.",
)
_LATE = EarlyRefusal(ExpiredError(""), "The deadline passed before the request could be read. Nothing was solved.")


class EarlyRefusalMiddleware:
    """ASGI layer that refuses requests to solve by their headers alone.

    Args:
        app: The application behind it.
        admission: Decides.
    """

    def __init__(self, app: ASGIApp, admission: Admission) -> None:
        self._app, self._admission = app, admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http" or scope["method"] != "POST" or not scope["path"].endswith("/solve"):
            return await self._app(scope, receive, send)
        arrival = self._admission.arrival(scope)
        if arrival.is_of_page:  # a browser shows its page only answers with CORS headers, which layers behind add
            return await self._app(scope, receive, send)
        retry_after_s: int | None = None
        try:
            self._admission.require_room(arrival)
        except QueueFullError as error:
            refusal = _SHARE if isinstance(error, ShareExhaustedError) else _FULL
            retry_after_s = error.retry_after_s
        except ExpiredError:
            refusal = _LATE
        except ClosedError:
            return await self._app(scope, receive, send)
        else:
            return await self._app(scope, receive, send)
        self._admission.answered_unread(refusal.status)
        return await refusal.send(scope, send, retry_after_s)


def _is_discarded(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a body is short and sure to come, so that the server can read and discard it."""
    length = headers.get(b"content-length", b"")
    return length.isdigit() and int(length) <= DISCARDED_BYTES_MAX and b"expect" not in headers
