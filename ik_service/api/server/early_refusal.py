"""The connection's part of admission: requests that are not let in are answered before there is a task for them.

The answer is the problem document that the application would send, made once but for the request's id. The connection
stays good: what is left of the body is thrown away as it comes. It is closed where that could be a lot, or where nobody
knows whether the body comes.
"""

import asyncio
from typing import Any, cast

import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from ik_service.api.admission.admission import ARRIVAL, Admission
from ik_service.api.errors import request_id
from ik_service.api.errors.problem_documents import MEDIA_TYPE, kind_of, problem_document
from ik_service.batching.errors import ClosedError, ExpiredError, QueueFullError, ShareExhaustedError

THROWN_AWAY_MOST = 256 * 1024
"""Longest body [bytes] that is read to keep a connection."""
_ID = "0" * 16


class Refusal:
    """An answer to requests that are not read.

    Args:
        error: What it answers.
        detail: What it says.

    Attributes:
        status: Of HTTP.
    """

    def __init__(self, error: QueueFullError | ExpiredError, detail: str) -> None:
        kind = kind_of(error)
        token = request_id.current_request_id.set(_ID)
        body = orjson.dumps(problem_document(kind, detail))
        request_id.current_request_id.reset(token)
        self.status = kind.status
        self._before, self._after = body.split(_ID.encode())
        self._length = len(body) - len(_ID)
        self._head = STATUS_LINE[kind.status]
        self._fields = f"content-type: {MEDIA_TYPE}\r\nx-content-type-options: nosniff\r\n".encode()

    def render(self, own_id: bytes, retry_after_s: int | None, default_headers: bytes, *, closes: bool) -> bytes:
        """Return the answer to one request.

        Args:
            own_id: The request's id.
            retry_after_s: When it is worth trying again [s].
            default_headers: Lines that the server puts into every answer.
            closes: Whether the connection ends with it.
        """
        more = b"" if retry_after_s is None else b"retry-after: %d\r\n" % retry_after_s
        if closes:
            more += b"connection: close\r\n"
        length = self._length + len(own_id)
        return b"%b%b%bcontent-length: %d\r\nx-request-id: %b\r\n%b\r\n%b%b%b" % (
            *(self._head, default_headers, self._fields, length, own_id, more),
            *(self._before, own_id, self._after),
        )


_FULL = Refusal(
    QueueFullError("", "wait"),
    "More is asked than can be answered in time. The request was not read; try again later.",
)
_SHARE = Refusal(
    ShareExhaustedError(""),
    "Your API key has its share of what may wait already. The request was not read; wait until some have ended, and "
    "have fewer at once.",
)
_LATE = Refusal(ExpiredError(""), "The deadline passed before the request could be read. Nothing was solved.")


class _Answered:
    """Stands for a request that has been answered unread: what uvicorn and our bounds ask of one.

    Attributes:
        more_body: Whether some of its body is still to come.
    """

    response_complete = response_started = True
    message_event = asyncio.Event()  # that nobody waits for

    def __init__(self, *, more_body: bool) -> None:
        self.more_body = more_body


_BEGUN: Any = _Answered(more_body=True)
_ENDED: Any = _Answered(more_body=False)


class RefusingConnection(HttpToolsProtocol):
    """A connection that asks the class attribute `admission` about requests to solve before it reads them."""

    admission: Admission | None = None

    def data_received(self, data: bytes) -> None:
        """Take bytes; after an answer to a request whose body has not come whole yet, wait for the rest."""
        super().data_received(data)
        if self.cycle is _BEGUN:
            self.cycle = _Answered(more_body=True)  # type: ignore[assignment]  # stands in for the cycle of uvicorn
            self.on_response_complete()

    def on_message_complete(self) -> None:
        """End a request, also one that was not read."""
        super().on_message_complete()
        if self.cycle is _BEGUN:
            self.cycle = _ENDED
            self.on_response_complete()

    def on_headers_complete(self) -> None:
        """Start a request, or refuse it."""
        if self.admission is None or not self._refuse_unread(self.admission):
            super().on_headers_complete()

    def _refuse_unread(self, admission: Admission) -> bool:
        """Answer a request that is not let in; return whether it was not."""
        path = self.url.partition(b"?")[0]
        if not path.endswith(b"/solve") or self.parser.get_method() != b"POST":
            return False
        if self.cycle is not None and not self.cycle.response_complete:
            return False  # answers go out in the order of their requests
        arrival = admission.arrives(path, self.headers)
        cast(dict[str, object], self.scope)[ARRIVAL] = arrival
        if arrival.is_of_page:
            return False  # a browser shows its page only answers with the headers that the application adds
        try:
            admission.require_room(arrival)
        except QueueFullError as error:
            refusal = _SHARE if isinstance(error, ShareExhaustedError) else _FULL
            self._answer_unread(admission, refusal, error.retry_after_s)
        except ExpiredError:
            self._answer_unread(admission, _LATE, None)
        except ClosedError:
            return False
        else:
            return False
        return True

    def _answer_unread(self, admission: Admission, refusal: Refusal, retry_after_s: int | None) -> None:
        headers = dict(self.headers)
        own_id = request_id.request_id(headers.get(request_id.HEADER)).encode()
        length = headers.get(b"content-length", b"")
        is_short = length.isdigit() and int(length) <= THROWN_AWAY_MOST
        closes = not (is_short and self.parser.should_keep_alive()) or self.expect_100_continue
        defaults = b"".join([b"%b: %b\r\n" % field for field in self.server_state.default_headers])
        admission.answered_unread(refusal.status)
        self.transport.write(refusal.render(own_id, retry_after_s, defaults, closes=closes))
        self.cycle = _BEGUN
        if closes:
            self.transport.close()
