"""Logs: one JSON object per line, or text for people; every line has the id of its request, and of its trace.

The access log belongs to an application. All other lines go through Python's logging; `configured_logs` sets it up for
a process without other work.
"""

import logging
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TextIO

import orjson
import structlog
from starlette.types import Scope
from structlog.typing import Processor

from ik_service.service.errors.problem_documents import current_request_id
from ik_service.settings import ServiceSettings

_QUIET = ("/health/", "/metrics")
_QUIET_LOGGERS = ("uvicorn", "asyncio")
_SERVER_LOGGER = "uvicorn.error"
# Control characters except tab and line end, and marks that change the direction of text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
SELDOM_S = 10.0  # between two warnings of the server: each request that is not HTTP causes a warning
_REFUSED_HANDSHAKE = "ASGI callable returned without completing handshake."  # web sockets, also if answered
# W3C Trace Context, section 3.2: version ff and ids of zeros are invalid, only later versions have further fields.
_TRACE_PARENT = re.compile(
    rb"(?!ff|00.{54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?"
)
current_trace: ContextVar[Mapping[str, str]] = ContextVar("current_trace")
"""Ids of the trace of the request under way, as fields of log lines."""


def trace_fields(headers: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
    """Return trace id and parent id of a `traceparent` header; nothing for an invalid or repeated header."""
    given = [value for name, value in headers if name == b"traceparent"]
    found = _TRACE_PARENT.fullmatch(given[0].strip()) if len(given) == 1 else None
    return {} if found is None else {"trace_id": found[1].decode(), "parent_id": found[2].decode()}


def is_for_people(settings: ServiceSettings, stream: TextIO | None = None) -> bool:
    """Return whether lines are text rather than JSON."""
    if settings.log_format != "auto":
        return settings.log_format == "console"
    return (stream or sys.stderr).isatty()


class AccessLog:
    """One line per request, except those for health and metrics.

    Args:
        settings: The settings.
        stream: Output of the lines; None: standard error.
        role: Role of this process among several processes of a service; None: single process.
    """

    def __init__(self, settings: ServiceSettings, stream: TextIO | None = None, *, role: str | None = None) -> None:
        stream = stream or sys.stderr
        self._stream = stream  # kept alive: otherwise Python would close the buffer
        logger: Any = structlog.PrintLogger(stream)
        if not is_for_people(settings, stream) and hasattr(stream, "buffer"):
            logger = structlog.BytesLogger(stream.buffer)
        last = _renderers(settings, stream, as_bytes=isinstance(logger, structlog.BytesLogger))
        self._logger = structlog.wrap_logger(
            logger,
            processors=[structlog.processors.add_log_level, structlog.processors.TimeStamper("iso"), *last],
            wrapper_class=structlog.make_filtering_bound_logger(settings.log_level),
            context_class=dict,
        ).bind(**_role_field(role))

    def answered(self, scope: Scope, request_id: str, owner: str | None, status: int, seconds: float) -> None:
        """Write the line of a request."""
        path = scope["path"]
        if path.startswith(_QUIET):
            return
        client = scope.get("client")
        fields = {
            "method": scope.get("method", "WEBSOCKET"),
            "path": path[:200],
            "status": status,
            "duration_ms": round(1e3 * seconds, 3),
            "request_id": request_id,
            "client": client[0] if client else None,
            **current_trace.get({}),
        }
        if owner is not None:
            fields["key"] = owner
        # A failed write of the log (full disk, closed pipe) must not fail the request.
        with suppress(OSError, ValueError):
            (self._logger.warning if status >= 500 else self._logger.info)("request", **fields)


@contextmanager
def configured_logs(
    settings: ServiceSettings, stream: TextIO | None = None, *, role: str | None = None
) -> Iterator[None]:
    """Configure all logging of this process within a block; the arguments are as in `AccessLog`."""
    stream = stream or sys.stderr
    before: list[Processor] = [_add_ids, structlog.stdlib.add_log_level, structlog.processors.TimeStamper("iso")]
    before.append(lambda _logger, _method, event: {**event, **_role_field(role)})
    after = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(settings, stream)]
    if not is_for_people(settings, stream):
        before.append(structlog.processors.format_exc_info)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=before, processors=after))
    quiet = logging.NOTSET if settings.log_level == "debug" else logging.WARNING
    loggers = [logging.getLogger(), *map(logging.getLogger, _QUIET_LOGGERS)]
    levels, handlers = [logger.level for logger in loggers], loggers[0].handlers[:]
    loggers[0].handlers[:] = [handler]
    loggers[0].setLevel(settings.log_level.upper())
    for logger in loggers[1:]:
        logger.setLevel(quiet)
    is_news = _News()
    logging.getLogger(_SERVER_LOGGER).addFilter(is_news)
    try:
        yield
    finally:
        logging.getLogger(_SERVER_LOGGER).removeFilter(is_news)
        loggers[0].handlers[:] = handlers
        for logger, level_before in zip(loggers, levels, strict=True):
            logger.setLevel(level_before)


def _role_field(role: str | None) -> dict[str, str]:
    return {} if role is None else {"role": role}


class _News(logging.Filter):
    """Filter of server lines: drops refused web sockets (the access log has them) and frequent warnings."""

    _again_at = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written."""
        if record.levelno != logging.WARNING:
            return record.msg != _REFUSED_HANDSHAKE
        is_news = (now := time.monotonic()) >= self._again_at
        self._again_at = now + SELDOM_S if is_news else self._again_at
        return is_news


def _escaped(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape control characters: callers choose paths and names, and lines are read on terminals."""
    for name, value in event.items():
        if isinstance(value, str) and _CONTROLS.search(value):
            event[name] = _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), value)
    return event


def _renderers(settings: ServiceSettings, stream: TextIO, *, as_bytes: bool = False) -> Sequence[Processor]:
    if is_for_people(settings, stream):
        return [_escaped, structlog.dev.ConsoleRenderer(colors=stream.isatty())]
    if as_bytes:
        return [structlog.processors.JSONRenderer(orjson.dumps, default=str)]
    return [structlog.processors.JSONRenderer(lambda event, **_: orjson.dumps(event, default=str).decode())]


def _add_ids(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    request_id = current_request_id.get()
    if request_id is not None:
        event["request_id"] = request_id
    return {**event, **current_trace.get({})}
